"""Pictures for a model: which values are pictures, and how they are made to fit what a provider takes.

A figure of matplotlib, an image of Pillow, bytes of a known type, and objects that IPython shows as PNG or JPEG are
pictures. None of their libraries is imported to find out. A picture over a provider's limit is scaled if Pillow is
installed, otherwise refused in words.
"""

from __future__ import annotations

import base64
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from io import BytesIO
from typing import Any

from onetool_ipy.base.errors import TooLarge
from onetool_ipy.render.media import Blocks, Image, type_of

SENT_TYPES = ("image/png", "image/jpeg", "image/gif", "image/webp")
"""The kinds of images that all providers take."""

_SMALLEST_SIDE = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageLimits:
    """What a provider takes: the bytes of one image, and the longer side in pixels."""

    max_bytes: int = 20_000_000
    max_side: int = 8_000


def image_limits(client: object) -> ImageLimits | None:
    """Return what a model takes, or None if it takes no images. A client of the user's own need not say."""
    limits = getattr(client, "image_limits", None)
    if not callable(limits):
        return ImageLimits()
    answer = limits()
    return answer if isinstance(answer, ImageLimits) else None


def picture_of(value: Any) -> Image | None:
    """Return the picture that a value is, or None. What raises while it draws itself is not a picture."""
    if isinstance(value, Image):
        return value if value.mime in SENT_TYPES else None
    if isinstance(value, (bytes, bytearray)):
        mime = type_of(bytes(value[:12]))
        return Image(mime, bytes(value)) if mime in SENT_TYPES else None
    if isinstance(value, (str, int, float, list, dict, tuple, type(None), type)):
        return None
    try:
        return _drawn(value)
    except Exception:  # noqa: BLE001 - foreign code; without a picture the value is described in words
        return None


def _drawn(value: Any) -> Image | None:
    pillow, matplotlib = sys.modules.get("PIL.Image"), sys.modules.get("matplotlib.figure")
    buffer = BytesIO()
    if pillow is not None and isinstance(value, pillow.Image):
        value.save(buffer, format="PNG")
        return Image("image/png", buffer.getvalue())
    figure = getattr(value, "figure", value) if type(value).__module__.startswith("matplotlib") else value
    if matplotlib is not None and isinstance(figure, matplotlib.Figure):
        figure.savefig(buffer, format="png", bbox_inches="tight")
        return Image("image/png", buffer.getvalue())
    for name in ("_repr_png_", "_repr_jpeg_"):
        method = getattr(type(value), name, None)
        if not callable(method) or (content := method(value)) is None:
            continue
        # IPython lets these methods return the data, or a tuple of data and metadata, as bytes or base64.
        data = content[0] if isinstance(content, tuple) else content
        raw = base64.b64decode(data) if isinstance(data, str) else bytes(data)
        return Image(type_of(raw[:12]) or "image/png", raw)
    return None


def fitted(image: Image, limits: ImageLimits) -> Image:
    """Return an image that a provider takes, scaled if needed. Raises TooLarge where it cannot be scaled."""
    # A PNG names its size at a fixed place; the size of another image is not known.
    is_png = image.mime == "image/png" and len(image.data) >= 24 and image.data[12:16] == b"IHDR"
    side = max(int.from_bytes(image.data[16:20]), int.from_bytes(image.data[20:24])) if is_png else 0
    if len(image.data) <= limits.max_bytes and side <= limits.max_side:
        return image
    if find_spec("PIL") is None:
        extent = f"{len(image.data):,} bytes" if len(image.data) > limits.max_bytes else f"{side:,} pixels wide or high"
        most = f"{limits.max_bytes:,} bytes" if len(image.data) > limits.max_bytes else f"{limits.max_side:,} pixels"
        raise TooLarge(
            f"An image of {extent} is too large for the model, which takes {most}. Nothing was sent.",
            hint="Send a smaller one, or install Pillow, which scales it: pip install pillow",
        )
    return _scaled(image, limits)


def _scaled(image: Image, limits: ImageLimits) -> Image:
    from PIL.Image import open as open_picture

    with open_picture(BytesIO(image.data)) as picture:
        picture.load()
        side = min(limits.max_side, max(picture.size))
        while side >= _SMALLEST_SIDE:
            smaller = picture.copy()
            smaller.thumbnail((side, side))
            buffer = BytesIO()
            smaller.save(buffer, format="PNG")
            if buffer.tell() <= limits.max_bytes:
                return Image("image/png", buffer.getvalue())
            side = side * 2 // 3
    raise TooLarge(f"An image of {len(image.data):,} bytes could not be made small enough for the model.")


def without_pictures(data: object, limits: Callable[[], ImageLimits | None]) -> tuple[object, tuple[Image, ...]]:
    """Return a tool's data with a sentence in place of each picture, and the pictures that a model takes."""
    images: list[Image] = []

    def replaced(part: object) -> object:
        if type(part) is list or isinstance(part, Blocks):
            parts = [replaced(inner) for inner in part]
            return part if all(new is old for new, old in zip(parts, part, strict=True)) else parts
        image = picture_of(part)
        if image is None:
            return part
        most = limits()
        if most is None:
            return f"(an image of {len(image.data):,} bytes, which this model does not take)"
        try:
            images.append(fitted(image, most))
        except TooLarge as exc:
            return f"({exc.message})"
        return f"(image {len(images)}, sent along)"

    return replaced(data), tuple(images)


def encoded(images: Sequence[Image]) -> tuple[tuple[str, str], ...]:
    """Return images as messages carry them: MIME types and base64."""
    return tuple((image.mime, base64.b64encode(image.data).decode("ascii")) for image in images)
