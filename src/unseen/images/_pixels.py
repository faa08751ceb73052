"""Decode image files and convert them to the input of a network: oriented, in color, cropped and scaled."""

from __future__ import annotations

import io
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from ..utils.optional_imports import optional_import

SUFFIXES = (".jpg", ".jpeg", ".png", ".tif", ".tiff", ".webp", ".bmp")
FORMATS = ("JPEG", "PNG", "TIFF", "WEBP", "BMP")  # Pillow starts other programs for some formats, such as EPS
DEFAULT_SIDE = 224  # pixels, as for ImageNet; for networks that take images of any size
WHITE = (255, 255, 255)
MAX_RESIZED_PIXELS = 2**24  # of an image after resizing, which exceeds the input of a network if it is very narrow


@dataclass(frozen=True)
class Preprocessing:
    """Preprocessing of an image for a network.

    The image is rotated by its EXIF orientation and converted to RGB, with transparent parts on white. It is cropped
    (with `crop`), resized, and cropped to the size of the input of the network. Finally its values are scaled:
    (pixel * scale / 255 - mean) / std.

    Parameters
    ----------
    resize : int, tuple of two int, or None, default=None
        Length of the short edge in pixels, which keeps the aspect ratio; or width and height. None resizes to the size
        of the final crop.
    crop : float or None, default=None
        Side of the center crop before resizing, as a share of the short edge. After resizing, the image is cropped to
        the size of the input of the network.
    scale : float, default=255
        Value of white before mean and std are applied.
    mean, std : tuple of float, default=(0,) and (1,)
        Mean to subtract and standard deviation to divide by: one number, or one for each channel in the order of the
        network.
    channels : {"rgb", "bgr"}, default="rgb"
        Channel order of the network.
    resample : {"bilinear", "bicubic"}, default="bilinear"
        Interpolation for resizing.

    Examples
    --------
    >>> from unseen.images import Preprocessing
    >>> Preprocessing.from_spec("tf-lite").mean
    (127.0,)
    >>> Preprocessing.from_spec({"preset": "caffe", "crop": 0.9}).crop
    0.9
    """

    resize: int | tuple[int, int] | None = None
    crop: float | None = None
    scale: float = 255.0
    mean: tuple[float, ...] = (0.0,)
    std: tuple[float, ...] = (1.0,)
    channels: Literal["rgb", "bgr"] = "rgb"
    resample: Literal["bilinear", "bicubic"] = "bilinear"

    def __post_init__(self) -> None:
        for name in ("mean", "std"):
            values = tuple(map(float, np.atleast_1d(getattr(self, name))))
            if len(values) not in (1, 3) or not np.isfinite(values).all() or (name == "std" and 0 in values):
                raise ValueError(f"{name} must be 1 or 3 finite numbers, std without 0; got {values}.")
            object.__setattr__(self, name, values)
        sides = [1] if self.resize is None else np.atleast_1d(self.resize).astype(int).tolist()
        if len(sides) > 2 or min(sides) < 1:
            raise ValueError(f"resize must be the pixels of the short edge, or width and height; got {self.resize!r}.")
        if self.resize is not None:
            object.__setattr__(self, "resize", tuple(sides) if len(sides) > 1 else sides[0])
        if self.crop is not None and not 0 < self.crop <= 1:
            raise ValueError(f"crop must be a share of the short edge up to 1; got {self.crop!r}.")
        object.__setattr__(self, "scale", float(self.scale))
        if self.channels not in ("rgb", "bgr") or self.resample not in ("bilinear", "bicubic"):
            raise ValueError(
                f"channels must be one of rgb, bgr, and resample one of bilinear, bicubic; got {self.channels!r} and "
                f"{self.resample!r}."
            )

    @classmethod
    def from_spec(cls, spec: Preprocessing | Mapping[str, Any] | str) -> Preprocessing:
        """Return a Preprocessing from one, from the name of a preset, or from settings that may name a `preset`."""
        if isinstance(spec, Preprocessing):
            return spec
        settings = {"preset": spec} if isinstance(spec, str) else dict(spec)
        preset = settings.pop("preset", None)
        if preset is not None and preset not in PRESETS:
            raise ValueError(f"preset must be one of {', '.join(PRESETS)}; got {preset!r}.")
        names = [field.name for field in fields(cls)]
        unknown = sorted(settings.keys() - set(names))
        if unknown:
            raise ValueError(
                f"preprocessing has the unknown setting {unknown[0]!r}; allowed are preset, {', '.join(names)}."
            )
        default = cls() if preset is None else PRESETS[preset]
        return replace(default, **settings)

    def output_size(self, height: int | None, width: int | None) -> tuple[int, int]:
        """Return height and width of the output, for a network with this input size; None for a variable size."""
        sides = [DEFAULT_SIDE] if self.resize is None else np.atleast_1d(self.resize).tolist()
        side = min(DEFAULT_SIDE, *sides)
        size = (height or side, width or side)
        if self.resize is not None and (sides[0] < size[1] or sides[-1] < size[0]):
            raise ValueError(
                f"The network takes images of {size[1]} x {size[0]} pixels, but resize={self.resize} is smaller. Use a "
                "larger resize."
            )
        return size

    def pixels(self, image: Any, height: int, width: int) -> NDArray[np.float32]:
        """Return a decoded image as numbers of shape (height, width, 3)."""
        if self.crop is not None:
            side = max(1, int(min(image.size) * self.crop))
            image = _crop_center(image, side, side)
        image_width, image_height = image.size
        if isinstance(self.resize, tuple):
            size = self.resize
        elif self.resize is not None:
            # The long edge is rounded down, as torchvision does.
            short_edge = min(image_width, image_height)
            size = (self.resize * image_width // short_edge, self.resize * image_height // short_edge)
        else:
            # The smallest size that contains the crop.
            factor = max(width / image_width, height / image_height)
            size = (max(width, round(image_width * factor)), max(height, round(image_height * factor)))
        if image.size != size:
            # Pillow first resizes all rows to the new width, and then reduces the number of rows.
            if size[0] * max(size[1], image_height) > MAX_RESIZED_PIXELS:
                raise ValueError(
                    f"it has {image_width:,} x {image_height:,} pixels, too many or too narrow to be resized to "
                    f"{size[0]:,} x {size[1]:,}"
                )
            resampling = optional_import("PIL.Image", "Reading images").Resampling
            image = image.resize(size, getattr(resampling, self.resample.upper()))
        image = _crop_center(image, width, height)
        values = np.asarray(image, dtype=np.float32)
        if self.channels == "bgr":
            values = values[..., ::-1]
        if self.scale != 255:
            values = values * np.float32(self.scale / 255)
        values = values - np.array(self.mean, np.float32)
        return np.asarray(values / np.array(self.std, np.float32), dtype=np.float32)


PRESETS = {
    # As in the CIDG paper: the ImageNet means of Caffe, in the order blue, green, red.
    "caffe": Preprocessing((256, 256), mean=(104.00698793, 116.66876762, 122.67891434), channels="bgr"),
    "torchvision": Preprocessing(256, scale=1.0, mean=(0.485, 0.456, 0.406), std=(0.229, 0.224, 0.225)),
    "tf-lite": Preprocessing(None, 0.875, mean=(127.0,), std=(128.0,), resample="bicubic"),
}


def _crop_center(image: Any, width: int, height: int) -> Any:
    if image.size == (width, height):
        return image
    left = (image.size[0] - width) // 2
    top = (image.size[1] - height) // 2
    return image.crop((left, top, left + width, top + height))


@contextmanager
def quiet_decoding() -> Iterator[None]:
    """Suppress warnings of Pillow about unusual files; files that are too large or damaged still raise an error."""
    with warnings.catch_warnings():  # applies to all threads, since warning filters are global
        warnings.filterwarnings("ignore", module="PIL")
        yield


def decode_image(content: bytes) -> Any:
    """Decode the first image in a file, oriented and in RGB; ValueError gives the reason if this fails."""
    pil_image = optional_import("PIL.Image", "Reading images")
    pil_ops = optional_import("PIL.ImageOps", "Reading images")
    try:
        with pil_image.open(io.BytesIO(content), formats=FORMATS) as image:
            width, height = image.size
            if pil_image.MAX_IMAGE_PIXELS is not None and width * height > pil_image.MAX_IMAGE_PIXELS:
                raise ValueError(
                    f"it has {width:,} x {height:,} pixels; the maximum is {pil_image.MAX_IMAGE_PIXELS:,} "
                    "(PIL.Image.MAX_IMAGE_PIXELS)"
                )
            pil_ops.exif_transpose(image, in_place=True)
            return _convert_to_rgb(image)
    except pil_image.UnidentifiedImageError as error:
        raise ValueError(f"not an image in a supported format ({', '.join(FORMATS)})") from error
    except MemoryError:
        raise
    except Exception as error:  # the decoders of Pillow raise many types of exceptions for damaged files
        raise ValueError(str(error).strip().rstrip(".") or type(error).__name__) from error


def _convert_to_rgb(image: Any) -> Any:
    """Convert an image of any mode to RGB with eight bits per channel."""
    if image.mode == "RGB" and "transparency" not in image.info:
        return image
    pil_image = optional_import("PIL.Image", "Reading images")
    if image.mode.startswith("I"):  # 16 bits, for which older versions of Pillow use modes with 32 bits
        values = np.asarray(image).astype(np.int64)
        if values.min() < 0 or values.max() > 0xFFFF:
            raise ValueError("its values need more than 16 bits. Save it with 8 or 16 bits")
        return pil_image.fromarray((values // 257).astype(np.uint8)).convert("RGB")
    if image.mode == "F":
        raise ValueError("its values are floating point numbers of unknown range. Save it with 8 or 16 bits")
    if image.has_transparency_data:
        with_alpha = image.convert("RGBA")
        background = pil_image.new("RGBA", with_alpha.size, (*WHITE, 255))
        return pil_image.alpha_composite(background, with_alpha).convert("RGB")
    return image.convert("RGB")
