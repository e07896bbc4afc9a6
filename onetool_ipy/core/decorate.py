"""`@tool`: marks a function as a tool and says what is known about it. Leaves the function
unchanged.

In a notebook the mark also registers the function in the current toolbox: at once, or when the
extension loads. Elsewhere the source that finds the function reads the mark.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple, TypeVar, overload

from onetool_ipy.base import values
from onetool_ipy.base.errors import InvalidTool
from onetool_ipy.base.values import Json
from onetool_ipy.core import current

_F = TypeVar("_F", bound=Callable[..., Any])
_ATTRIBUTE = "__onetool__"
_READS = ("private", "public", "nothing")


class Marks(NamedTuple):
    """What `@tool(...)` says about a function.

    `cache_key` computes from a call's arguments what its result depends on; None means that it must
    not be reused. `resource` is the address (or its template) under which MCP clients read what the
    tool gives; `prompt` makes it a prompt for them. Both only read. `reads` (private, public or
    nothing) and `sends` (a host, or nowhere) are its labels for the guard of `%ask`.
    """

    name: str = ""
    pack: str = ""
    description: str = ""
    tags: tuple[str, ...] = ()
    read_only: bool = False
    cache_key: Callable[..., Any] | None = None
    timeout: float | None = None
    examples: tuple[str, ...] = ()
    resource: str = ""
    prompt: bool = False
    reads: str = ""
    sends: str = ""

    def fields(self) -> Json:
        """The ToolSpec fields that these marks set."""
        from onetool_ipy.core.tool import GuardFacts  # late: `@tool` alone needs none of it

        return {
            "description": self.description,
            "example": "\n".join(self.examples),
            "tags": self.tags,
            "read_only": self.read_only or self.prompt or bool(self.resource),
            "cache_key": self.cache_key,
            "timeout_s": self.timeout,
            "resource": self.resource,
            "prompt": self.prompt,
            "guard": GuardFacts(self.reads, self.sends),
        }


@overload
def tool(fn: _F, /) -> _F: ...
@overload
def tool(
    name: str = ...,
    *,
    pack: str = ...,
    description: str = ...,
    tags: Sequence[str] = ...,
    read_only: bool = ...,
    cache_key: Callable[..., Any] | None = ...,
    timeout: float | None = ...,
    examples: Sequence[str] | str = ...,
    resource: str = ...,
    prompt: bool = ...,
    reads: str = ...,
    sends: str = ...,
) -> Callable[[_F], _F]: ...
def tool(
    fn: Any = None,
    /,
    *,
    name: str = "",
    pack: str = "",
    description: str = "",
    tags: Sequence[str] = (),
    read_only: bool = False,
    cache_key: Callable[..., Any] | None = None,
    timeout: float | None = None,
    examples: Sequence[str] | str = (),
    resource: str = "",
    prompt: bool = False,
    reads: str = "",
    sends: str = "",
) -> Any:
    """Make a function a tool: `@tool`, `@tool("geo.locate")` or `@tool(pack="geo",
    read_only=True)`."""
    if isinstance(fn, str):
        name, fn = fn, None
    if timeout is not None:
        is_number = isinstance(timeout, (int, float)) and not isinstance(timeout, bool)
        if not is_number or not 0 < timeout < math.inf:
            raise InvalidTool(
                f"timeout={values.safe_repr(timeout, 40)} is not a number of seconds above 0."
            )
    if reads not in ("", *_READS):
        raise InvalidTool(f"reads={values.safe_repr(reads, 40)} is not one of {', '.join(_READS)}.")
    if not isinstance(sends, str):
        raise InvalidTool(f"sends={values.safe_repr(sends, 40)} is not a host, or 'nowhere'.")
    marks = Marks(
        name=name,
        pack=pack,
        description=description,
        tags=(tags,) if isinstance(tags, str) else tuple(tags),
        read_only=read_only,
        cache_key=cache_key,
        timeout=None if timeout is None else float(timeout),
        examples=(examples,) if isinstance(examples, str) else tuple(examples),
        resource=resource,
        prompt=prompt,
        reads=reads,
        sends=sends,
    )
    return _mark(fn, marks) if fn is not None else lambda function: _mark(function, marks)


def mark(**words: Any) -> Callable[[_F], _F]:
    """Mark a function as `@tool` does, without registering it: for the packs we ship."""

    def decorate(fn: _F) -> _F:
        setattr(fn, _ATTRIBUTE, Marks(**words))
        return fn

    return decorate


def marks_of(fn: Callable[..., object]) -> Marks:
    """Return the marks of a function; empty marks if it has none."""
    marks = getattr(fn, _ATTRIBUTE, None)
    return marks if isinstance(marks, Marks) else Marks()


def name_of(fn: Callable[..., object]) -> str:
    """Return the tool name of a function; for a partial, that of its function."""
    inner: Any = fn
    while isinstance(inner, partial):
        inner = inner.func
    name = getattr(inner, "__name__", "")
    if not isinstance(name, str) or not name.isidentifier():
        label = values.safe_repr(fn, 80)
        raise InvalidTool(
            f"{label} has no name of its own.",
            hint='Give the tool one: @tool("pack.name"); or ot.adopt(...)',
        )
    return name


def _mark(fn: _F, marks: Marks) -> _F:
    if not callable(fn):
        raise InvalidTool(f"@tool is for functions, not for {values.safe_repr(fn, 80)}.")
    try:
        setattr(fn, _ATTRIBUTE, marks)
    except (AttributeError, TypeError) as exc:
        label = values.safe_repr(fn, 80)
        raise InvalidTool(
            f"@tool cannot mark {label}.", hint="Wrap it in a function of your own."
        ) from exc
    here = current.scope()
    if here is not None and here.importing:
        return fn
    box = current.toolbox()
    if box is not None:
        box.adopt(fn)
    else:
        current.wait_for_notebook(fn)
    return fn
