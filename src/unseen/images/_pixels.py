"""From a file of any common kind to the numbers that a network takes: decoded, upright, in color, cut and scaled."""

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
FORMATS = ("JPEG", "PNG", "TIFF", "WEBP", "BMP")  # others, such as EPS, start programs
DEFAULT_SIDE = 224  # of the pictures that networks of ImageNet take, where a network does not say
WHITE = (255, 255, 255)
MAX_RESIZED_PIXELS = 2**24  # pixels: a network takes few, but a picture that is very narrow would become very long
STRIP_PIXELS = 2**22  # pixels that are converted at a time


@dataclass(frozen=True)
class Preprocessing:
    """What is done to a picture before a network sees it.

    It is turned as its EXIF orientation says and converted to red, green and blue, with transparent parts on white.
    Then it is cut, resized, cut again, and its values are scaled: (pixel * scale / 255 - mean) / std.

    Parameters
    ----------
    resize : int, tuple of two int, or None, default=None
        Pixels of the short edge, keeping the proportions; or width and height, whatever the proportions. None resizes
        to what is cut out at last.
    crop : int, float or None, default=None
        Side of the central square that is cut out after resizing, in pixels; or, below 1, the share of the short edge
        that is cut out before resizing. None cuts out what the network takes.
    scale : float, default=255
        What white becomes.
    mean, std : tuple of float, default=(0,) and (1,)
        Subtracted, and divided by: one number, or one for each channel in the network's order.
    channels : {"rgb", "bgr"}, default="rgb"
        The network's order of colors.
    resample : {"bilinear", "bicubic"}, default="bilinear"
        How it is resized.

    Examples
    --------
    >>> from unseen.images import Preprocessing
    >>> Preprocessing.from_spec("tf-lite").mean
    (127.0,)
    >>> Preprocessing.from_spec({"preset": "caffe", "crop": 227}).crop
    227
    """

    resize: int | tuple[int, int] | None = None
    crop: int | float | None = None
    scale: float = 255.0
    mean: tuple[float, ...] = (0.0,)
    std: tuple[float, ...] = (1.0,)
    channels: Literal["rgb", "bgr"] = "rgb"
    resample: Literal["bilinear", "bicubic"] = "bilinear"

    def __post_init__(self) -> None:
        for name in ("mean", "std"):
            values = tuple(map(float, np.atleast_1d(getattr(self, name))))
            if len(values) not in (1, 3) or not np.isfinite(values).all() or (name == "std" and 0 in values):
                raise ValueError(f"{name} must be 1 or 3 numbers{', none of them 0' * (name == 'std')}; got {values}.")
            object.__setattr__(self, name, values)
        if isinstance(self.resize, (list, tuple)):
            object.__setattr__(self, "resize", tuple(map(int, self.resize)))
        sides = self.resize if isinstance(self.resize, tuple) else (1 if self.resize is None else self.resize,)
        if len(sides) > 2 or min(sides) < 1:
            raise ValueError(f"resize must be pixels of the short edge, or width and height; got {self.resize!r}.")
        if self.crop is not None and not (0 < self.crop <= 1 or (self.crop > 1 and self.crop == int(self.crop))):
            raise ValueError(f"crop must be a share of the short edge up to 1, or whole pixels; got {self.crop!r}.")
        if self.crop is not None and self.crop > 1:
            object.__setattr__(self, "crop", int(self.crop))
        object.__setattr__(self, "scale", float(self.scale))
        for name, known in (("channels", ("rgb", "bgr")), ("resample", ("bilinear", "bicubic"))):
            if getattr(self, name) not in known:
                raise ValueError(f"{name} must be one of {', '.join(known)}; got {getattr(self, name)!r}.")

    @classmethod
    def from_spec(cls, asked: Preprocessing | Mapping[str, Any] | str) -> Preprocessing:
        """One of these; a preset by its name; or settings by theirs, those of a `preset` if they name one."""
        if isinstance(asked, Preprocessing):
            return asked
        own = {"preset": asked} if isinstance(asked, str) else dict(asked)
        preset = own.pop("preset", None)
        if preset is not None and preset not in PRESETS:
            raise ValueError(f"preset must be one of {', '.join(PRESETS)}; got {preset!r}.")
        unknown = sorted(own.keys() - {field.name for field in fields(cls)})
        if unknown:
            raise ValueError(f"There is no setting {unknown[0]!r}; got {asked!r}.")
        return cls(**own) if preset is None else replace(PRESETS[preset], **own)

    @property
    def is_share(self) -> bool:
        """Whether `crop` is a share of the short edge, taken before resizing."""
        return self.crop is not None and self.crop <= 1

    @property
    def is_plain(self) -> bool:
        """Whether values stay whole numbers from 0 to 255."""
        return self.scale == 255 and not any(self.mean) and set(self.std) == {1.0}

    def size(self, height: int | None, width: int | None) -> tuple[int, int]:
        """Height and width of what comes out, for a network that takes pictures of that size, as far as it says."""
        resize = self.resize if isinstance(self.resize, tuple) or self.resize is None else (self.resize, self.resize)
        if self.crop is not None and not self.is_share:
            wide = high = int(self.crop)
        elif resize is None or not self.is_share:
            wide = high = min(DEFAULT_SIDE, *(resize or (DEFAULT_SIDE,)))
        else:
            wide, high = resize
        end = height or high, width or wide
        if self.crop is not None and not self.is_share and end != (high, wide):
            raise ValueError(f"The network takes pictures of {end[1]} x {end[0]} pixels: crop cannot be {self.crop}.")
        if resize is not None and (resize[0] < end[1] or resize[1] < end[0]):
            raise ValueError(
                f"The network takes pictures of {end[1]} x {end[0]} pixels: resize to more than {self.resize}."
            )
        return end

    def pixels(self, picture: Any, height: int, width: int, gray: bool = False) -> NDArray[np.float32]:
        """A decoded picture as height x width x channels numbers; `gray` for a network of one channel."""
        how = getattr(optional_import("PIL.Image", "Reading pictures").Resampling, self.resample.upper())
        if self.is_share:
            side = max(1, int(min(picture.size) * float(self.crop or 1)))
            picture = _crop_center(picture, side, side)
        wide, high = picture.size
        if isinstance(self.resize, tuple) or (self.resize is None and self.is_share):
            size = self.resize or (width, height)
        elif self.resize is None:  # just as much as is needed
            factor = max(width / wide, height / high)
            size = max(width, round(wide * factor)), max(height, round(high * factor))
        else:  # the long edge is rounded as torchvision does it: downwards
            size = self.resize * wide // min(wide, high), self.resize * high // min(wide, high)
        # Pillow makes all rows as wide as they will be before it makes fewer of them.
        if picture.size != size and size[0] * max(size[1], high) > MAX_RESIZED_PIXELS:
            raise ValueError(
                f"it has {wide:,} x {high:,} pixels, too many or too narrow to become {size[0]:,} x {size[1]:,}"
            )
        picture = _crop_center(picture if picture.size == size else picture.resize(size, how), width, height)
        values = np.asarray(picture.convert("L") if gray else picture, dtype=np.float32).reshape(height, width, -1)
        if self.channels == "bgr":
            values = values[..., ::-1]
        if self.scale != 255:
            values = values * np.float32(self.scale / 255)
        mean, std = np.array(self.mean, np.float32), np.array(self.std, np.float32)
        if gray:  # of three colors, their average
            mean, std = mean.mean(keepdims=True), std.mean(keepdims=True)
        if mean.any():
            values = values - mean
        return values if (std == 1).all() else values / std


PRESETS = {
    # The paper's: Caffe's mean over ImageNet, of blue, green and red.
    "caffe": Preprocessing((256, 256), mean=(104.00698793, 116.66876762, 122.67891434), channels="bgr"),
    "torchvision": Preprocessing(256, scale=1.0, mean=(0.485, 0.456, 0.406), std=(0.229, 0.224, 0.225)),
    "tf-lite": Preprocessing(None, 0.875, mean=(127.0,), std=(128.0,), resample="bicubic"),
}


def _crop_center(picture: Any, width: int, height: int) -> Any:
    left, top = (picture.size[0] - width) // 2, (picture.size[1] - height) // 2
    return picture.crop((left, top, left + width, top + height)) if picture.size != (width, height) else picture


@contextmanager
def quiet_decoding() -> Iterator[None]:
    """Within it, Pillow does not warn of oddities in files; what is too large or broken is refused in any case."""
    with warnings.catch_warnings():  # for all threads: filters belong to the process
        warnings.filterwarnings("ignore", module="PIL")
        yield


def decode_image(content: bytes) -> Any:
    """The first picture in a file, upright, in red, green and blue; ValueError says why there is none."""
    image, ops = optional_import("PIL.Image", "Reading pictures"), optional_import("PIL.ImageOps", "Reading pictures")
    try:
        with image.open(io.BytesIO(content), formats=FORMATS) as opened:
            wide, high = opened.size
            if image.MAX_IMAGE_PIXELS is not None and wide * high > image.MAX_IMAGE_PIXELS:
                limit = f"at most {image.MAX_IMAGE_PIXELS:,} are decoded (PIL.Image.MAX_IMAGE_PIXELS)"
                raise ValueError(f"it has {wide:,} x {high:,} pixels; {limit}")
            ops.exif_transpose(opened, in_place=True)
            return _convert_to_rgb(opened)
    except image.UnidentifiedImageError as error:
        raise ValueError(f"no picture of a known kind ({', '.join(FORMATS)})") from error
    except MemoryError:
        raise
    except Exception as error:  # Pillow's readers fail in many ways on files that are broken
        raise ValueError(str(error).strip().rstrip(".") or type(error).__name__) from error


def _convert_to_rgb(picture: Any) -> Any:
    """Red, green and blue of eight bits each, whatever a picture has."""
    if picture.mode == "RGB" and "transparency" not in picture.info:
        return picture
    wide, high = picture.size
    if wide * high <= STRIP_PIXELS:
        return _convert_strip(picture)
    # Some ways take several times the room of the picture: a large one goes them in strips.
    found = optional_import("PIL.Image", "Reading pictures").new("RGB", picture.size)
    step = max(1, STRIP_PIXELS // wide)
    for top in range(0, high, step):
        found.paste(_convert_strip(picture.crop((0, top, wide, min(top + step, high)))), (0, top))
    return found


def _convert_strip(picture: Any) -> Any:
    if picture.mode.startswith("I"):  # sixteen bits, or what older versions of Pillow make of them
        values = np.asarray(picture).astype(np.int64)
        if values.min() < 0 or values.max() > 0xFFFF:
            raise ValueError("its values need more than 16 bits. Save it with 8 or 16 bits")
        image = optional_import("PIL.Image", "Reading pictures")
        return image.fromarray((values // 257).astype(np.uint8)).convert("RGB")
    if picture.mode == "F":
        raise ValueError("its values are fractions, of unknown range. Save it with 8 or 16 bits")
    if picture.has_transparency_data:
        image = optional_import("PIL.Image", "Reading pictures")
        clear = picture.convert("RGBA")
        return image.alpha_composite(image.new("RGBA", clear.size, (*WHITE, 255)), clear).convert("RGB")
    return picture.convert("RGB")
