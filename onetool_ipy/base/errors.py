"""The exception tree; each class says its code, its reason and its HTTP status, and whether it is
transient.

What a tool, a step or a source raises is a CallFailure, which the executor turns into data. A
request for a bundle or one of its tools that is not granted is a RequestRefused (spec 002). The
other classes are misuse of our API.

People meet three of them, and only these are shown by their names: a call that failed is a
ToolCallError, a question to a model that failed an AskFailed, and all else a UsageProblem. `reason`
says which one of its kind it is.

A tool's failure is data (`ToolResult.error`); misuse of our API raises. `transient` of a class says
whether the same call may succeed a little later; `is_transient` answers that for any exception. In
a notebook each of these shows as its few lines of text, by `_render_traceback_`, and never as a
page of frames.
"""

from __future__ import annotations

import copyreg
import linecache
import sys
import types
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from onetool_ipy.base.printable import printable

if TYPE_CHECKING:
    from onetool_ipy.base.values import Json

Code = Literal["tool_not_found", "invalid_args", "execution_error"]

_MAX_PLACES = 2

TRUST_IT = "To trust it, run: %tool trust"
"""What to type where a project, or a server of it, is not trusted."""

TRANSIENT_STATUSES = frozenset((408, 425, 429, 500, 502, 503, 504, 529))
"""HTTP statuses of failures that may pass. 529 is what model providers answer when they are
overloaded."""


class OneToolError(Exception):
    """Every exception of ours. `hint` says what to do next; `transient`, whether trying again may
    help; `shown_as` is the class that people know it by."""

    shown_as: ClassVar[str] = "OneToolError"
    transient: bool = False

    def __init_subclass__(cls, **facts: str | int) -> None:
        """Take the facts of a class from its first line: `class Away(CallFailure, status=409)`."""
        super().__init_subclass__()
        for name, fact in facts.items():
            setattr(cls, name, fact)

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return printable(super().__str__())

    def __reduce__(self) -> tuple[Any, ...]:
        """Copy and pickle by class and attributes: the arguments of `__init__` differ from class to
        class."""
        new = copyreg.__newobj__  # type: ignore[attr-defined]  # the stubs leave it out
        return new, (type(self), *self.args), self.__dict__

    def lines(self) -> list[str]:
        """Return what a person is shown: the message, then what to do next."""
        return [*self.message.splitlines(), *self.hint.splitlines()]

    def _render_traceback_(self) -> list[str]:
        texts = self.lines() or [type(self).__name__]
        lines = [f"{self.shown_as}: {texts[0]}", *(f"  {line}" for line in texts[1:])]
        lines += [f"  {place}" for place in _places_in_cells(self.__traceback__)]
        return [printable(line) for line in lines]


class UsageProblem(OneToolError, shown_as="UsageProblem"):
    """What was typed, or asked for, cannot be done. `reason` names the kind where there are
    several."""

    reason: str | None = None


class AskFailed(OneToolError, shown_as="AskFailed"):
    """The model failed during an ask. `answer` has everything up to then."""

    reason: str | None = None

    def __init__(self, message: str, *, hint: str = "", answer: Any = None) -> None:
        super().__init__(message, hint=hint)
        self.answer = answer


class ToolCallError(OneToolError, shown_as="ToolCallError"):
    """A call that failed. `.error` is its Failure, `.result` the whole ToolResult, None if the call
    did not begin.

    For a local Python tool its traceback ends in the tool's own frame, so that `%debug` opens
    there.
    """

    def __init__(self, result: Any, shown: Sequence[str] = ()) -> None:
        assert result.error is not None
        super().__init__(result.error.message, hint=result.error.hint)
        self.result = result
        self._shown = tuple(shown)
        self.transient = is_transient(result.error.exception)

    @property
    def error(self) -> Any:
        return self.result.error

    @property
    def code(self) -> Code:
        code: Code = self.error.code
        return code

    @property
    def reason(self) -> str | None:
        reason: str | None = self.error.reason
        return reason

    def _render_traceback_(self) -> list[str]:
        return list(self._shown) or super()._render_traceback_()


class CallFailure(ToolCallError):
    """A call that failed for a reason we know. Raised inside a call, returned as
    `ToolResult.error`."""

    code: ClassVar[Code] = "execution_error"
    reason: ClassVar[str | None] = None
    status: ClassVar[int] = 502
    result = None
    _shown = ()

    def __init__(self, message: str, *, hint: str = "", details: object = None) -> None:
        OneToolError.__init__(self, message, hint=hint)
        self.details = details

    @property
    def error(self) -> Any:
        """The failure itself: it has the attributes of a Failure."""
        return self


class ToolNotFound(CallFailure, AttributeError, KeyError, code="tool_not_found", status=404):
    """No tool has that name, or the caller may not see it. An attribute or an item of a pack that
    is not there raises it, too."""

    def __str__(self) -> str:
        return self.message


class NotAllowed(ToolNotFound, reason="not_allowed", status=403):
    """The caller's allow-list does not have the tool."""


class Disabled(ToolNotFound, reason="disabled", status=403):
    """The tool is switched off."""

    @classmethod
    def of(cls, tool: str, reason: str) -> Disabled:
        """Return the failure of a call of a tool that is switched off, for a reason that says how
        to turn it on."""
        return cls(f"The tool '{tool}' is switched off: {reason}")


class Untrusted(ToolNotFound, reason="untrusted", status=403):
    """Something of a project that the user does not trust. `server` or `model` names the one that
    it is about."""

    def __init__(
        self,
        message: str,
        *,
        hint: str = "",
        details: object = None,
        server: str = "",
        model: str = "",
    ) -> None:
        super().__init__(message, hint=hint, details=details)
        self.server, self.model = server, model

    @classmethod
    def of(cls, reason: str, *, server: str = "", model: str = "") -> Untrusted:
        """Return the refusal with the line to type in its message: to a client or a model only the
        message travels."""
        return cls(f"{reason} {TRUST_IT}", server=server, model=model)

    @property
    def part(self) -> str:
        """The one part of the project that a yes would have to cover, as `config.trust` names it;
        else empty."""
        return (
            f"server {self.server}" if self.server else f"model {self.model}" if self.model else ""
        )


class InvalidArgs(CallFailure, code="invalid_args", reason="schema", status=400):
    """Arguments that do not fit the schema; `details` lists every violation with its JSON
    pointer."""


class ExecutionFailed(CallFailure):
    """The tool did not give a result. `exchange` is what an HTTP tool sent and got, masked, for
    `%tool history why`."""

    exchange: Any = None


class Returned(ExecutionFailed):
    """An error of the `ot` pack whose message is the text to return."""


class CallTimeout(ExecutionFailed, reason="timeout", status=504, transient=True):
    """The call ran past its limit."""


class CallCancelled(ExecutionFailed, reason="cancelled", status=499, transient=True):
    """The call was stopped."""


class HostNotAllowed(ExecutionFailed, reason="host_not_allowed", status=403):
    """A host that may not be reached."""


class InvalidOutput(ExecutionFailed, reason="invalid_output"):
    """The result breaks its schema, or cannot be read."""


class Unavailable(ExecutionFailed, reason="unavailable", status=409, transient=True):
    """What the call needs is not there just now."""


class TooLarge(ExecutionFailed, reason="too_large", status=413):
    """The result is larger than allowed."""


class TooDeep(ExecutionFailed, reason="recursion", status=400):
    """Tools that call each other without end."""


class NotApproved(ExecutionFailed, reason="not_approved", status=403):
    """A call that a person did not approve."""


class RateLimited(ExecutionFailed, reason="rate_limited", status=429, transient=True):
    """A service wants fewer calls."""


class MissingSecret(ExecutionFailed, reason="missing_secret", status=409):
    """A secret that has no value."""


class ProgramError(ExecutionFailed):
    """A program over tools that did not run to its end. `answer` has everything up to then."""

    answer: Any = None


class ProgramSyntax(ProgramError, reason="program_syntax", status=400):
    """A program that cannot be read, or uses what the sandbox does not have. Nothing of it ran."""


class ProgramTypes(ProgramError, reason="program_types", status=400):
    """A program that calls a tool, or reads a result, in a way that cannot be right. Nothing of it
    ran."""


class ProgramFailed(ProgramError, reason="program_failed", status=422):
    """A program that raised an exception. `details` has the line, its source and the words of the
    exception."""


class ProgramLimit(ProgramError, reason="program_limit", status=429):
    """A program that reached one of its limits; the message says which."""


class ProgramChanged(ProgramError, reason="program_changed", status=409):
    """A tool, or a kept program, that is not what it was when the person saw it."""


class ProgramBusy(ProgramError, reason="program_busy", status=409):
    """A kept program that another kernel runs at this moment."""


class ProgramUnsure(ProgramError, reason="program_unsure", status=409):
    """A kept program whose kernel ended during a write: nobody knows whether the write happened."""


class RequestRefused(UsageProblem):
    """A request for a bundle or one of its tools that is not granted. It changed nothing.

    `details` lists what is wrong with its body: `{pointer, message}` for each place, "" being all
    of it.
    """

    code: ClassVar[str] = "invalid_request"
    status: ClassVar[int] = 400

    def __init__(self, message: str, *, hint: str = "", details: Sequence[Json] = ()) -> None:
        super().__init__(message, hint=hint)
        self.details = list(details)


class InvalidRequest(RequestRefused, ValueError):
    """A request that cannot be right, whatever is stored; the message names the field."""


class Forbidden(RequestRefused, code="forbidden", status=403):
    """The request is not for this caller."""


class NotFound(RequestRefused, LookupError, code="not_found", status=404):
    """There is no such bundle or tool."""


class Conflict(RequestRefused, code="conflict", status=409):
    """The request conflicts with what is stored."""


class BodyTooLarge(RequestRefused, code="too_large", status=413):
    """The body of the request is too large."""


NoSuchTool = ToolNotFound
"""Its name in earlier versions."""


class InvalidConfig(UsageProblem, ValueError, reason="invalid_config"):
    """A configuration that cannot be used. `problems` holds every fault found, not just the
    first."""

    def __init__(self, message: str, *, hint: str = "", problems: Sequence[object] = ()) -> None:
        super().__init__(message, hint=hint)
        self.problems = tuple(problems)


class InvalidTool(UsageProblem, ValueError, reason="invalid_tool"):
    """A tool that cannot be registered; the message says what is wrong with it."""


class DuplicateTool(InvalidTool, reason="duplicate_tool"):
    """A name that another tool has."""


class UnknownProvider(UsageProblem, ValueError, reason="unknown_provider"):
    """A model provider whose format is not known."""


def is_transient(exc: BaseException | None) -> bool:
    """Return whether a call that failed by this exception may succeed if it is tried again."""
    if exc is None or isinstance(exc, OneToolError):
        return exc is not None and exc.transient
    import socket

    kinds: tuple[type[BaseException], ...] = (ConnectionError, TimeoutError, socket.gaierror)
    # An exception of httpx exists only where httpx is loaded. The import waits for a thread that is
    # loading it.
    if "httpx" in sys.modules:
        import httpx

        kinds += (httpx.TransportError,)
    # HTTP libraries raise classes of their own and keep the system's exception as the cause.
    return any(isinstance(link, kinds) for link in chain(exc))


def words_of(value: object) -> str:
    """Return the text of an exception or another value, or the name of its class if it has none.
    Never raises."""
    try:
        text = str(value).strip()
    except Exception:  # noqa: BLE001 - a foreign __str__ may raise anything
        text = ""
    return text or type(value).__name__


def chain(exc: BaseException) -> Iterator[BaseException]:
    """Yield an exception with its causes, contexts and members of groups, each once."""
    seen: set[int] = set()
    todo: list[BaseException | None] = [exc]
    while todo:
        link = todo.pop(0)
        if link is None or id(link) in seen:
            continue
        seen.add(id(link))
        yield link
        todo += [link.__cause__, link.__context__]
        if isinstance(link, BaseExceptionGroup):
            todo += link.exceptions


def _places_in_cells(frames: types.TracebackType | None) -> list[str]:
    """Return the lines of cells that led to an error, the caller's first. A cell of one line gives
    none."""
    shell = sys.modules["IPython"].get_ipython() if "IPython" in sys.modules else None
    if shell is None:
        return []
    places = []
    while frames is not None:
        code = frames.tb_frame.f_code
        cell = shell.compile.format_code_name(code.co_filename)
        if cell is not None and len(linecache.getlines(code.co_filename)) > 1:
            inside = "" if code.co_name == "<module>" else f", in {code.co_name}"
            places.append(f"{' '.join(cell)}, line {frames.tb_lineno}{inside}")
        frames = frames.tb_next
    return places[:1] + places[1:][-_MAX_PLACES:]
