"""Listings and records as a terminal shows them: columns in line, a row in one line of the screen.

Only for eyes: `str()` and `repr()` of the same values are YAML flow text, which programs read.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from onetool_ipy.base.printable import printable
from onetool_ipy.render import html
from onetool_ipy.render.result import aligned, cell_text
from onetool_ipy.render.yaml_flow import flow

__all__ = ["listing_text", "record_text"]

_MAX_ROWS = 500


def listing_text(rows: Sequence[Any], width: int) -> str:
    """Rows as a table; anything else as it prints."""
    if not _is_table(rows):
        return flow(list(rows))
    more = f"... and {len(rows) - _MAX_ROWS:,} more rows: .df" if len(rows) > _MAX_ROWS else ""
    return "\n".join([*_table(rows[:_MAX_ROWS], width), *([more] if more else [])])


def record_text(record: Mapping[str, Any], width: int) -> str:
    """The keys of a record, with a table where one holds rows."""
    lines: list[str] = []
    for key, value in record.items():
        text = flow({key: value})
        if isinstance(value, list) and _is_table(value):
            lines += [f"{key}:", *(f"  {line}" for line in _table(value, width - 2))]
        elif len(text) > width and isinstance(value, list) and all(isinstance(each, str) for each in value):
            lines += [f"{key}:", *(f"  {printable(each)}" for each in value)]
        else:
            lines.append(text[1:-1] if text.startswith("{") else text)
    return "\n".join(lines)


def _is_table(rows: Sequence[Any]) -> bool:
    return bool(rows) and all(isinstance(row, Mapping) for row in rows)


def _table(rows: Sequence[Mapping[str, Any]], width: int) -> list[str]:
    columns = list(dict.fromkeys(str(key) for row in rows for key in row))
    numbers = [name for name in columns if html.is_numeric(row.get(name) for row in rows)]
    cells = [{str(key): cell_text(value) for key, value in row.items()} for row in rows]
    return [line if len(line) <= width else line[: width - 1] + "…" for line in aligned(cells, columns, numbers)]
