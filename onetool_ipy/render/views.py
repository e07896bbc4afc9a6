"""How many of what, in words: `1 call`, `2 calls`.

Listing, Record, Text: plain values that print as YAML flow text and show as a table or text in a notebook.

They are a list, a dict and a str for every other purpose. Text and HTML are made from the same rows.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from onetool_ipy.base.printable import printable
from onetool_ipy.render import html
from onetool_ipy.render.yaml_flow import flow

if TYPE_CHECKING:
    import pandas as pd  # type: ignore[import-untyped]  # it ships no stubs

__all__ = ["ErrorText", "Listing", "Record", "Text", "counted"]


def counted(number: float, noun: str) -> str:
    """A number with its noun, which takes an s where there is not exactly one."""
    return f"{number:,} {noun}" + ("" if number == 1 else "s")


_MAX_ROWS = 500
"""Rows that a table in a notebook shows, since the notebook keeps them."""


class Listing(list[Any]):
    """Rows, or names."""

    def __repr__(self) -> str:
        return flow(list(self))

    __str__ = __repr__

    def _repr_html_(self) -> str:
        if not self:
            return html.note("nothing")
        said = f"{len(self):,} row" + ("s" if len(self) != 1 else "")
        if len(self) > _MAX_ROWS:
            said += f", the first {_MAX_ROWS:,} shown; all of them: .df"
        return html.table(self._rows()[:_MAX_ROWS]) + html.note(said)

    @property
    def df(self) -> pd.DataFrame:
        """The rows as a pandas DataFrame."""
        import pandas as pd

        return pd.DataFrame(self._rows())

    def _rows(self) -> list[Mapping[str, Any]]:
        return [row if isinstance(row, Mapping) else {"name": row} for row in self]


class Record(dict[str, Any]):
    """One object. `.df` is the table it holds under one of its keys, else its own keys and values."""

    def __repr__(self) -> str:
        return flow(dict(self))

    __str__ = __repr__

    def _repr_html_(self) -> str:
        tables = {key: value for key, value in self.items() if _is_table(value)}
        facts = [{"": key, "value": value} for key, value in self.items() if key not in tables]
        shown = "".join(html.note(f"{key}:") + html.table(rows[:_MAX_ROWS]) for key, rows in tables.items())
        return (html.table(facts) if facts else "") + shown

    @property
    def df(self) -> pd.DataFrame:
        """The list of rows inside, as a pandas DataFrame."""
        import pandas as pd

        for value in self.values():
            if _is_table(value):
                return pd.DataFrame(value)
        return pd.DataFrame([{"key": key, "value": value} for key, value in self.items()])


def _is_table(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(row, Mapping) for row in value)


class Text(str):
    """Text that prints bare."""

    __slots__ = ()

    def __repr__(self) -> str:
        return printable(str(self))

    def _repr_html_(self) -> str:
        return html.pre(str(self))


class ErrorText(Text):
    """A text that says what went wrong, where 001 wants it returned."""

    __slots__ = ()
