"""The state of a project's trust: as text for the notebook and the command line, as data for a screen."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from onetool_ipy.base.printable import printable_line

if TYPE_CHECKING:
    from onetool_ipy.toolbox import Toolbox

__all__ = ["removal_lines", "trust_lines", "trust_state"]

_WHY = {
    "home": "It is your own, in your home directory.",
    "named": "It was named outright, so it is trusted in this process.",
    "environment": "$ONETOOL_TRUST names it.",
}


def trust_state(box: Toolbox) -> dict[str, Any]:
    """Whether the project is trusted, why, and what a yes would let run."""
    config = box.config
    return {
        "folder": str(config.paths.project),
        "isTrusted": config.trust.is_given,
        "how": config.trust.how,
        "wouldRun": box.would_run().to_dict(),
    }


def trust_lines(box: Toolbox) -> list[str]:
    """Lines that say what a yes lets run, or why there is nothing to say yes to."""
    trust, found = box.config.trust, box.would_run()
    folder = printable_line(found.folder)
    if trust.how in _WHY:
        return [f"{folder} is trusted already. {_WHY[trust.how]}"]
    if trust.how == "listed" and not found.servers:
        return [f"{folder} is trusted already."]
    return [f"{folder} is trusted from now on. It may run:", *(f"  {line}" for line in found.lines())]


def removal_lines(box: Toolbox, *, was_listed: bool) -> list[str]:
    """Lines that say what `--remove` did."""
    trust, folder = box.config.trust, printable_line(str(box.config.paths.project))
    if trust.how in _WHY:
        return [f"{folder} is still trusted. {_WHY[trust.how]}"]
    return [f"{folder} is no longer trusted." if was_listed else f"{folder} was not trusted."]
