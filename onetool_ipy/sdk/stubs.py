"""`onetool-ipy stubs`: `.pyi` files for the packs of a project, so that editors complete
`brave.search(`. Pure.

The stubs describe `onetool_ipy.live`: in a stubs folder (`typings/` for Pylance and Pyright,
`mypy_path` for mypy), `from onetool_ipy.live import brave` has tools with arguments, types and
docs. The result of every tool is `Any`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from onetool_ipy.core.tool import ToolSpec
from onetool_ipy.schema.read import identifier, python_names

_FOLDER = "onetool_ipy/live"
_INCOMPLETE = re.compile(
    r"""'(?:\\.|[^'\\])*+'?|"(?:\\.|[^"\\])*+"?|\b(?:dict|list)\b(?!\[)|(\*\*\w+)(?!\s*:|\w)"""
)
_COMPLETE = {"dict": "dict[str, Any]", "list": "list[Any]"}
_HEAD = '"""Written by `onetool-ipy stubs`; run it again when the tools have changed."""\n'


def stubs(specs: Iterable[ToolSpec]) -> dict[str, str]:
    """Return path -> text: a file for each pack, and `__init__.pyi`, which exports them."""
    packs: dict[str, list[ToolSpec]] = {}
    for spec in specs:
        packs.setdefault(spec.pack, []).append(spec)
    taken: set[str] = set()
    files: dict[str, str] = {}
    offered: list[str] = []
    for pack, tools in packs.items():
        name = identifier(pack, taken)
        taken.add(name)
        lines, members = [_HEAD, "from typing import Any, Literal\n"], dict[str, str]()
        for spec in tools:
            label = identifier(spec.short_name, set(members))
            members[label] = f"_Tool_{label}"
            lines.append(_tool(members[label], spec))
        lines.append(
            "\n".join(
                [
                    f"class _Pack_{name}:",
                    *(f"    {label}: {kind}" for label, kind in members.items()),
                    "",
                ]
            )
        )
        files[f"{_FOLDER}/_{name}.pyi"] = "\n".join([*lines, f"{name}: _Pack_{name}\n"])
        offered.append(f"from onetool_ipy.live._{name} import {name} as {name}\n")
    return {f"{_FOLDER}/__init__.pyi": _HEAD + "\n" + "".join(sorted(offered)), **files}


def complete_types(listed: str) -> str:
    """Complete the types for strict checkers: `dict` becomes `dict[str, Any]`, `**rest` becomes
    `**rest: Any`."""
    return _INCOMPLETE.sub(
        lambda match: (
            _COMPLETE.get(match[0]) or (match[0] if match[1] is None else f"{match[1]}: Any")
        ),
        listed,
    )


def _tool(kind: str, spec: ToolSpec) -> str:
    """Return a tool as a class, since it has `__call__` and `.aio`."""
    labels = set(python_names(spec.params).values())
    this = identifier("self", labels)
    signature = complete_types(spec.signature[len(spec.name) + 1 : -1])
    arguments = f"{this}, {signature}" if signature else this
    # The docstring is escaped for triple quotes.
    doc = "".join(char if char.isprintable() or char == "\n" else " " for char in spec.doc).replace(
        "\\", "\\\\"
    )
    if '"""' in doc or doc.endswith('"'):
        doc = doc.replace('"', '\\"')
    first, *rest = doc.split("\n")
    return "\n".join(
        [
            f"class {kind}:",
            f"    def __call__({arguments}) -> Any:",
            f'        """{first}' + ("" if rest else '"""'),
            *(f"        {line}".rstrip() for line in rest),
            *(['        """'] if rest else []),
            f"    async def aio({arguments}) -> Any: ...",
            "",
        ]
    )
