"""``unseen extract``: compute a table of features from folders of photographs."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from ..utils.io import atomic_write, check_output_path
from . import _options as o
from ._report import error_console, print_notices, translate_errors

if TYPE_CHECKING:
    from ..images import Extractor, Skipped
    from ..tables import Table, TableOptions

PHOTOS_HELP = "Folder of images in DOMAIN/CLASS/, or a table with the columns path, label and domain."
Photos = Annotated[Path, typer.Argument(help=PHOTOS_HELP, show_default=False)]
Model = Annotated[Path, typer.Option("--model", dir_okay=False, help="ONNX file of the network.")]
CacheFile = Annotated[Path | None, typer.Option(dir_okay=False, help="File that stores features; rerun to continue.")]


def extract(
    photos: Photos,
    output: Annotated[Path, typer.Option("--output", "-o", help="Table to write, a .parquet file.")],
    model: Model,
    output_name: o.OutputName = None,
    domain_from: o.DomainFrom = None,
    preset: o.Preset = "torchvision",
    resize: Annotated[
        str | None,
        typer.Option(help="Size in pixels: the short edge, such as 256, or width and height, such as 256x256."),
    ] = None,
    crop: Annotated[
        float | None,
        typer.Option(min=0, help="Size of the center crop: in pixels, or, before resizing, as a share such as 0.875."),
    ] = None,
    mean: Annotated[str | None, typer.Option(help="Mean to subtract: one number, or three, comma-separated.")] = None,
    std: Annotated[
        str | None, typer.Option(help="Standard deviation to divide by: one number, or three, comma-separated.")
    ] = None,
    scale: Annotated[
        float | None, typer.Option(help="Value of white before mean and std are applied, such as 255 or 1.")
    ] = None,
    channels: Annotated[Literal["rgb", "bgr"] | None, typer.Option(help="Channel order of the network.")] = None,
    resample: Annotated[Literal["bilinear", "bicubic"] | None, typer.Option(help="Interpolation.")] = None,
    batch: Annotated[int, typer.Option(min=1, help="Number of images per batch.")] = 16,
    jobs: Annotated[int, typer.Option("--jobs", "-j", help="Number of threads; -1 for one per core.")] = -1,
    cache: CacheFile = None,
    strict: Annotated[bool, typer.Option("--strict", help="Stop at the first image that cannot be read.")] = False,
) -> None:
    """Compute features of photographs with a network, as a table for unseen compare.

    --preset defines the preprocessing; options such as --resize override parts of it. Images that cannot be read are
    listed in a file next to the table.

    Example: unseen extract photos -o features.parquet --model alexnet.onnx --output-name fc6 --preset caffe
    """
    from ..images import find_photos

    with translate_errors():
        check_output_path(output, ".parquet")
        check_output_path(output.with_suffix(".skipped.csv"))
        overrides = {
            "resize": _parse_size(resize),
            "crop": crop,
            "mean": _parse_numbers(mean, "--mean"),
            "std": _parse_numbers(std, "--std"),
            "scale": scale,
            "channels": channels,
            "resample": resample,
        }
        given = {name: value for name, value in overrides.items() if value is not None}
        collection = find_photos(photos, domain_from)
        print_notices(collection.notices)
        extractor = make_extractor(
            collection.name,
            model,
            output_name=output_name,
            preprocessing={"preset": preset, **given},
            cache=cache,
            batch_size=batch,
            n_jobs=jobs,
            strict=strict,
        )
    with translate_errors(
        f"Computed features are stored in {extractor.cache}. Run the same command again to continue."
    ):
        files, skipped = extractor.write(collection, output)
        n_domains = len(set(collection.domain))
        n_classes = len(set(collection.label))
        facts = extractor.facts
        error_console.print(
            f"Wrote {output}: {len(files):,} images of {n_domains} domains and {n_classes} classes, tensor "
            f"{facts['output']!r} of {facts['network']}"
        )
        write_skipped(skipped, output.with_suffix(".skipped.csv"))


def read_photo_table(
    data: Path,
    request: TableOptions,
    domain_from: str | None,
    *,
    model: Path,
    output_name: str | None,
    preprocessing: str,
) -> Table:
    """Compute features of photographs and return them as a table."""
    from ..images import find_photos, make_photo_table
    from ..tables import TableOptions

    if request != TableOptions(unlabeled=request.unlabeled, max_per_domain=request.max_per_domain, seed=request.seed):
        raise ValueError(
            "--label, --domain, --group, --features, --drop, --dates and --categories apply to tables, not to "
            "photographs. Omit them, or omit --model."
        )
    photos = find_photos(data, domain_from)
    extractor = make_extractor(photos.name, model, output_name=output_name, preprocessing=preprocessing)
    table, skipped = make_photo_table(photos, extractor, request)
    write_skipped(skipped, Path(f"{photos.name}.skipped.csv"))
    return table


def make_extractor(
    name: str,
    model: Path,
    *,
    output_name: str | None,
    preprocessing: str | dict[str, Any],
    cache: Path | None = None,
    batch_size: int = 16,
    n_jobs: int | None = None,
    strict: bool = False,
) -> Extractor:
    """Make an extractor that stores features in a file in the current folder, unless `cache` names another."""
    from ..images import Extractor

    extractor = Extractor(
        model=model,
        output_name=output_name,
        preprocessing=preprocessing,
        cache=cache or Path(f"{name.replace(' ', '-')}.unseen-features.sqlite"),
        batch_size=batch_size,
        n_jobs=n_jobs,
        strict=strict,
        verbose=1,
    )
    _ = extractor.facts  # opens the network, so that its errors are raised before any image is read
    return extractor


def write_skipped(skipped: list[Skipped], path: Path) -> None:
    """List the images that could not be read in a file; remove the list of an earlier run."""
    from ..tables import format_count

    path.unlink(missing_ok=True)
    if not skipped:
        return
    with atomic_write(path) as file, file.open("w", encoding="utf-8", errors="replace", newline="") as text:
        csv.writer(text).writerows([("path", "reason"), *skipped])
    count = format_count(len(skipped), "image")
    first = f"{skipped[0].path}: {skipped[0].reason}"
    print_notices([f"{count} could not be read and left out, such as {first}. {path} lists them."])


def _parse_numbers(text: str | None, option: str) -> list[float] | None:
    if text is None:
        return None
    try:
        return [float(part) for part in text.split(",")]
    except ValueError:
        raise ValueError(f"{option} must be one number, or three, comma-separated; got {text!r}.") from None


def _parse_size(text: str | None) -> int | tuple[int, ...] | None:
    if text is None:
        return None
    parts = text.lower().split("x")
    if not all(part.strip().isdecimal() for part in parts) or len(parts) > 2:
        raise ValueError(f"--resize must be a number of pixels, such as 256 or 256x256; got {text!r}.")
    sizes = tuple(map(int, parts))
    return sizes if len(sizes) > 1 else sizes[0]
