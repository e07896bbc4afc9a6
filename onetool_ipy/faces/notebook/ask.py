"""`%ask` and `%%ask`: send a prompt to a model, show its work, return the Answer.

    %ask [flags] What is in README.md?          a = %ask ...
    %%ask [flags]                               the cell's text is the prompt
    %ask --distil                               the last answer's calls as a cell of %tool lines

Flags come before the prompt; after them the text is taken as it is. `@name` in it sends a
variable's description, `+pack.tool` offers only those tools, `+server:uri` attaches a resource, and
`$server.prompt k=v` at its beginning stands for a server's prompt. In a notebook each piece of text
is a Markdown output that grows, and each call a line that unfolds; a line on top names the model,
the cost and the end. Outputs are renewed at most ten times a second. Everything is masked.
"""

from __future__ import annotations

import os
import re
import sys
import time
from collections.abc import Callable, Container, Iterator, Mapping
from contextlib import contextmanager
from types import FrameType
from typing import Any, cast

from onetool_ipy.base.errors import OneToolError, UsageProblem
from onetool_ipy.base.printable import printable
from onetool_ipy.base.search import did_you_mean
from onetool_ipy.core.question import Question, Reply
from onetool_ipy.core.tool import format_call
from onetool_ipy.faces.commands import Page, page
from onetool_ipy.faces.commands.asking import (
    KEPT,
    ROW,
    ask_arguments,
    help_parts,
    previewed,
    require_one_kept,
)
from onetool_ipy.faces.line.grammar import OptionKind, read_arguments, read_prompt
from onetool_ipy.faces.notebook.display import CellOptions, LastFailure
from onetool_ipy.llm.answer_type import AnswerMismatch, type_named
from onetool_ipy.llm.ask.answer import (
    Answer,
    AnswerCall,
    call_view,
    failed_text,
    mime_bundle,
    plan_bundle,
    summary,
)
from onetool_ipy.llm.ask.asker import as_call
from onetool_ipy.llm.ask.attachments import as_written, named_variables, variables_of
from onetool_ipy.llm.ask.context import AskListener
from onetool_ipy.llm.ask.session import Session
from onetool_ipy.llm.messages import TokenUsage
from onetool_ipy.render import html, markdown
from onetool_ipy.render.result import Called, to_html, to_text
from onetool_ipy.render.views import counted
from onetool_ipy.toolbox import Toolbox

_HELP = "--help"
_KINDS: Mapping[str, OptionKind] = {**ROW.kinds("notebook"), _HELP: "switch"}
_NAMES = {*ROW.options_in("notebook"), _HELP}
_PROMPT = re.compile(r"\s*\$(?P<name>[^\W\d][\w-]*\.[\w.-]+)(?P<rest>[^\n]*)")
_ARGUMENTS = re.compile(r"\s*|\s+[^\W\d]\w*=\S.*")
_ATTACHED = re.compile(r"(?<!\S)\+(?P<server>[^\W\d][\w-]*):(?P<uri>[A-Za-z][\w.+-]*:\S+)")
_PUNCTUATION = ".,;:!?)]}\"'"

Mask = Callable[[str], str]
_PAUSE_S = 0.1


class NotebookView(AskListener):
    """Shows an ask in the outputs of one cell."""

    def __init__(self, mask: Mask, publisher: Any, *, is_soft: bool = True) -> None:
        self._mask = mask
        self._is_soft = is_soft
        self._publisher = publisher
        self._has_model = False
        self._status = self._output()
        self._text: _Output | None = None
        self._sent: _Output | None = None
        self._said = ""
        self._calls: dict[int, _Output] = {}

    def began(self, model: str, session: Session) -> None:
        self._has_model = True
        place = f" (session {session.name!r})" if session.name else ""
        self._status.show(_line(self._mask(f"{model} · asking …{place}")))

    def sent(self, text: str) -> None:
        self._sent = self._output()
        self._sent.show(_line(self._mask(text)))

    def text(self, piece: str) -> None:
        self._said += piece
        if self._said.strip():
            self._text = self._text or self._output()
            self._text.show_later(lambda: _markdown(self._mask(self._said)))

    def replied(self, usage: TokenUsage) -> None:  # noqa: ARG002 - the line on top is renewed at the end
        self._end_text()

    def shortened(self, text: str) -> None:
        self._output().show(_line(self._mask(text)))

    def calling(self, number: int, name: str, args: Any) -> None:
        self._end_text()
        output = self._calls.setdefault(number, self._output())
        output.show(self._call(Called(name, args)))

    def called(self, number: int, call: AnswerCall) -> None:
        self._calls.setdefault(number, self._output()).show(
            self._call(call_view(call, is_open=not self._has_model))
        )

    def ended(self, answer: Answer) -> None:
        self._end_text()
        self._status.show(_line(self._mask(_ending(answer, is_soft=self._is_soft))))
        if self._sent is not None:
            self._sent.show(_line(self._mask(answer.sent)))
        if answer.question is not None:
            self._output().show(plan_bundle(answer.question, answer.note, self._mask))
        # The line on top may have scrolled away, and the text alone does not show that its end is
        # missing.
        if answer.stop_reason in ("cut", "refused"):
            self._output().show(_line(self._mask(answer.note)))

    def _end_text(self) -> None:
        if self._text is not None:
            self._text.show(_markdown(self._mask(self._said)))
        self._text, self._said = None, ""

    def _output(self) -> _Output:
        return _Output(self._publisher)

    def _call(self, call: Called) -> dict[str, str]:
        return {"text/plain": self._mask(to_text(call)), "text/html": self._mask(to_html(call))}


class TerminalView(AskListener):
    """Prints an ask while it runs."""

    def __init__(self, mask: Mask, *, is_soft: bool = True) -> None:
        self._mask = mask
        self._is_soft = is_soft
        self._is_open = False

    def sent(self, text: str) -> None:
        self._line(self._mask(text))

    def text(self, piece: str) -> None:
        self._is_open = not piece.endswith("\n")
        sys.stdout.write(printable(self._mask(piece)))
        sys.stdout.flush()

    def called(self, number: int, call: AnswerCall) -> None:  # noqa: ARG002 - they come in order
        self._line(self._mask(to_text(call_view(call))))

    def shortened(self, text: str) -> None:
        self._line(self._mask(text))

    def question(self, question: Question, put: Callable[[Question], Reply]) -> Reply:
        """Ask on a line of its own, after the model's text."""
        if self._is_open:
            sys.stdout.write("\n")
            sys.stdout.flush()
        self._is_open = False
        return super().question(question, put)

    def ended(self, answer: Answer) -> None:
        if answer.question is not None:
            self._line(plan_bundle(answer.question, "", self._mask)["text/plain"])
        self._line(self._mask(_ending(answer, is_soft=self._is_soft)))

    def _line(self, text: str) -> None:
        sys.stdout.write(("\n" if self._is_open else "") + printable(text) + "\n")
        sys.stdout.flush()
        self._is_open = False


class _Output:
    """One output of the cell, renewed in its place."""

    def __init__(self, publisher: Any) -> None:
        self._publisher = publisher
        self._id = f"onetool-ask-{os.urandom(8).hex()}"
        self._is_shown = False
        self._shown_at = 0.0

    def show(self, data: dict[str, str]) -> None:
        self._publisher.publish(data, {}, transient={"display_id": self._id}, update=self._is_shown)
        self._is_shown = True
        self._shown_at = time.monotonic()

    def show_later(self, make: Callable[[], dict[str, str]]) -> None:
        """Show the data unless it was shown just now; `show` always shows the last state."""
        if time.monotonic() - self._shown_at >= _PAUSE_S:
            self.show(make())


def _ending(answer: Answer, *, is_soft: bool) -> str:
    """The last line; the error that follows says why a model failed, unless it is not raised."""
    return summary(answer, reason=is_soft or answer.stop_reason != "error")


def _markdown(text: str) -> dict[str, str]:
    return {"text/plain": printable(text), "text/markdown": markdown.safe(text)}


def _line(text: str) -> dict[str, str]:
    return {"text/plain": printable(text), "text/html": html.marked_note("otx-answer", text)}


class AskMagic:
    """Runs `%ask` in one shell."""

    def __init__(
        self, shell: Any, box: Toolbox, last: LastFailure, options: CellOptions, magic: str = "tool"
    ) -> None:
        self._shell = shell
        self._box = box
        self._last = last
        self._config = options
        self._magic = magic
        self._shown: tuple[Answer, int] | None = None
        self._formatter = shell.display_formatter.ipython_display_formatter
        self._formatter.for_type(Answer, self._display)

    def run(self, line: str, cell: str | None, variables: Mapping[str, object]) -> Any:
        """`%ask` and `%%ask`. `variables` are the local ones, where it stands in a function."""
        with self._remembered():
            flags, prompt = _read(line, cell)
            flags["--soft"] = bool(flags.get("--soft") or self._config.soft)
            if require_one_kept(flags):
                return self._kept(flags, prompt)
            if flags.get(_HELP) or (not prompt and "--distil" not in flags):
                return page(self._box, help_parts())
            # Only what a person typed names variables and resources; the text of a variable does
            # not.
            namespace = {**self._shell.user_ns, **variables} if self._is_typed(line, cell) else None
            if flags.get("--show"):
                return self._preview(prompt, flags, namespace)
            answer = self._last_answer() if not prompt else self._ask(prompt, flags, namespace)
            if flags.get("--distil"):
                self._distil(answer)
            return self._given(answer, flags)

    def _given(self, answer: Answer, flags: Mapping[str, Any]) -> Answer | None:
        """Return the answer, or put it into the variable of `-o`. Raises what ended it, unless
        `--soft` says not to."""
        if not flags["--soft"]:
            sys.stdout.write(failed_text(answer, self._box.mask))
            answer.unwrap()
        if "-o" not in flags:
            return answer
        self._shell.user_ns[flags["-o"]] = answer
        return None

    def _kept(self, flags: Mapping[str, Any], word: str) -> Any:
        """`--waiting`, `--resume ID [skip|again]` and `--drop ID`."""
        asker = self._box.ask
        if "--resume" in flags:
            approve, plan = flags.get("--approve"), bool(flags.get("--plan"))
            answer = asker.resume(
                flags["--resume"], cast(Any, word.strip()), approve=approve, plan=plan
            )
            # A variable shows nothing by itself, and somebody has to know that the program waits.
            if answer.question is not None and (self._is_notebook or "-o" in flags):
                self._display(answer)
                self._shown = (answer, self._shell.execution_count)
            return self._given(answer, flags)
        if word:
            raise UsageProblem(f"--waiting and --drop take no prompt: '{word[:40]}'.")
        if "--drop" not in flags:
            return asker.waiting() or Page("No program waits for a yes.")
        asker.drop(flags["--drop"])
        return Page(f"The program '{flags['--drop']}' is dropped. Nothing of it will run.")

    def remove(self) -> None:
        """Undo the display of answers."""
        self._formatter.type_printers.pop(Answer, None)

    def _ask(
        self, prompt: str, flags: Mapping[str, Any], namespace: Mapping[str, object] | None
    ) -> Answer:
        answer, view = None, self._view(is_soft=flags["--soft"])
        if namespace is not None:
            allow = flags.get("--allow")
            answer = self._box.ask.typed(prompt, source="magic", tool_allow=allow, listener=view)
        if answer is None:
            text, options = self._request(prompt, flags, namespace)
            try:
                answer = self._box.ask(text, **options, listener=view, source="magic")
            except AnswerMismatch as exc:
                if exc.answer is None or not flags["--soft"]:
                    raise
                answer = exc.answer
        self._shown = (answer, self._shell.execution_count)
        return answer

    def _preview(
        self, prompt: str, flags: Mapping[str, Any], namespace: Mapping[str, object] | None
    ) -> Page:
        """Return a page with what would be sent, part by part."""
        text, options = self._request(prompt, flags, namespace)
        parts = self._box.ask.preview(text, **previewed(options))
        total = sum(part.tokens for part in parts)
        texts = []
        for part in parts:
            size = f" · about {counted(part.tokens, 'token')}" if part.tokens else ""
            texts.append(f"{part.name}{size}\n{part.text}".rstrip())
        return Page(
            "\n\n".join([f"This would be sent, about {total:,} tokens. Nothing was sent.", *texts])
        )

    def _request(
        self, prompt: str, flags: Mapping[str, Any], namespace: Mapping[str, object] | None
    ) -> tuple[str, dict[str, Any]]:
        """Return the prompt as it is sent, and the arguments of `box.ask` for it."""
        options = ask_arguments(flags)
        text, attachments = self._expanded(prompt, namespace)
        options["attach"] = attachments or None
        options["model"] = self._model(options.get("model"))
        if "--as" in flags:
            options["as_"] = type_named(flags["--as"], namespace or self._shell.user_ns)
        return text, options

    def _expanded(
        self, prompt: str, namespace: Mapping[str, object] | None
    ) -> tuple[str, dict[str, object]]:
        """Return a typed prompt with a server's prompt at its beginning filled in, and what goes
        along with it.

        `@name` attaches a variable of the namespace, `+server:uri` a resource.
        """
        if namespace is None:
            return prompt, {}
        attachments: dict[str, object] = {}
        text, own = "", prompt
        if (hit := _PROMPT.match(prompt)) is not None:
            self._box.gate.prepare(hit["name"], None, "magic")
            spec = next(
                (each for each in self._box.registry.prompts() if each.name == hit["name"]), None
            )
            if spec is None and (
                hit["name"].partition(".")[0] in self._box.servers
                or _ARGUMENTS.fullmatch(hit["rest"]) is not None
            ):
                prompts = [each.name for each in self._box.registry.prompts()]
                near = did_you_mean(hit["name"], prompts)
                raise UsageProblem(
                    f"No server has a prompt '{hit['name'][:80]}'. {near}".rstrip(),
                    hint="Nothing was sent. See them with: %tool server prompts NAME",
                )
            if spec is not None:
                args = read_arguments(hit["rest"], spec.parameters, self._shell.ev)
                messages = self._box.run(spec.name, args).data
                attachments |= {
                    f"image {number}": image
                    for number, image in enumerate(messages.images, start=1)
                }
                text, own = messages.text, prompt[hit.end() :]
        has_mark = "@" in own
        if has_mark:
            attachments |= variables_of(own, namespace)
        for hit in _ATTACHED.finditer(own):  # what a server wrote names nothing of ours
            if hit["server"] in self._box.servers:
                result = self._box.read_resource(
                    hit["server"], hit["uri"].rstrip(_PUNCTUATION), source="magic"
                )
                result.unwrap()
                result.meta["attached"] = hit[0].rstrip(_PUNCTUATION)
                attachments[result.meta["attached"]] = result
        return text + (as_written(own) if has_mark else own), attachments

    def _is_typed(self, line: str, cell: str | None) -> bool:
        """Whether the text stands in the notebook's code as written, not in a variable."""
        frame: FrameType | None = sys._getframe(1)
        while frame is not None and frame.f_globals is not self._shell.user_global_ns:
            frame = frame.f_back
        return frame is not None and {line, cell or line} <= {
            c for c in frame.f_code.co_consts if isinstance(c, str)
        }

    def _view(self, *, is_soft: bool) -> AskListener:
        if self._is_notebook:
            return NotebookView(self._box.mask, self._shell.display_pub, is_soft=is_soft)
        return TerminalView(self._box.mask, is_soft=is_soft)

    def _model(self, name: str | None) -> Any:
        """A configured model by its name, or the model in a variable of the notebook."""
        config = self._box.config
        # A model that is not approved yet is in `reach` alone: the ask offers to approve it.
        named = (config.settings.models.named, config.reach.get("model", ()))
        if name is None or any(name in names for names in named):
            return name
        held = self._shell.user_ns.get(name)
        return held if isinstance(held, str) or callable(getattr(held, "complete", None)) else name

    def _distil(self, answer: Answer) -> None:
        if answer.program is not None:
            words = [
                f"%%{self._magic} program",
                *(f"@{name}" for name in named_variables(answer.prompt)),
            ]
            self._shell.set_next_input(f"{' '.join(words)}\n{answer.program}")
            return
        cells = answer.to_cells(self._write)
        if not cells:
            raise UsageProblem("The answer made no call that could be made again.")
        if len(cells) == 1:
            self._shell.set_next_input(cells[0])
            return
        named = [f"r{number} = {cell}" for number, cell in enumerate(cells, start=1)]
        results = ", ".join(f"r{number}" for number in range(1, len(cells) + 1))
        self._shell.set_next_input("\n".join([*named, f"display({results})"]))

    def _write(self, name: str, args: Mapping[str, Any]) -> str:
        return format_call(name, args).replace("%tool", f"%{self._magic}", 1)

    def _last_answer(self) -> Answer:
        answer = self._box.ask.last
        if answer is None:
            raise UsageProblem("Nothing was asked yet.", hint="Ask first: %ask PROMPT")
        return answer

    def _display(self, answer: Answer) -> None:
        """Show an answer, unless its own cell has shown it already."""
        if self._shown is None or self._shown != (answer, self._shell.execution_count):
            self._shell.display_pub.publish(mime_bundle(answer, self._box.mask), {})
        elif not self._is_notebook:
            # A terminal has written its prompt `Out[N]:` already, and something has to follow it.
            sys.stdout.write("the answer above\n")

    @property
    def _is_notebook(self) -> bool:
        return hasattr(self._shell, "kernel")

    @contextmanager
    def _remembered(self) -> Iterator[None]:
        """Remember a failure for `%tool history why`."""
        try:
            yield
        except OneToolError as exc:
            self._last.remember(exc)
            raise


def as_python(
    line: str, cell: str | None, models: Container[str], servers: Container[str] = ()
) -> str:
    """The call of `box.ask` for a line or cell; empty if it has no prompt. A prompt of a server
    stays text."""
    flags, prompt = _read(line, cell)
    if flags.keys() & {*KEPT, _HELP, "--show"} or not prompt:
        return ""
    options = {key: repr(value) for key, value in ask_arguments(flags).items()}
    name = flags.get("--model", "")
    if name.isidentifier() and name not in models:
        options["model"] = name  # a variable of the notebook
    if "--as" in flags:
        options["as_"] = flags["--as"]
    if (direct := as_call(prompt)) is not None:
        call = f"box.run({direct[0]!r}, {direct[1]!r})"
        return f"({flags['-o']} := {call})" if "-o" in flags else call
    attachments = [
        (hit["server"], hit["uri"].rstrip(_PUNCTUATION)) for hit in _ATTACHED.finditer(prompt)
    ]
    entries = {name: name for name in named_variables(prompt)} | {
        f"+{server}:{uri}": f"box.read_resource({server!r}, {uri!r})"
        for server, uri in attachments
        if server in servers
    }
    if entries:
        options["attach"] = (
            "{" + ", ".join(f"{name!r}: {code}" for name, code in entries.items()) + "}"
        )
    arguments = [repr(as_written(prompt)), *(f"{key}={value}" for key, value in options.items())]
    call = f"box.ask({', '.join(arguments)})"
    call += "" if flags.get("--soft") else ".unwrap()"
    return f"({flags['-o']} := {call})" if "-o" in flags else call


def _read(line: str, cell: str | None) -> tuple[dict[str, Any], str]:
    """The flags, and the prompt as written."""
    flags, text = read_prompt(line, _KINDS)
    if not flags.keys() <= _NAMES:  # an alias, which stands for an option
        flags = ROW.named(flags, "notebook")
    return flags, "\n".join(part.strip("\n") for part in (text, cell or "") if part.strip())
