"""Any result as a pandas DataFrame: find the list of records, flatten it, parse dates, and say what was chosen.

`frame.attrs["onetool"]` holds what was chosen: the path to the records, and the columns read as dates. pandas is
imported when it is needed.
"""

from __future__ import annotations

import json
import re
from collections import deque
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from onetool_ipy.core import values
from onetool_ipy.core.errors import UsageProblem

if TYPE_CHECKING:
    import pandas as pd  # type: ignore[import-untyped]  # it ships no stubs

__all__ = ["to_frame"]

_DATE = re.compile(r"\d{4}-\d\d-\d\d([T ]\d\d:\d\d(:\d\d(\.\d+)?)?(Z|[+-]\d\d:?\d\d)?)?")
_STEP = re.compile(r"([^.\[\]]+)|\[(\d+)\]")
_MAX_LOOKED = 10_000


def to_frame(data: Any, path: str | None = None) -> pd.DataFrame:
    """The rows of a result; `path` (such as `data.items` or `pages[0].rows`) says where they are."""
    import pandas as pd

    if path is None and isinstance(data, pd.DataFrame):
        return data
    if isinstance(data, pd.Series):
        return data.to_frame()
    plain = _parsed(data)
    chosen, records = ("", plain) if path is None else (path, _follow(plain, path))
    if path is None:
        chosen, records = _find(plain)
    frame = pd.json_normalize(_rows(records), sep=".")
    dates = [column for column in frame.columns if _is_dates(frame[column])]
    for column in dates:
        frame[column] = pd.to_datetime(frame[column], format="ISO8601", utc=_has_zone(frame[column]), errors="coerce")
    frame.attrs["onetool"] = {"path": chosen or "(the result itself)", "rows": len(frame), "dates": dates}
    return frame


def _parsed(data: Any) -> Any:
    """Plain data; text that is JSON is what it says."""
    if isinstance(data, str):
        try:
            return json.loads(data)
        except (ValueError, RecursionError):
            return str(data)
    return values.to_json(data)


def _find(data: Any) -> tuple[str, Any]:
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
            continue  # `data.items` names the result's data itself
        try:
            node = node[key]
        except (KeyError, IndexError, TypeError):
            known = ", ".join(map(str, node)) if isinstance(node, Mapping) else f"a {type(node).__name__}"
            raise UsageProblem(f"No '{key}' at '{done or 'the result'}'.", hint=f"There is: {known[:200]}") from None
        done = f"{done}.{key}".lstrip(".")
    return node


def _rows(records: Any) -> list[Any]:
    if isinstance(records, str):
        return [{"line": line} for line in records.split("\n")]
    if isinstance(records, dict):
        return [records]
    if isinstance(records, list):
        return [row if isinstance(row, dict) else {"value": row} for row in records]
    return [{"value": records}]


def _is_dates(column: Any) -> bool:
    found = [value for value in column if value is not None and value == value]
    return bool(found) and all(isinstance(v, str) and _DATE.fullmatch(v) is not None for v in found)


def _has_zone(column: Any) -> bool:
    return any(isinstance(v, str) and re.search(r"(Z|[+-]\d\d:?\d\d)$", v[10:]) for v in column)
