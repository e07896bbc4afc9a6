"""Failure and ToolResult: what a call gave. `model` offers them beside the other shapes.

A tool's failure is data here, never an exception crossing the executor. Both are frozen; a result is handy in a cell.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, NoReturn, cast

from onetool_ipy.core import current, values
from onetool_ipy.core.errors import CallFailure, Code, ToolCallError
from onetool_ipy.core.printable import printable

if TYPE_CHECKING:
    import pandas as pd  # type: ignore[import-untyped]  # it ships no stubs

__all__ = ["Failure", "Frozen", "Home", "Json", "ToolResult"]

Json = dict[str, Any]


class Frozen:
    """A value: made once, then read. `__init__` fills `__dict__`, where copy and pickle find it."""

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError(f"A {type(self).__name__} cannot be changed (setting '{name}').")

    def __delattr__(self, name: str) -> NoReturn:
        raise AttributeError(f"A {type(self).__name__} cannot be changed (deleting '{name}').")


class Failure(Frozen):
    """Why a call failed. Its fields are reached as attributes and by key; `exception` is the tool's own."""

    code: Code
    message: str
    tool: str
    reason: str | None
    details: Any
    hint: str
    status: int
    exception: BaseException | None

    def __init__(
        self,
        code: Code,
        message: str,
        tool: str,
        reason: str | None = None,
        details: Any = None,
        hint: str = "",
        status: int = 502,
        exception: BaseException | None = None,
    ) -> None:
        self.__dict__.update(
            code=code,
            message=message,
            tool=tool,
            reason=reason,
            details=details,
            hint=hint,
            status=status,
            exception=exception,
        )

    @classmethod
    def of(cls, exc: CallFailure, tool: str) -> Failure:
        return cls(exc.code, exc.message, tool, exc.reason, exc.details, exc.hint, exc.status, exc)

    def to_dict(self) -> Json:
        """`code`, `message`, `tool`, and `reason` and `details` where there are some; fit for JSON."""
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

    def get(self, key: str, default: Any = None) -> Any:
        return self.to_dict().get(key, default)

    def __str__(self) -> str:
        return f"{self.code}: {self.message}"

    def __repr__(self) -> str:
        return printable(f"Failure({self.code}{f'/{self.reason}' if self.reason else ''}: {self.message})")


class Home:
    """Where a call was made: `box` gives the toolbox while it is there, `mask` hides the secrets that it knows."""

    __slots__ = ("box", "mask")

    def __init__(self, box: Callable[[], Any], mask: Callable[[str], str]) -> None:
        self.box = box
        self.mask = mask


class ToolResult(Frozen):
    """What a call gave: the tool's own object in `data`, or a Failure in `error`; `meta` says how it went.

    Handy in a cell: indexing, `len`, iteration and `in` act on the data; truth is `ok`. Its `repr` and `str` show no
    secret; `data` is as the tool gave it.
    """

    ok: bool
    data: Any
    error: Failure | None
    meta: Json
    _home: Home | None = None
    """Where the call was made; a copy sent elsewhere has none."""

    def __init__(self, ok: bool, data: Any = None, error: Failure | None = None, meta: Json | None = None) -> None:
        mine = self.__dict__
        mine["ok"] = ok
        mine["data"] = data
        mine["error"] = error
        mine["meta"] = {} if meta is None else meta

    def unwrap(self) -> Any:
        """Return the data, or raise ToolCallError."""
        if self.error is None:
            return self.data
        raise ToolCallError(self)

    @property
    def text(self) -> str:
        """The data as text: text as it is, anything else as JSON."""
        return values.to_text(self.data)

    @property
    def handle(self) -> str | None:
        """The handle under which the result is stored, where it is."""
        found = self.meta.get("handle")
        return found if isinstance(found, str) else None

    @property
    def df(self) -> pd.DataFrame:
        """The rows of the result as a pandas DataFrame; see `to_df`."""
        return self.to_df()

    def to_df(self, path: str | None = None) -> pd.DataFrame:
        """The list of records in the result, found or at `path`, flattened, with dates parsed.

        What was chosen is in `frame.attrs["onetool"]`.
        """
        from onetool_ipy.core.frames import to_frame

        return to_frame(self.unwrap(), path)

    def store(self) -> str:
        """Write the result now, so that every process of the project finds it by its handle."""
        stores = self._stores()
        if self.handle is None:
            tool, call_id = str(self.meta.get("tool", "")), str(self.meta.get("call_id", ""))
            self.meta["handle"] = stores.put(self.unwrap(), tool=tool, call_id=call_id)
            return str(self.meta["handle"])
        return str(stores.store(self.handle))

    def lines(self, offset: int = 1, limit: int = 100) -> Json:
        """Lines of the stored result; stores it first where that is needed. The keys are those of `ot.result`."""
        found: Json = self._stores().query(self.store(), offset=offset, limit=limit)
        return found

    def search(self, pattern: str, fuzzy: bool = False, *, offset: int = 1, limit: int = 100) -> Json:
        """Lines of the stored result that match a regular expression (RE2), or are like it."""
        found: Json = self._stores().query(self.store(), offset=offset, limit=limit, search=pattern, fuzzy=fuzzy)
        return found

    def view(self) -> Any:
        """Open the result viewer: lines, table, tree, image; paged, searched and sorted over all of it."""
        return current.require().ot.view(self)

    def to_dict(self) -> Json:
        """The four keys, always, and always fit for JSON."""
        return {
            "ok": self.ok,
            "data": values.to_json(self.data),
            "error": None if self.error is None else self.error.to_dict(),
            "meta": values.to_json(self.meta),
        }

    def as_invoke(self) -> Json:
        """The shape of spec 002: exactly `{ok: true, value}` or `{ok: false, error}`."""
        if self.error is None:
            return {"ok": True, "value": values.to_json(self.data)}
        return {"ok": False, "error": self.error.to_dict()}

    def _stores(self) -> Any:
        """The stored results of the toolbox that made the call, else of the current one."""
        box = None if self._home is None else self._home.box()
        return (current.require() if box is None else box).results

    def __getstate__(self) -> Json:
        return {name: value for name, value in self.__dict__.items() if name != "_home"}

    def __bool__(self) -> bool:
        return self.ok

    def __getitem__(self, key: Any) -> Any:
        return self.unwrap()[key]

    def __len__(self) -> int:
        return len(self.unwrap())

    def __iter__(self) -> Iterator[Any]:
        return iter(self.unwrap())

    def __contains__(self, item: object) -> bool:
        return item in self.unwrap()

    def __repr__(self) -> str:
        shown = f"error={self.error!r}" if self.error is not None else f"data={values.safe_repr(self.data)}"
        return printable(self._mask()(f"ToolResult(ok={self.ok}, {shown}, meta={self.meta!r})"))

    def _mask(self) -> Callable[[str], str]:
        """Hide the secrets of the toolbox that made the call, else of the current one."""
        if self._home is not None:
            return self._home.mask
        box = current.toolbox()
        return str if box is None else cast("Callable[[str], str]", box.mask)
