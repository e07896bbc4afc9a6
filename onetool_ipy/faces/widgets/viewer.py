"""The result viewer's data: lines, table, tree and image of a result. Only the requested window is sent, masked.

A new result is read from its object; a stored one, known only by its handle, through the result store. The last sorted
and filtered table is kept, so that scrolling only takes slices.
"""

from __future__ import annotations

import base64
import json
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from onetool_ipy.base import values
from onetool_ipy.base.errors import OneToolError, UsageProblem
from onetool_ipy.core.result import Json, ToolResult
from onetool_ipy.faces.notebook.display import store_result
from onetool_ipy.stores.results.value_lines import pieces

if TYPE_CHECKING:
    import pandas as pd  # type: ignore[import-untyped]  # it has no types

    from onetool_ipy.toolbox import Toolbox

__all__ = ["ResultViewer"]

_KEPT = 24
_SMALL_LINES = 400
_SMALL_CHARS = 100_000
_CELL = 300
_LEAF = 160
_MOST_ROWS = 500_000
_MOST_HITS = 2_000
_PAGE = 1_000
_MAGIC = {b"\x89PNG\r\n\x1a\n": "image/png", b"\xff\xd8\xff": "image/jpeg", b"GIF8": "image/gif", b"RIFF": "image/webp"}
_SHOWN = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp", "image/svg+xml", "image/bmp"})


class _Item:
    """One result: how to read its data, its lines if they are few, and its frame once it was requested."""

    def __init__(self, read: Callable[[], Any], *, tool: str, handle: str | None) -> None:
        self.read = read
        self.tool = tool
        self.handle = handle
        self.lines: list[str] | None = None
        self.frame: pd.DataFrame | None = None
        self.texts: pd.DataFrame | None = None
        self.arranged: tuple[Any, pd.DataFrame] | None = None


class ResultViewer:
    """The results that one screen has opened, the last used last."""

    def __init__(self, box: Toolbox) -> None:
        self._box = box
        self._items: OrderedDict[str, _Item] = OrderedDict()

    def show(self, result: ToolResult) -> Json:
        """Describe a result: the ways to view it, and its first lines."""
        meta = result.meta
        call, tool = str(meta.get("call_id") or f"at-{id(result):x}"), str(meta.get("tool", ""))
        about: Json = {"ok": result.ok, "tool": tool, "call": call, "ms": meta.get("duration_ms", 0.0)}
        if result.error is not None:
            failure = values.map_text(values.to_json(result.to_dict()["error"]), self._box.mask)
            return {**about, "error": failure}
        item = _Item(lambda: result.data, tool=tool, handle=result.handle)
        self._remember(call, item)
        item.lines = self._small(result.data)
        if item.lines is None:
            try:
                item.handle = store_result(self._box, result)
            except OneToolError as exc:
                return {**about, "ok": False, "error": {"code": "execution_error", "message": exc.message}}
        about |= {"handle": item.handle, "kinds": _kinds(result.data), **self._size(item)}
        if "table" in about["kinds"]:
            about["rows"] = len(result.data)
        return about

    def open(self, handle: str) -> Json:
        """Describe a stored result."""
        item = self._item(handle, None)
        page = self._box.results.query(handle, limit=_SMALL_LINES // 2)
        is_table = _is_record_line(page["lines"][0]) if page["lines"] else False
        known = self._box.results.describe(handle)
        about = {
            "ok": True,
            "tool": known["tool"],
            "handle": handle,
            "lines": page["total_lines"],
            "bytes": known["bytes"],
            "preview": page["lines"],
            "kinds": ["table", "text"] if is_table else ["text"],
        }
        if is_table:
            about["rows"] = page["total_lines"]
        item.tool = known["tool"]
        return about

    def page(self, *, handle: str | None, call: str | None, offset: int, limit: int) -> Json:
        """A page of lines; `offset` starts at 1."""
        item = self._item(handle, call)
        offset, limit = max(1, offset), max(1, min(limit, _PAGE))
        if item.lines is not None:
            return {"lines": item.lines[offset - 1 : offset - 1 + limit], "total": len(item.lines)}
        found = self._box.results.query(self._stored(item), offset=offset, limit=limit)
        return {"lines": found["lines"], "total": found["total_lines"]}

    def find(self, *, handle: str | None, call: str | None, pattern: str, is_fuzzy: bool) -> Json:
        """The numbers of the first matching lines, and how many match."""
        item = self._item(handle, call)
        if item.handle is None and item.lines is not None:
            item.handle = self._box.results.put("\n".join(item.lines), tool=item.tool)
        found = self._box.results.query(self._stored(item), search=pattern, fuzzy=is_fuzzy, limit=_MOST_HITS)
        searched = found.get("searched", found["total_lines"])
        hits = found["line_numbers"] if is_fuzzy else sorted(found["line_numbers"])
        return {"hits": hits, "matched": found["matched"], "isComplete": searched >= found["total_lines"]}

    def table(
        self,
        *,
        handle: str | None,
        call: str | None,
        offset: int,
        limit: int,
        sort: Mapping[str, Any] | None,
        filter_text: str,
    ) -> Json:
        """A page of rows of the sorted and filtered table."""
        item = self._item(handle, call)
        if sort is None and not filter_text and item.frame is None and (plain := _plain_rows(item.read())):
            columns, cells = plain
            part = cells[_window(offset, limit)]
            rows = [[self._cell(cell) for cell in row] for row in part]
            return {"columns": list(map(self._cell, columns)), "rows": rows, "total": len(cells), "offset": offset}
        frame = self._frame(item)
        wanted = (None if sort is None else (sort["column"], bool(sort["isDown"])), filter_text)
        if item.arranged is None or item.arranged[0] != wanted:
            item.arranged = (wanted, self._arranged(item, frame, wanted))
        arranged = item.arranged[1]
        part = arranged.iloc[_window(offset, limit)]
        rows = [[self._cell(cell) for cell in row] for row in part.itertuples(index=False, name=None)]
        columns = [self._cell(column) for column in frame.columns]
        return {"columns": columns, "rows": rows, "total": len(arranged), "offset": offset}

    def tree(self, *, handle: str | None, call: str | None, path: Sequence[Any], offset: int, limit: int) -> Json:
        """A page of the children at a path."""
        at = _followed(self._item(handle, call).read(), path)
        keys = _keys(at)
        part = keys[_window(offset, limit)]
        return {"children": [self._child(key, at[key]) for key in part], "total": len(keys)}

    def image(self, *, handle: str | None, call: str | None) -> Json:
        """The image of a result."""
        found = _picture(self._item(handle, call).read())
        if found is None:
            raise UsageProblem("This result is not an image.")
        return {"mime": found[0], "base64": base64.b64encode(found[1]).decode("ascii")}

    def value(self, *, handle: str | None, call: str | None) -> Any:
        """The data itself; of a stored result, its lines."""
        return self._item(handle, call).read()

    def _remember(self, key: str, item: _Item) -> None:
        self._items[key] = item
        while len(self._items) > _KEPT:
            self._items.popitem(last=False)

    def _item(self, handle: str | None, call: str | None) -> _Item:
        for key in (call, handle):
            if key and key in self._items:
                self._items.move_to_end(key)
                return self._items[key]
        if not handle:
            raise UsageProblem("That result is no longer available.", hint="Run the tool again.")
        item = _Item(lambda: self._stored_rows(handle), tool="", handle=handle)
        self._remember(handle, item)
        return item

    def _stored(self, item: _Item) -> str:
        if item.handle is None:
            raise UsageProblem("That result was not stored.", hint="Run the tool again.")
        return item.handle

    def _stored_rows(self, handle: str) -> list[Any]:
        """The lines of a stored result, parsed as JSON if they are JSON."""
        found: list[Any] = []
        while len(found) < _MOST_ROWS:
            page = self._box.results.query(handle, offset=len(found) + 1, limit=100_000)
            found += [_read(line) for line in page["lines"]]
            if not page["has_more"]:
                break
        return found

    def _small(self, data: Any) -> list[str] | None:
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
            return {"lines": len(item.lines), "preview": item.lines, "bytes": sum(len(x.encode()) for x in item.lines)}
        page = self._box.results.query(self._stored(item), limit=200)
        size = self._box.results.describe(self._stored(item))["bytes"]
        return {"lines": page["total_lines"], "preview": page["lines"], "bytes": size}

    def _frame(self, item: _Item) -> pd.DataFrame:
        """The result as rows and columns; nested values stay in their cell."""
        if item.frame is None:
            import pandas as pd

            data = item.read()
            if _is_pandas(data):
                item.frame = data if isinstance(data, pd.DataFrame) else data.to_frame()
            else:
                item.frame = pd.DataFrame.from_records([row for row in data if isinstance(row, Mapping)])
        return item.frame

    def _arranged(self, item: _Item, frame: pd.DataFrame, wanted: tuple[Any, str]) -> pd.DataFrame:
        sort, text = wanted
        found = frame
        if text:
            if item.texts is None:
                item.texts = frame.astype(str).apply(lambda column: column.str.casefold())
            has = item.texts.apply(lambda column: column.str.contains(text.casefold(), regex=False))
            found = frame[has.any(axis=1).to_numpy()]
        if sort is not None and 0 <= sort[0] < len(frame.columns):
            found = _sorted(found, sort[0], is_down=sort[1])
        return found

    def _cell(self, cell: Any) -> str:
        if _is_missing(cell):
            return ""
        return values.cut(self._box.mask(" ".join(values.to_text(cell).splitlines())), _CELL)

    def _child(self, key: Any, value: Any) -> Json:
        count = len(_keys(value))
        kind = "object" if isinstance(value, Mapping) else "list" if count else type(value).__name__
        said = f"{{{count}}}" if kind == "object" else f"[{count}]" if kind == "list" else self._leaf(value)
        shown = key if isinstance(key, int) else self._box.mask(str(key))
        return {"key": shown, "kind": kind, "preview": said, "count": count}

    def _leaf(self, value: Any) -> str:
        text = json.dumps(value, ensure_ascii=False) if isinstance(value, str) else values.to_text(value)
        return values.cut(self._box.mask(text), _LEAF)


def _window(offset: int, limit: int) -> slice:
    start = max(0, offset)
    return slice(start, start + max(1, min(limit, _PAGE)))


def _kinds(data: Any) -> list[str]:
    found = []
    if _picture(data) is not None:
        found.append("image")
    if _is_table(data):
        found.append("table")
    if isinstance(data, (Mapping, list, tuple)) and len(data):
        found.append("tree")
    return [*found, "text"]


def _is_table(data: Any) -> bool:
    if _is_pandas(data):
        return True
    return isinstance(data, (list, tuple)) and len(data) > 0 and all(isinstance(row, Mapping) for row in data[:50])


def _plain_rows(data: Any) -> tuple[list[str], list[list[Any]]] | None:
    """Columns and cells of a few flat records, shown without waiting for pandas; else None."""
    if not isinstance(data, list) or len(data) > _SMALL_LINES:
        return None
    if not all(isinstance(row, dict) and all(map(_is_flat, row.values())) for row in data):
        return None
    columns = list(dict.fromkeys(str(key) for row in data for key in row))
    return columns, [[row.get(column) for column in columns] for row in data]


def _is_flat(cell: Any) -> bool:
    """Whether a DataFrame shows the cell the same way: not a record, a list or a date."""
    is_date = isinstance(cell, str) and cell[:4].isdigit() and cell[4:5] == "-"
    return not is_date and (cell is None or type(cell) in (str, int, bool))


def _is_pandas(data: Any) -> bool:
    return type(data).__module__.partition(".")[0] == "pandas" and type(data).__name__ in ("DataFrame", "Series")


def _is_record_line(line: str) -> bool:
    return line.startswith("{") and isinstance(_read(line), dict)


def _read(line: str) -> Any:
    try:
        return json.loads(line)
    except ValueError:
        return line


def _sorted(frame: pd.DataFrame, column: int, *, is_down: bool) -> pd.DataFrame:
    """Sort rows by one column, stably; values that do not compare are sorted as text."""
    cells = frame.iloc[:, column]
    try:
        order = cells.reset_index(drop=True).sort_values(ascending=not is_down, kind="stable").index
    except TypeError:
        texts = cells.reset_index(drop=True).map(values.to_text)
        order = texts.sort_values(ascending=not is_down, kind="stable").index
    return frame.iloc[order]


def _is_missing(cell: Any) -> bool:
    is_nan = isinstance(cell, float) and cell != cell
    return cell is None or is_nan or type(cell).__name__ in ("NAType", "NaTType")


def _keys(value: Any) -> list[Any]:
    if isinstance(value, Mapping):
        return list(value)
    if isinstance(value, (list, tuple)):
        return list(range(len(value)))
    return []


def _followed(value: Any, path: Sequence[Any]) -> Any:
    for part in path:
        if isinstance(value, Mapping):
            known = {str(key): key for key in value}
            if str(part) not in known:
                raise UsageProblem(f"There is nothing at '{part}'.")
            value = value[known[str(part)]]
        elif isinstance(value, (list, tuple)) and isinstance(part, int) and 0 <= part < len(value):
            value = value[part]
        else:
            raise UsageProblem(f"There is nothing at '{part}'.")
    return value


def _picture(data: Any) -> tuple[str, bytes] | None:
    """The type and bytes of an image that browsers can show."""
    if isinstance(data, (bytes, bytearray)):
        kind = next((mime for magic, mime in _MAGIC.items() if data[:12].startswith(magic)), None)
        return None if kind is None else (kind, bytes(data))
    mime, raw = getattr(data, "mime", None), getattr(data, "data", None)
    if isinstance(mime, str) and mime in _SHOWN and isinstance(raw, bytes):
        return mime, raw
    return None
