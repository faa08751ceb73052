"""Find images with their classes and domains: from folders, from a table, or with a regular expression."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from ..exceptions import ParameterError
from ..tables import TableError, as_text, check_name_lengths, get_file_ending, iter_batches, translate_read_errors
from ._pixels import SUFFIXES

COLUMNS = ("path", "label", "domain")
FOLDERS = r"^(?P<domain>[^/]+)/(?P<label>[^/]+)/[^/]+$"


@dataclass(frozen=True)
class Photos:
    """Images with classes and domains.

    Parameters
    ----------
    root : Path
        The folder to which the paths are relative.
    paths, label, domain : list of str
        Path, class and domain of each image.
    name : str
        Name of the collection.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from unseen.images import find_photos
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     for name in ["bonn/cat/1.jpg", "bonn/dog/2.png", "oslo/cat/3.webp"]:
    ...         Path(folder, name).parent.mkdir(parents=True, exist_ok=True)
    ...         Path(folder, name).touch()
    ...     photos = find_photos(folder)
    >>> photos.label, photos.domain
    (['cat', 'dog', 'cat'], ['bonn', 'bonn', 'oslo'])
    """

    root: Path
    paths: list[str]
    label: list[str]
    domain: list[str]
    name: str

    def __post_init__(self) -> None:
        for name in ("label", "domain"):
            object.__setattr__(self, name, list(map(as_unicode, getattr(self, name))))

    @property
    def files(self) -> list[Path]:
        """The paths of the files."""
        return [self.root / path for path in self.paths]


def as_unicode(name: str) -> str:
    """Replace bytes in the name of a file that are not valid UTF-8, which Python represents as lone surrogates."""
    return os.fsencode(name).decode("utf-8", "replace")


def find_photos(source: str | os.PathLike[str], domain_from: str | None = None) -> Photos:
    """Find images in folders DOMAIN/CLASS/, or in a table that lists them.

    Parameters
    ----------
    source : str or path
        A folder; or a table such as a CSV file with the columns path, label and domain, whose paths are relative to
        the folder of the table.
    domain_from : str, default=None
        Regular expression that is searched in each path below the folder. Its group, or the group named domain if it
        has several, is the domain. A group named label is the class; without it, the class is the name of the folder of
        the image.

    Returns
    -------
    photos : Photos
        The images, in the order of their paths or of the table. Hidden files and files without a suffix of an image
        are ignored.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from unseen.images import find_photos
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     for name in ["fox/north-1.jpg", "hare/south-7.jpg"]:
    ...         Path(folder, name).parent.mkdir()
    ...         Path(folder, name).touch()
    ...     photos = find_photos(folder, r"(north|south)-")
    >>> photos.label, photos.domain
    (['fox', 'hare'], ['north', 'south'])
    """
    source = Path(source).expanduser()
    if source.is_dir():
        all_files = (Path(folder, name).relative_to(source) for folder, _, names in os.walk(source) for name in names)
        paths = sorted(
            path.as_posix()
            for path in all_files
            if path.name.lower().endswith(SUFFIXES) and not any(part.startswith(".") for part in path.parts)
        )
        if not paths:
            raise TableError([f"it contains no images (files that end in {', '.join(SUFFIXES)})."], source=str(source))
        return _from_folder(source, paths, domain_from)
    if domain_from is not None:
        raise ParameterError("domain_from", f"domain_from needs a folder of images; {source} is not a folder.")
    return _from_listing(source)


def _from_folder(root: Path, paths: list[str], pattern: str | None) -> Photos:
    """Find domains and classes in paths, by default in those of folders DOMAIN/CLASS/."""
    try:
        regex = re.compile(pattern or FOLDERS)
    except re.error as error:
        raise ParameterError("domain_from", f"domain_from={pattern!r} is not a regular expression: {error}.") from None
    if regex.groups != 1 and "domain" not in regex.groupindex:
        raise ParameterError(
            "domain_from",
            f"domain_from={pattern!r} must have one group, in parentheses, or one named domain: (?P<domain>...).",
        )
    group: str | int = "domain" if "domain" in regex.groupindex else 1
    matches = [regex.search(path) for path in paths]
    domain = [match[group] or "" if match else "" for match in matches]
    label = [Path(path).parent.name for path in paths]
    if "label" in regex.groupindex:
        label = [match["label"] or "" if match else "" for match in matches]
    missing = [path for path, *names in zip(paths, domain, label, strict=True) if not all(names)]
    if missing:
        expected = "be in folders DOMAIN/CLASS/" if pattern is None else f"have a domain and a class ({pattern!r})"
        raise TableError(
            [
                f"images must {expected}; {len(missing):,} of {len(paths):,} paths do not match, such as {missing[0]}. "
                "Pass a regular expression with the groups (?P<domain>...) and (?P<label>...) as domain_from, "
                f"or a table with the columns {', '.join(COLUMNS)}."
            ],
            source=str(root),
        )
    return Photos(root, paths, label, domain, root.resolve().name)


def _from_listing(source: Path) -> Photos:
    frame = pl.concat(iter_batches(source, COLUMNS))
    with translate_read_errors(source, all_exceptions=True):
        columns = [as_text(frame[name]) for name in COLUMNS]
        for text in columns[1:]:
            check_name_lengths(text, text.name)
        listed = pl.DataFrame(columns)
        is_incomplete = listed.select(pl.any_horizontal(pl.all().is_null() | (pl.all() == ""))).to_series()
        duplicates = listed.filter(listed["path"].is_duplicated())["path"].unique(maintain_order=True)
    problems = []
    if is_incomplete.any():
        first = is_incomplete.to_list().index(True) + 1
        problems.append(f"row {first:,} has no path, label or domain; {is_incomplete.sum():,} rows are incomplete.")
    if len(duplicates):
        problems.append(f"{duplicates[0]} is listed more than once; {len(duplicates):,} paths are duplicates.")
    if problems:
        raise TableError(problems, source=source.name)
    stem = source.name.removesuffix(get_file_ending(source) or "")
    path, label, domain = (text.to_list() for text in columns)
    return Photos(source.parent, path, label, domain, stem)
