"""Difference: what `ot.diff` gives. It prints a few lines, and a notebook shows a table with only the changes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from onetool_ipy.base import values
from onetool_ipy.base.printable import printable, printable_line
from onetool_ipy.base.values import is_missing
from onetool_ipy.core import current
from onetool_ipy.core.difference import ChangedCell, Changes
from onetool_ipy.core.shown import without_secrets
from onetool_ipy.render import html
from onetool_ipy.render.views import counted

if TYPE_CHECKING:
    import pandas as pd  # type: ignore[import-untyped]  # it ships no stubs

_MAX_NAMED = 3
_MAX_ROWS = 100
_MAX_CELL = 40
_NOUNS = {"table": "row", "data": "value", "text": "line"}


@without_secrets
class Difference:
    """What changed from one value to another; false if nothing did.

    `added` and `removed` are tables of whole rows (of JSON: paths and values; of text: lines), `changed` has a row for
    each changed cell with its old and new value, `columns` the columns that are new, gone or of another type. `key` are
    the columns that rows were matched by; it is empty if that was by their place. `df` is one table with only the rows
    that differ: the first column says how, a changed cell is `old → new`. `result` is the new result of `ot.refresh`.
    """

    def __init__(self, changes: Changes, *, result: Any = None) -> None:
        self._changes = changes
        self.added: pd.DataFrame = changes.added
        self.removed: pd.DataFrame = changes.removed
        self.changed: pd.DataFrame = changes.changed
        self.columns: pd.DataFrame = changes.columns
        self.key = changes.key
        self.df: pd.DataFrame = changes.rows
        self.result = result

    def view(self) -> Any:
        """Open the viewer on the rows that differ."""
        return current.require().ot.view(self.df)

    def __bool__(self) -> bool:
        return not self._changes.is_empty

    def __len__(self) -> int:
        return len(self.df)

    def __str__(self) -> str:
        return "\n".join(self.lines())

    __repr__ = __str__

    def lines(self) -> list[str]:
        """What changed, in words: `3 rows new, 1 price changed: ...`."""
        noun, words = _NOUNS[self._changes.kind], []
        if len(self.added):
            words.append(f"{counted(len(self.added), noun)} new")
        if len(self.removed):
            words.append(f"{counted(len(self.removed), noun)} gone")
        if len(self.changed) and self._changes.kind == "table":
            by_column = self.changed["column"].value_counts(sort=True)
            cells = [counted(int(count), str(name)) for name, count in by_column.head(_MAX_NAMED).items()]
            rest = len(by_column) - len(cells)
            words.append(", ".join(cells) + (f" and {counted(rest, 'other column')}" if rest else "") + " changed")
        elif len(self.changed):
            words.append(f"{counted(len(self.changed), noun)} changed")
        for row in self.columns.head(_MAX_NAMED).itertuples():
            word = {"added": "is new", "removed": "is gone"}.get(row.change, f"was {row.old}, is {row.new}")
            words.append(f"column '{row.column}' {word}")
        if not words:
            return ["No difference."]
        examples = [self._example(row) for row in self.changed.head(_MAX_NAMED).to_dict("records")]
        more = len(self.changed) - len(examples)
        text = (
            ", ".join(words)
            + (": " + "; ".join(examples) if examples else "")
            + (f"; {more:,} more" if more > 0 else "")
        )
        lines = [printable_line(text)]
        if self._changes.kind == "table" and not self.key:
            lines.append("No column is an obvious key, so rows were matched by their place; name one with key=.")
        return lines

    def _example(self, row: dict[str, Any]) -> str:
        if self._changes.kind != "table":
            return f"{row['path']} {_short(row['old'])} → {_short(row['new'])}"
        place = " ".join(_short(row[name]) for name in (self.key or ("row",)))
        return f"{place} {row['column']} {_short(row['old'])} → {_short(row['new'])}"

    def _repr_html_(self) -> str:
        note = html.note(printable(str(self)))
        if not self:
            return note
        rows = self.df.head(_MAX_ROWS).to_dict("records") if self.df.columns.is_unique else []
        cells = [{str(name): None if is_missing(cell) else cell for name, cell in row.items()} for row in rows]
        rest = len(self.df) - len(cells)
        marked = html.table(cells, is_marked=lambda cell: isinstance(cell, ChangedCell))
        return note + marked + (html.note(f"and {counted(rest, 'more row')}: .view()") if rest else "")


def _short(value: Any) -> str:
    text = str(value) if isinstance(value, float) and not is_missing(value) else html.cell_text(value)
    return values.cut(text or "nothing", _MAX_CELL)
