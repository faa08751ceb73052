"""Which pictures there are, what they show, and where they come from: by their folders, a table, or a pattern."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from ..tables import TableError, as_text, batches, ending_of, require_short_names, translate_read_errors
from ..utils.validation import format_list
from ._pixels import SUFFIXES

SPLITS = {"train", "crossval", "val", "test", "full"}  # folders between domains and classes, as VLCS has them
FULL_SPLIT = "full"  # of these, the one that holds what the others do
COLUMNS = ("path", "label", "domain")


@dataclass(frozen=True)
class Photos:
    """Pictures with labels and domains.

    Parameters
    ----------
    root : Path
        The folder that the paths start from.
    paths, label, domain : list of str
        Of each picture.
    name : str
        What they are called.
    notices : list of str
        What was assumed.

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
    notices: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        for name in ("label", "domain"):
            object.__setattr__(self, name, list(map(as_unicode, getattr(self, name))))

    @property
    def files(self) -> list[Path]:
        """Where they are."""
        return [self.root / path for path in self.paths]


def as_unicode(name: str) -> str:
    """A name of a file as text: bytes that are none, which Python keeps as lone surrogates, are shown as such."""
    return os.fsencode(name).decode("utf-8", "replace")


def find_photos(source: str | os.PathLike[str], domain_from: str | None = None) -> Photos:
    """Pictures in folders DOMAIN/CLASS, or those that a table lists.

    Parameters
    ----------
    source : str or path
        A folder. Or a table such as a CSV file, with the columns path, label and domain, and paths that start from its
        own folder.
    domain_from : str, default=None
        A regular expression, searched in each path below the folder: its group, the one called domain if it has
        several, is the domain. A group called label is the class, which otherwise is the picture's own folder.

    Returns
    -------
    photos : Photos
        In the order of their paths, or of the table. Hidden files, and files that are no pictures by their endings, are
        passed over. In folders DOMAIN/SPLIT/CLASS, with splits such as train, test and full, splits are left out of
        account; where there is a folder full, it is taken for all of them.

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
        beneath = (Path(folder, name).relative_to(source) for folder, _, names in os.walk(source) for name in names)
        found = sorted(
            path.as_posix()
            for path in beneath
            if path.name.lower().endswith(SUFFIXES) and not any(part.startswith(".") for part in path.parts)
        )
        if not found:
            raise TableError([f"it holds no pictures, ending in {', '.join(SUFFIXES)}."], source=str(source))
        name = source.resolve().name
        return _by_pattern(source, found, name, domain_from) if domain_from else _by_folder(source, found, name)
    if domain_from is not None:
        raise ValueError(f"domain_from is for folders of pictures; {source} is none.")
    return _from_listing(source)


def _by_folder(root: Path, found: Sequence[str], name: str) -> Photos:
    parts = [path.split("/") for path in found]
    if all(len(part) >= 4 and part[1].lower() in SPLITS for part in parts):
        whole = {part[0] for part in parts if part[1].lower() == FULL_SPLIT}
        kept = [i for i, part in enumerate(parts) if part[0] not in whole or part[1].lower() == FULL_SPLIT]
        splits = sorted({parts[i][1] for i in kept})
        told = (
            f"Pictures lie in DOMAIN/SPLIT/CLASS: {len(kept):,} of {len(found):,} are used, "
            f"those in {format_list(splits)}."
        )
        paths, parts = [found[i] for i in kept], [parts[i][:1] + parts[i][2:] for i in kept]
        return Photos(root, paths, [part[1] for part in parts], [part[0] for part in parts], name, [told])
    lost = [path for path, part in zip(found, parts, strict=True) if len(part) < 3]
    if lost:
        raise TableError(
            [
                f"pictures must lie in DOMAIN/CLASS/; {len(lost):,} of {len(found):,} do not, such as {lost[0]}. Pass "
                "--domain-from with a regular expression that finds the domain in a path, or a table with the columns "
                f"{', '.join(COLUMNS)}."
            ],
            source=str(root),
        )
    return Photos(root, list(found), [part[1] for part in parts], [part[0] for part in parts], name)


def _by_pattern(root: Path, found: Sequence[str], name: str, pattern: str) -> Photos:
    try:
        regex = re.compile(pattern)
    except re.error as error:
        raise ValueError(f"{pattern!r} is no regular expression: {error}.") from None
    if regex.groups != 1 and "domain" not in regex.groupindex:
        raise ValueError(f"{pattern!r} must have one group, in parentheses, or one called domain: (?P<domain>...).")
    group: str | int = "domain" if "domain" in regex.groupindex else 1
    matches = [regex.search(path) for path in found]
    lost = [path for path, match in zip(found, matches, strict=True) if match is None or not match[group]]
    if lost:
        text = f"{pattern!r} finds no domain in {len(lost):,} of {len(found):,} paths, such as {lost[0]}."
        raise TableError([text], source=str(root))
    own = "label" in regex.groupindex
    told = [(path, match) for path, match in zip(found, matches, strict=True) if match is not None]
    label = [match["label"] if own else Path(path).parent.name for path, match in told]
    nameless = [path for (path, _), value in zip(told, label, strict=True) if not value]
    if nameless:
        text = f"{len(nameless):,} pictures have no class, such as {nameless[0]}: name it by a group (?P<label>...)."
        raise TableError([text], source=str(root))
    return Photos(root, list(found), label, [match[group] for _, match in told], name)


def _from_listing(source: Path) -> Photos:
    columns: dict[str, list[str]] = {name: [] for name in COLUMNS}
    for frame in batches(source, COLUMNS):
        with translate_read_errors(source, anything=True):
            for name, values in columns.items():
                text = as_text(frame[name])
                if name != "path":
                    require_short_names(text, name)
                values += text.to_list()
    blank = [i for i, row in enumerate(zip(*columns.values(), strict=True)) if not all(row)]
    twice = [path for path, times in Counter(columns["path"]).items() if times > 1]
    problems = [f"row {blank[0] + 1:,} has no path, label or domain; {len(blank):,} rows are so."] if blank else []
    problems += [f"{twice[0]} is listed more than once; {len(twice):,} paths are."] if twice else []
    if problems:
        raise TableError(problems, source=source.name)
    stem = source.name.removesuffix(ending_of(source) or "")
    return Photos(source.parent, columns["path"], columns["label"], columns["domain"], stem)
