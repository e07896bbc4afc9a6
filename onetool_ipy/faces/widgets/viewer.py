"""The result viewer's data: lines, table, tree and images of a result. Only the requested window is
sent, masked.

A new result is read from its object; a stored one, known only by its handle, through the result
store. The table itself is in `table`; `pandas_code` is the shown part of one as code, which gives
the same rows as the screen does.
"""

from __future__ import annotations

import base64
import json
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any

from onetool_ipy.base import values
from onetool_ipy.base.errors import OneToolError, UsageProblem
from onetool_ipy.base.tables import (
    as_code,
    is_dataframe,
    is_foreign,
    is_frame,
    is_missing,
    is_sparse,
    tabular,
)
from onetool_ipy.base.values import Json
from onetool_ipy.core.result import Failure, ToolResult
from onetool_ipy.faces.notebook.display import decoded, store_result
from onetool_ipy.faces.widgets import text_in
from onetool_ipy.faces.widgets.table import (
    FORMATS,
    ORDERED,
    ResultTable,
    TableQuery,
    column_kind,
    number_of,
    parse_condition,
    query_of,
    shown_cell,
)
from onetool_ipy.render.media import type_of
from onetool_ipy.stores.result_lines import pieces
from onetool_ipy.toolbox import Toolbox

_KEPT = 24
_SMALL_LINES = 400
_SMALL_CHARS = 100_000
_CELL = 300
_LEAF = 160
_MOST_HITS = 2_000
_PAGE = 1_000
_PART = 3 * 2**20
_MOST_DOWNLOADED = 100 * 10**6
_MOST_PARTS = 50
_MOST_TEXT = 10_000
_SHOWN = frozenset(
    {"image/png", "image/jpeg", "image/gif", "image/webp", "image/svg+xml", "image/bmp"}
)


class _Item:
    """One result: how to read its data, its lines if they are few, its table and its download.

    `own` is the object that the tool gave, while the result is there.
    """

    def __init__(
        self, read: Callable[[], Any], *, tool: str, handle: str | None, own: Any = None
    ) -> None:
        self.read = read
        self.own = own
        self.tool = tool
        self.handle = handle
        self.lines: list[str] | None = None
        self.table: ResultTable | None = None
        self.download = b""


class ResultViewer:
    """The results that one screen has opened, the last used last."""

    def __init__(self, box: Toolbox) -> None:
        self._box = box
        self._items: OrderedDict[str, _Item] = OrderedDict()

    def show(self, result: ToolResult) -> Json:
        """Describe a result: the ways to view it, and its first lines."""
        meta = result.meta
        call, tool = str(meta.get("call_id") or f"at-{id(result):x}"), str(meta.get("tool", ""))
        about: Json = {
            "ok": result.ok,
            "tool": tool,
            "call": call,
            "ms": meta.get("duration_ms", 0.0),
        }
        if result.error is not None:
            failure = {**result.error.to_dict(), "title": _title(result.error)}
            failure["hint"] = result.error.hint
            return {**about, "error": values.map_text(failure, self._box.mask)}
        data = result.portable
        item = _Item(lambda: data, tool=tool, handle=result.handle, own=result.data)
        self._remember(call, item)
        item.lines = self._small(data)
        if item.lines is None:
            try:
                item.handle = store_result(self._box, result)
            except OneToolError as exc:
                return {
                    **about,
                    "ok": False,
                    "error": {"code": "execution_error", "message": exc.message},
                }
        kinds = []
        if any(_picture(part) is not None for part in _parts(result.data)):
            kinds.append("image")
        table = tabular(data)
        is_rows = (
            isinstance(table, (list, tuple))
            and table
            and all(isinstance(row, Mapping) for row in table[:50])
        )
        if is_frame(table) or (
            is_rows and not is_sparse(row for row in table if isinstance(row, Mapping))
        ):
            kinds += ["table", "summary"]
        if isinstance(data, (Mapping, list, tuple)) and len(data):
            kinds.append("tree")
        about |= {"handle": item.handle, "kinds": [*kinds, "text"], **self._size(item)}
        if "table" in about["kinds"]:
            about |= {"rows": len(table), "formats": [*FORMATS]}
        return about

    def add(self, table: Any, tool: str) -> Json:
        """Add a table that no call gave, and describe it."""
        call = f"at-{id(table):x}"
        self._remember(call, _Item(lambda: table, tool=tool, handle=None))
        return {
            "ok": True,
            "tool": tool,
            "call": call,
            "rows": len(table),
            "kinds": ["table"],
            "formats": [*FORMATS],
        }

    def open(self, handle: str) -> Json:
        """Describe a stored result."""
        item = self._item({"handle": handle})
        page = self._box.results.query(handle, limit=_SMALL_LINES // 2)
        first = page["lines"][0] if page["lines"] else ""
        is_table = False
        with suppress(ValueError):
            is_table = first.startswith("{") and isinstance(json.loads(first), dict)
        is_table = is_table or (bool(first) and self._box.results.form(handle) == "tuples")
        description = self._box.results.describe(handle)
        about = {
            "ok": True,
            "tool": description["tool"],
            "handle": handle,
            "lines": page["total_lines"],
            "bytes": description["bytes"],
            "preview": page["lines"],
            "kinds": ["table", "summary", "text"] if is_table else ["text"],
        }
        if is_table:
            about |= {"rows": page["total_lines"], "formats": [*FORMATS]}
        item.tool = description["tool"]
        return about

    def page(self, payload: Json) -> Json:
        """A page of lines; `offset` starts at 1."""
        item = self._item(payload)
        offset, limit = max(1, int(payload["offset"])), max(1, min(int(payload["limit"]), _PAGE))
        if item.lines is not None:
            return {"lines": item.lines[offset - 1 : offset - 1 + limit], "total": len(item.lines)}
        page = self._box.results.query(self._stored(item), offset=offset, limit=limit)
        return {"lines": page["lines"], "total": page["total_lines"]}

    def find(self, payload: Json) -> Json:
        """The numbers of the first matching lines, and how many match."""
        item, pattern, is_fuzzy = (
            self._item(payload),
            text_in(payload, "pattern"),
            bool(payload.get("isFuzzy")),
        )
        if item.handle is None and item.lines is not None:
            item.handle = self._box.results.put("\n".join(item.lines), tool=item.tool)
        matches = self._box.results.query(
            self._stored(item), search=pattern, fuzzy=is_fuzzy, limit=_MOST_HITS
        )
        searched = matches.get("searched", matches["total_lines"])
        hits = matches["line_numbers"] if is_fuzzy else sorted(matches["line_numbers"])
        return {
            "hits": hits,
            "matched": matches["matched"],
            "isComplete": searched >= matches["total_lines"],
        }

    def table(self, payload: Json) -> Json:
        """A page of rows of the sorted and filtered table."""
        item, query, window, offset = (
            self._item(payload),
            query_of(payload),
            _window(payload),
            int(payload["offset"]),
        )
        if query == TableQuery() and item.table is None and (plain := _plain_rows(item.read())):
            columns, cells = plain
            rows = [
                [at, *(self._cell(cell) for cell in row)]
                for at, row in enumerate(cells[window], window.start)
            ]
            kinds = [column_kind([row[at] for row in cells]) for at in range(len(columns))]
            heads = [
                {"name": self._cell(name), "kind": kind}
                for name, kind in zip(columns, kinds, strict=True)
            ]
            return {"columns": heads, "rows": rows, "total": len(cells), "offset": offset}
        return {**self._table(item).page(query, window), "offset": offset}

    def value(self, payload: Json) -> Any:
        """The data itself: the tool's own object, while this screen has it."""
        item = self._item(payload)
        return item.read() if item.own is None else item.own

    def found(self, payload: Json) -> Any:
        """The data itself, or the rows of its table that a query finds."""
        query = query_of(payload)
        return (
            self.value(payload)
            if query == TableQuery()
            else self._table(self._item(payload)).found(query)
        )

    def summary(self, payload: Json) -> Json:
        """What the values of a column are."""
        return self._table(self._item(payload)).summary(query_of(payload), int(payload["column"]))

    def column_values(self, payload: Json) -> Json:
        """The values of a column to choose from."""
        table = self._table(self._item(payload))
        return table.values(
            query_of(payload), int(payload["column"]), str(payload.get("text") or "")
        )

    def copied(self, payload: Json) -> Json:
        """Some rows as text for the clipboard."""
        first, last, has_names = (
            int(payload["first"]),
            int(payload["last"]),
            bool(payload.get("hasNames")),
        )
        table = self._table(self._item(payload))
        return {
            "text": table.copied(
                query_of(payload), first, last, _columns(payload), has_names=has_names
            )
        }

    def code(self, payload: Json, namespace: Mapping[str, Any]) -> Json:
        """The rows and columns on the screen as code of pandas."""
        item = self._item(payload)
        data = item.read() if item.own is None else item.own
        named = {name: value for name, value in namespace.items() if not name.startswith("_")}
        variable = next((name for name, value in named.items() if value is data), "")
        result = next(
            (
                n
                for n, value in named.items()
                if isinstance(value, ToolResult) and value.data is data
            ),
            "",
        )
        name = variable if variable and is_dataframe(data) else "df"
        lines = ["# df is this table as a DataFrame; Save as variable gives it a name."]
        if variable:
            code = as_code(data, variable) if is_foreign(data) else f"pd.DataFrame({variable})"
            lines = [] if name == variable else ["import pandas as pd", f"df = {code}"]
        elif result:
            lines = [f"df = {result}.df"]
        lines.append(pandas_code(self._table(item), query_of(payload), _columns(payload), name))
        return {"code": self._box.mask("\n".join(lines))}

    def download(self, payload: Json) -> Json:
        """Make a file of the found rows; `part` gives it piece by piece."""
        item, kind = self._item(payload), text_in(payload, "format")
        item.download = self._table(item).download(query_of(payload), _columns(payload), kind)
        if len(item.download) > _MOST_DOWNLOADED:
            size, item.download = len(item.download), b""
            raise UsageProblem(
                f"The file has {size / 1e6:,.0f} MB; a page gets at most"
                f" {_MOST_DOWNLOADED / 1e6:,.0f} MB.",
                hint="Save it as a variable and write it from there: df.to_csv(...).",
            )
        name = f"{item.tool or 'result'}.{kind}"
        return {"name": name, "mime": FORMATS[kind], "size": len(item.download), "part": _PART}

    def part(self, payload: Json) -> Json:
        """A piece of the file that `download` made."""
        item, offset = self._item(payload), int(payload["offset"])
        piece = item.download[max(0, offset) : max(0, offset) + _PART]
        if offset + _PART >= len(item.download):
            item.download = b""
        return {"base64": base64.b64encode(piece).decode("ascii")}

    def tree(self, payload: Json) -> Json:
        """A page of the children at a path."""
        at = _followed(self._item(payload).read(), payload.get("path") or ())
        keys = _keys(at)
        part = keys[_window(payload)]
        return {"children": [self._child(key, at[key]) for key in part], "total": len(keys)}

    def image(self, payload: Json) -> Json:
        """The images of a result with the text between them, in order."""
        parts: list[Json] = []
        for part in _parts(self._item(payload).read()):
            picture = _picture(part)
            if picture is None:
                parts.append({"text": values.cut(self._box.mask(values.to_text(part)), _MOST_TEXT)})
            else:
                parts.append(
                    {"mime": picture[0], "base64": base64.b64encode(picture[1]).decode("ascii")}
                )
        if not any("mime" in part for part in parts):
            raise UsageProblem("This result has no image.")
        return {"parts": parts}

    def _remember(self, key: str, item: _Item) -> None:
        self._items[key] = item
        while len(self._items) > _KEPT:
            self._items.popitem(last=False)

    def _item(self, payload: Json) -> _Item:
        handle, call = result_id(payload)
        for key in (call, handle):
            if key and key in self._items:
                self._items.move_to_end(key)
                return self._items[key]
        if not handle:
            raise UsageProblem("That result is no longer available.", hint="Run the tool again.")
        item = _Item(lambda: self._box.results.value(handle), tool="", handle=handle)
        self._remember(handle, item)
        return item

    def _stored(self, item: _Item) -> str:
        if item.handle is None:
            raise UsageProblem("That result was not stored.", hint="Run the tool again.")
        return item.handle

    def _small(self, data: object) -> list[str] | None:
        """All lines if they are few, else None."""
        parts: list[str] = []
        size = 0
        for piece in pieces(data):
            text = piece if isinstance(piece, str) else bytes(piece).decode("utf-8", "replace")
            size += len(text)
            if size > _SMALL_CHARS:
                return None
            parts.append(text)
        lines = self._box.mask("".join(parts)).split("\n")
        if lines and lines[-1] == "":
            lines.pop()
        return lines if len(lines) <= _SMALL_LINES else None

    def _size(self, item: _Item) -> Json:
        if item.lines is not None:
            return {
                "lines": len(item.lines),
                "preview": item.lines,
                "bytes": sum(len(x.encode()) for x in item.lines),
            }
        page = self._box.results.query(self._stored(item), limit=200)
        size = self._box.results.describe(self._stored(item))["bytes"]
        return {"lines": page["total_lines"], "preview": page["lines"], "bytes": size}

    def _table(self, item: _Item) -> ResultTable:
        if item.table is None:
            item.table = ResultTable(tabular(item.read()), self._box.mask)
        return item.table

    def _cell(self, cell: object) -> str:
        return values.cut(self._box.mask(shown_cell(cell)), _CELL)

    def _child(self, key: object, value: object) -> Json:
        count = len(_keys(value))
        kind = "object" if isinstance(value, Mapping) else "list" if count else type(value).__name__
        preview = (
            f"{{{count}}}"
            if kind == "object"
            else f"[{count}]"
            if kind == "list"
            else self._leaf(value)
        )
        label = key if isinstance(key, int) else self._box.mask(str(key))
        return {"key": label, "kind": kind, "preview": preview, "count": count}

    def _leaf(self, value: object) -> str:
        text = (
            json.dumps(value, ensure_ascii=False)
            if isinstance(value, str)
            else values.to_text(value)
        )
        return values.cut(self._box.mask(text), _LEAF)


def result_id(payload: Json) -> tuple[str | None, str | None]:
    """The handle and the call by which a payload names a result."""
    handle, call = payload.get("handle"), payload.get("call")
    return handle if isinstance(handle, str) else None, call if isinstance(call, str) else None


def _title(failure: Failure) -> str:
    """Say in a few words what went wrong, for the head of a failure."""
    if failure.code == "invalid_args":
        return "The arguments do not fit"
    if failure.reason is not None:
        return failure.reason.replace("_", " ").capitalize()
    return "No such tool" if failure.code == "tool_not_found" else "The call failed"


def _columns(payload: Json) -> list[int]:
    """The visible columns of a table, by their places."""
    return [int(column) for column in payload["visible"]]


def _window(payload: Json) -> slice:
    start = max(0, int(payload["offset"]))
    return slice(start, start + max(1, min(int(payload["limit"]), _PAGE)))


def _plain_rows(data: object) -> tuple[list[str], list[list[Any]]] | None:
    """Columns and cells of a few flat records, shown without waiting for pandas; else None."""
    if not isinstance(data, list) or len(data) > _SMALL_LINES:
        return None
    # A DataFrame shows these the same way; not so a fraction, a record or a list.
    flat = (str, int, bool, type(None))
    if not all(
        isinstance(row, dict) and all(type(cell) in flat for cell in row.values()) for row in data
    ):
        return None
    columns = list(dict.fromkeys(str(key) for row in data for key in row))
    return columns, [[row.get(column) for column in columns] for row in data]


def _keys(value: object) -> list[Any]:
    if isinstance(value, Mapping):
        return list(value)
    if isinstance(value, (list, tuple)):
        return list(range(len(value)))
    return []


def _followed(value: object, path: Sequence[Any]) -> Any:
    for part in path:
        if isinstance(value, Mapping):
            keys = {str(key): key for key in value}
            if str(part) not in keys:
                raise UsageProblem(f"There is nothing at '{part}'.")
            value = value[keys[str(part)]]
        elif isinstance(value, (list, tuple)) and isinstance(part, int) and 0 <= part < len(value):
            value = value[part]
        else:
            raise UsageProblem(f"There is nothing at '{part}'.")
    return value


def _parts(data: object) -> Sequence[Any]:
    """The parts of a result that may be images: the result itself, or a short list of parts."""
    return data if isinstance(data, (list, tuple)) and len(data) <= _MOST_PARTS else (data,)


def _picture(data: object) -> tuple[str, bytes] | None:
    """The type and bytes of an image that browsers can show."""
    if isinstance(data, (bytes, bytearray)):
        kind = type_of(bytes(data[:12]))
        return (kind, bytes(data)) if kind in _SHOWN else None
    mime, raw = getattr(data, "mime", None), getattr(data, "data", None)
    # The body of an HTTP response.
    if isinstance(data, dict) and data.keys() == {"mime", "base64", "size"}:
        mime, raw = data["mime"], decoded(data["base64"])
    if isinstance(mime, str) and mime in _SHOWN and isinstance(raw, bytes) and raw:
        return mime, raw
    return None


def pandas_code(table: ResultTable, query: TableQuery, columns: Sequence[int], name: str) -> str:
    """Write the code that makes the shown table from the DataFrame `name`."""
    names = table.names()

    def column(at: int) -> str:
        return f"{name}[{names[at]!r}]" if names.count(names[at]) == 1 else f"{name}.iloc[:, {at}]"

    lines = [f"{name} = {name}.reset_index()"] if table.has_index_columns else []
    conditions = [
        _condition_code(column(at), table.kinds[at], text) for at, text in query.conditions
    ]
    conditions += [
        _choice_code(column(at), table.chosen(at, numbers)) for at, numbers in query.choices
    ]
    if query.text:
        part = repr(query.text)
        lines.append(
            f"texts = {name}.astype(str).apply(lambda cells: cells.str.contains({part}, case=False,"
            " regex=False))"
        )
        conditions.append("texts.any(axis=1)")
    rows = f"{name}[{' & '.join(conditions)}]" if conditions else name
    if query.sort is not None:
        at, is_down = query.sort
        order = ", ascending=False" if is_down else ""
        rows += f".sort_values({names[at]!r}{order}, kind='stable')"
    if list(columns) != list(range(len(names))):
        rows += (
            f".iloc[:, {list(columns)!r}]"
            if len(set(names)) < len(names)
            else f"[{[names[at] for at in columns]!r}]"
        )
    return "\n".join([*lines, rows])


def _condition_code(column: str, kind: str, text: str) -> str:
    """One condition. Dates compare as text, since a part of a date stands for all that begin with
    it."""
    sign, operand, end = parse_condition(text, kind)
    if sign in ("=", "!=") and not operand:
        return f"{column}.{'isna' if sign == '=' else 'notna'}()"
    if end and kind != "date":
        ends = ", inclusive='left'" if sign == "..<" else ""
        return f"{column}.between({_number_code(operand)}, {_number_code(end)}{ends})"
    if kind == "date":
        column = f"{column}.astype(str).str.replace('T', ' ')"
    if end:
        low, high, last = (
            operand.replace("T", " "),
            end.replace("T", " "),
            "<" if sign == "..<" else "<=",
        )
        return (
            f"({column}.str[:{len(low)}] >= {low!r}) & ({column}.str[:{len(high)}] {last} {high!r})"
        )
    if sign in ("=", "!=", ">", ">=", "<", "<=") and kind in ORDERED:
        compare = "==" if sign == "=" else sign
        if kind == "date":
            part = operand.replace("T", " ")
            return f"({column}.str[:{len(part)}] {compare} {part!r})"
        return f"({column} {compare} {_number_code(operand)})"
    texts = column if kind in ("text", "date") else f"{column}.astype(str)"
    if sign in ("=", "!="):
        return f"({texts}.str.casefold() {'==' if sign == '=' else '!='} {operand.casefold()!r})"
    contains = f"{texts}.str.contains({operand!r}, case=False, regex=False, na=False)"
    return f"~{contains}" if sign == "!" else contains


def _choice_code(column: str, cells: Sequence[Any]) -> str:
    """Some values of a column; a missing one is found by `isna`."""
    present = [cell for cell in cells if not is_missing(cell)]
    plain = [cell.item() if hasattr(cell, "item") else cell for cell in present]
    is_times = any(hasattr(cell, "isoformat") for cell in plain)
    listing = f"pd.to_datetime({[str(cell) for cell in plain]!r})" if is_times else repr(plain)
    parts = [f"{column}.isin({listing})"] if plain else []
    parts += [f"{column}.isna()"] if len(present) < len(cells) else []
    return f"({' | '.join(parts)})" if len(parts) > 1 else "".join(parts) or f"{column}.isin([])"


def _number_code(text: str) -> str:
    """A number as Python has it, whole numbers without a fraction."""
    number = number_of(text)
    return str(int(number)) if number.is_integer() else repr(number)
