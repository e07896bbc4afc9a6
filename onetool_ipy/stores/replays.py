"""The cassettes that are on in a toolbox, and how one is switched on. Imports little, since every
toolbox has it."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Literal, get_args

from onetool_ipy.base import values
from onetool_ipy.base.errors import UsageProblem
from onetool_ipy.core.shown import without_secrets

if TYPE_CHECKING:
    import datetime

    from onetool_ipy.core.resolve import Step
    from onetool_ipy.stores.cassettes import Cassette

Mode = Literal["auto", "replay", "refresh"]
"""auto: answer from the file, record what is not in it. replay: only answer. refresh: record
everything again."""

_MODE_ENV = "ONETOOL_REPLAY"
_CI_ENV = "CI"


class Replays:
    """The cassettes that are on. The one begun last is `active` and answers. A reload keeps them.

    `steps` holds the step of the active cassette for the executor, and nothing while none is on.
    """

    active: Cassette | None = None

    def __init__(self) -> None:
        self.env: Mapping[str, str] = {}
        self.steps: list[Step] = []
        self._on: list[Cassette] = []

    def mode(self, name: str | None) -> Mode:
        """Return the mode with this name, else $ONETOOL_REPLAY, else `replay` in CI, else auto."""
        name = name or self.env.get(_MODE_ENV)
        if not name:
            return (
                "replay" if self.env.get(_CI_ENV, "").lower() not in ("", "0", "false") else "auto"
            )
        if name not in get_args(Mode):
            raise UsageProblem(
                f"No mode '{name}' of replay.", hint=f"Valid: {', '.join(get_args(Mode))}."
            )
        return name  # type: ignore[return-value]  # it is one of them

    def begin(self, cassette: Cassette) -> None:
        """Let a cassette answer, until it ends or another begins."""
        self._on.append(cassette)
        self._activate()

    def end(self, cassette: Cassette) -> None:
        """Switch a cassette off; does nothing if it is off already."""
        if cassette in self._on:
            self._on.remove(cassette)
            self._activate()
            cassette.close()

    def _activate(self) -> None:
        self.active = self._on[-1] if self._on else None
        self.steps[:] = [] if self.active is None else [self.active.around]

    def close(self, *, but: Cassette | None = None) -> None:
        """Switch all off, but one if it is given."""
        for cassette in tuple(self._on):
            if cassette is not but:
                self.end(cassette)


@without_secrets
class Replaying:
    """What `ot.replay(...)` returns: use it in a `with` statement, or call `begin()` and
    `end()`."""

    def __init__(
        self,
        replays: Replays,
        file: str | os.PathLike[str],
        *,
        mode: str | None,
        mask: Callable[[str], str],
        clock: Callable[[], datetime.datetime],
    ) -> None:
        if not isinstance(file, str | os.PathLike):
            raise UsageProblem(
                f"A replay needs the path of a file, not {values.safe_repr(file, 60)}.",
                hint='For example: ot.replay("calls.jsonl")',
            )
        self._replays = replays
        self._file = Path(file)
        self._mode, self._mask, self._clock = replays.mode(mode), mask, clock
        self._cassette: Cassette | None = None

    def __repr__(self) -> str:
        """Show the state, and how to switch it on if the `with` was forgotten."""
        if self._cassette is not None:
            return f"<replay of '{self._file}', on>"
        return (
            f"<replay of '{self._file}', off; switch it on by `with ot.replay(...):` or %tool"
            " replay FILE>"
        )

    def begin(self) -> Cassette:
        """Switch the cassette on, from its first answer."""
        from onetool_ipy.stores.cassettes import Cassette  # late: it loads the encoding of values

        self.end()
        path = self._file.absolute()
        self._cassette = Cassette(path, mode=self._mode, mask=self._mask, clock=self._clock)
        self._replays.begin(self._cassette)
        return self._cassette

    def begin_alone(self) -> Cassette:
        """Switch the cassette on in place of those that are on."""
        cassette = self.begin()
        self._replays.close(but=cassette)
        return cassette

    def end(self) -> None:
        """Switch the cassette off; may be called twice."""
        if self._cassette is not None:
            self._replays.end(self._cassette)
            self._cassette = None

    def __enter__(self) -> Cassette:
        return self.begin()

    def __exit__(self, *exc: object) -> None:
        self.end()
