"""`%tool replay`: answer calls from a cassette until it is switched off, and record what is not in it."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from onetool_ipy.core.errors import UsageProblem
from onetool_ipy.faces.ipython import parse
from onetool_ipy.faces.ipython.commands.group import Bench, Command, page
from onetool_ipy.faces.ipython.display import Page

if TYPE_CHECKING:
    from onetool_ipy.stores.cassettes import Cassette

__all__ = ["Replay"]

_HOW = "Switch one on with: %tool replay FILE"


class Replay:
    """The sub-command that records and plays back."""

    HELP: ClassVar[tuple[str, ...]] = (
        "%tool replay FILE              record what calls give, answer from FILE after; off, --only, --refresh",
    )

    def __init__(self, bench: Bench) -> None:
        self._box = bench.box

    def table(self) -> dict[str, Command]:
        return {"replay": self._replay}

    def _replay(self, rest: str) -> Page:
        asked = parse.read_options(rest, {"--refresh": "switch", "--only": "switch"})
        if len(asked.words) > 1 or len(asked.given) > 1 or (asked.given and not asked.words):
            raise UsageProblem(
                "%tool replay wants one file, and at most one of --only and --refresh.",
                hint="For example: %tool replay calls.yaml; with blanks in its name, in quotes.",
            )
        if not asked.words:
            return self._state()
        if asked.words == ["off"]:
            return self._off()
        mode = "refresh" if "--refresh" in asked.given else "replay" if "--only" in asked.given else None
        made = self._box.ot.replay(asked.words[0], mode=mode)
        return page(self._box, [_said(made.begin_alone())])

    def _state(self) -> Page:
        on = self._box.replays.active
        return page(self._box, [f"No cassette is on. {_HOW}"] if on is None else [_said(on)])

    def _off(self) -> Page:
        on = self._box.replays.active
        self._box.replays.close()
        return page(self._box, ["No cassette was on."] if on is None else [f"Off: {_said(on)}"])


def _said(cassette: Cassette) -> str:
    return repr(cassette).removeprefix("<").removesuffix(">")
