"""ToolSpec, ToolCall, ToolResult, Failure: the only shapes in and out.

Also the protocols that other rooms fulfil: `Source` (where tools come from) and `Step` (one concern around a call).
Values are frozen; a tool's failure is data in `ToolResult.error`, never an exception crossing the executor.
They are NamedTuples and plain classes, since a frozen dataclass takes ten times as long to make, and `%load_ext`
pays for each.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, NoReturn, Protocol

from onetool_ipy.core import current, schema, values
from onetool_ipy.core.checker import Checker, Converter
from onetool_ipy.core.errors import CallFailure, Code, ToolCallError

if TYPE_CHECKING:
    import pandas as pd  # type: ignore[import-untyped]  # it ships no stubs

__all__ = [
    "CallSource",
    "Failure",
    "Json",
    "Origin",
    "Problem",
    "Source",
    "Step",
    "ToolCall",
    "ToolResult",
    "ToolSpec",
    "Trip",
]

Json = dict[str, Any]

Origin = Literal["builtin", "file", "entry_point", "config", "bundle", "mcp", "cell"]
"""Where a tool was defined, in the order in which names are given away."""

CallSource = Literal["python", "magic", "shortcut", "widget", "model", "rest", "mcp", "cli", "tool"]
"""Who asked for a call; `tool` is another tool. Calls by a person have no time limit of their own."""


class Problem(NamedTuple):
    """Something that is wrong and stops nothing else; listed by `ot.health()`."""

    where: str
    message: str
    hint: str = ""

    def __str__(self) -> str:
        return f"{self.where}: {self.message}" + (f" {self.hint}" if self.hint else "")


class _Frozen:
    """A value: made once, then read. `__init__` fills `__dict__`, where copy and pickle find it."""

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError(f"A {type(self).__name__} cannot be changed (setting '{name}').")

    def __delattr__(self, name: str) -> NoReturn:
        raise AttributeError(f"A {type(self).__name__} cannot be changed (deleting '{name}').")


class ToolSpec(_Frozen):
    """One tool: its canonical name, its words, the JSON Schema of its arguments, and how to run it.

    `run` takes the checked arguments as one dict. `live`, where it is set, gives the spec as it is now: it imports a
    pack file at first use and reads an edited one again. `positional` names the arguments that Python may give by
    position, the last one as `*name` if it takes the rest; None stands for the schema's own order.
    """

    name: str
    description: str
    parameters: Json
    run: Callable[[dict[str, Any]], Any]
    is_async: bool
    converters: Mapping[str, Converter]
    returns: str
    example: str
    tags: tuple[str, ...]
    origin: Origin
    server: str
    read_only: bool
    timeout_s: float | None
    cache_key: Callable[..., Any] | None
    output_schema: Json | None
    disabled: str
    where: str
    live: Callable[[], ToolSpec] | None
    positional: tuple[str, ...] | None

    def __init__(
        self,
        *,
        name: str,
        description: str,
        parameters: Json,
        run: Callable[[dict[str, Any]], Any],
        is_async: bool = False,
        converters: Mapping[str, Converter] | None = None,
        returns: str = "",
        example: str = "",
        tags: Sequence[str] = (),
        origin: Origin = "cell",
        server: str = "",
        read_only: bool = False,
        timeout_s: float | None = None,
        cache_key: Callable[..., Any] | None = None,
        output_schema: Json | None = None,
        disabled: str = "",
        where: str = "",
        live: Callable[[], ToolSpec] | None = None,
        positional: Sequence[str] | None = None,
    ) -> None:
        self.__dict__.update(
            name=name,
            description=description,
            parameters=parameters,
            run=run,
            is_async=is_async,
            converters=converters or {},
            returns=returns,
            example=example,
            tags=tuple(tags),
            origin=origin,
            server=server,
            read_only=read_only,
            timeout_s=timeout_s,
            cache_key=cache_key,
            output_schema=output_schema,
            disabled=disabled,
            where=where,
            live=live,
            positional=None if positional is None else tuple(positional),
        )

    def replace(self, **changes: Any) -> ToolSpec:
        """The same tool with other values for some of its fields."""
        fields = {key: self.__dict__[key] for key in ToolSpec.__annotations__}
        return ToolSpec(**{**fields, **changes})

    @property
    def pack(self) -> str:
        return self.name.partition(".")[0]

    @property
    def short_name(self) -> str:
        return self.name.partition(".")[2]

    @property
    def summary(self) -> str:
        """The first paragraph of the description, on one line."""
        return " ".join(self.description.partition("\n\n")[0].split())

    @property
    def source(self) -> str:
        """`local`, or `proxy:<server>` for a tool of an MCP server (spec 001)."""
        return f"proxy:{self.server}" if self.server else "local"

    @cached_property
    def params(self) -> tuple[schema.Param, ...]:
        """The arguments one by one, required ones first."""
        return tuple(schema.params(self.parameters))

    @cached_property
    def spelled(self) -> dict[str, str]:
        """The arguments whose names Python cannot spell, by the names it gives them."""
        labels = schema.python_names(self.params)
        return {label: name for name, label in labels.items() if label != name}

    @cached_property
    def signature(self) -> str:
        return schema.signature_text(self.name, self.parameters)

    @cached_property
    def args(self) -> tuple[str, ...]:
        return tuple(schema.argument_lines(self.parameters))

    @cached_property
    def checker(self) -> Checker:
        """The compiled check of the arguments; raises InvalidTool where the schema is none."""
        return Checker(self.parameters, self.converters)

    def __repr__(self) -> str:
        return f"ToolSpec({self.signature})"


class ToolCall(NamedTuple):
    """What is asked for. `id` names this one call everywhere: in the log, in a model's reply, in progress."""

    id: str
    name: str
    args: dict[str, Any]
    source: CallSource = "python"


class Failure(_Frozen):
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

    def get(self, key: str, default: Any = None) -> Any:
        return self.to_dict().get(key, default)

    def __str__(self) -> str:
        return f"{self.code}: {self.message}"

    def __repr__(self) -> str:
        return f"Failure({self.code}{f'/{self.reason}' if self.reason else ''}: {self.message})"


class ToolResult(_Frozen):
    """What a call gave: the tool's own object in `data`, or a Failure in `error`; `meta` says how it went.

    Handy in a cell: indexing, `len`, iteration and `in` act on the data; truth is `ok`.
    """

    ok: bool
    data: Any
    error: Failure | None
    meta: Json

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
        stores = current.require().results
        if self.handle is None:
            tool, call_id = str(self.meta.get("tool", "")), str(self.meta.get("call_id", ""))
            self.meta["handle"] = stores.put(self.unwrap(), tool=tool, call_id=call_id)
            return str(self.meta["handle"])
        return str(stores.store(self.handle))

    def lines(self, offset: int = 1, limit: int = 100) -> Json:
        """Lines of the stored result; stores it first where that is needed. The keys are those of `ot.result`."""
        found: Json = current.require().results.query(self.store(), offset=offset, limit=limit)
        return found

    def search(self, pattern: str, fuzzy: bool = False, *, offset: int = 1, limit: int = 100) -> Json:
        """Lines of the stored result that match a regular expression (RE2), or are like it."""
        found: Json = current.require().results.query(
            self.store(), offset=offset, limit=limit, search=pattern, fuzzy=fuzzy
        )
        return found

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
        return f"ToolResult(ok={self.ok}, {shown}, meta={self.meta!r})"


class Trip:
    """One call on its way through the steps: what they may look at, and what they agree on in `meta`."""

    __slots__ = ("allow", "call", "meta", "spec", "timeout_s", "tool")

    def __init__(
        self, call: ToolCall, spec: ToolSpec | None, tool: str, timeout_s: float | None, allow: Sequence[str] | None
    ) -> None:
        self.call = call
        self.spec = spec
        self.tool = tool
        self.timeout_s = timeout_s
        self.allow = allow
        self.meta: Json = {}


class Step(Protocol):
    """One concern around a call, as a generator: code before `yield`, the result comes in, a result goes out.

    Returning a ToolResult before the yield answers the call without running it; returning None steps aside. A
    CallFailure that it raises becomes the call's result.
    """

    def __call__(self, trip: Trip) -> Generator[None, ToolResult, ToolResult | None]: ...


class Source(Protocol):
    """Where tools come from. Listing never raises: what is wrong is a Problem, and stops nothing else."""

    def tools(self) -> Iterable[ToolSpec]:
        """The tools as known now, in their order of definition."""

    def problems(self) -> Iterable[Problem]:
        """What could not be offered, and why."""

    def refresh(self) -> bool:
        """Look again; True when the tools may have changed since the registry last asked for them."""

    def close(self) -> None:
        """Let go of what is open; may be called twice."""
