"""Short signs of a tool as it is, to tell whether what was kept of it still holds. Pure.

`of_schema` changes with what a tool takes and gives, and with its version; `of_code` also with what it does, as far as
its own code tells: not with the functions that it calls.
"""

from __future__ import annotations

import hashlib
import json
from functools import partial
from typing import Any

from onetool_ipy.core import values
from onetool_ipy.core.fingerprint import code_of
from onetool_ipy.core.model import ToolSpec

__all__ = ["of_code", "of_schema"]


def of_schema(spec: ToolSpec) -> str:
    """The sign of what a tool takes and gives."""
    return _sign([spec.parameters, spec.output_schema, _definition(spec.run, "version")])


def of_code(spec: ToolSpec) -> str:
    """The sign of a tool with its name and its code."""
    definition = [_definition(spec.run, field) for field in ("version", "tool_id")]
    return _sign([spec.name, spec.parameters, definition, code_of(spec.run)])


def _sign(parts: list[Any]) -> str:
    text = json.dumps(values.to_json(parts), sort_keys=True)
    return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()


def _definition(run: Any, field: str) -> str:
    """A field of the record that a tool is made from, where it is made from one: a tool of a bundle."""
    records = run.args if isinstance(run, partial) else ()
    return next((str(getattr(record, field)) for record in records if hasattr(record, field)), "")
