"""`onetool-ipy trust [PATH] [--remove] [--list]`: which projects may run their code, servers and HTTP tools."""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from typing import Any

from onetool_ipy.assemble import open_leniently
from onetool_ipy.config.trust import TrustList
from onetool_ipy.core.printable import printable_line
from onetool_ipy.faces.cli.say import FAILED, OK, say
from onetool_ipy.faces.trust_words import said_of, told_of_yes

__all__ = ["add"]


def add(commands: Any) -> None:
    """Add the command to the parser's."""
    trust = commands.add_parser("trust", help="let a project run its code, servers and HTTP tools")
    trust.add_argument("path", nargs="?", default=".", help="the project's folder; by default this one")
    trust.add_argument("--remove", action="store_true", help="trust it no longer")
    trust.add_argument("--list", action="store_true", help="the projects that you trust")
    trust.set_defaults(run=_trust)


def _trust(options: argparse.Namespace) -> int:
    if options.list:
        for folder in TrustList.of(os.environ, Path.home()).folders():
            print(printable_line(str(folder)))
        return OK
    folder = Path(options.path).resolve()
    if not folder.is_dir():
        say(f"There is no folder '{options.path}'.")
        return FAILED
    with open_leniently(cwd=folder) as box:
        if options.remove:
            was_listed = box.distrust()
            lines = said_of(box, was_listed=was_listed)
        else:
            lines = told_of_yes(box)
            box.trust()
        for line in lines:
            say(box.mask(line))
    return OK
