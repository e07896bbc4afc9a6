"""An executor with a few functions as tools, without any project; and what counts its calls."""

from __future__ import annotations

import re
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest

from onetool_ipy.base import values
from onetool_ipy.base.background import AbandonedCalls, Background, Workers
from onetool_ipy.core.executor import Executor
from onetool_ipy.core.registry import Registry
from onetool_ipy.core.resolve import ResolvedCall, Resolver, Step
from onetool_ipy.core.result import ToolResult
from onetool_ipy.core.tool import ToolSpec
from onetool_ipy.sources.functions import spec_of


def short(value: object) -> str:
    """An id for a case of a table, whatever the value is."""
    return re.sub(r" at 0x[0-9a-f]+", "", values.safe_repr(value, 80))[:50]


class Bench:
    """An executor with a few functions as tools, without files or configuration."""

    def __init__(
        self, functions: Sequence[Callable[..., Any]], steps: Sequence[Step], **options: Any
    ) -> None:
        given_up = AbandonedCalls()
        self.background = Background(given_up)
        self.tool_loop = Background(given_up)
        self.workers = Workers(given_up)
        self.registry = Registry()
        for fn in functions:
            self.add(fn)
        mask = options.get("mask", str)
        rules = {
            name: options.pop(name)
            for name in ("admit", "require", "prepare", "local_s")
            if name in options
        }
        self.resolver = Resolver(self.registry, workers=self.workers, mask=mask, **rules)
        self.executor = Executor(
            steps=steps,
            background=self.background,
            tool_loop=self.tool_loop,
            workers=self.workers,
            **options,
        )

    def add(self, fn: Callable[..., Any] | ToolSpec) -> ToolSpec:
        spec = fn if isinstance(fn, ToolSpec) else spec_of(fn, pack="t", origin="cell")
        return self.registry.register(spec)

    def resolve(
        self, name: Any, args: Any = None, *, source: Any = "python", **options: Any
    ) -> ResolvedCall:
        return self.resolver.resolve("id-1", name, {} if args is None else args, source, **options)

    def call(
        self, name: Any, args: Any = None, *, source: Any = "python", **options: Any
    ) -> ToolResult:
        return self.executor.call(self.resolve(name, args, source=source, **options))

    async def acall(
        self, name: Any, args: Any = None, *, source: Any = "python", **options: Any
    ) -> ToolResult:
        return await self.executor.acall(self.resolve(name, args, source=source, **options))

    def close(self) -> None:
        self.tool_loop.close()
        self.background.close()


class Calls:
    """Counts the calls of some functions of the package, in every thread, while it is on."""

    def __init__(self, *names: str) -> None:
        self.names = names
        self.counts: dict[str, int] = dict.fromkeys(names, 0)

    def __call__(self, frame: Any, event: str, _arg: object) -> None:
        if event == "call" and frame.f_code.co_qualname in self.counts:
            self.counts[frame.f_code.co_qualname] += 1

    def __enter__(self) -> dict[str, int]:
        threading.setprofile(self)
        sys.setprofile(self)
        return self.counts

    def __exit__(self, *exc: object) -> None:
        sys.setprofile(None)
        threading.setprofile(None)


MakeBench = Callable[..., Bench]


@pytest.fixture
def bench() -> Iterator[MakeBench]:
    """Make benches: `bench(fn, ..., steps=[...])`; all are closed after the test."""
    made: list[Bench] = []

    def make(*functions: Callable[..., Any], steps: Sequence[Step] = (), **options: Any) -> Bench:
        made.append(Bench(functions, steps, **options))
        return made[-1]

    yield make
    for one in made:
        one.close()
