"""Host: the program that a toolbox runs in, as the toolbox sees it. A notebook has a host of its
own.

A toolbox has one host at a time. `Host` itself is the host of a script: nobody watches a call,
there is no screen, a snippet runs in the namespace of its caller, and a person can be asked where
there is a terminal.
"""

from __future__ import annotations

import sys
from collections import ChainMap
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

from onetool_ipy.base.errors import UsageProblem
from onetool_ipy.base.values import Json

if TYPE_CHECKING:
    from types import FrameType

    from onetool_ipy.base.errors import Untrusted
    from onetool_ipy.core.jobs import JobListener
    from onetool_ipy.core.question import Question, Reply
    from onetool_ipy.core.resolve import Listen
    from onetool_ipy.core.result import ToolResult
    from onetool_ipy.core.tool import ToolCall, ToolSpec


class Screens(Protocol):
    """The screens of a host. Each method gives an object that the cell displays."""

    def browser(self, tool: str = "", args: Json | None = None) -> object:
        """Return the tool browser, at a tool or a pack if one is named."""

    def result(self, shown: object) -> object:
        """Return the viewer of a result, of a stored result by its handle, or of any other
        value."""

    def usage(self, period: str = "week", tool: str = "", since: str = "") -> object:
        """Return the usage view of a period, or since a time."""

    def http_tool(self) -> object:
        """Return the editor of a new HTTP tool."""


class Host:
    """What a toolbox asks of the program it runs in; each method here is the answer of a program
    without a face.

    `ask` puts a question to the person. Code does not call it: it calls
    `box.put_question(question)`, or awaits `box.aput_question(question)` on an event loop, in the
    context of the call that needs the answer (so that a call of a REST or MCP client never asks the
    person at the kernel). These check and mask the question first.

        form = {"type": "object", "properties": {...}}
        question = Question("server 'shop'", "Which size?", form=form)
        question = Question("server 'shop'", "Sign in to go on.", url="https://shop.example/ok")
        reply = box.put_question(question)   # blocks; .action is accept, decline or cancel
        reply.content                        # of a form: its values, checked against the schema

    Raises QuestionRefused for what must not be asked (a password, a form that is not flat, an
    address that is neither https nor loopback, more than a call may ask) and NobodyToAsk where
    nobody can answer: papermill, nbconvert, REST, an MCP client that cannot ask, no stdin. Stop, or
    the cancellation of the awaiting task, ends the question at once.
    """

    notebook = ""
    """The path of the notebook whose cells make the calls, where there is one."""

    listen: Listen | None = None
    """Returns the listener of a call that a person makes, if anybody watches it. None where nobody
    ever does: a call asks no one then."""

    def listen_to_job(self, call: ToolCall) -> JobListener | None:  # noqa: ARG002 - the signature is the host's
        """Return the listener of a call in the background, if anybody watches it."""
        return None

    def adopted(self, spec: ToolSpec) -> None:
        """Hear of a tool that a cell defined."""

    def reloaded(self) -> None:
        """Hear that the toolbox has new parts, or a server of this session more."""

    def has_name(self, name: str) -> bool:  # noqa: ARG002 - the signature is the host's
        """Whether the person's code uses a name for something else, so that a new pack should not
        take it."""
        return False

    def variables(self) -> Mapping[str, object]:
        """Return the names that the person's running code sees: those of the nearest frame that is
        not ours, else those of the program."""
        frame: FrameType | None = sys._getframe(1)
        while frame is not None:
            module = str(frame.f_globals.get("__name__", ""))
            if self._is_persons(module, frame.f_globals):
                return ChainMap(frame.f_locals, frame.f_globals)
            frame = frame.f_back
        return self._program()

    def _is_persons(self, module: str, _names: Mapping[str, object]) -> bool:
        """Whether a frame is of the person's code. Another thread has none."""
        is_ours = module.partition(".")[0] == __name__.partition(".")[0]
        return not is_ours and module not in ("threading", "concurrent.futures.thread")

    def _program(self) -> Mapping[str, object]:
        """Return the names of the program that the person runs."""
        return vars(sys.modules["__main__"])

    def inputs(self) -> Sequence[str]:
        """The cells that the person has run, oldest first."""
        return ()

    def ask_for_trust(self, needed: Untrusted) -> None:
        """Let the person trust the project, before the call that needs it is refused."""

    def ask(self, question: Question) -> Reply:
        """Put a checked question to the person and wait for the reply. Raises NobodyToAsk. Called
        in any thread.

        Stop, or the end of the call that asks (`background.require_wanted`), takes the question
        back.
        """
        from onetool_ipy.terminal import ask_in_terminal  # late: few scripts ask

        return ask_in_terminal(question)

    def note(self, text: str) -> None:
        """Show the person a line about the call that ends. It has no secrets."""

    def call_failed(self, result: ToolResult) -> None:
        """Hear of a call by a person that failed."""

    def style_error(self, exc: BaseException) -> None:
        """Make a tool's own exception look well where it is shown."""

    def run_code(self, code: str, name: str, namespace: dict[str, object]) -> object:
        """Run the Python code of a snippet; `namespace` is that of the caller."""
        return run_source(code, name, namespace)

    def screens(self) -> Screens | None:
        """Return the screens of this host, if it has any."""
        return None


def snippet_file(snippet: str) -> str:
    """Return the file name that a snippet's lines have in a traceback."""
    return f"<snippet {snippet}>"


def run_source(source: str, name: str, namespace: dict[str, object]) -> object:
    """Run a snippet's Python code and return the value of its last expression. Raises UsageProblem
    for bad syntax."""
    import ast
    import linecache

    filename = snippet_file(name)
    linecache.cache[filename] = (len(source), None, source.splitlines(keepends=True), filename)
    try:
        tree = ast.parse(source, filename)
        last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
        steps = compile(tree, filename, "exec")
        value = (
            compile(ast.Expression(last.value), filename, "eval")
            if isinstance(last, ast.Expr)
            else None
        )
    except (SyntaxError, ValueError) as exc:
        raise UsageProblem(
            f"The snippet '{name}' does not expand to Python: {exc}",
            hint=f"See it with: %snippet {name} --show",
        ) from exc
    exec(steps, namespace)
    return eval(value, namespace) if value is not None else None  # noqa: S307 - the same
