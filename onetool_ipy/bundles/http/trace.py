"""What was sent and what came back, told to a person: `{request, response, result}`, masked.

Requests are shown as they were made with `***` for each secret; of what comes back, secrets and the tokens that were
got on the way are masked.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import Any

from onetool_ipy.bundles.http.answer import body_text
from onetool_ipy.bundles.http.request import Outgoing
from onetool_ipy.bundles.http.scope import HIDDEN
from onetool_ipy.core import values
from onetool_ipy.core.errors import CallFailure
from onetool_ipy.core.failures import failure_of
from onetool_ipy.net.faults import Mask
from onetool_ipy.net.reply import Reply

__all__ = ["Trace", "Veil", "shown_request"]

_MAX_BODY = 64 * 1024
_SHORTEST = 6
_ENCODED = "%2A%2A%2A"


class Veil:
    """Hides the secrets of one call, also those that were got on the way; keeps nothing of it."""

    def __init__(self, mask: Mask) -> None:
        self._mask = mask
        self._hidden: list[str] = []
        self.mismatch: list[dict[str, str]] = []

    def hide(self, secrets: Iterable[str]) -> None:
        """Mask these from now on too."""
        self._hidden = sorted({*self._hidden, *(s for s in secrets if len(s) >= _SHORTEST)}, key=len, reverse=True)

    def mask(self, text: str) -> str:
        """The text without any secret."""
        text = self._mask(text)
        for secret in self._hidden:
            text = text.replace(secret, HIDDEN)
        return text

    def masked(self, value: Any) -> Any:
        """A JSON value without any secret."""
        return values.map_text(values.to_json(value), self.mask)

    def sent(self, name: str, request: Callable[[], dict[str, Any]]) -> None:
        """A request goes out."""

    def got(self, reply: Reply) -> None:
        """The reply to it."""


class Trace(Veil):
    """Follows one call, and keeps what is told of it."""

    def __init__(self, mask: Mask) -> None:
        super().__init__(mask)
        self._steps: list[dict[str, Any]] = []
        self._began = 0.0

    def sent(self, name: str, request: Callable[[], dict[str, Any]]) -> None:
        """A request goes out; the same step sent again counts once."""
        if not self._steps or self._steps[-1]["name"] != name:
            self._steps.append({"name": name, "request": request(), "response": None})
        self._began = time.monotonic()

    def got(self, reply: Reply) -> None:
        """The reply to it."""
        self._steps[-1]["response"] = {
            "status": reply.status,
            "headers": dict(reply.headers),
            "url": reply.url,
            "attempts": reply.attempts,
            "durationMs": round((time.monotonic() - self._began) * 1000, 1),
            "size": len(reply.body),
            **_body(reply),
        }

    def done(self, value: Any) -> dict[str, Any]:
        """What to tell of a call that gave a value."""
        said = {"meta": {"mismatch": self.mismatch}} if self.mismatch else {}
        return self._told({"ok": True, "value": value, **said})

    def failed(self, exc: CallFailure, tool: str) -> dict[str, Any]:
        """What to tell of a call that failed; raises its error where no response ever came."""
        if not any(step["response"] for step in self._steps):
            raise exc
        return self._told({"ok": False, "error": failure_of(exc, tool, self.mask).to_dict()})

    def _told(self, result: dict[str, Any]) -> dict[str, Any]:
        last = self._steps[-1]
        told = {"request": last["request"], "response": last["response"], "result": result}
        if len(self._steps) > 1:
            told["steps"] = self._steps
        found: dict[str, Any] = self.masked(told)
        return found


def shown_request(out: Outgoing) -> dict[str, Any]:
    """A request as a dict; its secrets are `***` already, also where they were percent-encoded."""
    shown: dict[str, Any] = {
        "method": out.method,
        "url": out.url.replace(_ENCODED, HIDDEN),
        "headers": dict(out.headers),
    }
    if out.content is not None:
        text = out.content.decode("utf-8", "replace")
        shown["body"] = _cut(text.replace(_ENCODED, HIDDEN))
    return shown


def _body(reply: Reply) -> dict[str, Any]:
    text = body_text(reply)
    return {} if text is None else {"body": _cut(text)}


def _cut(text: str) -> str:
    return text if len(text) <= _MAX_BODY else f"{text[:_MAX_BODY]}..."
