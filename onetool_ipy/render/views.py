"""Listing, Record, Text: plain values that print well.

They are a list, a dict and a str for every other purpose. `str()` and `repr()` are YAML flow text,
which programs can read; a notebook shows a table or text of the same rows, and a terminal aligned
columns (`to_text`).
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Callable, Mapping, Sequence
from shutil import get_terminal_size
from typing import TYPE_CHECKING, Any

from onetool_ipy.base.printable import printable
from onetool_ipy.base.values import Json
from onetool_ipy.core.shown import mask, without_secrets
from onetool_ipy.render import html
from onetool_ipy.render.result import aligned
from onetool_ipy.render.yaml_flow import flow

if TYPE_CHECKING:
    import pandas as pd  # type: ignore[import-untyped]  # it ships no stubs

_MAX_ROWS = 500
"""Rows that a table shows; a notebook saves them."""
_MOMENT = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|\+00:00)")


def counted(number: float, noun: str) -> str:
    """A number with its noun: `1 call`, `2 calls`."""
    return f"{number:,} {noun}" + ("" if number == 1 else "s")


def milliseconds(ms: float) -> str:
    """A short time for people: `1,235 ms`, `<1 ms`."""
    return f"{ms:,.0f} ms" if ms >= 1 else "<1 ms"


def local_time(moment: datetime.datetime) -> str:
    """A moment for people, in their time zone: `11:46:28` if it is of today, else `Nov 15
    11:46`."""
    here = moment.astimezone()
    today = datetime.datetime.now(datetime.UTC).astimezone().date()
    form = (
        "%H:%M:%S"
        if here.date() == today
        else "%b %d %H:%M"
        if here.year == today.year
        else "%Y-%m-%d %H:%M"
    )
    return here.strftime(form)


def span_labels(starts: Sequence[datetime.datetime], step_s: int) -> list[str]:
    """Short labels for the steps of a timeline: shorter steps than days as local times, days as
    dates.

    Days are those of UTC, since the call log keeps its sums by them. Where local days differ, the
    label says UTC.
    """
    here = [start.astimezone() for start in starts]
    if step_s >= 86_400:
        form = "%b %d" if len({start.year for start in starts}) == 1 else "%Y-%m-%d"
        form += " UTC" if any(start.utcoffset() for start in here) else ""
        return [start.strftime(form) for start in starts]
    time = "%H:%M" if step_s >= 60 else "%H:%M:%S"
    form = time if len({start.date() for start in here}) == 1 else f"%b %d {time}"
    return [start.strftime(form) for start in here]


def people_rows(rows: Sequence[Mapping[str, object]]) -> list[Json]:
    """Rows as people read them, without the columns that have no value: local times, shares in
    percent, times in ms without idle decimals."""
    filled = {key for row in rows for key, value in row.items() if value is not None}
    return [{key: _shown(key, row[key]) for key in row if key in filled} for row in rows]


def _shown(key: str, value: object) -> object:
    if isinstance(value, str) and _MOMENT.fullmatch(value):
        return local_time(datetime.datetime.fromisoformat(value))
    if isinstance(value, float) and key == "success_rate":
        return f"{value:.3g} %"
    if isinstance(value, float) and key.endswith("_ms"):
        return round(value) if value >= 10 else round(value, 1)
    return value


@without_secrets
class Listing(list[Any]):
    """Rows, or names. A screen shows `if_empty` where there are none."""

    if_empty = ""

    def __repr__(self) -> str:
        return flow(list(self))

    __str__ = __repr__

    def to_text(self, width: int) -> str:
        """The listing for a terminal of this width: rows as a table, anything else as YAML flow
        text."""
        if not self:
            return self.if_empty or "[]"
        if not _is_table(self):
            return flow(list(self))
        more = f"... and {len(self) - _MAX_ROWS:,} more rows: .df" if len(self) > _MAX_ROWS else ""
        return "\n".join([*_aligned_table(self[:_MAX_ROWS], width), *([more] if more else [])])

    def _repr_html_(self) -> str:
        if not self:
            return html.note(self.if_empty or "nothing")
        note = counted(len(self), "row")
        if len(self) > _MAX_ROWS:
            note += f", the first {_MAX_ROWS:,} shown; all of them: .df"
        return html.table(people_rows(self._rows()[:_MAX_ROWS])) + html.note(note)

    @property
    def df(self) -> pd.DataFrame:
        """The rows as a pandas DataFrame."""
        import pandas as pd

        return pd.DataFrame(self._rows())

    def _rows(self) -> list[Mapping[str, Any]]:
        return [row if isinstance(row, Mapping) else {"name": row} for row in self]


@without_secrets
class Record(dict[str, Any]):
    """One object. `.df` is the table it holds under one of its keys, else its own keys and
    values."""

    def __repr__(self) -> str:
        return flow(dict(self))

    __str__ = __repr__

    def to_text(self, width: int) -> str:
        """The record for a terminal of this width: its keys, and a table for each list of rows."""
        lines: list[str] = []
        for key, value in self.items():
            entry = _shown(key, value)
            text = f"{key}: {entry}" if entry is not value else flow({key: value})
            if _is_table(value):
                lines += [f"{key}:", *(f"  {line}" for line in _aligned_table(value, width - 2))]
            elif (
                len(text) > width
                and isinstance(value, list)
                and all(isinstance(each, str) for each in value)
            ):
                lines += [f"{key}:", *(f"  {printable(each)}" for each in value)]
            else:
                lines.append(text[1:-1] if text.startswith("{") else text)
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        tables = {key: value for key, value in self.items() if _is_table(value)}
        facts = [
            {"": key, "value": _shown(key, value)}
            for key, value in self.items()
            if key not in tables
        ]
        tables_html = "".join(
            html.note(f"{key}:") + html.table(people_rows(rows[:_MAX_ROWS]))
            for key, rows in tables.items()
        )
        return (html.table(facts) if facts else "") + tables_html

    @property
    def df(self) -> pd.DataFrame:
        """The list of rows inside, as a pandas DataFrame."""
        import pandas as pd

        for value in self.values():
            if _is_table(value):
                return pd.DataFrame(value)
        return pd.DataFrame([{"key": key, "value": value} for key, value in self.items()])


@without_secrets
class ForPeople(Record):
    """A record that cells and terminals show as its tables, without what is empty and what is only
    estimated; `note` stands below them."""

    note = ""

    def to_text(self, width: int) -> str:
        """The record for a terminal of this width, with the note."""
        return "\n".join(filter(None, (self._plain().to_text(width), self.note)))

    def _repr_pretty_(self, printer: Any, _cycle: bool) -> None:
        printer.text(mask(self.to_text(get_terminal_size((100, 24)).columns)))

    def _repr_html_(self) -> str:
        return self._plain()._repr_html_() + (html.note(self.note) if self.note else "")

    def _plain(self) -> Record:
        hidden = {"estimates", *self.get("estimates", ())}
        return Record(
            {k: value for k, value in self.items() if k not in hidden and value not in ([], None)}
        )


def _is_table(value: object) -> bool:
    return (
        isinstance(value, list) and bool(value) and all(isinstance(row, Mapping) for row in value)
    )


@without_secrets
class Text(str):
    """Text that prints bare."""

    __slots__ = ()

    def __repr__(self) -> str:
        return printable(str.__str__(self))

    __str__ = __repr__

    def _repr_html_(self) -> str:
        return html.pre(str(self))

    def masked(self, mask: Callable[[str], str]) -> Text:
        """The same text without secrets."""
        return type(self)(mask(str(self)))


class ErrorText(Text):
    """An error text that `ot` returns instead of raising. It is false, so that `if` sees it."""

    __slots__ = ()

    def __bool__(self) -> bool:
        return False


def _aligned_table(rows: Sequence[Mapping[str, object]], width: int) -> list[str]:
    rows = people_rows(rows)
    columns = list(dict.fromkeys(str(key) for row in rows for key in row))
    numbers = [name for name in columns if html.is_numeric(row.get(name) for row in rows)]
    cells = [{str(key): html.cell_text(value) for key, value in row.items()} for row in rows]
    return [
        line if len(line) <= width else line[: width - 1] + "…"
        for line in aligned(cells, columns, numbers)
    ]
