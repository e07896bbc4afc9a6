"""Sandbox: one run of one program in a process of its own. The only module that knows
pydantic-monty.

A program sees modules of host functions and some variables, and nothing else: no file, environment,
socket or process. Its clock and its random seed are fixed, so that the same answers to its calls
always lead to the same next call. The run is a conversation: `start` and `resume` go on to the next
host call, or to the end.

The library does not hear Stop. Steps run in a thread, and Stop kills the worker process, which ends
that thread. A KeyboardInterrupt is never handed in: a program could catch it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, NamedTuple

from onetool_ipy.base import values
from onetool_ipy.base.background import StepThread
from onetool_ipy.base.errors import (
    ProgramError,
    ProgramFailed,
    ProgramLimit,
    ProgramSyntax,
    ProgramTypes,
    Unavailable,
)
from onetool_ipy.base.processes import kill

MISSING = "Programs need: pip install 'onetool-ipy[programs]'"
MAX_CODE = 20_000
MAX_PRINTED = 100_000
MAX_ARGS = 8_000_000
MAX_VALUE = 64_000_000
_MAX_SECONDS = 5.0
_MAX_MEMORY = 256 * 1024 * 1024
_MAX_DEPTH = 200
# The library cannot switch this limit off. `run` counts the calls, over all rounds.
_MAX_SUSPENSIONS = 1_000_000
STEP_S = 30.0
_MAX_WORDS = 500
_MAX_ERRORS = 10
_CONTAINERS = (dict, list, tuple, set, frozenset)
_UNKNOWN = "The result of a write that has not run is not known."
_TYPING = re.compile(
    r"main\.py:(?P<line>\d+):\d+: (?:error|warning)\[(?P<kind>[\w-]+)\] (?P<words>.*)"
)
_NO_MODULE = re.compile(r"Cannot resolve imported module")
_UNDEFINED = re.compile(r"Name `(?P<name>\w+)` used when not defined")
_UNSUPPORTED = re.compile(r"The monty syntax parser does not yet support (?P<what>.*)", re.DOTALL)
# What the sandbox has, and its type checker has not heard of.
_BUILTINS = """\
from typing import Any
class PermissionError(OSError): ...
class FileNotFoundError(OSError): ...
class ImportError(Exception): ...
class ModuleNotFoundError(ImportError): ...
class UnicodeDecodeError(ValueError): ...
class UnicodeEncodeError(ValueError): ...
def map(function: Any, *items: Any) -> Any: ...
def filter(function: Any, items: Any) -> Any: ...
def format(value: Any, spec: str = ...) -> str: ...
def getattr(value: Any, name: str, default: Any = ...) -> Any: ...
def hasattr(value: Any, name: str) -> bool: ...
"""
_LIMITS = (
    (
        "feed time limit exceeded",
        f"It ran longer than {_MAX_SECONDS:g} s, without the time of its calls.",
    ),
    (
        "turn time limit exceeded",
        f"It ran longer than {_MAX_SECONDS:g} s, without the time of its calls.",
    ),
    (
        "the worker exceeded its memory limit",
        f"It needed more than {_MAX_MEMORY // 2**20} MB of memory.",
    ),
    ("memory limit exceeded", f"It needed more than {_MAX_MEMORY // 2**20} MB of memory."),
    (
        "maximum recursion depth exceeded",
        f"Its functions called each other more than {_MAX_DEPTH} deep.",
    ),
)


class StandIn:
    """What a program gets for the result of a write that has not run. Any use of it raises in the
    program.

    `is_final` says that the write will not run: it was skipped, or it needs the result of one that
    was.
    """

    def __init__(self, *, is_final: bool = False) -> None:
        self.is_final = is_final

    def __repr__(self) -> str:
        return "<result of a write>"


_STAND_IN = f"'{StandIn.__name__}'"
"""How the library names a stand-in in its messages."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HostModule:
    """A module that a program can import: the names of its functions, and its type stub."""

    functions: tuple[str, ...]
    stub: str


@dataclass(frozen=True, slots=True, kw_only=True)
class HostCall:
    """A call of a host function, as the program made it. `start` and `end` are its place in the
    source, in bytes.

    The place is (-1, -1) for a call in a text that the program evaluated.
    """

    function: str
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    start: int = -1
    end: int = -1


class Finished(NamedTuple):
    """The value of the last expression of a program."""

    value: Any


class Raised(NamedTuple):
    """An exception for the program: the name of a built-in class, and the message."""

    kind: str
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """What is fixed when a program first starts, and the same in every later run of it."""

    variables: Mapping[str, Any] = field(default_factory=dict)
    clock: datetime = datetime(2000, 1, 1, tzinfo=UTC)
    seed: int = 0


class Sandbox:
    """One program in a process of its own, run as often as needed. Use it as a context manager,
    which ends the process.

    The types of a program are checked before its first run: the check takes longer than most
    programs. `is_checked` says that another sandbox did that. A step of it has `step_s`.
    """

    def __init__(
        self,
        code: str,
        modules: Mapping[str, HostModule],
        world: World,
        *,
        is_checked: bool = False,
        step_s: float = STEP_S,
    ) -> None:
        self._step_s = step_s
        self._code = code
        self._modules = modules
        self._functions = {
            f"{name}.{each}" for name, module in modules.items() for each in module.functions
        }
        self._world = world
        self._stack = ExitStack()
        self._run = ExitStack()
        self._thread: StepThread | None = None
        self._pool: Any = None
        self._is_checked = is_checked
        self._session: Any = None
        self._snapshot: Any = None
        self._prints: list[str] = []
        self._print_size = 0
        self._pid: int | None = None

    def __enter__(self) -> Sandbox:
        return self

    def __exit__(self, *exc: object) -> None:
        # A worker that was killed, or is in the middle of a step, makes the library complain. There
        # is nothing to save.
        for stack in (self._run, self._stack):
            with suppress(Exception):
                stack.close()

    @property
    def printed(self) -> str:
        """What the program has printed so far."""
        return "".join(self._prints)

    def start(self) -> HostCall | Finished:
        """Run the program from its beginning to its first call. Raises ProgramError."""
        require_sandbox()
        import pydantic_monty as monty

        size = len(self._code.encode("utf-8", "replace"))
        if size > MAX_CODE:
            raise ProgramLimit(
                f"The program has {size:,} bytes; {MAX_CODE:,} are the limit. Nothing of it ran."
            )
        names = "".join(f"{name}: Any\n" for name in self._world.variables)
        modules = {
            name: monty.ExternalModule(dict.fromkeys(module.functions, _never), stubs=module.stub)
            for name, module in self._modules.items()
        }
        self._run.close()
        self._prints, self._print_size = [], 0
        self._thread = self._thread or self._stack.enter_context(StepThread())
        try:
            self._pool = self._pool or self._stack.enter_context(
                monty.Monty(min_processes=1, max_processes=1, request_timeout=self._step_s)
            )
        except FileNotFoundError as exc:
            raise Unavailable(MISSING) from exc
        self._session = self._run.enter_context(
            self._pool.checkout(
                limits={
                    "max_feed_duration_secs": _MAX_SECONDS,
                    "max_memory": _MAX_MEMORY,
                    "max_recursion_depth": _MAX_DEPTH,
                    "max_suspensions": _MAX_SUSPENSIONS,
                },
                type_check=not self._is_checked,
                type_check_stubs=_BUILTINS + names,
                type_check_format="concise",
                assert_message_annotations=False,
                os_policy={
                    "datetime": self._world.clock,
                    "sleep": "zero",
                    "random_start": {"seed": self._world.seed},
                },
                external_modules=modules,
            )
        )
        variables = dict(self._world.variables)
        event = self._advance(
            lambda: self._session.feed_start(
                self._code, inputs=variables, print_callback=self._print
            )
        )
        self._is_checked = True
        return event

    def resume(self, answer: object) -> HostCall | Finished:
        """Give the program the answer of its call (a value, a `StandIn`, or a `Raised`), and run to
        the next one."""
        import pydantic_monty as monty

        snapshot, result = self._snapshot, {"return_value": answer}
        if isinstance(answer, Raised):
            result = {"exc_type": answer.kind, "message": answer.message}
        elif isinstance(answer, StandIn):
            result = {"return_value": monty.ClassInstance(answer)}
        return self._advance(lambda: snapshot.resume(result))

    def _advance(self, step: Callable[[], Any]) -> HostCall | Finished:
        """Take a step, and those that need no host: imports, refused system calls, unknown
        names."""
        import pydantic_monty as monty

        while True:
            snapshot = self._step(step)
            if isinstance(snapshot, monty.MontyComplete):
                if _is_larger(snapshot.output, MAX_VALUE):
                    raise ProgramLimit(
                        f"The value of the program is larger than {MAX_VALUE // 10**6} MB."
                    )
                try:
                    return Finished(_plain(snapshot.output))
                except RecursionError:
                    raise ProgramLimit("The value of the program is nested too deeply.") from None
            if isinstance(snapshot, monty.FutureSnapshot):
                raise ProgramFailed("The program waits for something that never comes.")
            if isinstance(snapshot, monty.NameLookupSnapshot):
                step = snapshot.resume
            elif snapshot.is_os_function:
                is_import = snapshot.function_name in ("import", "import_stubs")
                step = snapshot.resume_auto if is_import else snapshot.resume_not_handled
            elif (
                name := str(snapshot.function_name)
            ) not in self._functions and snapshot.object_id is None:
                step = _raising(
                    snapshot, "NameError", f"name '{values.cut(name, 80)}' is not defined"
                )
            elif snapshot.object_id is not None:
                step = _raising(snapshot, "TypeError", _UNKNOWN)
            elif _is_larger((snapshot.args, snapshot.kwargs), MAX_ARGS):
                words = (
                    f"The arguments of '{name}' are larger than {MAX_ARGS // 10**6} MB, the most"
                    " that a call takes."
                )
                step = _raising(snapshot, "MemoryError", words)
            elif _has_object((snapshot.args, snapshot.kwargs)):
                step = _raising(
                    snapshot,
                    "TypeError",
                    f"'{name}' takes plain data, and not a function or an object.",
                )
            else:
                self._snapshot = snapshot
                position = snapshot.position
                is_own = position.filename.startswith("<python-input")
                return HostCall(
                    function=name,
                    args=tuple(snapshot.args),
                    kwargs=dict(snapshot.kwargs),
                    start=position.start if is_own else -1,
                    end=position.end if is_own else -1,
                )

    def _step(self, step: Callable[[], Any]) -> Any:
        import pydantic_monty as monty

        assert self._thread is not None
        # The process id can be read only while no step runs.
        self._pid = self._session.worker_pid or self._pid
        try:
            return self._thread.run(step)
        except monty.MontyCrashedError as exc:
            if self._print_size > MAX_PRINTED:
                raise ProgramLimit(
                    f"It printed more than {MAX_PRINTED // 1000} kB. It was ended."
                ) from exc
            if exc.timed_out:
                raise ProgramLimit(
                    f"It ran longer than {_MAX_SECONDS:g} s, without the time of its calls."
                ) from exc
            raise ProgramLimit(
                "The process of the program ended: it needed too much memory or depth."
            ) from exc
        except monty.MontyError as exc:
            raise self._error(exc) from None
        except BaseException:
            self._kill()
            raise

    def _print(self, _stream: str, text: str) -> None:
        """Take what the program prints. One that prints too much is ended: it could catch an
        exception."""
        self._print_size += len(text)
        if self._print_size <= MAX_PRINTED:
            self._prints.append(text)
        else:
            self._kill()

    def _kill(self) -> None:
        if self._pid is not None:
            with suppress(OSError):
                kill(self._pid)

    def _error(self, exc: Any) -> ProgramError:
        """Return our error for one of the library."""
        import pydantic_monty as monty

        if isinstance(exc, monty.MontyTypingError):
            return self._typing_error(exc.display())
        if isinstance(exc, monty.MontyConversionError):
            return ProgramFailed(
                f"A variable of the program is not plain data: {values.cut(str(exc), _MAX_WORDS)}"
            )
        words = values.cut(exc.display("msg").removeprefix("Internal error in monty: "), _MAX_WORDS)
        frames = exc.traceback()
        line = frames[-1].line if frames else 0
        if isinstance(exc, monty.MontySyntaxError):
            return ProgramSyntax(self._at(line, words))
        kind = type(exc.exception()).__name__
        if kind == "NotImplementedError" and (match := _UNSUPPORTED.match(words)) is not None:
            return ProgramSyntax(self._at(line, f"The sandbox does not have {match['what']}."))
        for mark, limit in _LIMITS:
            if kind in ("MemoryError", "TimeoutError", "RecursionError") and mark in words:
                return ProgramLimit(f"The program was ended. {limit}")
        if _STAND_IN in words:
            words = _UNKNOWN
        words = f"{kind}: {words}" if words else kind
        source = values.cut(self._line(line), _MAX_WORDS)
        details = {"line": line, "source": source, "error": words}
        return ProgramFailed(self._at(line, words), details=details)

    def _typing_error(self, text: str) -> ProgramError:
        matches = [
            match for line in text.splitlines() if (match := _TYPING.match(line)) is not None
        ]
        if any(match["kind"] == "invalid-syntax" for match in matches):
            first = next(match for match in matches if match["kind"] == "invalid-syntax")
            return ProgramSyntax(
                self._at(int(first["line"]), values.cut(first["words"], _MAX_WORDS))
            )
        listed = [
            self._at(
                int(match["line"]),
                values.cut(match["words"], _MAX_WORDS) + self._import_hint(match["words"]),
            )
            for match in matches[:_MAX_ERRORS]
        ]
        if len(matches) > _MAX_ERRORS:
            listed.append(f"... and {len(matches) - _MAX_ERRORS} more.")
        return ProgramTypes("\n".join(listed) or values.cut(text, _MAX_WORDS), details=listed)

    def _import_hint(self, words: str) -> str:
        if _NO_MODULE.search(words):
            return ". A program imports packs, see: %tool list"
        hit = _UNDEFINED.search(words)
        is_module = hit is not None and hit["name"] in self._modules
        return f". Write above it: import {hit['name']}" if hit is not None and is_module else ""

    def _at(self, line: int, words: str) -> str:
        if words == "unexpected EOF while parsing":
            words = "The program stops in the middle: a bracket, a quote or a block is open."
        source = values.cut(self._line(line).strip(), _MAX_WORDS)
        return f"Line {line}: {words}\n    {source}" if source else words

    def _line(self, line: int) -> str:
        lines = self._code.splitlines()
        return lines[line - 1] if 0 < line <= len(lines) else ""


def require_sandbox() -> None:
    """Raise Unavailable where the extra is not installed."""
    try:
        import pydantic_monty  # noqa: F401 - whether it is there
    except ImportError as exc:
        raise Unavailable(MISSING) from exc


def _never(*_args: object, **_kwargs: object) -> None:
    """Stand for a tool in a module. The host answers its calls itself, so this never runs."""


def _raising(snapshot: Any, kind: str, message: str) -> Callable[[], Any]:
    return lambda: snapshot.resume({"exc_type": kind, "message": message})


def _is_larger(value: Any, limit: int) -> bool:
    """Whether a value has more characters than `limit` as JSON, roughly.

    A list that holds the same list twice, and so on for forty levels, is small in the sandbox and
    endless when somebody goes through it. So each list is looked at once, and counts wherever it
    is.
    """
    if not isinstance(value, _CONTAINERS):
        return isinstance(value, (str, bytes)) and len(value) > limit
    sizes: dict[int, int] = {}
    begun: set[int] = set()
    waiting = [value]
    while waiting:
        part = waiting[-1]
        inside = [*part.keys(), *part.values()] if isinstance(part, dict) else part
        if id(part) not in begun:
            begun.add(id(part))
            waiting += [
                each for each in inside if isinstance(each, _CONTAINERS) and id(each) not in begun
            ]
            continue
        waiting.pop()
        # What is inside has been counted by now, but for a list that holds itself.
        sizes[id(part)] = 2 + sum(
            len(each) if isinstance(each, (str, bytes)) else sizes.get(id(each), 2)
            for each in inside
        )
    return sizes[id(value)] > limit


def _has_object(value: Any) -> bool:
    """Whether a value holds something of the program that is not data, such as a function."""
    if isinstance(value, Mapping):
        return any(_has_object(key) or _has_object(item) for key, item in value.items())
    if isinstance(value, (list, tuple, set, frozenset)):
        return any(map(_has_object, value))
    return type(value).__module__.startswith("pydantic_monty") or callable(value)


def _plain(value: Any) -> Any:
    """Copy a value out of the sandbox: data stays as it is, and of functions and objects their text
    is left."""
    if isinstance(value, dict):
        return {_plain(key): _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        copy = [_plain(item) for item in value]
        return type(value)(copy) if type(value) in (list, tuple, set, frozenset) else copy
    if (
        type(value).__module__.startswith("pydantic_monty")
        or isinstance(value, (StandIn, type))
        or callable(value)
    ):
        return repr(value)
    return value
