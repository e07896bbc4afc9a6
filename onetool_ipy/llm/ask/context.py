"""What `ask` may look at and use: the toolbox as a small protocol, and who watches an ask under way."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from onetool_ipy.config.load import Config
from onetool_ipy.core.executor import CallIds, Executor
from onetool_ipy.core.registry import Registry
from onetool_ipy.core.result import ToolResult
from onetool_ipy.snippets.definition import Shortcuts
from onetool_ipy.stores.replays import Replays

if TYPE_CHECKING:
    from onetool_ipy.llm.ask.answer import Answer, AnswerCall
    from onetool_ipy.llm.ask.session import Session
    from onetool_ipy.llm.messages import TokenUsage
    from onetool_ipy.llm.models import ModelClient

__all__ = ["AskContext", "AskListener"]


class AskContext(Protocol):
    """The toolbox as `ask` sees it."""

    @property
    def config(self) -> Config:
        """The configuration in force."""

    @property
    def registry(self) -> Registry:
        """All tools."""

    @property
    def executor(self) -> Executor:
        """What runs a call."""

    @property
    def shortcuts(self) -> Shortcuts:
        """Aliases, among others."""

    @property
    def new_id(self) -> CallIds:
        """Ids for calls."""

    @property
    def replays(self) -> Replays:
        """The cassette that is on, if one is."""

    def model(self, which: str | ModelClient | None = None) -> ModelClient:
        """The client of a model."""

    def outgoing(self, result: ToolResult) -> Any:
        """The data of a result as it leaves the kernel: whole, or {handle, total_lines, preview}."""

    def mask(self, text: str) -> str:
        """The text without secrets."""


class AskListener:
    """Hears of an ask as it goes on. Every method may be overridden; they are called in the asking thread."""

    def began(self, model: str, session: Session) -> None:
        """A model is about to be asked."""

    def text(self, piece: str) -> None:
        """The model said some more, without secrets; a piece may come late, with the one after it."""

    def replied(self, usage: TokenUsage) -> None:
        """A reply is complete; `usage` is what was spent so far."""

    def calling(self, number: int, name: str, args: Any) -> None:
        """A call is about to run; `number` counts the calls of this ask from 1."""

    def called(self, number: int, call: AnswerCall) -> None:
        """A call has ended, or was refused."""

    def question(self, text: str) -> str | None:
        """Ask the person whether these calls may run, and give the reply; None where nobody can be asked."""
        from onetool_ipy.llm.ask.approval import ask_person

        return ask_person(text)

    def ended(self, answer: Answer) -> None:
        """It is over."""
