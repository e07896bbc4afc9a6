"""A result as a table: typed columns, sorted and filtered rows, a summary of each column, rows to
take away.

Everything runs here, over all rows; the screen gets one window of them as text. The original frame
is never changed: sorting and filtering give positions of its rows, and the last of them are kept,
so that scrolling only takes slices.
"""

from __future__ import annotations

import importlib.util
import io
import math
import re
from collections.abc import Callable, Mapping, Sequence
from itertools import islice, pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

from onetool_ipy.base import values
from onetool_ipy.base.errors import UsageProblem
from onetool_ipy.base.tables import is_frame, is_missing
from onetool_ipy.base.values import Json
from onetool_ipy.core.difference import ChangedCell
from onetool_ipy.core.result import frame_of

if TYPE_CHECKING:
    import pandas as pd  # type: ignore[import-untyped]  # it has no types


FORMATS = {
    "csv": "text/csv",
    "xlsx": "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
    "json": "application/json",
    "parquet": "application/vnd.apache.parquet",
}
"""The formats of a download and their media types."""
WRITERS = {"xlsx": ("openpyxl", "Excel"), "parquet": ("pyarrow", "Parquet")}
"""The package that a format needs, and the name of the format."""
ORDERED = ("integer", "number", "date")
"""The kinds of columns whose cells have an order."""

_CELL = 300
_SAMPLE = 1_000
_MOST_DECIMALS = 6
_MOST_COPIED = 10_000
_BARS = 16
_TOP = 4
_MOST_VALUES = 200
_MOST_SHEET_ROWS = 1_048_575
_MOST_SHEET_TEXT = 32_767
_MOST_SHEET_NUMBER = 10**15
_ISO = re.compile(r"\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d(?:\.\d+)?)?(?:Z|[+-]\d\d:?\d\d)?)?")
_THOUSANDS = re.compile(r"[-+]?\d{1,3}(?:,\d{3})+")
_SPAN = re.compile(r"(\d[\d,_]*(?:\.\d+)?) ?[-–] ?(\d[\d,_]*(?:\.\d+)?)")
_CONDITION = re.compile(r"(>=|<=|!=|==?|>|<|!)?\s*(.*)", re.DOTALL)
_OF_NUMBERS = frozenset("0123456789.,+-eE_ ")
_OF_DATES = frozenset("0123456789-:.+TZtz ")
_SECONDS = (1, 5, 15, 30, 60, 300, 900, 1_800, 3_600, 10_800, 21_600, 43_200)
_DAYS = (1, 2, 7, 14, 28, 91, 182, 365, 730, 1_826, 3_652, 18_262, 36_524)


class TableQuery(NamedTuple):
    """Which rows, in which order: a text that any cell has, conditions, a column to sort by, chosen
    values.

    A chosen value is its number among the values of its column; -1 stands for missing.
    """

    text: str = ""
    conditions: tuple[tuple[int, str], ...] = ()
    sort: tuple[int, bool] | None = None
    choices: tuple[tuple[int, tuple[int, ...]], ...] = ()


class Condition(NamedTuple):
    """A condition on a column: a sign and its operand; `..` and `..<` have a second operand. No
    sign: contains."""

    sign: str
    operand: str
    end: str = ""


def query_of(payload: Mapping[str, Any]) -> TableQuery:
    """Read a screen's query: `filter`, `columns` as {column: condition}, `choices`, `sort` as
    {column, isDown}."""
    sort, columns, choices = (
        payload.get("sort"),
        payload.get("columns") or {},
        payload.get("choices") or {},
    )
    return TableQuery(
        text=str(payload.get("filter") or ""),
        conditions=tuple((int(at), str(text)) for at, text in columns.items() if str(text).strip()),
        sort=None if sort is None else (int(sort["column"]), bool(sort["isDown"])),
        choices=tuple(
            (int(at), tuple(int(number) for number in numbers)) for at, numbers in choices.items()
        ),
    )


def parse_condition(text: str, kind: str) -> Condition:
    """Read a condition on a column: `> 5`, `2..8`, `2-8`, `2..<8`, `2..`, `..8`, `= exactly`, `!not
    this`, or a part of the text."""
    if kind in ("integer", "number") and (span := _SPAN.fullmatch(text.strip())):
        return _span("..", span[1], span[2], kind)
    low, dots, high = (part.strip() for part in text.strip().partition(".."))
    end = high.removeprefix("<").strip()
    if dots and (low or end) and kind in ORDERED:
        below = high.startswith("<")
        if low and end:
            return _span("..<" if below else "..", low, end, kind)
        return Condition(">=", low) if low else Condition("<" if below else "<=", end)
    parts = _CONDITION.fullmatch(text.strip())
    sign, operand = (parts[1] or "", parts[2]) if parts else ("", text.strip())
    if sign == "==":
        sign, operand = "=", operand if kind in ORDERED else f"={operand}"
    # No number and no date has such a part: the words are a slip, not a search without a match.
    if kind in ("integer", "number") and ("," in operand or set(operand) - _OF_NUMBERS):
        number_of(operand)
    if kind == "date" and set(operand) - _OF_DATES:
        raise UsageProblem(
            f"'{operand[:40]}' is not a part of a date.", hint="For example: 2024-03, > 2024"
        )
    if sign in (">", ">=", "<", "<=") and kind not in ORDERED:
        raise UsageProblem(
            f"'{sign}' works on numbers and dates.", hint="For text: a part of it, =all of it."
        )
    return Condition(sign, operand)


def _span(sign: str, low: str, end: str, kind: str) -> Condition:
    if kind in ("integer", "number") and number_of(low) > number_of(end):
        raise UsageProblem(f"{low} is above {end}.", hint=f"Write {end}..{low}")
    return Condition(sign, low, end)


def number_of(text: str) -> float:
    """Read the number in a condition. A comma separates thousands: 3,5 is not 35."""
    try:
        whole = text.partition(".")[0]
        if "," in text and not _THOUSANDS.fullmatch(whole):
            raise ValueError
        return float(text.replace(",", "").replace("_", ""))
    except ValueError:
        raise UsageProblem(
            f"'{text[:40]}' is not a number." if text else "A number is missing.",
            hint="For example: > 5, 2..8",
        ) from None


class ResultTable:
    """The table of one result."""

    def __init__(self, data: Any, mask: Callable[[str], str]) -> None:
        import pandas as pd

        self._mask = mask
        self._data: Any = (
            data if is_frame(data) else [row for row in data if isinstance(row, Mapping)]
        )
        if is_frame(data):
            frame = data if isinstance(data, pd.DataFrame) else data.to_frame()
            # An index that only counts rows and has no name is not a column.
            is_count = frame.index.names == [None] and frame.index.dtype.kind in "iu"
            self._cells = frame if is_count else frame.reset_index(allow_duplicates=True)
        else:
            self._cells = frame_of(self._data, pd.DataFrame.from_records)
        self.has_index_columns = is_frame(data) and self._cells.shape[1] > (
            data.shape[1] if data.ndim > 1 else 1
        )
        self.kinds = [_kind_of(self._cells.iloc[:, at]) for at in range(self._cells.shape[1])]
        samples = [
            self._cells.iloc[:, at].dropna().head(_SAMPLE) for at in range(self._cells.shape[1])
        ]
        self._shapes = [
            shape_of(cells.tolist(), kind) for cells, kind in zip(samples, self.kinds, strict=True)
        ]
        self._texts: dict[int, pd.Series] = {}
        self._values: dict[int, tuple[Any, list[Any]]] = {}
        self._last: tuple[TableQuery, Any] | None = None

    def page(self, query: TableQuery, window: slice) -> Json:
        """A window of the rows as text, each behind its label in the index, as pandas prints it.

        A cell that changed is a list of its old and its new text.
        """
        positions = self._positions(query)
        part = self._cells.iloc[positions[window]]
        rows_as_text = [
            [
                int(label),
                *(
                    [self._shown(side, column) for side in (cell.old, cell.new)]
                    if isinstance(cell, ChangedCell)
                    else self._shown(cell, column)
                    for column, cell in enumerate(row)
                ),
            ]
            for label, row in zip(part.index, part.itertuples(index=False, name=None), strict=True)
        ]
        return {"columns": self.columns(), "rows": rows_as_text, "total": len(positions)}

    def columns(self) -> list[Json]:
        """The name and the kind of each column."""
        names = (values.cut(self._mask(str(name)), _CELL) for name in self._cells.columns)
        return [{"name": name, "kind": kind} for name, kind in zip(names, self.kinds, strict=True)]

    def names(self) -> list[Any]:
        """The names of the columns as the data has them."""
        return list(self._cells.columns)

    def values(self, query: TableQuery, column: int, text: str = "") -> Json:
        """The values of a column that have `text` in them and how often each is there, the most
        frequent first.

        What is chosen in the column itself does not count, so that more can be chosen.
        """
        self._require_column(column)
        others = query._replace(
            sort=None, choices=tuple(choice for choice in query.choices if choice[0] != column)
        )
        cells = self._coded(column)[1]
        counts = self._counts(column, self._find(others))
        if text:
            part = text.casefold()
            counts.pop(-1, None)
            shape = self._shapes[column]
            counts = {
                at: count
                for at, count in counts.items()
                if part in shown_cell(cells[at], shape).casefold()
            }
        items = [
            {"id": at, "text": "" if at < 0 else self._shown(cells[at], column), "count": count}
            for at, count in islice(counts.items(), _MOST_VALUES)
        ]
        return {"items": items, "total": len(counts)}

    def chosen(self, column: int, numbers: Sequence[int]) -> list[object]:
        """The values of a column by their numbers; None is a missing one."""
        cells = self._coded(column)[1]
        return [cells[at] if 0 <= at < len(cells) else None for at in numbers]

    def _coded(self, column: int) -> tuple[Any, list[object]]:
        """The number of each cell's value, and the values in the order in which they come up."""
        import pandas as pd

        if column not in self._values:
            cells = self._cells.iloc[:, column]
            keys = (
                cells
                if _is_plain(cells.dropna())
                else cells.map(values.to_text, na_action="ignore")
            )
            codes, uniques = pd.factorize(keys)
            self._values[column] = (codes, list(uniques))
        return self._values[column]

    def _counts(self, column: int, positions: object) -> dict[int, int]:
        """How often each value is in some rows, by its number, the most frequent first; -1 counts
        the missing ones."""
        import numpy as np

        counts = np.bincount(self._coded(column)[0][positions] + 1)
        return {
            int(at) - 1: int(counts[at]) for at in np.argsort(-counts, kind="stable") if counts[at]
        }

    def summary(self, query: TableQuery, column: int) -> Json:
        """What is in one column of the found rows."""
        self._require_column(column)
        cells = self._cells.iloc[self._positions(query), column]
        kind = self.kinds[column]
        present = cells.dropna()
        counts = self._counts(column, self._positions(query))
        missing = counts.pop(-1, 0)
        about: Json = {
            "kind": kind,
            "rows": len(cells),
            "missing": missing,
            "distinct": len(counts),
        }
        if kind in ORDERED and len(present):
            about |= {
                "min": self._shown(present.min(), column),
                "max": self._shown(present.max(), column),
            }
            shown_days = self._text(column).iloc[self._positions(query)].str.slice(0, 19)
            about["bars"], about["ranges"] = (
                _day_bars(shown_days) if kind == "date" else _number_bars(_numbers(cells))
            )
        elif len(present):
            about["top"] = [
                [self._shown(self._coded(column)[1][at], column), count, at]
                for at, count in islice(counts.items(), _TOP)
            ]
        if kind in ("integer", "number") and len(present):
            numbers = _numbers(present)
            figures = {"mean": numbers.mean(), "median": numbers.median(), "std": numbers.std()}
            decimals = self._shapes[column].decimals
            about |= {
                name: _figure(float(figure), decimals)
                for name, figure in figures.items()
                if math.isfinite(figure)
            }
        return about

    def copied(
        self,
        query: TableQuery,
        first: int,
        last: int,
        columns: Sequence[int],
        *,
        has_names: bool = False,
    ) -> str:
        """Rows as tab-separated text, for the clipboard, below the names of the columns if asked
        for."""
        positions = self._positions(query)[max(0, first) : last + 1]
        if len(positions) > _MOST_COPIED:
            raise UsageProblem(
                f"At most {_MOST_COPIED:,} rows are copied at once.", hint="Download them."
            )
        for column in columns:
            self._require_column(column)
        part = self._cells.iloc[positions, list(columns)]
        rows = [
            *([tuple(part.columns)] if has_names else []),
            *part.itertuples(index=False, name=None),
        ]
        lines = ["\t".join(self._plain(cell) for cell in row) for row in rows]
        return self._mask("\n".join(lines))

    def found(self, query: TableQuery) -> Any:
        """The found rows of the original data, in their order: of a frame a frame, of a list a
        list."""
        positions = self._positions(query)
        return (
            self._data.iloc[positions]
            if is_frame(self._data)
            else [self._data[at] for at in positions]
        )

    def download(self, query: TableQuery, columns: Sequence[int], kind: str) -> bytes:
        """The found rows and the wanted columns as a file."""
        if kind not in FORMATS:
            raise UsageProblem(
                f"A table cannot be saved as '{kind[:20]}'.", hint=f"One of: {', '.join(FORMATS)}."
            )
        package, noun = WRITERS.get(kind, ("json", ""))
        if importlib.util.find_spec(package) is None:
            raise UsageProblem(
                f"{noun} files are written by {package}, which is not installed.",
                hint=f"Run: %pip install {package}",
            )
        for column in columns:
            self._require_column(column)
        part = self._cells.iloc[self._positions(query), list(columns)].reset_index(drop=True)
        part = part.apply(
            lambda column: column.map(self._masked) if column.dtype.kind == "O" else column
        )
        part.columns = [self._mask(str(name)) for name in part.columns]
        if kind == "csv":
            part.columns = [_no_formula(name) for name in part.columns]
            part = part.apply(
                lambda column: column.map(_no_formula) if column.dtype.kind == "O" else column
            )
            # With both signs in the line's end, a cell with either of them is quoted, and begins no
            # line of its own.
            text = part.to_csv(index=False, lineterminator="\r\n")
            return bytes(text.encode("utf-8", "backslashreplace"))
        part.columns = unique(part.columns)
        if kind == "json":
            rows = part.astype(object).where(part.notna(), None).to_dict("records")
            return values.to_text(values.to_json(rows)).encode("utf-8")
        return _sheet(part) if kind == "xlsx" else _parquet(part)

    def _positions(self, query: TableQuery) -> Any:
        """The positions of the found rows, in order, as an array of numpy."""
        if self._last is None or self._last[0] != query:
            self._last = (query, self._find(query))
        return self._last[1]

    def _find(self, query: TableQuery) -> Any:
        import numpy as np

        keep = np.ones(len(self._cells), dtype=bool)
        if query.text:
            text = query.text.casefold()
            any_cell = np.zeros(len(self._cells), dtype=bool)
            for column in range(self._cells.shape[1]):
                any_cell |= self._text(column).str.contains(text, regex=False).to_numpy()
            keep &= any_cell
        for column, condition in query.conditions:
            self._require_column(column)
            keep &= self._matches(column, condition)
        for column, numbers in query.choices:
            self._require_column(column)
            keep &= np.isin(self._coded(column)[0], numbers)
        positions = np.flatnonzero(keep)
        if query.sort is not None:
            self._require_column(query.sort[0])
            positions = positions[
                _order(self._cells.iloc[positions, query.sort[0]], is_down=query.sort[1])
            ]
        return positions

    def _matches(self, column: int, condition: str) -> Any:
        """Which rows meet a condition."""
        kind, cells = self.kinds[column], self._cells.iloc[:, column]
        sign, operand, end = parse_condition(condition, kind)
        if end:
            return self._compared(column, ">=", operand) & self._compared(
                column, "<" if "<" in sign else "<=", end
            )
        if sign in ("=", "!=") and not operand:
            return (cells.isna() if sign == "=" else cells.notna()).to_numpy()
        if sign in (">", ">=", "<", "<=") or (sign in ("=", "!=") and kind in ORDERED):
            return self._compared(column, sign, operand)
        text, operand = self._text(column), operand.casefold()
        if sign in ("=", "!="):
            return (text == operand).to_numpy() != (sign == "!=")
        return text.str.contains(operand, regex=False).to_numpy() != (sign == "!")

    def _compared(self, column: int, sign: str, text: str) -> Any:
        # A part of a date compares with the same part of the cell.
        if self.kinds[column] == "date":
            operand: Any = text.replace("T", " ")
            cells = self._text(column).str.slice(0, len(operand))
            is_there = self._cells.iloc[:, column].notna().to_numpy()
        else:
            operand = number_of(text)
            cells = _numbers(self._cells.iloc[:, column])
            is_there = cells.notna()
        compare = {"=": "eq", "!=": "ne", ">": "gt", ">=": "ge", "<": "lt", "<=": "le"}[sign]
        return (getattr(cells, compare)(operand) & is_there).to_numpy(dtype=bool)

    def _text(self, column: int) -> pd.Series:
        """The cells of a column as they are searched: as shown, in small letters."""
        if column not in self._texts:
            cells = self._cells.iloc[:, column]
            if self.kinds[column] in ("date", "nested", "number"):
                texts = cells.map(lambda cell: shown_cell(cell, self._shapes[column]))
            else:
                texts = cells.astype(str).where(cells.notna(), "")
            self._texts[column] = texts.astype(object).map(str.casefold).reset_index(drop=True)
        return self._texts[column]

    def _shown(self, cell: object, column: int) -> str:
        return values.cut(self._mask(shown_cell(cell, self._shapes[column])), _CELL)

    def _plain(self, cell: object) -> str:
        return (
            ""
            if is_missing(cell)
            else " ".join(values.to_text(cell).split("\t")).replace("\n", " ")
        )

    def _masked(self, cell: object) -> object:
        return (
            values.map_text(values.to_json(cell), self._mask)
            if isinstance(cell, (str, Mapping, list))
            else cell
        )

    def _require_column(self, column: int) -> None:
        if not 0 <= column < self._cells.shape[1]:
            raise UsageProblem("There is no such column.")


def column_kind(cells: Sequence[object]) -> str:
    """The kind of a column from its plain values: integer, number, boolean, date, text or
    nested."""
    kinds = {_cell_kind(cell) for cell in cells if not is_missing(cell)}
    if len(kinds) == 1:
        return kinds.pop()
    return "number" if kinds == {"integer", "number"} else "nested" if "nested" in kinds else "text"


class CellShape(NamedTuple):
    """What the cells of a column have in common: their decimals, and whether no date has a time of
    day."""

    decimals: int | None = None
    is_days: bool = True


def shape_of(cells: Sequence[object], kind: str) -> CellShape:
    """The shape of a column, from its first cells that are not missing."""
    if kind == "date":
        return CellShape(is_days=not any(_date_parts(cell)[1].strip("0:Z+.") for cell in cells))
    if kind != "number":
        return CellShape(decimals=0 if kind == "integer" else None)
    texts = [repr(float(cell)) for cell in cells if isinstance(cell, (int, float))]
    if not texts or any("e" in text or "n" in text for text in texts):
        return CellShape()
    return CellShape(
        decimals=min(_MOST_DECIMALS, max(len(text.partition(".")[2]) for text in texts))
    )


def shown_cell(cell: object, shape: CellShape = CellShape()) -> str:  # noqa: B008 - a value that cannot change
    """A cell as it is shown: the dates and the decimals of a column alike, everything in one
    line."""
    if is_missing(cell):
        return ""
    if isinstance(cell, float) and shape.decimals is not None:
        return f"{cell:.{shape.decimals}f}"
    if hasattr(cell, "isoformat") or (isinstance(cell, str) and _ISO.fullmatch(cell)):
        day, time = _date_parts(cell)
        is_midnight = not time.strip("0:Z+.")
        return day if not time or (shape.is_days and is_midnight) else f"{day} {time}"
    return " ".join(values.to_text(cell).splitlines())


def _date_parts(cell: object) -> tuple[str, str]:
    """The day and the time of a date."""
    text = cell.isoformat() if hasattr(cell, "isoformat") else str(cell)
    day, _, time = text.replace("T", " ").partition(" ")
    return day, time


def _cell_kind(cell: object) -> str:
    name = type(cell).__name__
    if isinstance(cell, bool) or name == "bool_":
        return "boolean"
    if isinstance(cell, int) or name.startswith(("int", "uint")):
        return "integer"
    if isinstance(cell, float) or name in ("Decimal", "float16", "float32"):
        return "number"
    if isinstance(cell, str):
        return "date" if _ISO.fullmatch(cell) else "text"
    if hasattr(cell, "isoformat"):
        return "date"
    return "nested" if isinstance(cell, (Mapping, list, tuple, set)) else "text"


def _kind_of(cells: pd.Series) -> str:
    """The kind of a column by its type; of Python objects by the first of them."""
    by_type = {"b": "boolean", "i": "integer", "u": "integer", "f": "number", "M": "date"}
    kind = by_type.get(getattr(cells.dtype, "kind", "O"))
    if cells.isna().all():
        return "text"
    # pandas makes floats of whole numbers with gaps.
    present = cells.dropna()
    if kind == "number" and len(present) < len(cells) and bool((present % 1 == 0).all()):
        return "integer"
    return kind or column_kind(present.head(_SAMPLE).tolist())


def _order(cells: pd.Series, *, is_down: bool) -> Any:
    """The order of the cells, equal ones as they were; cells that do not compare are ordered as
    text."""
    plain = cells.reset_index(drop=True)
    try:
        return plain.sort_values(ascending=not is_down, kind="stable").index.to_numpy()
    except (TypeError, ValueError):  # of different types, or arrays
        texts = plain.map(values.to_text)
        return texts.sort_values(ascending=not is_down, kind="stable").index.to_numpy()


def _number_bars(numbers: pd.Series) -> tuple[list[int], list[str]]:
    """How many numbers are in each range of a round width, and the ranges as conditions."""
    import numpy as np

    plain = numbers.dropna().to_numpy(dtype=float)
    plain = plain[np.isfinite(plain)]
    if not len(plain):
        return [], []
    low, high = float(plain.min()), float(plain.max())
    width = (high - low) / _BARS
    if not math.isfinite(width):
        return [], []
    if width <= abs(high) * 1e-12:
        return [len(plain)], [f"{low!r}..{high!r}"]
    unit = 10.0 ** math.floor(math.log10(width))
    step = next(unit * factor for factor in (1, 2, 2.5, 5, 10) if unit * factor >= width)
    if bool((plain % 1 == 0).all()):
        step = math.ceil(step)
    first = math.floor(low / step)
    edges = [
        float(f"{(first + at) * step:.12g}") for at in range(math.floor(high / step) - first + 2)
    ]
    return _bars(plain, edges, [f"{edge:.12g}" for edge in edges])


def _day_bars(texts: pd.Series) -> tuple[list[int], list[str]]:
    """How many dates are in each span of time, and the spans as conditions; `texts` are dates as
    they are shown."""
    import pandas as pd

    days = pd.to_datetime(texts.where(texts != ""), errors="coerce", format="ISO8601").dropna()
    if not len(days):
        return [], []
    seconds = days.to_numpy().astype("datetime64[s]").astype("int64")
    low, high = int(seconds.min()), int(seconds.max())
    is_days = bool((seconds % 86_400 == 0).all())
    steps = [*(() if is_days else _SECONDS), *(86_400 * count for count in _DAYS)]
    step = next((step for step in steps if step * _BARS >= high - low), None)
    if step is None:
        return [], []
    edges = [at * step for at in range(low // step, high // step + 2)]
    texts_of_edges = pd.to_datetime(edges, unit="s").strftime(
        "%Y-%m-%d" if is_days else "%Y-%m-%d %H:%M:%S"
    )
    return _bars(seconds, edges, list(texts_of_edges))


def _bars(plain: Any, edges: Sequence[float], texts: Sequence[str]) -> tuple[list[int], list[str]]:
    import numpy as np

    # The last edge is above all values, so that each range excludes its end, as its condition does.
    counts = [int(count) for count in np.histogram(plain, bins=edges)[0]]
    return counts, [f"{low}..<{high}" for low, high in pairwise(texts)]


def _figure(figure: float, decimals: int | None) -> str:
    """A mean, median or deviation with the decimals of its column, of whole numbers with two; a
    small one has three digits."""
    places = 2 if decimals == 0 else decimals
    if places is None or 0 < abs(figure) < 10**-places * 100:
        return f"{figure:.3g}"
    return f"{figure:.{places}f}"


def _numbers(cells: pd.Series) -> pd.Series:
    """The cells as numbers; a cell that is not a number or is too large counts as missing."""
    import pandas as pd

    def as_float(cell: Any) -> float:
        try:
            return float(cell)
        except (OverflowError, TypeError, ValueError):
            return float("nan")

    try:
        return pd.to_numeric(cells, errors="coerce").astype(float)
    except (OverflowError, TypeError, ValueError):
        return cells.map(as_float)


def _is_plain(cells: pd.Series) -> bool:
    """Whether all cells can be counted as they are."""
    if cells.dtype.kind != "O":
        return True
    try:
        for cell in cells:
            hash(cell)
    except TypeError:
        return False
    return True


def _no_formula(cell: object) -> object:
    """Text that a spreadsheet would run as a formula, with a `'` before it; any other cell as it
    is."""
    return (
        f"'{cell}"
        if isinstance(cell, str) and cell.startswith(("=", "+", "-", "@", "\t", "\r", "\n"))
        else cell
    )


def _parquet(part: pd.DataFrame) -> bytes:
    """The table as Parquet; a column of mixed values becomes text."""
    for _ in range(2):
        file = io.BytesIO()
        try:
            part.to_parquet(file, index=False)
        except Exception:  # noqa: BLE001 - pyarrow raises many kinds for values that share no type
            mixed = [name for name in part.columns if part[name].dtype.kind == "O"]
            part = part.assign(
                **{name: part[name].map(values.to_text, na_action="ignore") for name in mixed}
            )
        else:
            return file.getvalue()
    raise UsageProblem("This table cannot be saved as Parquet.", hint="Save it as CSV or JSON.")


def _sheet(part: pd.DataFrame) -> bytes:
    """The table as a sheet of Excel, with its head fixed. Text stays text, also if it looks like a
    formula."""
    import pandas as pd
    from openpyxl.cell.cell import ILLEGAL_CHARACTERS_RE  # type: ignore[import-untyped]  # it has no types

    if len(part) > _MOST_SHEET_ROWS:
        raise UsageProblem(
            f"A sheet has at most {_MOST_SHEET_ROWS:,} rows.",
            hint="Filter them, or save them as CSV.",
        )

    def plain(cell: object) -> object:
        # Excel keeps 15 digits of a number; text keeps all.
        is_number = isinstance(cell, (int, float)) and abs(cell) < _MOST_SHEET_NUMBER
        is_local_time = hasattr(cell, "isoformat") and getattr(cell, "tzinfo", None) is None
        if is_missing(cell) or is_number or is_local_time:
            return None if is_missing(cell) else cell
        text = ILLEGAL_CHARACTERS_RE.sub("", values.to_text(cell)).encode(
            "utf-8", "backslashreplace"
        )
        return text.decode()[:_MOST_SHEET_TEXT]

    cells = (
        part.astype(object).map(plain).set_axis([plain(str(name)) for name in part.columns], axis=1)
    )
    file = io.BytesIO()
    with pd.ExcelWriter(file, engine="openpyxl") as writer:
        cells.to_excel(writer, sheet_name="Result", index=False, freeze_panes=(1, 0))
        for row in writer.sheets["Result"].iter_rows():
            for cell in row:
                if cell.data_type == "f":
                    cell.data_type = "s"
    return file.getvalue()


def unique(names: Sequence[str]) -> list[str]:
    """The names of columns, a second of the same name with a number: JSON and Parquet have each
    once."""
    names_so_far: dict[str, None] = {}
    for name in names:
        free, number = name, 2
        while free in names_so_far:
            free, number = f"{name}_{number}", number + 1
        names_so_far[free] = None
    return list(names_so_far)
