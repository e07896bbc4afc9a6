"""What people see of our values has no secret in it: `@without_secrets` masks it for a class. Nor
has their plain text a character that a terminal obeys.

A value itself stays as it is: its fields, its data and its frame. Only what `repr`, `str` and a
notebook show of it is masked, with the secrets of every toolbox that is open.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar

from onetool_ipy.base import values
from onetool_ipy.base.printable import printable
from onetool_ipy.core import current

DISPLAYS = ("__repr__", "__str__", "_repr_html_", "_repr_markdown_", "_repr_mimebundle_")
"""The methods by which Python and notebooks show a value."""

_PRINTED = ("__repr__", "__str__")
_TEXT = "text/plain"
_PICTURE = "image/"
_SVG = "image/svg+xml"
_Class = TypeVar("_Class", bound=type)


def without_secrets(cls: _Class) -> _Class:
    """Mask what the methods of a class show that it defines itself."""
    for name in DISPLAYS:
        method = vars(cls).get(name)
        if callable(method):
            setattr(cls, name, _masking(method, is_plain=name in _PRINTED))
    return cls


def mask(text: str) -> str:
    """Return a text without the secrets that the open toolboxes know."""
    for box in current.open_toolboxes():
        text = box.mask(text)
    return text


def _masking(method: Callable[..., Any], *, is_plain: bool) -> Callable[..., Any]:
    @wraps(method)
    def show(*args: Any, **kwargs: Any) -> Any:
        output = method(*args, **kwargs)
        if isinstance(output, str):
            return printable(mask(output)) if is_plain else mask(output)
        if not isinstance(output, dict):
            return output
        # The bytes of a picture, as Base64, are no text that a secret could stand in.
        is_picture = {kind: str(kind).startswith(_PICTURE) and kind != _SVG for kind in output}
        bundle = {
            kind: data if is_picture[kind] else values.map_text(data, mask)
            for kind, data in output.items()
        }
        if _TEXT in bundle:
            bundle[_TEXT] = values.map_text(bundle[_TEXT], printable)
        return bundle

    return show
