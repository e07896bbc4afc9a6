"""Python functions as tools: functions marked with `@tool`, and the functions we ship."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from onetool_ipy.base.records import once
from onetool_ipy.core import describe, names
from onetool_ipy.core.decorate import marks_of, name_of
from onetool_ipy.core.tool import Origin, Problem, ToolSpec
from onetool_ipy.sdk.requirements import deps_of


def spec_of(fn: Callable[..., Any], *, pack: str, origin: Origin, where: str = "") -> ToolSpec:
    """Describe a function as a tool of a pack, with its `@tool` marks. Raises InvalidTool."""
    marks = marks_of(fn)
    name = names.canonical(marks.name or name_of(fn), pack=marks.pack or pack)
    return describe.from_function(fn, name=name, origin=origin, where=where, deps=deps_of(fn), **marks.fields())


class Functions:
    """The source of the tools we ship: a fixed list of (pack, functions)."""

    def __init__(self, packs: Sequence[tuple[str, Sequence[Callable[..., Any]]]]) -> None:
        self._packs = packs

    @once
    def by_name(self) -> dict[str, ToolSpec]:
        """The tools by name; cached, so that their compiled checks are kept."""
        specs = (spec_of(fn, pack=pack, origin="builtin") for pack, functions in self._packs for fn in functions)
        return {spec.name: spec for spec in specs}

    def tools(self) -> Iterable[ToolSpec]:
        return self.by_name.values()

    def problems(self) -> Iterable[Problem]:
        return ()

    def refresh(self) -> bool:
        return False
