"""`%tool trust [--remove] | trust list`: which projects may run their code, servers and HTTP tools (contract 16)."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, ClassVar

from onetool_ipy.base.errors import UsageProblem
from onetool_ipy.base.printable import printable_line
from onetool_ipy.config.trust import TrustList
from onetool_ipy.faces.line.grammar import read_options
from onetool_ipy.faces.notebook.commands.group import Bench, Command, page
from onetool_ipy.faces.trust_text import said_of, told_of_yes

__all__ = ["TrustCommands"]


class TrustCommands:
    """What a person says of the project."""

    HELP: ClassVar[tuple[str, ...]] = (
        "%tool trust                    let this project run its code, servers and HTTP tools; --remove takes it back",
        "%tool trust list               the projects that you trust",
    )

    def __init__(self, bench: Bench) -> None:
        self._box = bench.box

    def table(self) -> dict[str, Command]:
        return {"trust": self._trust}

    def _trust(self, rest: str) -> Any:
        asked = read_options(rest, {"--remove": "switch"})
        if asked.words == ["list"] and not asked.given:
            folders = TrustList.of(os.environ, Path.home()).folders()
            return page(self._box, [printable_line(str(folder)) for folder in folders] or ["You trust no project yet."])
        if asked.words:
            raise UsageProblem(f"%tool trust does not know '{asked.words[0][:40]}'.", hint="It knows: list, --remove.")
        if asked.given:
            was_listed = self._box.distrust()
            return page(self._box, said_of(self._box, was_listed=was_listed))
        self._box.follow_trust()
        lines, shown = told_of_yes(self._box), self._box.would_run()
        self._box.trust(shown=shown)
        return page(self._box, lines)
