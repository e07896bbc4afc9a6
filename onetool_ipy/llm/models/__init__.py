"""Clients for language models, one small one per wire format, on the one HTTP client.

A client does one thing: `complete(messages, tools)` sends a conversation and gives the model's `Turn`. It keeps
nothing between two of them. With `on_text` the reply is streamed, and each piece of text is handed over in the thread
(or task) that asked, as it comes; without, it is read whole. `acomplete` is the same for async code.

Failures are those of `core.errors`: RateLimited, CallTimeout, InvalidOutput, MissingSecret, ExecutionFailed, ... with
secrets masked; `details["text"]` holds what had been said before a reply broke off. Stop (KeyboardInterrupt) and
cancelling close the connection and pass through as they are; what had been said by then went to `on_text`.

`ModelClient` is the protocol: `onetool_ipy.llm.ScriptedModel` fulfils it, and so may a user's own class.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Protocol

from onetool_ipy.base.errors import UsageProblem

if TYPE_CHECKING:
    from onetool_ipy.base.background import Background
    from onetool_ipy.base.masking import Secrets
    from onetool_ipy.config.settings import Models
    from onetool_ipy.llm.formats import OfferedTool
    from onetool_ipy.llm.messages import Message, Turn
    from onetool_ipy.net.client import HttpClient

__all__ = ["DEADLINE_S", "ModelClient", "OnText", "open_model"]

DEADLINE_S = 300.0
"""How long one reply may take, with all tries, unless it is said."""

OnText = Callable[[str], object]


class ModelClient(Protocol):
    """Something that can be asked. `name` is what people call it."""

    @property
    def name(self) -> str: ...

    def complete(
        self,
        messages: Sequence[Message],
        tools: Sequence[OfferedTool] = (),
        *,
        on_text: OnText | None = None,
        deadline_s: float = DEADLINE_S,
        max_tokens: int | None = None,
    ) -> Turn:
        """Send a conversation and wait for the reply. Raises a CallFailure where there is none."""
        ...

    async def acomplete(
        self,
        messages: Sequence[Message],
        tools: Sequence[OfferedTool] = (),
        *,
        on_text: OnText | None = None,
        deadline_s: float = DEADLINE_S,
        max_tokens: int | None = None,
    ) -> Turn:
        """`complete` without blocking the event loop."""
        ...


def open_model(
    which: str | ModelClient | None,
    models: Models,
    *,
    secrets: Secrets,
    http_client: HttpClient,
    background: Background,
) -> ModelClient:
    """The client for a configured model by name, or the default one; a client is given back as it is.

    Raises UsageProblem where there is no such model, or none at all, saying what to write.
    """
    if which is not None and not isinstance(which, str):
        if callable(getattr(which, "complete", None)):
            return which
        raise UsageProblem(f"A model is a name or has a method 'complete'; this is {type(which).__name__!r}.")
    if not models.named:
        raise UsageProblem("No model is configured.", hint=_HOW_TO)
    listed = ", ".join(f"'{name}'" for name in models.named)
    name = models.default if which is None else which
    if name is None:
        raise UsageProblem("No model was named, and none is the default.", hint=f"{_DEFAULT} Configured: {listed}.")
    chosen = models.named.get(name)
    if chosen is None:
        from onetool_ipy.base import values
        from onetool_ipy.base.search import did_you_mean

        near = did_you_mean(name, models.named)
        shown = f"No model '{values.cut(name, 80)}'." + (f" {near}" if near else "")
        raise UsageProblem(shown, hint=f"Configured: {listed}.")
    from onetool_ipy.llm.models.client import HttpModelClient

    return HttpModelClient(chosen, secrets=secrets, http_client=http_client, background=background)


_HOW_TO = """Write in onetool.yaml, then run ot.reload():
models:
  default: local
  local: {provider: ollama, base_url: "http://127.0.0.1:11434", model: qwen3}"""
_DEFAULT = "Write 'default: NAME' under 'models' in onetool.yaml."
