"""The context variables: which toolbox and which call the running code belongs to, who made it, and
in which cell.

`CallSource` in `core.tool` names the callers. The sets below say which of them are a person at the
keyboard, which are outside this program, and which of them have a time limit. A call inside another
call counts for whoever made the outermost one: a tool that a model's tool calls is the model's.

Outside a call the toolbox is the one opened last in this process and still open. Worker threads see
both through `copy_context`. Nothing else in the house keeps state at module level.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar, Token
from dataclasses import dataclass
from time import monotonic
from typing import TYPE_CHECKING, Any, Protocol
from weakref import ref

if TYPE_CHECKING:
    # `%load_ext` without a configuration loads this module, and none of these.
    from onetool_ipy.base.values import Json
    from onetool_ipy.core.question import Question, Reply
    from onetool_ipy.core.tool import CallSource, ToolCall, ToolSpec

TYPED: frozenset[CallSource] = frozenset(("python", "magic", "shortcut"))
"""A person's own cell or program: they see its progress, may be asked, and may skip the check of
arguments."""

OUTSIDE: frozenset[CallSource] = frozenset(("model", "rest", "mcp"))
"""Whoever is not the user: a model, and the clients of our REST API and of our MCP server."""

REMOTE: frozenset[CallSource] = frozenset(("rest", "mcp"))
"""Clients that wait for a response. The person at this machine, if there is one, is not asked for
them."""

LIMITED: frozenset[CallSource] = OUTSIDE | {"cli"}
"""Callers that leave the kernel: their calls have a time limit, and large values in their results
become handles."""


class CallClient(Protocol):
    """The program that made a call, if it can be asked: an MCP client. Its methods may be called in
    any thread."""

    def can(self) -> frozenset[str]:
        """Return what the client supports: some of `elicitation`, `sampling` and `roots`."""

    def ask(self, questions: Mapping[str, object]) -> Json:
        """Ask all of these at once and wait for the answers, by the same names. Raises
        Unavailable."""

    def log(self, level: str, text: str, logger: str) -> None:
        """Send a line of the tool's log."""


Report = Callable[[float, float | None, str], None]
"""Takes the progress of a call: done, total, text."""

NestedGuard = Callable[["ToolSpec", Mapping[str, Any]], None]
"""Takes the tool and the arguments of a call inside another one. Raises NotApproved."""


# Without slots the defaults stand on the class, and a call sets few of them.
@dataclass(eq=False)
class Scope:
    """Where running code is: its toolbox, its call, how deep it is nested, and the listener for its
    progress. A call is the scope of its own tool (`resolve.ResolvedCall`).

    `left` collects, for a job, what of its call is left behind running when it is given up;
    `printed` takes what it prints. `importing` says that a pack file is being imported: what is
    defined there is the file's, and not registered by itself. What a source adds to `meta` stands
    in the `meta` of the call's result. `asked_by` is the source of the outermost call: of a tool
    that a model's tool calls, the model. `ask` puts a question to whoever made the outermost call,
    where that is not the person at the host: an MCP client that can ask its own user. `client` is
    that client. `may_write` is False below a tool that only reads, where a model, a program or a
    client called it without a yes. `guard` is told of each call inside, by its tool and arguments,
    and raises NotApproved where data must not leave by it. `outer` is the scope around this one.
    `waited_s` is how long a person thought about questions of this call and of those inside.
    """

    toolbox: Any = None
    call: ToolCall | None = None
    spec: ToolSpec | None = None
    meta: dict[str, Any] | None = None
    asked_by: CallSource | None = None
    depth: int = 0
    progress: Report | None = None
    left: list[Callable[[], bool]] | None = None
    printed: Callable[[str], None] | None = None
    importing: bool = False
    ask: Callable[[Question], Reply] | None = None
    client: CallClient | None = None
    may_write: bool = True
    guard: NestedGuard | None = None
    outer: Scope | None = None
    waited_s: float = 0.0

    def while_importing(self) -> Scope:
        """Return the same scope, marked as importing a pack file; without client and `meta`."""
        return Scope(
            self.toolbox,
            self.call,
            self.spec,
            depth=self.depth,
            progress=self.progress,
            left=self.left,
            printed=self.printed,
            importing=True,
            asked_by=self.asked_by,
            ask=self.ask,
            may_write=self.may_write,
            guard=self.guard,
            outer=self,
        )

    @contextmanager
    def waiting(self) -> Iterator[None]:
        """Note the time of this block as the person's, here and in every scope around."""
        began = monotonic()
        try:
            yield
        finally:
            here, waited_s = self, monotonic() - began
            here.waited_s += waited_s
            while here.outer is not None:
                here = here.outer
                here.waited_s += waited_s


_scope: ContextVar[Scope | None] = ContextVar("onetool_ipy.scope", default=None)
_cell: ContextVar[str] = ContextVar("onetool_ipy.cell", default="")
_cell_id: ContextVar[str] = ContextVar("onetool_ipy.cell_id", default="")
_opened: list[ref[Any]] = []
_default: list[Any] = []
_expected: list[Callable[[], Any]] = []
_kept: dict[Any, Any] = {}
_waiting: deque[Callable[..., Any]] = deque(maxlen=500)


scope: Callable[[], Scope | None] = _scope.get
"""The scope of the running call, if there is one."""

enter: Callable[[Scope | None], Token[Scope | None]] = _scope.set
"""Make this the scope of the running code, until `leave` is given the token; None is no scope."""

leave: Callable[[Token[Scope | None]], None] = _scope.reset
"""Go back to the scope before `enter`."""

cell: Callable[[], str] = _cell.get
"""The number of the notebook cell that runs this code, as the person sees it; "" outside of
notebooks."""

cell_id: Callable[[], str] = _cell_id.get
"""What stays the same when that cell runs again: its id, where the page gives one."""


def enter_cell(number: str, cell_id: str = "") -> None:
    """Remember the cell that runs from now on, for this context and the threads that it starts."""
    _cell.set(number)
    _cell_id.set(cell_id or number)


def is_from_outside() -> bool:
    """Whether a model, a REST client or an MCP client made the running call, directly or through
    another tool."""
    here = _scope.get()
    return here is not None and here.asked_by in OUTSIDE


def may_write() -> bool:
    """Whether the running code may change something; False below a tool that others may only read
    by."""
    here = _scope.get()
    return here is None or here.may_write


def toolbox() -> Any | None:
    """Return the toolbox of the running call, else the newest open one."""
    here = _scope.get()
    if here is not None and here.toolbox is not None:
        return here.toolbox
    # The list of expected ones is read first: another thread may open one of them meanwhile.
    expected = tuple(_expected)
    for reference in reversed(_opened):
        box = reference()
        if box is not None:
            return box
    return expected[-1]() if expected else None


def open_toolboxes() -> list[Any]:
    """Return the toolboxes that are open in this process. Opens none."""
    return [box for reference in tuple(_opened) if (box := reference()) is not None]


def require() -> Any:
    """Return the current toolbox. Without one, open the default and keep it for the rest of the
    process."""
    box = toolbox()
    if box is None:
        import onetool_ipy

        box = onetool_ipy.open_toolbox()
        _default.append(box)
    return box


def kept(key: object, make: Callable[[], object]) -> Any:
    """Return the value that this process keeps under a key for the rest of its life, made at the
    first request.

    For a worker process, in which nothing else keeps its toolbox.
    """
    value = _kept.get(key)
    return value if value is not None else _kept.setdefault(key, make())


def opened(box: object) -> None:
    """Remember a toolbox as the newest open one."""
    _opened[:] = [one for one in _opened if one() is not None and one() is not box]
    _opened.append(ref(box))


def expect(opener: Callable[[], object] | None) -> None:
    """Open a toolbox at the first request for one. None cancels that."""
    _expected[:] = [] if opener is None else [opener]


def closed(box: object) -> None:
    """Forget a toolbox."""
    _opened[:] = [one for one in _opened if one() is not None and one() is not box]


def wait_for_notebook(fn: Callable[..., object]) -> None:
    """Remember a function that `@tool` marked before there was a toolbox; a notebook registers it
    when it loads us."""
    _waiting.append(fn)


def waiting_functions() -> list[Callable[..., Any]]:
    """Return the functions that wait for a notebook, in the order of their marks, and forget
    them."""
    functions = list(_waiting)
    _waiting.clear()
    return functions
