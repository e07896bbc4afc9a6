"""What a model is sent of a Python value: a description of a few kB, or a picture.

A description says what the value is, its shape, and a little of its content. A DataFrame gives
types, missing values, minimum and maximum over all rows, frequent values and three rows. Values of
a column are listed only if they are frequent, and never in the order of the rows, so that no fourth
row can be read from them. Small lists, dicts and texts go whole. A class may describe itself by
`_repr_llm_`, and `describers` holds functions for other classes. Foreign code runs here and may
raise or take long: what raises is replaced by something plainer, and the caller limits the time.
Every text is masked before it is cut, since half a secret is not recognised.

A figure of matplotlib, an image of Pillow, bytes of a known type, and objects that IPython shows as
PNG or JPEG are pictures. None of their libraries is imported to find out. A picture over a
provider's limit is scaled if Pillow is installed, otherwise refused in words.
"""

from __future__ import annotations

import base64
import inspect
import json
import math
import sys
from collections import Counter, deque
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from io import BytesIO
from itertools import islice
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType
from typing import Any

from onetool_ipy.base import tables, values
from onetool_ipy.base.errors import TooLarge
from onetool_ipy.base.tables import is_dataframe, is_frame, is_missing
from onetool_ipy.llm.messages import ImageLimits, TakesImages
from onetool_ipy.render.media import Blocks, Image, type_of

MAX_BYTES = 4_096
"""The most that one description takes, as JSON."""

SENT_TYPES = ("image/png", "image/jpeg", "image/gif", "image/webp")
"""The kinds of images that all providers take."""

_SMALLEST_SIDE = 64
_ROWS = 3
_VALUES = 5
_BYTES = 40
_SAMPLE = 10_000
_CELL_LENGTHS = (60, 20, 8)
_NAME_LENGTH = 80
_LONGEST_SECRET = 2_000
_PICTURE_LEVELS = 20
_MAX_NODES = 2_000
_LISTS = (list, tuple, set, frozenset, deque)
_CODE = (FunctionType, BuiltinFunctionType, MethodType, type, ModuleType)

ModelDescriber = Callable[[Any], object]
"""Describes a value of a class: returns text, JSON data or an image."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Description:
    """What a model is sent of a value. `extent` says how much of it that is, such as `3 of 1,000
    rows`."""

    data: Any
    extent: str = ""
    is_whole: bool = True
    images: tuple[Image, ...] = ()

    @property
    def size(self) -> int:
        """The bytes of the data as JSON."""
        return _size(self.data)


def describe(
    value: object,
    *,
    mask: Callable[[str], str] = str,
    limit: int = MAX_BYTES,
    describers: Mapping[type, ModelDescriber] | None = None,
) -> Description:
    """Describe a value in at most `limit` bytes of JSON, without secrets."""
    return _Describer(mask, limit).describe(value, describers or {})


def outline(value: object) -> Description:
    """Describe a value without running code of its class: its kind, and the shape of a table."""
    kind = type(value).__name__
    if is_frame(value):
        rows, *columns = value.shape  # type: ignore[attr-defined]  # a DataFrame or Series
        extent = f"0 of {rows:,} rows"
        return Description(
            data=f"{kind} with {rows:,} rows" + (f" and {columns[0]:,} columns" if columns else ""),
            extent=extent,
            is_whole=False,
        )
    return Description(data=f"a value of type {kind}", extent="its type only", is_whole=False)


class _Describer:
    """Describes one value within a number of bytes."""

    def __init__(self, mask: Callable[[str], str], limit: int) -> None:
        self._mask = mask
        self._limit = limit

    def describe(self, value: object, describers: Mapping[type, ModelDescriber]) -> Description:
        for own in self._own_describers(value, describers):
            try:
                return self._foreign(own(value), type(value).__name__)
            except Exception:  # noqa: BLE001 - foreign code may raise anything; the next one is plainer
                continue
        if (image := picture_of(value)) is not None:
            return _of_image(image, type(value).__name__)
        if tables.is_foreign(value):
            value = tables.tabular(value)
        if is_frame(value):
            return self._table(value)
        numpy = sys.modules.get("numpy")
        if numpy is not None and isinstance(value, numpy.ndarray):
            return self._array(value, numpy)
        if isinstance(value, str):
            return self._text(str.__str__(value))
        if isinstance(value, (bytes, bytearray, memoryview)):
            extent = f"{min(len(value), _BYTES)} of {len(value):,} bytes"
            data = self._fit(
                f"{len(value):,} bytes:"
                f" {self._short(bytes(value[: _BYTES + _LONGEST_SECRET]), _BYTES + 3)}"
            )
            return Description(data=data, extent=extent, is_whole=len(value) <= _BYTES)
        if isinstance(value, _CODE):
            return self._code(value)
        return self._data(value)

    def _own_describers(
        self, value: object, describers: Mapping[type, ModelDescriber]
    ) -> Iterator[ModelDescriber]:
        """Yield the functions for the value's class, the most special first, then the class's own
        method."""
        yield from (describers[kind] for kind in type(value).__mro__ if kind in describers)
        own = getattr(type(value), "_repr_llm_", None)
        if callable(own):
            yield own

    def _foreign(self, data: object, kind: str) -> Description:
        """Return what a describer gave, cut if it is too long."""
        if (image := picture_of(data)) is not None:
            return _of_image(image, kind)
        if not isinstance(data, str):
            plain = values.map_text(values.to_json(data), self._mask)
            if _size(plain) <= self._limit:
                return Description(data=plain)
            data = json.dumps(plain, ensure_ascii=False)
        return self._text(data)

    def _text(self, text: str) -> Description:
        # A text may have many megabytes; what follows the part that fits need not be masked.
        beginning = self._mask(text[: self._limit + _LONGEST_SECRET])
        if len(text) <= self._limit and _size(beginning) <= self._limit:
            return Description(data=beginning)
        beginning = self._fit(beginning)
        extent = f"{len(beginning):,} of {len(text):,} characters"
        return Description(data=beginning, extent=extent, is_whole=False)

    def _code(self, value: Any) -> Description:
        """Describe a function, class or module by its source, or by its documentation."""
        try:
            return self._text(inspect.getsource(value))
        except (OSError, TypeError):
            return self._text(f"{values.safe_repr(value)}\n{inspect.getdoc(value) or ''}".strip())

    def _table(self, frame: Any) -> Description:
        kind = type(frame).__name__
        table = frame if is_dataframe(frame) else frame.to_frame()
        count, width = table.shape
        shape = (
            f"{count:,} rows and {width:,} columns" if is_dataframe(frame) else f"{count:,} rows"
        )
        lines = [f"{kind} with {shape}", f"index: {self._index(table.index)}"]
        # The columns have two thirds of the room, the three rows the rest.
        room = self._limit * 2 // 3 - _size("\n".join(lines))
        described = 0
        for position in range(width):
            line = (
                f"- {self._short(table.columns[position], _NAME_LENGTH)}:"
                f" {self._column(table.iloc[:, position])}"
            )
            room -= _size(line)
            if room < 0:
                break
            lines.append(line)
            described += 1
        if described < width:
            lines.append(f"- and {width - described:,} more columns")
        rows = min(count, _ROWS)
        has_labels = not _is_range(table.index)
        notes = [
            *(["index first"] if has_labels else []),
            *([f"{described} columns"] if described < width else []),
        ]
        lines.append(", ".join([f"first {rows} of {count:,} rows", *notes]) + ":")
        head = "\n".join(lines)
        for length in _CELL_LENGTHS:
            cells = [
                [
                    *([self._cell(table.index[row], length)] if has_labels else []),
                    *(self._cell(table.iat[row, column], length) for column in range(described)),
                ]
                for row in range(rows)
            ]
            text = "\n".join([head, *(json.dumps(row, ensure_ascii=False) for row in cells)])
            if _size(text) <= self._limit:
                break
        is_whole = count <= _ROWS and described == width and length == _CELL_LENGTHS[0]
        return Description(
            data=self._fit(text), extent=f"{rows} of {count:,} rows", is_whole=is_whole
        )

    def _index(self, index: Any) -> str:
        if _is_range(index):
            return f"{index.start} to {index.stop - index.step}" if len(index) else "empty"
        names = ", ".join(
            self._short(name, _NAME_LENGTH) for name in index.names if name is not None
        )
        facts = f"{type(index).__name__}" + (f" {names}" if names else "")
        return (
            f"{facts}, {index.dtype}" if index.nlevels == 1 else f"{facts}, {index.nlevels} levels"
        )

    def _column(self, series: Any) -> str:
        """Return type, missing values, and either the range or the frequent values of a column."""
        facts = [str(series.dtype)]
        try:
            missing = int(series.isna().sum())
            facts += [f"{missing:,} missing"] if missing else []
            if series.dtype.kind in "iufmM" and missing < len(series):
                low, high = (
                    self._cell(series.min(), _CELL_LENGTHS[0]),
                    self._cell(series.max(), _CELL_LENGTHS[0]),
                )
                return ", ".join([*facts, f"{low} to {high}"])
            counts = series.iloc[:_SAMPLE].value_counts()
            # A value that occurs once belongs to one row, which is not to be told.
            frequent = [value for value, count in counts.iloc[:_VALUES].items() if count > 1]
            if frequent:
                texts = [self._cell(value, _CELL_LENGTHS[1]) for value in frequent]
                facts.append(f"often {json.dumps(texts, ensure_ascii=False)}")
        except Exception:  # noqa: BLE001 - a column may hold anything: what cannot be compared has no range
            pass
        return ", ".join(facts)

    def _array(self, array: Any, numpy: Any) -> Description:
        facts = [f"array of shape {array.shape}, {array.dtype}"]
        if array.size <= _MAX_NODES:
            plain = values.map_text(values.to_json(array), self._mask)
            if _size([*facts, plain]) <= self._limit:
                return Description(data=[*facts, plain])
        try:
            missing = int(numpy.isnan(array).sum()) if array.dtype.kind == "f" else 0
            facts += [f"{missing:,} NaN"] if missing else []
            if array.dtype.kind in "iufmM" and missing < array.size:
                facts.append(f"{numpy.nanmin(array)} to {numpy.nanmax(array)}")
        except Exception:  # noqa: BLE001 - an array of odd or missing values has no range
            pass
        first = [self._cell(value, 20) for value in array.flat[:_VALUES].tolist()]
        text = ", ".join(facts) + f"; first values {json.dumps(first, ensure_ascii=False)}"
        return Description(
            data=self._fit(text), extent=f"{len(first)} of {array.size:,} values", is_whole=False
        )

    def _data(self, value: Any) -> Description:
        """Describe a list, a dict, or any object: whole if it is small, otherwise by its
        beginning."""
        if _is_small(value):
            plain = values.map_text(values.to_json(value), self._mask)
            if _size(plain) <= self._limit and isinstance(
                value, (*_LISTS, Mapping, int, float, type(None))
            ):
                return Description(data=plain)
            if _size(plain) <= self._limit - 100 and isinstance(plain, dict):
                return Description(data={"type": type(value).__name__, "value": plain})
        if isinstance(value, Mapping):
            return self._beginning(value, f"dict with {len(value):,} keys", "keys")
        if is_frame(table := tables.tabular(value)):
            return self._table(table)
        if isinstance(value, _LISTS):
            kinds = Counter(map(type, islice(value, _SAMPLE)))
            names = ", ".join(str(kind.__name__) for kind, _ in kinds.most_common(_VALUES))
            return self._beginning(
                value, f"{type(value).__name__} with {len(value):,} items ({names})", "items"
            )
        text = values.safe_repr(value, self._limit + _LONGEST_SECRET)
        return self._text(f"{type(value).__name__}: {text}")

    def _beginning(self, items: Collection[Any], head: str, noun: str) -> Description:
        """Describe the first items of a large list, three at most, or the keys of a large dict with
        their kinds."""
        lines, room = [head], self._limit - 100 - _size(head)
        if isinstance(items, Mapping):
            entries = (
                f"- {self._short(key, _NAME_LENGTH)}: {self._kind(inner)}"
                for key, inner in items.items()
            )
        else:
            entries = (
                f"- {self._short(item, self._limit // (_ROWS + 1))}"
                for item in islice(items, _ROWS)
            )
        for line in entries:
            room -= _size(line)
            if room < 0:
                break
            lines.append(line)
        extent = f"{len(lines) - 1:,} of {len(items):,} {noun}"
        return Description(data=self._fit("\n".join(lines)), extent=extent, is_whole=False)

    def _kind(self, value: object) -> str:
        kind = type(value).__name__
        if isinstance(value, (*_LISTS, Mapping)):
            return f"{kind} of {len(value):,}"
        return f"{kind}, {value.shape}" if is_frame(value) else f"{kind} {self._short(value, 60)}"  # type: ignore[attr-defined]

    def _cell(self, cell: Any, length: int) -> Any:
        if is_missing(cell):
            return None
        item = getattr(cell, "item", None)
        if callable(item) and type(cell).__module__ == "numpy":
            cell = item()
        if isinstance(cell, bool) or (isinstance(cell, float) and math.isfinite(cell)):
            return cell
        if isinstance(cell, int) and abs(cell) < 1 << 63:
            return cell
        return self._short(cell, length)

    def _short(self, value: object, length: int) -> str:
        """Return a value as text of at most some characters, masked before it is cut."""
        most = length + _LONGEST_SECRET
        is_plain = isinstance(value, str) or type(value).__module__ in (
            "datetime",
            "pandas",
            "decimal",
            "uuid",
        )
        text = str(value)[:most] if is_plain else values.safe_repr(value, most)
        return values.cut(self._mask(values.encodable(text)), length)

    def _fit(self, text: str) -> str:
        """Return the beginning of a text that fits into the limit as JSON."""
        text = self._mask(text)
        while _size(text) > self._limit:
            text = text[: max(len(text) - max((_size(text) - self._limit) // 6, 1) - 4, 0)] + " ..."
        return text


def picture_of(value: Any) -> Image | None:
    """Return the picture that a value is, or None. What raises while it draws itself is not a
    picture."""
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
    figure = (
        getattr(value, "figure", value)
        if type(value).__module__.startswith("matplotlib")
        else value
    )
    if matplotlib is not None and isinstance(figure, matplotlib.Figure):
        figure.savefig(buffer, format="png", bbox_inches="tight")
        return Image("image/png", buffer.getvalue())
    for name in ("_repr_png_", "_repr_jpeg_"):
        method = getattr(type(value), name, None)
        if not callable(method) or (content := method(value)) is None:
            continue
        # IPython lets these methods return the data, or a tuple of data and metadata, as bytes or
        # base64.
        data = content[0] if isinstance(content, tuple) else content
        raw = base64.b64decode(data) if isinstance(data, str) else bytes(data)
        return Image(type_of(raw[:12]) or "image/png", raw)
    return None


def fitted(image: Image, limits: ImageLimits) -> Image:
    """Return an image that a provider takes, scaled if needed. Raises TooLarge where it cannot be
    scaled."""
    # A PNG names its size at a fixed place; the size of another image is not known.
    is_png = image.mime == "image/png" and len(image.data) >= 24 and image.data[12:16] == b"IHDR"
    side = (
        max(int.from_bytes(image.data[16:20]), int.from_bytes(image.data[20:24])) if is_png else 0
    )
    if len(image.data) <= limits.max_bytes and side <= limits.max_side:
        return image
    if find_spec("PIL") is None:
        extent = (
            f"{len(image.data):,} bytes"
            if len(image.data) > limits.max_bytes
            else f"{side:,} pixels wide or high"
        )
        most = (
            f"{limits.max_bytes:,} bytes"
            if len(image.data) > limits.max_bytes
            else f"{limits.max_side:,} pixels"
        )
        raise TooLarge(
            f"An image of {extent} is too large for the model, which takes {most}. Nothing was"
            " sent.",
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
    raise TooLarge(
        f"An image of {len(image.data):,} bytes could not be made small enough for the model."
    )


def without_pictures(data: object, limits: TakesImages) -> tuple[object, tuple[Image, ...]]:
    """Return a tool's data with a sentence in place of each picture, and the pictures that a model
    takes. What is nested deeper than some levels, or holds itself, is not looked into."""
    images: list[Image] = []

    def replaced(part: object, levels: int = _PICTURE_LEVELS) -> object:
        if levels and (type(part) is list or isinstance(part, Blocks)):
            parts = [replaced(inner, levels - 1) for inner in part]
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


def _of_image(image: Image, kind: str) -> Description:
    extent = f"an image of {len(image.data):,} bytes"
    return Description(data=f"an image ({kind}), sent along", extent=extent, images=(image,))


def _is_range(index: object) -> bool:
    return isinstance(index, sys.modules["pandas"].RangeIndex)


def _size(data: object) -> int:
    return len(json.dumps(data, ensure_ascii=False).encode("utf-8", "backslashreplace"))


def _is_small(value: object) -> bool:
    """Whether a value has few parts, found without visiting all of a large one."""
    nodes, chars = [value], 0
    seen = 0
    while nodes:
        node = nodes.pop()
        seen += 1
        if seen > _MAX_NODES or chars > MAX_BYTES * 2:
            return False
        if isinstance(node, (str, bytes)):
            chars += len(node)
        elif is_frame(node) or tables.is_foreign(node) or hasattr(type(node), "__array__"):
            return False
        elif isinstance(node, (*_LISTS, Mapping)):
            if len(node) > _MAX_NODES:
                return False
            nodes += [*node, *node.values()] if isinstance(node, Mapping) else list(node)
    return True
