"""A result as a table: typed columns, sorted and filtered rows, a summary of each column, rows to take away.

Everything runs here, over all rows; the screen gets one window of them as text. The original frame is never changed:
sorting and filtering give positions of its rows, and the last of them are kept, so that scrolling only takes slices.
"""

from __future__ import annotations

import importlib.util
import io
import re
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from onetool_ipy.base import values
from onetool_ipy.base.errors import UsageProblem
from onetool_ipy.base.frames import is_frame, is_missing
from onetool_ipy.base.values import Json
from onetool_ipy.core.result import frame_of

if TYPE_CHECKING:
    import pandas as pd  # type: ignore[import-untyped]  # it has no types


FORMATS = {"csv": "text/csv", "json": "application/json", "parquet": "application/vnd.apache.parquet"}
"""The formats of a download and their media types."""

_CELL = 300
_SAMPLE = 1_000
_MOST_DECIMALS = 6
_MOST_COPIED = 10_000
_BARS = 16
_TOP = 4
_ISO = re.compile(r"\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d(?:\.\d+)?)?(?:Z|[+-]\d\d:?\d\d)?)?")
_CONDITION = re.compile(r"(>=|<=|!=|=|>|<|!)?\s*(.*)", re.DOTALL)
_ORDERED = ("integer", "number", "date")


class TableQuery(NamedTuple):
    """Which rows, in which order: a text that any cell has, conditions on columns, and the column to sort by."""

    text: str = ""
    conditions: tuple[tuple[int, str], ...] = ()
    sort: tuple[int, bool] | None = None


def query_of(payload: Mapping[str, Any]) -> TableQuery:
    """Read a screen's query: `filter`, `columns` as {column: condition}, `sort` as {column, isDown}."""
    sort, columns = payload.get("sort"), payload.get("columns") or {}
    conditions = tuple((int(at), str(text)) for at, text in columns.items() if str(text).strip())
    order = None if sort is None else (int(sort["column"]), bool(sort["isDown"]))
    return TableQuery(str(payload.get("filter") or ""), conditions, order)


def formats() -> list[str]:
    """The formats that this environment can write."""
    return [name for name in FORMATS if name != "parquet" or importlib.util.find_spec("pyarrow") is not None]


class ResultTable:
    """The table of one result."""

    def __init__(self, data: Any, mask: Callable[[str], str]) -> None:
        import pandas as pd

        self._mask = mask
        self._data: Any = data if is_frame(data) else [row for row in data if isinstance(row, Mapping)]
        if is_frame(data):
            self._cells = _with_index(data if isinstance(data, pd.DataFrame) else data.to_frame())
        else:
            self._cells = frame_of(self._data, pd.DataFrame.from_records)
        self._kinds = [_kind_of(self._cells.iloc[:, at]) for at in range(self._cells.shape[1])]
        self._decimals = [_decimals(self._cells.iloc[:, at], kind) for at, kind in enumerate(self._kinds)]
        self._texts: dict[int, pd.Series] = {}
        self._last: tuple[TableQuery, Any] | None = None

    def page(self, query: TableQuery, window: slice) -> Json:
        """A window of the rows as text, each behind its number in the data, from 1."""
        positions = self._positions(query)
        part = positions[window]
        rows = self._cells.iloc[part].itertuples(index=False, name=None)
        rows_as_text = [
            [int(at) + 1, *(self._shown(cell, column) for column, cell in enumerate(row))]
            for at, row in zip(part, rows, strict=True)
        ]
        return {"columns": self.columns(), "rows": rows_as_text, "total": len(positions)}

    def columns(self) -> list[Json]:
        """The name and the kind of each column."""
        names = (values.cut(self._mask(str(name)), _CELL) for name in self._cells.columns)
        return [{"name": name, "kind": kind} for name, kind in zip(names, self._kinds, strict=True)]

    def summary(self, query: TableQuery, column: int) -> Json:
        """What is in one column of the found rows."""
        self._require_column(column)
        cells = self._cells.iloc[self._positions(query), column]
        kind = self._kinds[column]
        present = cells.dropna()
        keys = present.map(values.to_text) if kind in ("nested", "text") and not _is_plain(present) else present
        about: Json = {"kind": kind, "missing": len(cells) - len(present), "distinct": int(keys.nunique())}
        if kind in _ORDERED and len(present):
            about |= {"min": self._shown(present.min(), column), "max": self._shown(present.max(), column)}
            about["bars"] = _histogram(present, kind)
        elif len(present):
            counts = keys.value_counts().head(_TOP)
            about["top"] = [[self._shown(value, column), int(count)] for value, count in counts.items()]
        return about

    def copied(self, query: TableQuery, first: int, last: int, columns: Sequence[int]) -> str:
        """Rows as tab-separated text, for the clipboard; one cell is its text alone."""
        positions = self._positions(query)[max(0, first) : last + 1]
        if len(positions) > _MOST_COPIED:
            raise UsageProblem(f"At most {_MOST_COPIED:,} rows are copied at once.", hint="Download them.")
        for column in columns:
            self._require_column(column)
        part = self._cells.iloc[positions, list(columns)]
        lines = ["\t".join(self._plain(cell) for cell in row) for row in part.itertuples(index=False, name=None)]
        return self._mask("\n".join(lines))

    def found(self, query: TableQuery) -> Any:
        """The found rows of the original data, in their order: of a frame a frame, of a list a list."""
        positions = self._positions(query)
        return self._data.iloc[positions] if is_frame(self._data) else [self._data[at] for at in positions]

    def download(self, query: TableQuery, columns: Sequence[int], kind: str) -> bytes:
        """The found rows and the wanted columns as a file."""
        if kind not in formats():
            hint = "Install pyarrow for Parquet files." if kind in FORMATS else f"One of: {', '.join(formats())}."
            raise UsageProblem(f"A table cannot be saved as '{kind[:20]}' here.", hint=hint)
        for column in columns:
            self._require_column(column)
        part = self._cells.iloc[self._positions(query), list(columns)].reset_index(drop=True)
        part = part.apply(lambda column: column.map(self._masked) if column.dtype.kind == "O" else column)
        part.columns = [self._mask(str(name)) for name in part.columns]
        if kind == "csv":
            part.columns = [_no_formula(name) for name in part.columns]
            part = part.apply(lambda column: column.map(_no_formula) if column.dtype.kind == "O" else column)
            # With both signs in the line's end, a cell with either of them is quoted, and begins no line of its own.
            text = part.to_csv(index=False, lineterminator="\r\n")
            return bytes(text.encode("utf-8", "backslashreplace"))
        part.columns = unique(part.columns)
        if kind == "json":
            rows = part.astype(object).where(part.notna(), None).to_dict("records")
            return values.to_text(values.to_json(rows)).encode("utf-8")
        return _parquet(part)

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
            keep &= self._matches(column, condition.strip())
        positions = np.flatnonzero(keep)
        if query.sort is not None:
            self._require_column(query.sort[0])
            positions = positions[_order(self._cells.iloc[positions, query.sort[0]], is_down=query.sort[1])]
        return positions

    def _matches(self, column: int, condition: str) -> Any:
        """Which rows meet a condition: `> 5`, `2..8`, `2024-03`, `= exactly`, `!not this`, or a part of the text."""
        kind, cells = self._kinds[column], self._cells.iloc[:, column]
        low, _, high = (part.strip() for part in condition.partition(".."))
        if low and high and kind in _ORDERED:
            return self._compared(column, ">=", low) & self._compared(column, "<=", high)
        parts = _CONDITION.fullmatch(condition)
        sign, operand = (parts[1] or "", parts[2]) if parts else ("", condition)
        if sign in ("=", "!=") and not operand:
            return (cells.isna() if sign == "=" else cells.notna()).to_numpy()
        if sign in (">", ">=", "<", "<=") or (sign in ("=", "!=") and kind in _ORDERED):
            if kind not in _ORDERED:
                raise UsageProblem(f"'{sign}' works on numbers and dates.", hint="For text: a part of it, =all of it.")
            return self._compared(column, sign, operand)
        text, operand = self._text(column), operand.casefold()
        if sign in ("=", "!="):
            return (text == operand).to_numpy() != (sign == "!=")
        return text.str.contains(operand, regex=False).to_numpy() != (sign == "!")

    def _compared(self, column: int, sign: str, text: str) -> Any:
        if self._kinds[column] == "date":  # a part of a date compares with the same part of the cell
            operand: Any = text.replace("T", " ")
            cells = self._text(column).str.slice(0, len(operand))
            is_there = self._cells.iloc[:, column].notna()
        else:
            try:
                operand = float(text.replace(",", "").replace("_", ""))
            except ValueError:
                raise UsageProblem(f"'{text[:40]}' is not a number.", hint="For example: > 5, 2..8") from None
            cells = _numbers(self._cells.iloc[:, column])
            is_there = cells.notna()
        compare = {"=": "eq", "!=": "ne", ">": "gt", ">=": "ge", "<": "lt", "<=": "le"}[sign]
        return (getattr(cells, compare)(operand) & is_there).to_numpy(dtype=bool)

    def _text(self, column: int) -> pd.Series:
        """The cells of a column as they are searched: as shown, in small letters."""
        if column not in self._texts:
            cells = self._cells.iloc[:, column]
            kind = self._kinds[column]
            if kind in ("date", "nested", "number"):
                texts = cells.map(lambda cell: shown_cell(cell, self._decimals[column]))
            else:
                texts = cells.astype(str).where(cells.notna(), "")
            self._texts[column] = texts.astype(object).map(str.casefold).reset_index(drop=True)
        return self._texts[column]

    def _shown(self, cell: object, column: int) -> str:
        return values.cut(self._mask(shown_cell(cell, self._decimals[column])), _CELL)

    def _plain(self, cell: object) -> str:
        return "" if is_missing(cell) else " ".join(values.to_text(cell).split("\t")).replace("\n", " ")

    def _masked(self, cell: object) -> Any:
        return values.map_text(values.to_json(cell), self._mask) if isinstance(cell, (str, Mapping, list)) else cell

    def _require_column(self, column: int) -> None:
        if not 0 <= column < self._cells.shape[1]:
            raise UsageProblem("There is no such column.")


def column_kind(cells: Sequence[Any]) -> str:
    """The kind of a column from its plain values: integer, number, boolean, date, text or nested."""
    kinds = {_cell_kind(cell) for cell in cells if not is_missing(cell)}
    if len(kinds) == 1:
        return kinds.pop()
    return "number" if kinds == {"integer", "number"} else "nested" if "nested" in kinds else "text"


def shown_cell(cell: object, decimals: int | None = None) -> str:
    """A cell as it is shown: dates short, the decimals of a column alike, everything in one line."""
    if is_missing(cell):
        return ""
    if isinstance(cell, float) and decimals is not None:
        return f"{cell:.{decimals}f}"
    if hasattr(cell, "isoformat"):
        return _short_date(cell.isoformat())
    if isinstance(cell, str) and _ISO.fullmatch(cell):
        return _short_date(cell)
    return " ".join(values.to_text(cell).splitlines())


def _short_date(text: str) -> str:
    """`2024-01-01` for midnight, `2024-01-01 12:30:05` else."""
    day, _, time = text.replace("T", " ").partition(" ")
    return day if time in ("", "00:00:00", "00:00:00Z", "00:00:00+00:00") else f"{day} {time}"


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


def _decimals(cells: pd.Series, kind: str) -> int | None:
    """How many decimals the numbers of a column show; None to show each as it is."""
    if kind == "integer":
        return 0
    if kind != "number":
        return None
    texts = [repr(float(cell)) for cell in cells.dropna().head(_SAMPLE) if isinstance(cell, (int, float))]
    if not texts or any("e" in text or "n" in text for text in texts):
        return None
    return min(_MOST_DECIMALS, max(len(text.partition(".")[2]) for text in texts))


def _with_index(frame: pd.DataFrame) -> pd.DataFrame:
    """The frame with its index as columns, where the index says more than the row's number."""
    import pandas as pd

    if isinstance(frame.index, pd.RangeIndex):
        return frame
    if frame.index.names == [None] and frame.index.dtype.kind in "iu":
        return frame.reset_index(drop=True)
    return frame.reset_index(allow_duplicates=True)


def _order(cells: pd.Series, *, is_down: bool) -> Any:
    """The order of the cells, equal ones as they were; cells that do not compare are ordered as text."""
    plain = cells.reset_index(drop=True)
    try:
        return plain.sort_values(ascending=not is_down, kind="stable").index.to_numpy()
    except (TypeError, ValueError):  # of different types, or arrays
        texts = plain.map(values.to_text)
        return texts.sort_values(ascending=not is_down, kind="stable").index.to_numpy()


def _histogram(cells: pd.Series, kind: str) -> list[int]:
    import numpy as np
    import pandas as pd

    if kind == "date":
        plain = pd.to_datetime(cells, errors="coerce", utc=True, format="ISO8601").dropna().astype("int64").to_numpy()
    else:
        plain = _numbers(cells).dropna().to_numpy(dtype=float)
    plain = plain[np.isfinite(plain)]
    try:
        with np.errstate(all="ignore"):
            return [int(count) for count in np.histogram(plain, bins=_BARS)[0]] if len(plain) else []
    except ValueError:  # a range that floats cannot divide
        return []


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


def _no_formula(cell: object) -> Any:
    """Text that a spreadsheet would run as a formula, with a `'` before it; any other cell as it is."""
    return f"'{cell}" if isinstance(cell, str) and cell.startswith(("=", "+", "-", "@", "\t", "\r", "\n")) else cell


def _parquet(part: pd.DataFrame) -> bytes:
    """The table as Parquet; a column of mixed values becomes text."""
    for _ in range(2):
        file = io.BytesIO()
        try:
            part.to_parquet(file, index=False)
        except Exception:  # noqa: BLE001 - pyarrow raises many kinds for values that share no type
            mixed = [name for name in part.columns if part[name].dtype.kind == "O"]
            part = part.assign(**{name: part[name].map(values.to_text, na_action="ignore") for name in mixed})
        else:
            return file.getvalue()
    raise UsageProblem("This table cannot be saved as Parquet.", hint="Save it as CSV or JSON.")


def unique(names: Sequence[str]) -> list[str]:
    """The names of columns, a second of the same name with a number: JSON and Parquet have each once."""
    names_so_far: dict[str, None] = {}
    for name in names:
        free, number = name, 2
        while free in names_so_far:
            free, number = f"{name}_{number}", number + 1
        names_so_far[free] = None
    return list(names_so_far)
