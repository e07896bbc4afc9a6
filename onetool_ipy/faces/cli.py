"""`onetool-ipy`: the toolbox from the command line. Results are JSON on stdout, words go to stderr.

Exit code 0 is ok, 1 a failed call, 2 a wrong command. What leaves here is masked.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from onetool_ipy._version import __version__
from onetool_ipy.assemble import open_leniently, open_toolbox
from onetool_ipy.core import names, values
from onetool_ipy.core.errors import CallFailure, OneToolError
from onetool_ipy.core.model import ToolSpec
from onetool_ipy.toolbox import Toolbox

__all__ = ["main"]

OK, FAILED, USAGE = 0, 1, 2


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; returns its exit code."""
    parser = _parser()
    try:
        options = parser.parse_args(argv)
    except SystemExit as exc:
        return int(exc.code or 0)
    run: Callable[[argparse.Namespace], int] | None = getattr(options, "run", None)
    if run is None:
        (getattr(options, "help_of", parser)).print_help(sys.stderr)
        return USAGE
    try:
        return run(options)
    except OneToolError as exc:
        return _say_error(exc)
    except BrokenPipeError:
        return _hush()
    except KeyboardInterrupt:
        print("Stopped.", file=sys.stderr)
        return 130


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="onetool-ipy", description="One registry of tools for notebooks.")
    parser.add_argument("--version", action="version", version=__version__)
    parser.add_argument("--config", metavar="FILE", help="the configuration to use")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND")
    tools = commands.add_parser("tools", help="list, look up and call tools")
    tools.set_defaults(help_of=tools)
    verbs = tools.add_subparsers(title="commands", metavar="COMMAND")
    listing = verbs.add_parser("list", help="list the tools")
    listing.add_argument("--tool-allow", metavar="CSV", help="only these: names or pack.*, separated by commas")
    listing.add_argument("--json", action="store_true", help="name, description and inputSchema as JSON")
    listing.set_defaults(run=_list)
    info = verbs.add_parser("info", help="one tool's schema and state, as JSON")
    info.add_argument("name")
    info.set_defaults(run=_info)
    invoke = verbs.add_parser("invoke", help="call a tool; the result is JSON")
    invoke.add_argument("name")
    invoke.add_argument("--args", default="{}", metavar="JSON", help="the arguments as a JSON object; - reads stdin")
    invoke.add_argument("--timeout", type=float, metavar="S", help="seconds it may take")
    invoke.set_defaults(run=_invoke)
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
    return parser


def _health(options: argparse.Namespace) -> int:
    with open_leniently(options.config) as box:
        found = box.ot.health()
        _print(box, found)
        return FAILED if found["problems"] else OK


def _export(options: argparse.Namespace) -> int:
    from onetool_ipy.faces.export import export_notebook

    source = Path(options.notebook)
    with open_leniently(options.config) as box:
        text = export_notebook(source, box)
    if options.output == "-":
        print(text, end="")
        return OK
    target = Path(options.output) if options.output else source.with_suffix(".py")
    if target.exists() and not options.output:
        print(f"'{target}' is there already; name another file with --output.", file=sys.stderr)
        return USAGE
    target.write_text(text, encoding="utf-8")
    print(f"wrote {target}", file=sys.stderr)
    return OK


def _list(options: argparse.Namespace) -> int:
    with open_toolbox(options.config) as box:
        allow = None if options.tool_allow is None else [a.strip() for a in options.tool_allow.split(",") if a.strip()]
        specs = [_exact(spec) for spec in box.registry.list(allow)]
        if options.json:
            _print(box, [{"name": s.name, "description": s.description, "inputSchema": s.parameters} for s in specs])
            return OK
        rows = [(s.name, s.summary, s.signature.partition("(")[2][:-1]) for s in specs]
        width = max((len(name) for name, _, _ in rows), default=4)
        print(f"{'NAME':<{width}}  DESCRIPTION  (INPUT)")
        for name, text, arguments in rows:
            print(box.mask(f"{name:<{width}}  {text}  ({arguments})"))
        return OK


def _info(options: argparse.Namespace) -> int:
    with open_toolbox(options.config) as box:
        try:
            spec = box.registry.require(options.name)
        except CallFailure as exc:
            return _say_error(exc)
        count, last = box.log.count_of(spec.name)
        wire = names.wire_names(s.name for s in box.registry.list())[spec.name]
        _print(
            box,
            {
                "name": spec.name,
                "description": spec.description,
                "inputSchema": spec.parameters,
                "signature": spec.signature,
                "source": spec.source,
                "pack": spec.pack,
                "enabled": not spec.disabled,
                "timeoutS": spec.timeout_s if spec.timeout_s is not None else box.config.settings.timeouts.local_s,
                "wireName": wire,
                "callCount": count,
                "lastCalledAt": None if last is None else last.isoformat(timespec="milliseconds"),
                "deps": box.ot.deps(tool=spec.name),
            },
        )
        return OK


def _invoke(options: argparse.Namespace) -> int:
    text = sys.stdin.read() if options.args == "-" else options.args
    try:
        args = json.loads(text)
    except (ValueError, RecursionError) as exc:
        print(f"--args is not JSON: {exc}", file=sys.stderr)
        print('Write it as an object, e.g. --args \'{"message": "hello"}\'.', file=sys.stderr)
        return USAGE
    with open_toolbox(options.config) as box:
        result = box.call(options.name, args, source="cli", timeout=options.timeout)
        _print(box, {**result.to_dict(), "data": box.outgoing(result)})
        if result.error is not None:
            print(box.mask(result.error.message), file=sys.stderr)
            return FAILED
        return OK


def _init(options: argparse.Namespace) -> int:
    from onetool_ipy.config import init_project

    folder = Path(options.folder)
    if options.pack is not None:
        return _init_pack(folder, options.pack)
    written = init_project(folder)
    for path in written:
        print(f"wrote {path}", file=sys.stderr)
    for path in written.left_alone:
        print(f"left alone {path}", file=sys.stderr)
    return OK


def _init_pack(folder: Path, name: str) -> int:
    from onetool_ipy.sdk.template import pack_template

    config = folder / ".onetool" / "onetool.yaml"
    files = pack_template(name, config.read_text(encoding="utf-8") if config.exists() else "")
    taken = [folder / place for place in files if (folder / place).exists() and folder / place != config]
    if taken:
        print(f"'{taken[0]}' is there already; nothing was written.", file=sys.stderr)
        return FAILED
    for place, text in files.items():
        path = folder / place
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        print(f"wrote {path}", file=sys.stderr)
    return OK


def _stubs(options: argparse.Namespace) -> int:
    from onetool_ipy.sdk.stubs import stubs

    with open_toolbox(options.config) as box:
        for place, text in stubs([_exact(spec) for spec in box.registry.list()]).items():
            path = Path(options.output) / place
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
            print(f"wrote {path}", file=sys.stderr)
    return OK


def _exact(spec: ToolSpec) -> ToolSpec:
    """The tool as its code has it; where that cannot be loaded, as its text says."""
    try:
        return spec.live() if spec.live is not None else spec
    except CallFailure as exc:
        print(exc.message, file=sys.stderr)
        return spec


def _print(box: Toolbox, value: Any) -> None:
    masked = values.map_text(values.to_json(value), box.mask)
    print(json.dumps(masked, ensure_ascii=False, indent=2))


def _say_error(exc: OneToolError) -> int:
    for line in exc.lines():
        print(line, file=sys.stderr)
    return FAILED


def _hush() -> int:
    """A reader that went away (`| head`) is no failure of ours."""
    sys.stderr.close()
    return OK


if __name__ == "__main__":
    sys.exit(main())
