"""Write `docs/reference.md` from the code: configuration, magics, `ot`, SDK, Python, REST, command
line, errors.

`make docs` runs it; a test compares what it gives with the file, so that nothing new is left out.
"""

from __future__ import annotations

import importlib
import inspect
import json
import pkgutil
import re
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Literal

import onetool_ipy
from onetool_ipy.base.errors import OneToolError
from onetool_ipy.config.check import resolved, settings_schema
from onetool_ipy.faces.commands.asking import help_parts
from onetool_ipy.faces.commands.catalog import FLAGS, USAGE
from onetool_ipy.faces.commands.table import rows, verbs_of
from onetool_ipy.faces.notebook.extension import OneTool
from onetool_ipy.faces.rest.routes import PREFIX, ROUTES
from onetool_ipy.proxies import OtProxy
from onetool_ipy.render.pages import to_text
from onetool_ipy.toolbox import Toolbox

FILE = Path(__file__).with_name("reference.md")


def main() -> None:
    """Write the file."""
    FILE.write_text(reference(), encoding="utf-8")
    sys.stdout.write(f"wrote {FILE.name}\n")


def reference() -> str:
    """The whole reference as Markdown."""
    parts = [
        "# Reference",
        "Made from the code by `make docs`; do not edit it by hand.",
        *_configuration(),
        *_magics(),
        *_ot(),
        *_sdk(),
        *_python(),
        *_rest(),
        *_command_line(),
        *_errors(),
    ]
    return "\n\n".join(parts).rstrip() + "\n"


def _configuration() -> Iterator[str]:
    schema = settings_schema()
    yield "## Configuration: `.onetool/onetool.yaml`"
    yield (
        f"{schema['description']} `onetool-ipy init` writes this table as comments, and the JSON"
        " Schema it comes from beside it, so that editors with a YAML language server complete and"
        " check what you write."
    )
    nodes = {name: resolved(node, schema) for name, node in schema["properties"].items()}
    yield _table(("key", "default", "means"), [_key(name, node) for name, node in nodes.items()])
    for name, node in nodes.items():
        if node.get("additionalProperties") is False:
            rows = [_key(f"{name}.{key}", inner) for key, inner in node["properties"].items()]
            yield f"### `{name}`\n\n" + _table(("key", "default", "means"), rows)
    entries = {
        "servers.NAME": "server",
        "servers.NAME.auth": "auth",
        "models.NAME": "model",
        "snippets.NAME": "snippet",
    }
    for title, entry in entries.items():
        rows = [_key(key, inner) for key, inner in schema["$defs"][entry]["properties"].items()]
        yield f"### `{title}`\n\n" + _table(("key", "default", "means"), rows)


def _key(name: str, node: Mapping[str, Any]) -> tuple[str, str, str]:
    """A row: the key, its default, what it means and may be."""
    default = f"`{json.dumps(node['default'])}`" if "default" in node else ""
    options = f" One of {', '.join(map(str, node['enum']))}." if "enum" in node else ""
    return f"`{name}`", default, f"{node['description']}{options}"


def _magics() -> Iterator[str]:
    yield "## Magics"
    yield "```text\n" + "\n".join([*USAGE, FLAGS]) + "\n```"
    yield _table(("command", "does"), list(_commands("notebook")))
    yield (
        "`%%snippet NAME [param[=default] ...] [--save]` makes a snippet of the cell's body,"
        " `%snippet NAME k=v [--show]` runs it or shows what it expands to; `$name k=v` calls an"
        " alias, a tool or a snippet."
    )
    yield "### `%ask`\n\n```text\n" + to_text(help_parts(), 140) + "\n```"
    yield "### `%config OneTool`"
    traits = sorted(OneTool.class_traits(config=True).items())
    rows = [(f"`OneTool.{name}`", f"`{trait.default_value}`", trait.help) for name, trait in traits]
    yield _table(("setting", "default", "means"), rows)


def _ot() -> Iterator[str]:
    yield "## `ot`"
    with tempfile.TemporaryDirectory() as folder:
        config = Path(folder, "onetool.yaml")
        config.write_text("version: 1\n", encoding="utf-8")
        with onetool_ipy.open_toolbox(config, env={"ONETOOL_STATE": folder}) as box:
            specs = {spec.name: spec for spec in box.registry.packs()["ot"]}
    rows = [(f"`{spec.signature}`", spec.summary) for _, spec in sorted(specs.items())]
    yield _table(("function", "does"), rows)
    own = [name for name in vars(OtProxy) if not name.startswith("_") and f"ot.{name}" not in specs]
    yield "From Python also:"
    yield _table(("function", "does"), [_member("ot", OtProxy, name) for name in sorted(own)])


def _sdk() -> Iterator[str]:
    yield "## SDK: `from onetool_ipy.sdk import ...`"
    from onetool_ipy import sdk

    yield _table(
        ("name", "does"), [_named(getattr(sdk, name), name) for name in sorted(sdk.__all__)]
    )


def _python() -> Iterator[str]:
    yield "## Python: `import onetool_ipy`"
    yield _table(
        ("name", "does"),
        [_named(getattr(onetool_ipy, name), name) for name in sorted(onetool_ipy.__all__)],
    )
    members = [name for name in vars(Toolbox) if not name.startswith("_")]
    yield "### `Toolbox`"
    yield _table(("member", "does"), [_member("box", Toolbox, name) for name in sorted(members)])


def _rest() -> Iterator[str]:
    yield f"## REST, under `{PREFIX}`"
    yield (
        "Every route takes `project=` and asks for Jupyter's token. OpenAPI 3.1:"
        " `/onetool/openapi.json`."
    )
    rows = [(f"`{route.verb} {route.path}`", _line(route.about)) for route in ROUTES]
    yield _table(("route", "does"), rows)


def _command_line() -> Iterator[str]:
    yield "## Command line: `onetool-ipy`"
    yield (
        "Also `python -m onetool_ipy`. Every command takes `--config FILE`, the configuration to"
        " use."
    )
    yield _table(("command", "does"), list(_commands("shell")))


def _commands(place: Literal["notebook", "shell"]) -> Iterator[tuple[str, str]]:
    for command in rows(place).values():
        if command.alias_of:
            continue
        if not command.is_group or not verbs_of(command.name, place):
            options = " ".join(f"[{option.usage}]" for option in command.options_in(place).values())
            yield f"`{f'{command.line(place)} {options}'.rstrip()}`", command.help


def _errors() -> Iterator[str]:
    yield "## Errors"
    yield (
        "A cell shows three of them, and `except` needs no other: `ToolCallError`, a call that"
        " failed (`.error`, `.result`); `AskFailed`, a question to a model that failed (`.answer`);"
        " `UsageProblem`, all else. `.reason` says which one of its kind it is."
    )
    for module in pkgutil.walk_packages(onetool_ipy.__path__, "onetool_ipy."):
        if not re.search(r"\.(ui|labextension)(\.|$)|__main__", module.name):
            importlib.import_module(module.name)
    rows = []
    for kind in sorted(_family(OneToolError), key=lambda each: each.__name__):
        facts = [_fact(getattr(kind, name, None)) for name in ("code", "reason", "status")]
        shown = f"`{kind.shown_as}`" if kind.shown_as != kind.__name__ else ""
        rows.append((f"`{kind.__name__}`", shown, *facts, _line(kind.__doc__)))
    yield _table(("class", "shown as", "code", "reason", "HTTP", "means"), rows)


def _fact(value: Any) -> str:
    """What a class says of all its exceptions; a property is each one's own."""
    return f"`{value}`" if value and isinstance(value, (str, int)) else ""


def _family(kind: type) -> set[type]:
    return {kind, *(each for below in kind.__subclasses__() for each in _family(below))}


def _named(value: Any, name: str) -> tuple[str, str]:
    return f"`{name}{_arguments(value)}`", _line(
        getattr(value, "__doc__", "") if callable(value) else ""
    )


def _member(owner: str, kind: type, name: str) -> tuple[str, str]:
    value = inspect.getattr_static(kind, name)
    if isinstance(value, property):
        return f"`{owner}.{name}`", _line(value.__doc__)
    arguments = _arguments(getattr(kind, name))
    arguments = arguments.replace("(self: Any, ", "(").replace("(self: Any)", "()")
    return f"`{owner}.{name}{arguments}`", _line(value.__doc__)


def _arguments(value: Any) -> str:
    if not callable(value) or inspect.isclass(value):
        return ""
    try:
        found = inspect.signature(value).replace(return_annotation=inspect.Signature.empty)
        given = [
            each.replace(annotation=_Bare(each.annotation)) for each in found.parameters.values()
        ]
        return str(found.replace(parameters=given))
    except (TypeError, ValueError):
        return "(...)"


class _Bare:
    """An annotation that reads as it was written."""

    def __init__(self, written: Any) -> None:
        self._written = "" if written is inspect.Parameter.empty else str(written)

    def __repr__(self) -> str:
        return self._written or "Any"


def _line(text: str | None) -> str:
    return " ".join(_paragraph(text).split())


def _paragraph(text: str | None) -> str:
    return inspect.cleandoc(text or "").partition("\n\n")[0]


def _table(head: tuple[str, ...], rows: list[Any]) -> str:
    lines = [" | ".join(head), " | ".join("---" for _ in head)]
    lines += [
        " | ".join(str(cell).replace("|", "\\|").replace("\n", " ") for cell in row) for row in rows
    ]
    return "\n".join(f"| {line} |" for line in lines)


if __name__ == "__main__":
    main()
