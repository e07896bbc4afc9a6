"""ToolResult and Failure: what a call gave. Both are frozen. `to_frame` makes a pandas DataFrame of
any result.

A tool's failure is data in `ToolResult.error`; no exception crosses the executor. `failure_of`
makes that data, without secrets, of whatever the tool raised. `to_frame` finds the list of records,
flattens it and parses dates; `frame.attrs["onetool"]` says what it chose. pandas is imported when
it is needed.
"""

from __future__ import annotations

import json
import re
import types
from collections import deque
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import chain, islice
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from onetool_ipy.base import errors, tables, values
from onetool_ipy.base.errors import CallFailure, Code, ToolCallError, UsageProblem
from onetool_ipy.base.printable import printable, printable_line
from onetool_ipy.base.records import once
from onetool_ipy.base.tables import is_dataframe, is_foreign, is_frame, is_sparse
from onetool_ipy.base.values import Json
from onetool_ipy.core import current

if TYPE_CHECKING:
    import pandas as pd  # type: ignore[import-untyped]  # it ships no stubs

_TIME = r"([01][0-9]|2[0-3]):[0-5][0-9]"
_DATE = re.compile(
    rf"(?!0000)[0-9]{{4}}-[0-9]{{2}}-[0-9]{{2}}"
    r"([T"
    rf" ]{_TIME}(:[0-5][0-9](\.[0-9]{{1,9}})?)?"
    rf"(?P<zone>Z|[+-]{_TIME}|[+-]{_TIME.replace(':', '')})?)?"
)
"""A date, or a date with a time and perhaps a zone, in digits of ASCII; pandas keeps nine digits of
a second."""
_STEP = re.compile(r"([^.\[\]]+)|\[(\d+)\]")
_MAX_LOOKED = 10_000
_MAX_WHOLE = 2**53
"""From here on a float is no longer one whole number, but some of them."""
_CELLS = frozenset((str, int, float, bool, type(None)))
_OURS = tuple(
    f"onetool_ipy.{room}" for room in ("base.", "core.", "schema.", "sources.", "mcp.", "toolbox")
)
_PLUMBING = ("concurrent.futures", "asyncio", "threading", "contextvars")

Mask = Callable[[str], str]


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Failure:
    """Why a call failed. Its fields are attributes and keys; `exception` is the tool's own
    exception. The words are fit for any file and protocol, also where they name a file with a name
    that is not UTF-8."""

    code: Code
    message: str
    tool: str
    reason: str | None = None
    details: Any = None
    hint: str = ""
    status: int = 502
    exception: BaseException | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "message", values.encodable(self.message))
        object.__setattr__(self, "hint", values.encodable(self.hint))

    @classmethod
    def of(cls, exc: CallFailure, tool: str) -> Failure:
        return cls(exc.code, exc.message, tool, exc.reason, exc.details, exc.hint, exc.status, exc)

    def to_dict(self) -> Json:
        """`code`, `message`, `tool`, and `reason` and `details` where there are some; fit for
        JSON."""
        out: Json = {"code": self.code, "message": self.message, "tool": self.tool}
        if self.reason is not None:
            out["reason"] = self.reason
        if self.details is not None:
            out["details"] = self.details
        written: Json = values.to_json(out)
        return written

    def keys(self) -> list[str]:
        return list(self.to_dict())

    def __getitem__(self, key: str) -> Any:
        if key in ("reason", "details"):
            return self.to_dict().get(key)
        return self.to_dict()[key]

    def __contains__(self, key: object) -> bool:
        return key in self.to_dict()

    def __iter__(self) -> Iterator[str]:
        return iter(self.to_dict())

    def get(self, key: str, default: object = None) -> Any:
        return self.to_dict().get(key, default)

    def __str__(self) -> str:
        return printable(f"{self.code}: {self.message}")

    def __repr__(self) -> str:
        return printable(
            f"Failure({self.code}{f'/{self.reason}' if self.reason else ''}: {self.message})"
        )


class CallSite(NamedTuple):
    """Where a call was made: `box` returns the toolbox while it exists, `mask` hides the secrets
    that it knows."""

    box: Callable[[], Any]
    mask: Callable[[str], str]


# Lineage holds weak references to results, so the class has no slots.
@dataclass(frozen=True, eq=False, repr=False)
class ToolResult:
    """What a call gave: the tool's own object in `data`, or a Failure in `error`; `meta` says how
    it went.

    Handy in a cell: indexing, `len`, iteration and `in` act on the data; truth is `ok`. Its `repr`
    and `str` show no secret; `data` is as the tool gave it.
    """

    ok: bool
    data: Any = None
    error: Failure | None = None
    meta: Json = field(default_factory=dict)
    _site: CallSite | None = field(default=None, init=False)
    """Where the call was made; a copy sent elsewhere has none."""

    def __init__(
        self,
        ok: bool,
        data: Any = None,
        error: Failure | None = None,
        meta: Json | None = None,
        site: CallSite | None = None,
    ) -> None:
        # Every call makes a result, and the __init__ of a frozen dataclass takes twice as long.
        fields = self.__dict__
        fields["ok"] = ok
        fields["data"] = data
        fields["error"] = error
        fields["meta"] = {} if meta is None else meta
        fields["_site"] = site

    def unwrap(self) -> Any:
        """Return the data, or raise ToolCallError."""
        if self.error is None:
            return self.data
        raise ToolCallError(self)

    @property
    def text(self) -> str:
        """The data as text: text as it is, anything else as JSON."""
        return values.to_text(self.portable)

    @property
    def handle(self) -> str | None:
        """The handle under which the result is stored, where it is."""
        handle = self.meta.get("handle")
        return handle if isinstance(handle, str) else None

    @property
    def links(self) -> list[Any]:
        """The links to resources in the result; `.read()` follows one."""
        parts = self.data if isinstance(self.data, list) else [self.data]
        return [
            part for part in parts if callable(getattr(part, "read", None)) and hasattr(part, "uri")
        ]

    @property
    def df(self) -> pd.DataFrame:
        """The rows of the result as a pandas DataFrame; see `to_df`."""
        return self.to_df()

    def to_df(self, path: str | None = None) -> pd.DataFrame:
        """The list of records in the result, found or at `path`, flattened, with dates parsed.

        What was chosen is in `frame.attrs["onetool"]`.
        """
        data = self.unwrap()
        # A shallow copy: pandas copies a column when somebody writes into it.
        frame = (
            _frame_copy(self._frame) if path is None and is_foreign(data) else to_frame(data, path)
        )
        # A frame that the tool itself gave stays as it is; it is known by its identity.
        if "call_id" in self.meta and frame is not self.data:
            frame.attrs["onetool"] = {
                **frame.attrs.get("onetool", {}),
                "call_id": self.meta["call_id"],
            }
        return frame

    @property
    def portable(self) -> Any:
        """The data as it is shown, stored and sent: a table of another library as one of pandas.

        It is read once, when it is first needed: reading may run a query, or use a stream up. Any
        other data is itself.
        """
        if not is_foreign(self.data):
            return self.data
        try:
            return tables.flat(self._frame)
        except UsageProblem:
            return self.data

    @once
    def _frame(self) -> Any:
        """The table of another library that the tool gave, read by pandas. Raises UsageProblem."""
        return _read(self.data)

    def store(self) -> str:
        """Write the result now, so that every process of the project finds it by its handle."""
        stores = self._stores()
        if self.handle is None:
            self.unwrap()
            tool, call_id = str(self.meta.get("tool", "")), str(self.meta.get("call_id", ""))
            self.meta["handle"] = stores.put(self.portable, tool=tool, call_id=call_id)
            return str(self.meta["handle"])
        return str(stores.store(self.handle))

    def lines(self, offset: int = 1, limit: int = 100) -> LinePage:
        """Return lines of the stored result, with the keys of `ot.result`. Stores the result first
        if needed."""
        return LinePage(self, offset=offset, limit=limit)

    def search(
        self, pattern: str, fuzzy: bool = False, *, offset: int = 1, limit: int = 100
    ) -> LinePage:
        """Lines or rows of the result that match a regular expression (RE2), or are like it; `.df`
        has all of them."""
        return LinePage(self, offset=offset, limit=limit, search=pattern, fuzzy=fuzzy)

    def view(self) -> Any:
        """Open the result viewer: lines, table, tree, image; paged, searched and sorted over all of
        it."""
        return current.require().ot.view(self)

    @property
    def origin(self) -> Any:
        """Where the result came from: its call, the results in its arguments, the calls it made; as
        a tree."""
        box = None if self._site is None else self._site.box()
        return (current.require() if box is None else box).ot.origin(self)

    def to_dict(self) -> Json:
        """The four keys, always, and always fit for JSON."""
        return {
            "ok": self.ok,
            "data": values.to_json(self.portable),
            "error": None if self.error is None else self.error.to_dict(),
            "meta": values.to_json(self.meta),
        }

    def as_invoke(self) -> Json:
        """The shape of spec 002: exactly `{ok: true, value}` or `{ok: false, error}`."""
        if self.error is None:
            return {"ok": True, "value": values.to_json(self.portable)}
        return {"ok": False, "error": self.error.to_dict()}

    def _stores(self) -> Any:
        """The stored results of the toolbox that made the call, else of the current one."""
        box = None if self._site is None else self._site.box()
        return (current.require() if box is None else box).results

    def __getstate__(self) -> Json:
        return {
            name: value for name, value in self.__dict__.items() if name not in ("_site", "_frame")
        }

    def __bool__(self) -> bool:
        return self.ok

    def __getitem__(self, key: object) -> Any:
        data = self.unwrap()
        try:
            return data[key]
        except (LookupError, TypeError) as exc:
            if isinstance(data, dict):
                # The names are foreign text, and a traceback shows them as they are.
                keys = [k if type(k) is str else values.safe_repr(k) for k in islice(data, 20)]
                keys += ["..."] if len(data) > len(keys) else []
                names = values.cut(printable_line(self._mask()(", ".join(keys))), 200)
                exc.add_note(f"The result has: {names}.")
            elif isinstance(data, list):
                exc.add_note(f"The result is a list of {len(data)}: [0] is the first; .df a table.")
            raise

    def __len__(self) -> int:
        return len(self.unwrap())

    def __iter__(self) -> Iterator[Any]:
        return iter(self.unwrap())

    def __contains__(self, item: object) -> bool:
        return item in self.unwrap()

    def __repr__(self) -> str:
        outcome = (
            f"error={self.error!r}"
            if self.error is not None
            else f"data={values.safe_repr(self.data)}"
        )
        return printable(self._mask()(f"ToolResult(ok={self.ok}, {outcome}, meta={self.meta!r})"))

    def _mask(self) -> Callable[[str], str]:
        """Hide the secrets of the toolbox that made the call, else of the current one."""
        if self._site is not None:
            return self._site.mask
        box = current.toolbox()
        return str if box is None else cast("Callable[[str], str]", box.mask)


class LinePage(dict[str, Any]):
    """Some lines of a stored result, under the keys of `ot.result`. A notebook shows rows of data
    as a table.

    `.df` is a DataFrame of all rows or lines that were asked for, whatever the limit.
    """

    def __init__(self, result: ToolResult, *, offset: int, limit: int, **filters: object) -> None:
        self._result = result
        self._filters = filters
        super().__init__(
            result._stores().query(result.store(), offset=offset, limit=limit, **filters)
        )

    @property
    def is_of_rows(self) -> bool:
        """Whether the result is a table or a list, one line for each row."""
        return not isinstance(self._result.data, (str, dict))

    @property
    def df(self) -> pd.DataFrame:
        """All rows that match, with the columns and the index of the result's own table; of a text,
        its lines."""
        numbers, lines = self._all()
        frame = self._result.df
        if len(frame) == self["total_lines"] and self.is_of_rows:
            return frame.iloc[[number - 1 for number in numbers]]
        return type(frame)({"line": lines}, index=numbers)

    def _all(self) -> tuple[list[int], list[str]]:
        """The numbers and texts of all lines asked for."""
        if "matched" not in self:
            first = self["offset"]
            return list(range(first, first + self["returned"])), self["lines"]
        numbers: list[int] = []
        lines: list[str] = []
        while len(numbers) < self["matched"]:
            left = self["matched"] - len(numbers)
            page = LinePage(self._result, offset=len(numbers) + 1, limit=left, **self._filters)
            if not page["lines"]:
                break
            numbers += page["line_numbers"]
            lines += page["lines"]
        return numbers, lines


def failure_of(exc: BaseException, tool: str, mask: Mask) -> Failure:
    """Return the failure of a call that raised `exc`. A failed call inside the tool passes its
    reason on."""
    for link in errors.chain(exc):
        attributes: list[tuple[str, object]] = [("args", link.args), *vars(link).items()]
        if isinstance(link, OSError):
            attributes += [
                (name, getattr(link, name)) for name in ("filename", "filename2", "strerror")
            ]
        for name, value in attributes:
            try:
                changed = values.map_text(value, mask)
                if changed is not value:
                    setattr(link, name, changed)
            except Exception:  # noqa: BLE001 - an exception class may forbid it; what is shown is masked again
                continue
    if isinstance(exc, CallFailure):
        return Failure.of(exc, tool)
    if isinstance(exc, ToolCallError):
        inner = exc.error
        reason = inner.reason if inner.code == "execution_error" else None
        text = inner.message if inner.tool in (tool, "") else f"in '{inner.tool}': {inner.message}"
        return Failure(
            "execution_error", text, tool, reason, inner.details, inner.hint, inner.status, exc
        )
    try:
        text = str(exc)
    except Exception:  # noqa: BLE001 - a foreign __str__ may raise anything
        text = ""
    name = type(exc).__name__
    return Failure(
        "execution_error", mask(f"{name}: {text}" if text else name), tool, exception=exc
    )


def own_frames(exc: BaseException) -> types.TracebackType | None:
    """Return the traceback of a tool's exception from the tool's first frame on, without our frames
    above it."""
    frame = exc.__traceback__
    while frame is not None and str(frame.tb_frame.f_globals.get("__name__", "")).startswith(
        (*_OURS, *_PLUMBING)
    ):
        frame = frame.tb_next
    return frame or exc.__traceback__


def to_frame(data: Any, path: str | None = None) -> pd.DataFrame:
    """The rows of a result; `path` (such as `data.items` or `pages[0].rows`) says where they
    are."""
    import pandas as pd

    if path is None:
        data = _read(data) if is_foreign(data) else tables.tabular(data)
    if is_frame(data) and (path is None or not is_dataframe(data)):
        return data if is_dataframe(data) else data.to_frame()
    # Text that is JSON is what it says; other text has lines.
    plain: Any = data
    is_flat = False
    if isinstance(data, str):
        with suppress(ValueError, RecursionError):
            plain = json.loads(data)
    elif not (is_flat := _is_flat(data)):
        plain = values.to_json(data)
    chosen, records = _find(plain) if path is None else (path, _follow(plain, path))
    if is_flat and records is data:
        frame = frame_of(records, pd.DataFrame)
    else:
        frame = frame_of(_rows(records), lambda rows: pd.json_normalize(rows, sep="."), _paths)
    dates = []
    for name in frame.columns:
        column = _to_dates(frame[name])
        if column is not None:
            frame[name] = column
            dates.append(name)
    frame.attrs["onetool"] = {
        "path": chosen or "(the result itself)",
        "rows": len(frame),
        "dates": dates,
    }
    return frame


def _to_dates(column: pd.Series) -> pd.Series | None:
    """Return a column of texts as dates or times; None unless every cell that is not missing is a
    whole valid one.

    All of them have a zone, and become UTC, or none has: a time without one is not known to be UTC.
    A time that pandas cannot hold exactly stays text, and the whole column with it.
    """
    import pandas as pd

    zones: set[bool] = set()
    for cell in _texts(column):
        match = _DATE.fullmatch(cell) if isinstance(cell, str) else None
        if match is None:
            return None
        zones.add(match["zone"] is not None)
    if len(zones) != 1:
        return None
    try:
        dates = pd.to_datetime(column, format="ISO8601", utc=zones.pop())
    except (ValueError, OverflowError):  # such as 30 February
        return None
    # In UTC the first and the last day of the calendar may be outside of it.
    return dates if dates.dt.year.min() >= 1 and dates.dt.year.max() <= 9999 else None


def frame_of(
    rows: list[Any],
    make: Callable[[list[Any]], pd.DataFrame],
    columns: Callable[[Any], Collection[str]] | None = None,
) -> pd.DataFrame:
    """Make a frame of rows. `columns` gives the columns of one of them, if these are not its keys.

    Raises UsageProblem if nearly all of a large frame would be empty. Half a character, which
    pandas cannot store, is written out. Whole numbers that no float can hold stay exact beside a
    missing one.
    """
    if is_sparse(rows if columns is None else map(columns, rows)):
        raise UsageProblem(
            f"The {len(rows):,} rows have too many different keys for a table: nearly all of it"
            " would be empty.",
            hint="Use .data, or .to_df('path') for a part of it.",
        )
    try:
        frame = make(rows)
    except UnicodeEncodeError:
        rows = values.map_text(rows, values.encodable)
        frame = make(rows)
    # pandas makes floats of whole numbers beside a missing one. Few tables have numbers so large.
    is_exact = all(
        frame.dtypes.iloc[place].kind != "f" or not (frame.iloc[:, place].abs() >= _MAX_WHOLE).any()
        for place in range(frame.shape[1])
    )
    if is_exact or not frame.columns.is_unique or set(map(type, rows)) != {dict}:
        return frame
    return _with_whole_numbers(frame, make([_hidden(row) for row in rows]))


class _Whole:
    """A large whole number, which pandas does not know as one."""

    __slots__ = ("number",)

    def __init__(self, number: int) -> None:
        self.number = number


def _hidden(cell: Any) -> Any:
    """Return a record with each large whole number in it as an object."""
    if type(cell) is dict:
        return {key: _hidden(inner) for key, inner in cell.items()}
    return _Whole(cell) if type(cell) is int and abs(cell) >= _MAX_WHOLE else cell


def _with_whole_numbers(frame: pd.DataFrame, hidden: pd.DataFrame) -> pd.DataFrame:
    """Return a frame with the columns in which only whole numbers stand exactly so."""
    import pandas as pd

    for name in frame.columns[frame.dtypes == "float64"]:
        cells = [cell.number if type(cell) is _Whole else cell for cell in hidden[name]]
        numbers = [None if tables.is_missing(cell) else cell for cell in cells]
        if set(map(type, numbers)) not in ({int}, {int, type(None)}):
            continue
        try:
            exact = pd.array(numbers, dtype="Int64")
        except OverflowError:
            exact = pd.array(numbers, dtype=object)
        frame[name] = pd.Series(exact, index=frame.index)
    return frame


def _read(data: object) -> Any:
    try:
        return tables.read(data)
    except tables.NotATable as exc:
        raise UsageProblem(str(exc), hint=exc.hint) from exc


def _frame_copy(frame: Any) -> pd.DataFrame:
    """Return a frame that its owner may change."""
    return frame.copy(deep=False) if is_dataframe(frame) else frame.to_frame()


def _is_flat(data: object) -> bool:
    """Whether this is a list of records of texts and numbers, which pandas can read as they are."""
    if type(data) is not list or not data or set(map(type, data)) != {dict}:
        return False
    keys, cells = chain.from_iterable(data), chain.from_iterable(map(dict.values, data))
    return {str}.issuperset(map(type, keys)) and _CELLS.issuperset(map(type, cells))


def _texts(column: pd.Series) -> list[Any]:
    """Return the cells of a column if they may be dates; the first one tells of most columns."""
    if column.dtype.kind != "O":
        return []
    cells: list[Any] = column.dropna().tolist()
    return cells if cells and isinstance(cells[0], str) and _DATE.fullmatch(cells[0]) else []


def _paths(row: Json) -> Collection[str]:
    """The columns of a record whose inner records are flattened."""
    if dict not in map(type, row.values()):
        return row
    paths: list[str] = []
    waiting = [("", row)]
    while waiting:
        start, record = waiting.pop()
        for key, value in record.items():
            if isinstance(value, dict) and value:
                waiting.append((f"{start}{key}.", value))
            else:
                paths.append(f"{start}{key}")
    return paths


def _find(data: object) -> tuple[str, Any]:
    """The largest list of records, the shallowest first; without one, the data itself."""
    best: tuple[str, Any] | None = None
    waiting: deque[tuple[str, Any]] = deque([("", data)])
    looked = 0
    while waiting and looked < _MAX_LOOKED:
        looked += 1
        path, node = waiting.popleft()
        if isinstance(node, list) and node and all(isinstance(row, dict) for row in node[:20]):
            if best is None or len(node) > len(best[1]):
                best = (path, node)
        elif isinstance(node, dict):
            waiting.extend((f"{path}.{key}".lstrip("."), value) for key, value in node.items())
    return best if best is not None else ("", data)


def _follow(data: Any, path: str) -> Any:
    node, done = data, ""
    for match in _STEP.finditer(path.removeprefix("$").lstrip(".")):
        key: Any = match[1] if match[1] is not None else int(match[2])
        if match[1] == "data" and not done and not (isinstance(node, Mapping) and "data" in node):
            # In `data.items` the first word names the result's data itself.
            continue
        try:
            node = node[key]
        except (KeyError, IndexError, TypeError):
            keys = (
                ", ".join(map(str, node))
                if isinstance(node, Mapping)
                else f"a {type(node).__name__}"
            )
            raise UsageProblem(
                f"No '{key}' at '{done or 'the result'}'.", hint=f"There are: {keys[:200]}"
            ) from None
        done = f"{done}.{key}".lstrip(".")
    return node


def _rows(records: object) -> list[Any]:
    if isinstance(records, str):
        return [{"line": line.removesuffix("\r")} for line in records.split("\n")]
    if isinstance(records, dict):
        return [records]
    if isinstance(records, list):
        return [row if isinstance(row, dict) else {"value": row} for row in records]
    return [{"value": records}]
