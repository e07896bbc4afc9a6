"""`onetool-ipy init | stubs | health | export`: a project's files and how it is."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path
from typing import Any

from onetool_ipy.assemble import open_leniently, open_toolbox
from onetool_ipy.config.paths import FOLDER
from onetool_ipy.config.trust import TrustList
from onetool_ipy.core.printable import printable
from onetool_ipy.faces.cli.say import FAILED, OK, USAGE, aside, say, show_json

__all__ = ["add"]


def add(commands: Any) -> None:
    """Add the commands to the parser's."""
    init = commands.add_parser("init", help="write a commented .onetool/ folder")
    init.add_argument("folder", nargs="?", default=".")
    init.add_argument("--pack", metavar="NAME", help="write a pack file with two tools, its test and its settings")
    init.set_defaults(run=_init)
    stubs = commands.add_parser("stubs", help="write .pyi files for the packs, so that editors complete them")
    stubs.add_argument("--output", "-o", metavar="FOLDER", default="typings")
    stubs.set_defaults(run=_stubs)
    health = commands.add_parser("health", help="what is wrong now, and what to do, as JSON")
    health.set_defaults(run=_health)
    export = commands.add_parser("export", help="write a notebook as a plain Python script")
    export.add_argument("notebook")
    export.add_argument("--output", "-o", metavar="FILE", help="by default NOTEBOOK.py; - prints it")
    export.set_defaults(run=_export)


def _health(options: argparse.Namespace) -> int:
    with open_leniently(options.config) as box:
        with aside():
            found = box.ot.health()
        show_json(box, found)
        return FAILED if found["problems"] else OK


def _export(options: argparse.Namespace) -> int:
    from onetool_ipy.faces.export import export_notebook

    source = Path(options.notebook)
    with open_leniently(options.config) as box:
        text = export_notebook(source, box)
    if options.output == "-":
        print(printable(text) if sys.stdout.isatty() else text, end="")
        return OK
    target = Path(options.output) if options.output else source.with_suffix(".py")
    if target.exists() and not options.output:
        say(f"'{target}' is there already; name another file with --output.")
        return USAGE
    target.write_text(text, encoding="utf-8")
    say(f"wrote {target}")
    return OK


def _init(options: argparse.Namespace) -> int:
    folder = Path(options.folder)
    is_new = not os.path.lexists(folder / FOLDER)
    code = _init_pack(folder, options.pack) if options.pack is not None else _init_project(folder)
    if is_new and (folder / FOLDER).is_dir():
        TrustList.of(os.environ, Path.home()).add(folder.resolve(), {})
    return code


def _init_project(folder: Path) -> int:
    from onetool_ipy.config import init_project

    written = init_project(folder)
    for path in written:
        say(f"wrote {path}")
    for path in written.left_alone:
        say(f"left alone {path}, which is there already")
    if written:
        say("Next: %load_ext onetool_ipy in a notebook, or onetool-ipy tools list")
    return OK


def _init_pack(folder: Path, name: str) -> int:
    from onetool_ipy.sdk.template import pack_template

    config = folder / ".onetool" / "onetool.yaml"
    files = pack_template(name, config.read_text(encoding="utf-8") if config.exists() else "")
    taken = [folder / place for place in files if (folder / place).exists() and folder / place != config]
    if taken:
        say(f"'{taken[0]}' is there already; nothing was written.")
        return FAILED
    for place, text in files.items():
        path = folder / place
        done = "added its settings to" if path.exists() else "wrote"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        say(f"{done} {path}")
    return OK


def _stubs(options: argparse.Namespace) -> int:
    from onetool_ipy.sdk.stubs import stubs

    with open_toolbox(options.config) as box:
        for place, text in stubs(box.registry.list()).items():
            path = Path(options.output) / place
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
            say(f"wrote {path}")
    return OK
