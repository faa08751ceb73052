"""``unseen extract``: from folders of photographs to a table of features."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from ..utils.io import atomic_write, check_target
from . import _options as o
from ._report import error_console, print_notices, translate_errors

if TYPE_CHECKING:
    from ..images import Extractor, Skipped
    from ..tables import Request, Table

PHOTOS_HELP = "Pictures in folders DOMAIN/CLASS/, or a table with the columns path, label and domain."
Photos = Annotated[Path, typer.Argument(help=PHOTOS_HELP, show_default=False)]
Model = Annotated[Path, typer.Option("--model", dir_okay=False, help="The network, an ONNX file.")]
CacheFile = Annotated[Path | None, typer.Option(dir_okay=False, help="File that keeps features; rerun to continue.")]


def extract(
    photos: Photos,
    output: Annotated[Path, typer.Option("--output", "-o", help="The table to write, ending in .parquet.")],
    model: Model,
    output_name: o.OutputName = None,
    domain_from: o.DomainFrom = None,
    preset: o.Preset = "torchvision",
    resize: Annotated[
        str | None, typer.Option(help="Pixels of the short edge, as 256; or width and height, as 256x256.")
    ] = None,
    crop: Annotated[
        float | None,
        typer.Option(min=0, help="Center to cut out: in pixels, or before resizing, as 0.875 of the edge."),
    ] = None,
    mean: Annotated[str | None, typer.Option(help="To subtract: one number, or three with commas.")] = None,
    std: Annotated[str | None, typer.Option(help="To divide by, likewise.")] = None,
    scale: Annotated[float | None, typer.Option(help="What white becomes, before that: 255, or 1.")] = None,
    channels: Annotated[Literal["rgb", "bgr"] | None, typer.Option(help="The network's order of colors.")] = None,
    resample: Annotated[Literal["bilinear", "bicubic"] | None, typer.Option(help="How to resize.")] = None,
    batch: Annotated[int, typer.Option(min=1, help="Pictures that the network is given at a time.")] = 16,
    jobs: Annotated[int, typer.Option("--jobs", "-j", help="Threads; -1 for one on each core.")] = -1,
    cache: CacheFile = None,
    strict: Annotated[bool, typer.Option("--strict", help="Stop at a picture that cannot be read.")] = False,
) -> None:
    """Features of photographs, by a network of your own, as a table for unseen compare.

    What is done to pictures first is said by --preset, but for settings that are given. Pictures that cannot be read
    are listed in a file beside the table.

    Example: unseen extract photos -o features.parquet --model alexnet.onnx --output-name fc6 --preset caffe
    """
    from ..images import find_photos

    with translate_errors():
        check_target(output, ".parquet")
        check_target(output.with_suffix(".skipped.csv"))
        given: dict[str, Any] = {
            "resize": _parse_size(resize),
            "crop": crop,
            "mean": _parse_numbers(mean),
            "std": _parse_numbers(std),
            "scale": scale,
        }
        given |= {"channels": channels, "resample": resample}
        how = {"preset": preset, **{name: value for name, value in given.items() if value is not None}}
        found = find_photos(photos, domain_from)
        print_notices(found.notices)
        ours = make_extractor(found.name, model, output_name, how, cache, batch_size=batch, n_jobs=jobs, strict=strict)
    with translate_errors(f"What is done is kept in {ours.cache}; run the same command again to continue."):
        files, skipped = ours.write(found, output)
        told = f"{len(files):,} pictures of {len(set(found.domain))} domains and {len(set(found.label))} classes"
        error_console.print(f"Wrote {output}: {told}, {ours.facts['output']!r} of {ours.facts['network']}")
        write_skipped(skipped, output.with_suffix(".skipped.csv"))


def read_photo_table(data: Path | None, asked: Request, domain_from: str | None, extraction: tuple[Any, ...]) -> Table:
    """Photographs as a table, by a network, one of its outputs and a preset."""
    from ..images import find_photos, make_photo_table
    from ..tables import Request

    if data is None:
        raise ValueError("--model is for photographs: name their folder.")
    if asked != Request(unlabeled=asked.unlabeled, max_per_domain=asked.max_per_domain, seed=asked.seed):
        raise ValueError(
            "--label, --domain, --group, --features, --drop, --dates and --categories speak of a table, not of "
            "photographs."
        )
    photos = find_photos(data, domain_from)
    table, skipped = make_photo_table(photos, make_extractor(photos.name, *extraction), asked)
    write_skipped(skipped, Path(f"{photos.name}.skipped.csv"))
    return table


def make_extractor(
    name: str, model: Path, output_name: str | None, how: Any, cache: Path | None = None, **work: Any
) -> Extractor:
    """What makes features, kept in a file beside the other results."""
    from ..images import Extractor

    kept = cache or Path(f"{name.replace(' ', '-')}.unseen-features.sqlite")
    ours = Extractor(model=model, output_name=output_name, preprocessing=how, cache=kept, verbose=1, **work)
    _ = ours.facts  # whatever is wrong with the network or the settings is told before pictures are read
    return ours


def write_skipped(skipped: list[Skipped], path: Path) -> None:
    """Say which pictures could not be read, in a file; a list of an earlier run is removed."""
    from ..tables import format_count

    path.unlink(missing_ok=True)
    if not skipped:
        return
    with atomic_write(path) as file, file.open("w", encoding="utf-8", errors="replace", newline="") as text:
        csv.writer(text).writerows([("path", "reason"), *skipped])
    several, first = format_count(len(skipped), "picture"), f"{skipped[0].path}: {skipped[0].reason}"
    print_notices([f"{several} could not be read and left out, such as {first}. {path} lists them."])


def _parse_numbers(text: str | None) -> list[float] | None:
    try:
        return None if text is None else [float(part) for part in text.split(",")]
    except ValueError:
        raise ValueError(f"{text!r} is no number, nor three with commas between them.") from None


def _parse_size(text: str | None) -> int | tuple[int, ...] | None:
    if text is None:
        return None
    parts = text.lower().split("x")
    if not all(part.strip().isdecimal() for part in parts) or len(parts) > 2:
        raise ValueError(f"--resize must be pixels, as 256 or 256x256; got {text!r}.")
    sides = tuple(map(int, parts))
    return sides if len(sides) > 1 else sides[0]
