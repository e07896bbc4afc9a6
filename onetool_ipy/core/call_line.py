"""A call as the `%tool` line that repeats it; `faces.line` reads such lines."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping

from onetool_ipy.base.values import to_json

_BARE_NAME = re.compile(r"""(?!-)[^\s"'({=?;]+""")
_BARE_KEY = re.compile(r"[^\W\d][\w.]*")
_BARE_TEXT = re.compile(r"[^\W\d_](?:[\w./:@+-]*\w)?")
_LITERALS = frozenset(("true", "True", "false", "False", "null", "None"))
"""Words that are read as values; as texts they need quotes."""


def format_call(name: str, args: Mapping[str, object]) -> str:
    """Write the `%tool` line of a call; it reads back to the same arguments if they fit the schema.

    A value that JSON cannot hold is written as `base.values.to_json` converts it.
    """
    word = name if _BARE_NAME.fullmatch(name) else _double(name)
    plain = to_json(dict(args))
    if all(_BARE_KEY.fullmatch(key) for key in plain):
        parts = ["%tool", word]
        for key, value in plain.items():
            if not isinstance(value, str):
                text = _dump(value)
            elif not value.isprintable():
                text = "{" + repr(value) + "}"
            else:
                is_bare = _BARE_TEXT.fullmatch(value) and value not in _LITERALS
                text = value if is_bare else _double(value)
            parts.append(f"{key}={text}")
        return " ".join(parts)
    return f"%tool {word} {_dump(plain)}"


def _double(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _dump(value: object) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if text.isprintable() else json.dumps(value)
