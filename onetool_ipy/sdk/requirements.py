"""`@requires_cli`, `@requires_lib` and `requires = {...}`: what a tool needs besides Python, told where it is defined.

Everything here can be read from a pack file's text without running it. A whole pack declares at its top:

    requires = {"cli": ["rg", ("ffmpeg", "apt install ffmpeg")], "lib": [{"name": "pandas", "install": "..."}]}
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from onetool_ipy.base.errors import InvalidTool
from onetool_ipy.core import current, names
from onetool_ipy.core.decorate import Marks, marks_of, name_of
from onetool_ipy.core.tool import Dep

if TYPE_CHECKING:
    import ast

__all__ = ["Dep", "Kind", "deps_of", "merged", "read_declared", "read_decorated", "requires_cli", "requires_lib"]

_F = TypeVar("_F", bound=Callable[..., Any])
_ATTRIBUTE = "__onetool_deps__"

Kind = Literal["cli", "lib"]


def requires_cli(name: str, *, version_flag: str = "", install: str = "") -> Callable[[_F], _F]:
    """Declare that a tool needs a command. Leaves the function unchanged.

    Args:
        name: The command as it is typed.
        version_flag: What makes the command print its version, e.g. `--version`; without it the version is not asked.
        install: How to install it, for whoever has not.
    """
    return _declaring(Dep("cli", _text(name), version_flag, install))


def requires_lib(name: str, *, install: str = "") -> Callable[[_F], _F]:
    """Declare that a tool needs a Python library, by its import name or that of its distribution.

    Args:
        name: e.g. `pandas`.
        install: How to install it; by default `pip install <name>`.
    """
    return _declaring(Dep("lib", _text(name), "", install or f"pip install {name}"))


def deps_of(fn: Callable[..., Any]) -> tuple[Dep, ...]:
    """What decorators declared on a function, in the order they stand there."""
    found = getattr(fn, _ATTRIBUTE, ())
    return found if isinstance(found, tuple) else ()


def read_declared(value: Any) -> tuple[Dep, ...]:
    """What a pack's `requires` says; raises InvalidTool where it says it wrong."""
    if not isinstance(value, Mapping) or not set(value) <= {"cli", "lib"}:
        raise InvalidTool('requires must be {"cli": [...], "lib": [...]}.')
    for kind, entries in value.items():
        if not isinstance(entries, (list, tuple)):
            raise InvalidTool(f"requires: {kind} must be a list.")
    return tuple(_dep(kind, entry) for kind in ("cli", "lib") for entry in value.get(kind, ()))


def read_decorated(node: ast.FunctionDef | ast.AsyncFunctionDef) -> tuple[Dep, ...]:
    """What the decorators of a function's text declare, as far as they say it in literals."""
    return tuple(dep for decorator in node.decorator_list for dep in _decorated(decorator))


def merged(pack: tuple[Dep, ...], own: tuple[Dep, ...]) -> tuple[Dep, ...]:
    """What a tool needs in all; of two that name the same thing its own one counts."""
    return tuple({(dep.kind, dep.name): dep for dep in (*pack, *own)}.values())


def _declaring(dep: Dep) -> Callable[[_F], _F]:
    def decorate(fn: _F) -> _F:
        setattr(fn, _ATTRIBUTE, (dep, *deps_of(fn)))
        _tell(fn)
        return fn

    return decorate


def _tell(fn: Callable[..., Any]) -> None:
    """A cell's `@tool` that stands below has registered the function already: register it once more, with this."""
    marks = marks_of(fn)
    here, box = current.scope(), current.toolbox()
    if marks == Marks() or box is None or (here is not None and here.importing):
        return
    known = box.registry.get(names.canonical(marks.name or name_of(fn), pack=marks.pack or "nb"))
    if known is not None and known.origin == "cell":
        box.adopt(fn)


def _decorated(decorator: ast.expr) -> Iterator[Dep]:
    import ast

    from onetool_ipy.base.syntax import constant, last_name

    if not isinstance(decorator, ast.Call):
        return
    label = last_name(decorator)
    if label not in ("requires_cli", "requires_lib"):
        return
    said = {k.arg: constant(k.value) for k in decorator.keywords}
    name = constant(decorator.args[0]) if decorator.args else said.get("name")
    if isinstance(name, str):
        yield _dep("cli" if label == "requires_cli" else "lib", {**said, "name": name})


def _dep(kind: Kind, entry: Any) -> Dep:
    if isinstance(entry, str):
        entry = {"name": entry}
    elif isinstance(entry, (tuple, list)) and len(entry) == 2:
        entry = {"name": entry[0], "install": entry[1]}
    if not isinstance(entry, Mapping):
        raise InvalidTool(f"requires: {entry!r} is not a name, a (name, install) pair or a mapping.")
    flag, install = entry.get("version_flag") or "", entry.get("install") or ""
    name = _text(entry.get("name"))
    if kind == "lib":
        return Dep(kind, name, "", str(install) or f"pip install {name}")
    return Dep(kind, name, str(flag), str(install))


def _text(name: Any) -> str:
    if not isinstance(name, str) or not name.strip():
        raise InvalidTool(f"A requirement needs a name, not {name!r}.")
    return name
