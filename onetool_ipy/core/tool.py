"""The fingerprint of a tool: the same in every process as long as the tool is the same.

A source says what a tool is by `ToolSpec.identity`. Without one it is the tool's words, schema and the code of its
function. Code of this package is left out: it changes with the version, and was installed by the user.

Short signs of a tool as it is, to tell whether what was kept of it still holds. Pure.

`of_schema` changes with what a tool takes and gives, and with its version; `of_code` also with what it does, as far as
its own code tells: not with the functions that it calls.

Any result as a pandas DataFrame: find the list of records, flatten it, parse dates, and say what was chosen.

`frame.attrs["onetool"]` holds what was chosen: the path to the records, and the columns read as dates. pandas is
imported when it is needed.

Failure and ToolResult: what a call gave. `model` offers them beside the other shapes.

A tool's failure is data here, never an exception crossing the executor. Both are frozen; a result is handy in a cell.

ToolSpec, ToolCall, ToolResult, Failure: the only shapes in and out.

Also the protocols that other rooms fulfil: `Source` (where tools come from) and `Step` (one concern around a call).
Values are frozen; a tool's failure is data in `ToolResult.error`, never an exception crossing the executor.
They are NamedTuples and plain classes, since a frozen dataclass takes ten times as long to make, and `%load_ext`
pays for each.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, NoReturn, Protocol, cast

from onetool_ipy.base import values
from onetool_ipy.base.errors import CallFailure, Code, ToolCallError, UsageProblem
from onetool_ipy.base.printable import printable
from onetool_ipy.base.records import once
from onetool_ipy.core import current
from onetool_ipy.schema.check import Checker, Converter
from onetool_ipy.schema.read import Param, argument_lines, python_names, signature_text
from onetool_ipy.schema.read import params as schema_params

if TYPE_CHECKING:
    import pandas as pd  # type: ignore[import-untyped]  # it ships no stubs

__all__ = [
    "PROJECT_ORIGINS",
    "Admit",
    "CallSource",
    "Dep",
    "Failure",
    "Frozen",
    "Home",
    "Json",
    "LateSpec",
    "Origin",
    "Problem",
    "Record",
    "Source",
    "Step",
    "ToolCall",
    "ToolResult",
    "ToolSpec",
    "Trip",
    "UncheckedCall",
    "code_of",
    "of",
    "of_code",
    "of_schema",
    "to_frame",
]

_DEEP = 8
_PLAIN = (str, bytes, int, float, type(None))


def of(spec: ToolSpec) -> str:
    """Hash all that a tool is."""
    own = spec.identity() if spec.identity is not None else _described(spec)
    text = json.dumps(values.to_json([spec.name, spec.origin, spec.server, own]), sort_keys=True)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:32]


def _described(spec: ToolSpec) -> list[Any]:
    return [spec.description, spec.parameters, spec.read_only, code_of(spec.run)]


def code_of(fn: Any, depth: int = 0) -> list[Any]:
    """The code of a function and of the functions that it holds; empty for one without Python code."""
    if depth > _DEEP:
        return []
    if isinstance(fn, partial):
        given = [*fn.args, *(part for pair in sorted(fn.keywords.items()) for part in pair)]
        return [code_of(fn.func, depth + 1), [repr(one) for one in given if isinstance(one, _PLAIN)]]
    code = getattr(fn, "__code__", None)
    if code is None:
        own: Any = type(fn).__call__ if callable(fn) else None
        return code_of(own, depth + 1) if hasattr(own, "__code__") else []
    mine = [] if str(getattr(fn, "__module__", "")).startswith("onetool_ipy.") else _code(code)
    inner = [cell.cell_contents for cell in getattr(fn, "__closure__", None) or () if _is_full(cell)]
    return [mine, *(code_of(part, depth + 1) for part in inner if callable(part))]


def _code(code: Any) -> list[Any]:
    consts = [_code(const) if hasattr(const, "co_code") else _const(const) for const in code.co_consts]
    return [code.co_code.hex(), list(code.co_names), consts]


def _const(value: Any) -> str:
    """A constant as text; the order of a set differs from process to process."""
    return repr(sorted(map(repr, value))) if isinstance(value, frozenset) else repr(value)


def _is_full(cell: Any) -> bool:
    try:
        _ = cell.cell_contents
    except ValueError:
        return False
    return True


def of_schema(spec: ToolSpec) -> str:
    """The sign of what a tool takes and gives."""
    return _sign([spec.parameters, spec.output_schema, _definition(spec.run, "version")])


def of_code(spec: ToolSpec) -> str:
    """The sign of a tool with its name and its code."""
    definition = [_definition(spec.run, field) for field in ("version", "tool_id")]
    return _sign([spec.name, spec.parameters, definition, code_of(spec.run)])


def _sign(parts: list[Any]) -> str:
    text = json.dumps(values.to_json(parts), sort_keys=True)
    return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()


def _definition(run: Any, field: str) -> str:
    """A field of the record that a tool is made from, where it is made from one: a tool of a bundle."""
    records = run.args if isinstance(run, partial) else ()
    return next((str(getattr(record, field)) for record in records if hasattr(record, field)), "")


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


Origin = Literal["builtin", "file", "entry_point", "config", "bundle", "mcp", "cell"]
"""Where a tool was defined, in the order in which names are given away."""

PROJECT_ORIGINS: frozenset[Origin] = frozenset(("file", "config", "bundle", "mcp"))
"""What comes from a project's files, and runs only where the user trusts it."""

CallSource = Literal["python", "magic", "shortcut", "widget", "model", "rest", "mcp", "cli", "tool"]
"""Who asked for a call; `tool` is another tool. Calls by a person have no time limit of their own."""


class Problem(NamedTuple):
    """Something that is wrong and stops nothing else; listed by `ot.health()`."""

    where: str
    message: str
    hint: str = ""

    def __str__(self) -> str:
        return f"{self.where}: {self.message}" + (f" {self.hint}" if self.hint else "")


class Dep(NamedTuple):
    """Something a tool needs besides Python: a command (`cli`) or a library (`lib`), and how to get it."""

    kind: Literal["cli", "lib"]
    name: str
    version_flag: str = ""
    install: str = ""


class ToolSpec(Frozen):
    """One tool: its canonical name, its words, the JSON Schema of its arguments, and how to run it.

    `run` takes the checked arguments as one dict. `live`, where it is set, gives the spec as its code has it now: it
    imports a pack file, so only a call may use it. `reread` gives the spec as its text or record has it now and runs
    nothing of it: whatever only looks at a tool uses it, by `as_written()`. `positional` names the arguments that
    Python may give by position, the last one as `*name` if it takes the rest; None stands for the schema's own order.
    `version` marks one version of a tool that is listed under its plain name: it is found by its own name, and not
    listed beside it. `preview`, where it is set, tells what a call would send, without secrets and without sending
    it. `identity`, where it is set, gives all that the tool is, as JSON: the text of its file, its record, its server's
    definition. It imports nothing, and says the same of a tool that is known by its text and of the loaded one.
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
    reread: Callable[[], ToolSpec] | None
    positional: tuple[str, ...] | None
    deps: tuple[Dep, ...]
    version: str
    preview: Callable[[dict[str, Any]], Any] | None
    identity: Callable[[], Any] | None

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
        reread: Callable[[], ToolSpec] | None = None,
        positional: Sequence[str] | None = None,
        deps: Sequence[Dep] = (),
        version: str = "",
        preview: Callable[[dict[str, Any]], Any] | None = None,
        identity: Callable[[], Any] | None = None,
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
            reread=reread,
            positional=None if positional is None else tuple(positional),
            deps=tuple(deps),
            version=version,
            preview=preview,
            identity=identity,
        )

    def replace(self, **changes: Any) -> ToolSpec:
        """The same tool with other values for some of its fields."""
        fields = {key: self.__dict__[key] for key in ToolSpec.__annotations__}
        return ToolSpec(**{**fields, **changes})

    def as_written(self) -> ToolSpec:
        """The tool as its text or record has it now; nothing is imported. Raises ToolNotFound where it is gone."""
        return self if self.reread is None else self.reread()

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

    @property
    def fingerprint(self) -> str:
        """A hash of what the tool is now: its words, its schema, and its code, record or server."""
        return of(self)

    @once
    def params(self) -> tuple[Param, ...]:
        """The arguments one by one, required ones first."""
        return tuple(schema_params(self.parameters))

    @once
    def spelled(self) -> dict[str, str]:
        """The arguments whose names Python cannot spell, by the names it gives them."""
        labels = python_names(self.params)
        return {label: name for name, label in labels.items() if label != name}

    @once
    def signature(self) -> str:
        return signature_text(self.name, self.parameters)

    @once
    def args(self) -> tuple[str, ...]:
        return tuple(argument_lines(self.parameters))

    @once
    def checker(self) -> Checker:
        """The compiled check of the arguments; raises InvalidTool where the schema is none."""
        return Checker(self.parameters, self.converters)

    def __repr__(self) -> str:
        return printable(f"ToolSpec({self.signature})")


class LateSpec(ToolSpec):
    """A tool of which some fields are known, and the others are read when one of them is first asked for.

    From then on it is a plain ToolSpec. `known` has at least what a registry looks at: `name` and `version`. `read`
    gives the whole spec and must not raise; what is known wins over it. Two threads may read at once.
    """

    def __init__(self, read: Callable[[], ToolSpec], known: Json) -> None:
        self.__dict__.update(known, _read=read)

    def __getattr__(self, field: str) -> Any:
        if field not in ToolSpec.__annotations__:
            raise AttributeError(f"A ToolSpec has no '{field}'.")
        mine = self.__dict__
        mine.update({**mine["_read"]().__dict__, **mine})
        object.__setattr__(self, "__class__", ToolSpec)
        return mine[field]

    def replace(self, **changes: Any) -> ToolSpec:
        """The same tool with other values for some of its fields; nothing is read for it."""
        known = {key: value for key, value in self.__dict__.items() if key in ToolSpec.__annotations__}
        return LateSpec(self.__dict__["_read"], {**known, **changes})


class ToolCall(NamedTuple):
    """What is asked for. `id` names this one call everywhere: in the log, in a model's reply, in progress."""

    id: str
    name: str
    args: dict[str, Any]
    source: CallSource = "python"


class UncheckedCall(ToolCall):
    """A call by a person who knows better than the tool's schema: its arguments go as they are."""

    __slots__ = ()


Heard = Callable[[float, float | None, str], None]
"""Who is told how far a call is: (done, total, text)."""


class Trip:
    """One call on its way through the steps: what they may look at, and what they agree on in `meta`."""

    __slots__ = ("allow", "call", "heard", "meta", "spec", "timeout_s", "tool")

    def __init__(
        self,
        call: ToolCall,
        spec: ToolSpec | None,
        tool: str,
        timeout_s: float | None,
        allow: Sequence[str] | None,
        heard: Heard | None = None,
    ) -> None:
        self.call = call
        self.spec = spec
        self.tool = tool
        self.timeout_s = timeout_s
        self.allow = allow
        self.heard = heard
        self.meta: Json = {}


class Step(Protocol):
    """One concern around a call, as a generator: code before `yield`, the result comes in, a result goes out.

    Returning a ToolResult before the yield answers the call without running it; returning None steps aside, and so
    does a step that gives no generator at all. A CallFailure that it raises becomes the call's result.
    """

    def __call__(self, trip: Trip) -> Generator[None, ToolResult, ToolResult | None] | None: ...


Record = Callable[[Trip, ToolResult], None]
"""Hears of every trip at its end, when all steps have seen it: also of one that was refused, failed or was stopped."""


Admit = Callable[[str, ToolSpec | None], None]
"""Asked before a tool runs, by its name and what is known of it; raises Untrusted where it may not."""


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
