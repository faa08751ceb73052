"""``unseen extract``: compute a table of features from folders of photographs."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..utils.io import atomic_write, check_output_path
from . import _options as o
from ._report import add_note, message_console, print_notices

if TYPE_CHECKING:
    from ..images import Skipped

PHOTOS_HELP = "Folder of images in DOMAIN/CLASS/, or a table with the columns path, label and domain."
Photos = Annotated[Path, typer.Argument(metavar="PHOTOS", help=PHOTOS_HELP, show_default=False)]


def extract(
    photos: Photos,
    *,
    network: o.Network,
    output_name: o.OutputName = None,
    domain_from: o.DomainFrom = None,
    preset: o.Preset = "torchvision",
    override: Annotated[
        list[str] | None,
        o.make_option(
            o.PHOTOGRAPHS,
            metavar="NAME=VALUE",
            show_default="none",
            help="Change a part of --preset: resize=256 or [256,256], crop, mean, std, scale, channels or resample. "
            "Can be repeated.",
        ),
    ] = None,
    strict: Annotated[
        bool, o.make_option(o.PHOTOGRAPHS, "--strict", help="Stop at the first image that cannot be read.")
    ] = False,
    output: Annotated[
        Path, o.make_output_option("--output", "-o", endings=(".parquet",), help="Table to write, a .parquet file.")
    ],
    quiet: o.Quiet = False,
    store: o.Store = None,
    batch_size: Annotated[
        int, o.make_option(o.COMPUTATION, min=1, metavar="N", help="Number of images per batch.")
    ] = 16,
    jobs: Annotated[
        int, o.make_option(o.COMPUTATION, "--jobs", "-j", metavar="N", help="Number of threads; -1 for one per core.")
    ] = -1,
) -> None:
    """Compute features of photographs with a network, as a table for unseen compare.

    --preset defines the preprocessing, and --override changes parts of it. Images that cannot be read are
    listed in a file next to the table.

    Example: unseen extract photos -o features.parquet --network alexnet.onnx --output-name fc6 --preset caffe
    """
    from ..images import Network, Preprocessing, find_photos
    from ..images import extract as extract_features

    check_output_path(output.with_suffix(".skipped.csv"))
    overrides = dict(map(_parse_override, override or []))
    collection = find_photos(photos, domain_from)
    # Errors of the network and its settings are raised before any image is read.
    opened_network = Network(network, output_name, jobs)
    preprocessing = Preprocessing.from_spec({"preset": preset, **overrides})
    preprocessing.output_size(*opened_network.size)
    cache = store or Path(f"{collection.name.replace(' ', '-')}.unseen-features.sqlite")
    with add_note(f"Computed features are stored in {cache}. Run the same command again to continue."):
        extraction = extract_features(
            collection,
            opened_network,
            preprocessing=preprocessing,
            cache=cache,
            batch_size=batch_size,
            strict=strict,
            verbose=int(not quiet),
        )
        extraction.write(output)
    n_domains = len(set(collection.domain))
    n_classes = len(set(collection.label))
    facts = extraction.facts
    message_console.print(
        f"Wrote {output}: {len(extraction.paths):,} images of {n_domains} domains and {n_classes} classes, tensor "
        f"{facts['output']!r} of {facts['network']}"
    )
    write_skipped(extraction.skipped, output.with_suffix(".skipped.csv"))


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


def _parse_override(item: str) -> tuple[str, Any]:
    """Parse the name and the value of a setting: a number, a list of numbers, or a word."""
    name, _, value = item.partition("=")
    if name in ("channels", "resample"):
        return name, value
    try:
        return name, json.loads(value)
    except json.JSONDecodeError:
        raise ValueError(f"--override {item!r} is not NAME=NUMBER or NAME=LIST, such as mean=[1,2,3].") from None
