"""Python functions as tools: functions marked with `@tool`, and the functions we ship."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import cache, partial
from typing import Any

from onetool_ipy.base.records import once
from onetool_ipy.core import describe, names
from onetool_ipy.core.decorate import marks_of, name_of
from onetool_ipy.core.tool import Origin, Problem, ToolSpec
from onetool_ipy.sdk.requirements import deps_of


def spec_of(
    fn: Callable[..., Any], *, pack: str, origin: Origin, where: str = "", **fields: Any
) -> ToolSpec:
    """Describe a function as a tool of a pack, with its `@tool` marks. Raises InvalidTool."""
    marks = marks_of(fn)
    name = names.canonical(marks.name or name_of(fn), pack=marks.pack or pack)
    return describe.from_function(
        fn, name=name, origin=origin, where=where, deps=deps_of(fn), **marks.fields(), **fields
    )


class Functions:
    """The source of the tools we ship: a fixed list of (pack, functions).

    They are listed as they are written. A call loads its tool: pydantic, which makes the schemas,
    takes long to import.
    """

    def __init__(self, packs: Sequence[tuple[str, Sequence[Callable[..., Any]]]]) -> None:
        self._packs = packs

    @once
    def by_name(self) -> dict[str, ToolSpec]:
        """The tools by name. What they load is cached, so that their compiled checks are kept."""
        specs = {}
        for pack, functions in self._packs:
            for fn in functions:
                make_spec = partial(spec_of, fn, pack=pack, origin="builtin")
                spec = make_spec(type_schema=describe.written_type, load=cache(make_spec))
                specs[spec.name] = spec
        return specs

    def tools(self) -> Iterable[ToolSpec]:
        return self.by_name.values()

    def problems(self) -> Iterable[Problem]:
        return ()

    refresh = None
