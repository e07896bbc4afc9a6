"""The cassettes that are on in a toolbox, and the mode of a new one. Imports little, since every toolbox has it."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from typing import TYPE_CHECKING, Literal, get_args

from onetool_ipy.base.errors import UsageProblem

if TYPE_CHECKING:
    from onetool_ipy.core.resolve import ResolvedCall
    from onetool_ipy.core.result import ToolResult
    from onetool_ipy.stores.cassettes import Cassette

Mode = Literal["auto", "replay", "refresh"]
"""auto: answer from the file, record what is not in it. replay: only answer. refresh: record everything anew."""

_MODE_ENV = "ONETOOL_REPLAY"
_CI_ENV = "CI"


class Replays:
    """The cassettes that are on. The one begun last is `active` and answers. A reload keeps them."""

    def __init__(self) -> None:
        self.env: Mapping[str, str] = {}
        self.active: Cassette | None = None
        self._on: list[Cassette] = []

    def mode(self, name: str | None) -> Mode:
        """Return the mode with this name, else $ONETOOL_REPLAY, else `replay` in CI, else auto."""
        name = name or self.env.get(_MODE_ENV)
        if not name:
            return "replay" if self.env.get(_CI_ENV, "").lower() not in ("", "0", "false") else "auto"
        if name not in get_args(Mode):
            raise UsageProblem(f"No mode '{name}' of replay.", hint=f"Valid: {', '.join(get_args(Mode))}.")
        return name  # type: ignore[return-value]  # it is one of them

    def step(self, resolved: ResolvedCall) -> Generator[None, ToolResult, ToolResult | None] | None:
        """The executor's step: it answers calls from the active cassette."""
        active = self.active
        return None if active is None else active.around(resolved)

    def begin(self, cassette: Cassette) -> None:
        """Let a cassette answer, until it ends or another begins."""
        self._on.append(cassette)
        self.active = cassette

    def end(self, cassette: Cassette) -> None:
        """Switch a cassette off; does nothing if it is off already."""
        if cassette in self._on:
            self._on.remove(cassette)
            self.active = self._on[-1] if self._on else None
            cassette.close()

    def close(self, *, but: Cassette | None = None) -> None:
        """Switch all off, but one if it is given."""
        for cassette in tuple(self._on):
            if cassette is not but:
                self.end(cassette)
