"""Difference: what `ot.diff` gives. It prints a few lines, and a notebook shows a table with only
the changes."""

from __future__ import annotations

from collections.abc import Callable
from itertools import zip_longest
from typing import TYPE_CHECKING, Any

from onetool_ipy.base import values
from onetool_ipy.base.printable import printable, printable_line
from onetool_ipy.base.tables import is_missing
from onetool_ipy.core import current
from onetool_ipy.core.difference import ChangedCell, Changes, texts_of
from onetool_ipy.core.shown import without_secrets
from onetool_ipy.render import html
from onetool_ipy.render.views import counted

if TYPE_CHECKING:
    import pandas as pd  # type: ignore[import-untyped]  # it ships no stubs

_MAX_NAMED = 3
_MAX_ROWS = 100
_MAX_CELL = 40
_MAX_LINE = 120
_NOUNS = {"table": "row", "data": "value", "text": "line"}


@without_secrets
class Difference:
    """What changed from one value to another; false if nothing did.

    `added` and `removed` are tables of whole rows (of JSON: paths and values; of text: lines),
    `changed` has a row for each changed cell with its old and new value, `columns` the columns that
    are new, gone or of another type. `key` are the columns that rows were matched by; it is empty
    if that was by their place. `df` is one table with only the rows that differ: the first column
    says how, a changed cell is `old → new`. `result` is the new result of `ot.refresh`. What is
    printed or shown is masked; the tables have the data as it is.
    """

    def __init__(
        self,
        changes: Changes,
        *,
        result: Any = None,
        mask: Callable[[str], str] = str,
        is_one_object: bool = False,
    ) -> None:
        self._changes = changes
        self._is_one_object = is_one_object
        self._mask = mask
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
        """What changed, in words: the sentence, then the first ones of what is new and of what is
        gone."""
        summary = self.summary()
        return [
            *summary[:1],
            *self._examples("new", self.added),
            *self._examples("gone", self.removed),
            *summary[1:],
        ]

    def summary(self) -> list[str]:
        """The sentence, `3 rows new, 1 price changed: ...`, and a line about rows that were matched
        by their place."""
        words = self._words()
        if not words:
            # A tool may give the same list again, and have changed it in between.
            why = ": both are one object, and what it held before is not known"
            return [f"No difference{why if self._is_one_object else ''}."]
        examples = [
            self._example([*row])
            for row in self.changed.head(_MAX_NAMED).itertuples(index=False, name=None)
        ]
        more = len(self.changed) - len(examples)
        text = (
            ", ".join(words)
            + (": " + "; ".join(examples) if examples else "")
            + (f"; {more:,} more" if more > 0 else "")
        )
        lines = [self._mask(printable_line(text))]
        if self._changes.kind == "table" and not self.key:
            lines.append(
                "No column is an obvious key, so rows were matched by their place; name one with"
                " key=."
            )
        return lines

    def _words(self) -> list[str]:
        noun, words = _NOUNS[self._changes.kind], []
        if len(self.added):
            words.append(f"{counted(len(self.added), noun)} new")
        if len(self.removed):
            words.append(f"{counted(len(self.removed), noun)} gone")
        if len(self.changed) and self._changes.kind == "table":
            by_column = self.changed.iloc[:, -3].value_counts(sort=True)
            cells = [
                f"1 {name}" if count == 1 else f"{count:,} {name} values"
                for name, count in by_column.head(_MAX_NAMED).items()
            ]
            rest = len(by_column) - len(cells)
            words.append(
                ", ".join(cells)
                + (f" and {counted(rest, 'other column')}" if rest else "")
                + " changed"
            )
        elif len(self.changed):
            words.append(f"{counted(len(self.changed), noun)} changed")
        for row in self.columns.head(_MAX_NAMED).itertuples():
            word = {"added": "is new", "removed": "is gone"}.get(
                row.change, f"was {row.old}, is {row.new}"
            )
            words.append(f"column '{row.column}' {word}")
        more = len(self.columns) - _MAX_NAMED
        return words + (
            [f"{counted(more, 'more column')} new, gone or of another type"] if more > 0 else []
        )

    def _example(self, row: list[Any]) -> str:
        """Write one changed value: its key or its path, its column, the old and the new value."""
        *place, old, new = row
        where = " ".join(self._short(_text(part)) for part in place)
        sides = [self._mask(side) for side in texts_of(old, new)]
        if (
            max(map(len, sides)) > _MAX_CELL
            and sides[0][: _MAX_CELL - 1] == sides[1][: _MAX_CELL - 1]
        ):
            # Long texts that begin alike are shown from where they differ.
            pairs = enumerate(zip_longest(*sides))
            start = next((place for place, (a, b) in pairs if a != b), 0) - _MAX_CELL // 4
            sides = ["…" + side[max(0, start) :] for side in sides]
        return f"{where} {self._short(sides[0])} → {self._short(sides[1])}"

    def _examples(self, word: str, rows: pd.DataFrame) -> list[str]:
        """Write the first rows, values or lines that are new or gone, each on a line."""
        lines = []
        for row in rows.head(_MAX_NAMED).itertuples(index=False, name=None):
            if self._changes.kind == "table":
                cells = zip(rows.columns, row, strict=True)
                text = " ".join(
                    f"{name}={_text(cell)}" for name, cell in cells if not is_missing(cell)
                )
            else:
                place = "line " * (self._changes.kind == "text") + str(row[0])
                text = f"{place}: {_text(row[1]) or 'nothing'}"
            lines.append(f"  {word}: {values.cut(self._mask(printable_line(text)), _MAX_LINE)}")
        more = len(rows) - len(lines)
        return [*lines, f"  {word}: {more:,} more"] if more > 0 else lines

    def _repr_html_(self) -> str:
        note = html.note(printable("\n".join(self.summary())))
        if not self:
            return note
        rows = self.df.head(_MAX_ROWS).to_dict("records") if self.df.columns.is_unique else []
        # Secrets are masked before a cell is cut, so that no part of one is left.
        cells = [
            {self._mask(str(name)): self._masked(cell) for name, cell in row.items()}
            for row in rows
        ]
        rest = len(self.df) - len(cells)
        marked = html.table(cells, is_marked=lambda cell: isinstance(cell, ChangedCell))
        return self._mask(
            note + marked + (html.note(f"and {counted(rest, 'more row')}: .view()") if rest else "")
        )

    def _masked(self, cell: Any) -> Any:
        if is_missing(cell):
            return None
        text = self._mask(html.cell_text(cell))
        if isinstance(cell, ChangedCell):
            return ChangedCell(text)
        return cell if text == html.cell_text(cell) else text

    def _short(self, text: str) -> str:
        return values.cut(self._mask(text) or "nothing", _MAX_CELL)


def _text(value: Any) -> str:
    """Write a value beside its name: text as it is, in quotes where it begins or ends with a blank,
    or is empty."""
    return texts_of(value, value)[0]
