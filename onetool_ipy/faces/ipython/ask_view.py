"""How an ask looks while it goes on and when it is over: in a notebook, and in a terminal.

In a notebook each piece of text is a Markdown output that grows, and each call a line that unfolds; the line on top
says who was asked, what it cost and how it ended. A saved notebook keeps exactly that. Outputs are renewed at most ten
times a second. Everything is masked; text of a model is Markdown without HTML.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from typing import Any

from onetool_ipy.core.printable import printable
from onetool_ipy.llm.ask.answer import Answer, AnswerCall
from onetool_ipy.llm.ask.desk import Watch
from onetool_ipy.llm.ask.session import Session
from onetool_ipy.llm.ask.shown import called, summary
from onetool_ipy.llm.messages import Usage
from onetool_ipy.render import html, markdown
from onetool_ipy.render.called import Called, to_html, to_text

__all__ = ["NotebookView", "TerminalView"]

Mask = Callable[[str], str]
_PAUSE_S = 0.1


class NotebookView(Watch):
    """Shows an ask in the outputs of one cell."""

    def __init__(self, mask: Mask, publisher: Any) -> None:
        self._mask = mask
        self._publisher = publisher
        self._has_model = False
        self._status = self._output()
        self._text: _Output | None = None
        self._said = ""
        self._calls: dict[int, _Output] = {}

    def began(self, model: str, session: Session) -> None:
        self._has_model = True
        self._status.show(_line(self._mask(f"{model} · asking …{_of(session)}")))

    def text(self, piece: str) -> None:
        self._said += piece
        if self._said.strip():
            self._text = self._text or self._output()
            self._text.show_later(lambda: _markdown(self._mask(self._said)))

    def replied(self, usage: Usage) -> None:  # noqa: ARG002 - the line on top is renewed at the end
        self._end_text()

    def calling(self, number: int, name: str, args: Any) -> None:
        self._end_text()
        output = self._calls.setdefault(number, self._output())
        output.show(self._call(Called(name, args)))

    def called(self, number: int, call: AnswerCall) -> None:
        self._calls.setdefault(number, self._output()).show(self._call(called(call, is_open=not self._has_model)))

    def ended(self, answer: Answer) -> None:
        self._end_text()
        self._status.show(_line(self._mask(summary(answer))))

    def _end_text(self) -> None:
        if self._text is not None:
            self._text.show(_markdown(self._mask(self._said)))
        self._text, self._said = None, ""

    def _output(self) -> _Output:
        return _Output(self._publisher)

    def _call(self, call: Called) -> dict[str, str]:
        return {"text/plain": self._mask(to_text(call)), "text/html": self._mask(to_html(call))}


class TerminalView(Watch):
    """Prints an ask as it goes on."""

    def __init__(self, mask: Mask) -> None:
        self._mask = mask
        self._is_open = False

    def text(self, piece: str) -> None:
        self._is_open = not piece.endswith("\n")
        sys.stdout.write(printable(self._mask(piece)))
        sys.stdout.flush()

    def called(self, number: int, call: AnswerCall) -> None:  # noqa: ARG002 - they come in order
        self._line(self._mask(to_text(called(call))))

    def question(self, text: str) -> str | None:
        """Ask on a line of its own: what the model said does not run into the question."""
        if self._is_open:
            sys.stdout.write("\n")
            sys.stdout.flush()
        self._is_open = False
        return super().question(text)

    def ended(self, answer: Answer) -> None:
        self._line(self._mask(summary(answer)))

    def _line(self, text: str) -> None:
        sys.stdout.write(("\n" if self._is_open else "") + printable(text) + "\n")
        sys.stdout.flush()
        self._is_open = False


class _Output:
    """One output of the cell, shown once and then renewed in its place."""

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
        """Show it unless it was shown just now; the last state is shown by `show`."""
        if time.monotonic() - self._shown_at >= _PAUSE_S:
            self.show(make())


def _markdown(text: str) -> dict[str, str]:
    return {"text/plain": printable(text), "text/markdown": markdown.safe(text)}


def _line(text: str) -> dict[str, str]:
    return {"text/plain": printable(text), "text/html": html.note(text)}


def _of(session: Session) -> str:
    return f" (session {session.name!r})" if session.name else ""
