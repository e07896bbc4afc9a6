"""How one server is, as a value that is replaced whole, and the words for it.

`Status` holds what happened; what a person reads of it is made here, by its kind. Whether a
connection still lives is not known here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from onetool_ipy.base.errors import TRUST_IT
from onetool_ipy.mcp.definition import ServerDefinition, State

_TEXTS: Mapping[State, str] = {
    "failed": "The server '{name}' did not start. {reason}",
    "unreachable": "The server '{name}' cannot be reached. {reason}",
    "wrong address": "The server '{name}' has a wrong address. {reason}",
    "refused": "The server '{name}' refuses access. {reason}",
    "signed out": "The server '{name}' wants other credentials. {reason}",
    "disconnected": "The server '{name}' is disconnected. {reason}",
    "disabled": "The server '{name}' is switched off.",
    "starting": "The server '{name}' is still starting.",
    "stopped": "The server '{name}' was stopped.",
    "untrusted": "The server '{name}' has not started. {reason}",
}
"""What is said of a server without tools to call; nothing of one that is connected or was never
started."""

_HINTS: Mapping[State, str] = {
    "disabled": "Set 'enabled: true' and reload.",
    "starting": "Try again in a moment.",
    "stopped": "Start it with: %tool server start {name}",
}
_SIGN_IN_TEXT = "The server '{name}' wants you to sign in."
_QUICK_S = 3.0
_RETRY_S = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Status:
    """A state of a server, why it is that, and what to do. `since` is when it began, in seconds of
    `time.monotonic`; `took_s` how long the last start took."""

    kind: State
    reason: str = ""
    hint: str = ""
    since: float = 0.0
    took_s: float = 0.0

    @classmethod
    def at_rest(cls, definition: ServerDefinition) -> Status:
        """The status of a server that was never started."""
        if not definition.enabled:
            return cls(kind="disabled", reason="It is switched off in the configuration.")
        if not definition.is_allowed:
            return cls(kind="untrusted", reason=f"It is not trusted yet. {TRUST_IT}")
        return cls(kind="not started")

    @property
    def is_problem(self) -> bool:
        """Whether it was started and is not as it should be."""
        return self.kind in ("disconnected", "signed out") or self.has_failed

    @property
    def has_failed(self) -> bool:
        """Whether its last start failed, other than for a sign-in."""
        return self.kind in ("failed", "unreachable", "wrong address", "refused")

    def may_be_tried(self, now: float) -> bool:
        """Whether a health check may start it: not if it died, was stopped, or just took long to
        fail."""
        if self.kind == "not started" or self.kind == "untrusted":
            return True
        if self.kind != "starting" and self.kind != "signed out" and not self.has_failed:
            return False
        return self.took_s < _QUICK_S or now - self.since > _RETRY_S

    def text(self, definition: ServerDefinition) -> str:
        """Say why it has no tools to call; empty if it is connected or was never started."""
        is_sign_in = self.kind == "signed out" and definition.signs_in
        text = _SIGN_IN_TEXT if is_sign_in else _TEXTS.get(self.kind, "")
        return text.format(name=definition.name, reason=self.reason).rstrip()

    def advice(self, definition: ServerDefinition) -> str:
        """Say what to do about it."""
        name = definition.name
        if self.kind in _HINTS:
            return _HINTS[self.kind].format(name=name)
        if self.hint:
            return self.hint
        if self.kind == "signed out" and definition.signs_in:
            if definition.auth.grant == "client_credentials":
                return "Are 'auth.client_id' and its secret right?"
            return f"Sign in with: %tool server login {name}"
        if definition.url:
            return "Does it run, and are its address and headers right?"
        return f"See what it wrote: %tool server logs {name}"
