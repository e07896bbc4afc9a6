"""What one ask works with: its toolbox, the listener of its progress, and the budget of its limits
with the price.

`AskBudget` counts calls, tokens, seconds and dollars. It leaves out the time a person takes to
approve calls, and estimates tokens from characters if the provider does not count them.
`ModelPrice` is the price in the model's settings, otherwise that of the table of `genai-prices`, if
it is installed. The table is asked only for models at their provider's own address: a server of
one's own may give its model any name. Without a price there is no cost.
"""

from __future__ import annotations

import datetime
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any, Protocol

from onetool_ipy.base.errors import ExecutionFailed
from onetool_ipy.config.load import Config, ToolLabels
from onetool_ipy.config.settings import AskSettings, Model
from onetool_ipy.core.executor import Executor
from onetool_ipy.core.lineage import Lineage
from onetool_ipy.core.question import Question, Reply
from onetool_ipy.core.registry import Registry
from onetool_ipy.core.resolve import Allow, Arguments, ResolvedCall
from onetool_ipy.core.result import ToolResult
from onetool_ipy.core.tool import CallSource
from onetool_ipy.llm.ask.answer import Answer, AnswerCall
from onetool_ipy.llm.ask.session import Session, json_text
from onetool_ipy.llm.ask.tools import ToolSelection
from onetool_ipy.llm.messages import ModelClient, TakesImages, TokenUsage, Turn
from onetool_ipy.snippets.definition import Shortcuts
from onetool_ipy.stores.calls.log import CallLog
from onetool_ipy.stores.replays import Replays
from onetool_ipy.stores.results import Results

_MAX_REPEATS = 3
"""How often the same call may run in one ask. A turn that asks only for such calls again is not
run."""
_TABLE = "genai_prices"
_PROVIDERS = {"openai": "openai", "anthropic": "anthropic", "gemini": "google"}
"""The names of our providers in the table."""


class AskToolbox(Protocol):
    """What an ask needs of its toolbox. A reload replaces most of it, so each is read when it is
    needed."""

    @property
    def config(self) -> Config: ...

    @property
    def registry(self) -> Registry: ...

    @property
    def executor(self) -> Executor: ...

    @property
    def shortcuts(self) -> Shortcuts: ...

    @property
    def replays(self) -> Replays: ...

    @property
    def log(self) -> CallLog: ...

    @property
    def lineage(self) -> Lineage: ...

    @property
    def results(self) -> Results: ...

    @property
    def new_id(self) -> Callable[[], str]: ...

    def now(self) -> datetime.datetime: ...

    def resolve(
        self,
        tool: str,
        args: Arguments | None = None,
        *,
        source: CallSource = "python",
        allow: Allow | None = None,
        call_id: str = "",
    ) -> ResolvedCall: ...

    def model(self, which: str | ModelClient | None = None) -> ModelClient: ...

    def mask(self, text: str) -> str: ...

    def outgoing(self, result: ToolResult) -> Any: ...

    def put_question(self, question: Question) -> Reply: ...


class AskListener:
    """Follows an ask. Every method may be overridden; all are called in the asking thread."""

    def began(self, model: str, session: Session) -> None:
        """The first request is about to be sent."""

    def sent(self, text: str) -> None:
        """What goes along with the prompt, in words."""

    def text(self, piece: str) -> None:
        """The model wrote more text. It is without secrets; a piece may come late, with the next
        one."""

    def replied(self, usage: TokenUsage) -> None:
        """A reply is complete; `usage` is the total so far."""

    def shortened(self, text: str) -> None:
        """The conversation was too long; the text says what became of its beginning, with the
        summary of it."""

    def calling(self, number: int, name: str, args: object) -> None:
        """A call is about to run; `number` counts the calls of this ask from 1."""

    def called(self, number: int, call: AnswerCall) -> None:
        """A call has ended, or was refused."""

    def question(self, question: Question, put: Callable[[Question], Reply]) -> Reply:
        """Ask the person whether these calls may run; `put` asks. Raises NobodyToAsk."""
        return put(question)

    def ended(self, answer: Answer) -> None:
        """The ask has ended."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AskParts:
    """What the parts of one ask share."""

    box: AskToolbox
    session: Session
    selection: ToolSelection
    budget: AskBudget
    listener: AskListener
    labels: ToolLabels
    takes_images: TakesImages
    note: Callable[[str], None]
    """Shows the person a line."""


class OverLimit(ExecutionFailed):
    """A call was not run: the ask reached a limit."""

    reason = "limit"
    status = 429


class Repeated(ExecutionFailed):
    """A call was not run: it ran several times already."""

    reason = "repeated"
    status = 429


class AskBudget:
    """What one ask has spent of its limits."""

    def __init__(
        self, limits: AskSettings, chars_per_token: float, price: ModelPrice | None = None
    ) -> None:
        self.limits = limits
        self.calls = 0
        self.usage = TokenUsage()
        self.price = price or ModelPrice(None)
        self.cost: float | None = None
        self._chars_per_token = chars_per_token
        self._began = time.monotonic()
        self._waited_s = 0.0
        self._runs: Counter[str] = Counter()

    @property
    def seconds(self) -> float:
        """Seconds since the start, without the time of the person."""
        return time.monotonic() - self._began - self._waited_s

    @property
    def left_s(self) -> float:
        return max(self.limits.max_seconds - self.seconds, 0.0)

    @contextmanager
    def waiting(self) -> Iterator[None]:
        """Stop the clock while a person is asked."""
        began = time.monotonic()
        try:
            yield
        finally:
            self._waited_s += time.monotonic() - began

    def tokens(self, chars: int) -> int:
        """Estimate the tokens of a number of characters."""
        return -int(-chars // self._chars_per_token)

    def spend(self, turn: Turn, sent_chars: int) -> None:
        """Count a reply, by the provider's own numbers if it gives some."""
        usage = turn.usage
        if not usage.total:
            written_chars = len(turn.text) + sum(
                len(json_text(call.arguments)) for call in turn.calls
            )
            usage = TokenUsage(self.tokens(sent_chars), self.tokens(written_chars))
        self.usage += usage
        if (cost := self.price.cost(usage)) is not None:
            self.cost = (self.cost or 0.0) + cost

    def reached(self) -> str | None:
        """Return in words which limit ends the ask now, or None."""
        if self.usage.total >= self.limits.max_tokens:
            return (
                f"{self.usage.total:,} of {self.limits.max_tokens:,} tokens (ask.max_tokens) are"
                " spent"
            )
        if (
            self.limits.max_cost is not None
            and self.cost is not None
            and self.cost >= self.limits.max_cost
        ):
            return f"${self.cost:.2g} of ${self.limits.max_cost:g} (ask.max_cost) are spent"
        if self.left_s <= 0:
            return f"the {self.limits.max_seconds:g} s of ask.max_seconds are over"
        return None

    def take_call(self) -> bool:
        """Count a call. Returns False above the limit."""
        self.calls += 1
        return self.calls <= self.limits.max_calls

    def is_repeated(self, signatures: Iterable[str]) -> bool:
        """Whether a turn asks only for calls that ran often enough; otherwise count them."""
        calls = set(signatures)
        if calls and all(self._runs[call] >= _MAX_REPEATS for call in calls):
            return True
        self._runs.update(calls)
        return False


class ModelPrice:
    """The price of one model. `matched` is the id of the table's model, after the first cost was
    found there."""

    def __init__(self, client: object) -> None:
        model = getattr(client, "model", None)
        self._model = model if isinstance(model, Model) else None
        self.matched = ""

    def cost(self, usage: TokenUsage) -> float | None:
        """Return the dollars of one reply, or None if the price is not known."""
        if self._model is None:
            return None
        if (price := self._model.price) is not None:
            # The tokens from the cache are a part of the input, and a price is for a million
            # tokens.
            cached = min(usage.cached, usage.input)
            dollars = (usage.input - cached) * price["input"] + cached * price.get(
                "cached", price["input"]
            )
            return (dollars + usage.output * price["output"]) / 1_000_000
        provider = _PROVIDERS.get(self._model.provider)
        if provider is None or self._model.base_url is not None or find_spec(_TABLE) is None:
            return None
        from genai_prices import Usage, calc_price  # late: it takes half a second

        counts = {
            "input_tokens": usage.input,
            "output_tokens": usage.output,
            "cache_read_tokens": min(usage.cached, usage.input),
        }
        try:
            calculation = calc_price(Usage(**counts), self._model.model, provider_id=provider)
        except (LookupError, ValueError):
            return None
        self.matched = calculation.model.id
        return float(calculation.total_price)
