"""JSON Schema -> `inspect.Signature`, so that `?`, Shift-Tab and editors show a tool's arguments as Python's own."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any

from onetool_ipy.core import schema

__all__ = ["signature_of"]


class _Shown:
    """An annotation or a default that prints as the text it was given."""

    def __init__(self, text: str) -> None:
        self._text = text

    def __repr__(self) -> str:
        return self._text


def signature_of(parameters: Any) -> inspect.Signature:
    """The signature that calling the tool from Python has; required arguments first."""
    found = []
    known = schema.params(parameters)
    labels = schema.python_names(known)
    for param in known:
        default: Any = inspect.Parameter.empty
        if not param.required:
            default = param.schema["default"] if param.has_default else _Shown("...")
        found.append(
            inspect.Parameter(
                labels[param.name],
                inspect.Parameter.POSITIONAL_OR_KEYWORD,
                default=default,
                annotation=_Shown(schema.type_text(param.schema, parameters)),
            )
        )
    if isinstance(parameters, Mapping) and parameters.get("additionalProperties"):
        rest = schema.identifier("arguments", set(labels.values()))
        found.append(inspect.Parameter(rest, inspect.Parameter.VAR_KEYWORD))
    return inspect.Signature(found)
