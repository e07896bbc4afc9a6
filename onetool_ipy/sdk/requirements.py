"""What tools need besides Python (commands and libraries): declared, read from text, looked for,
checked before a call.

Declarations are `@requires_cli` and `@requires_lib`, or for a whole pack a dict at the top of its
file:

    requires = {
        "cli": ["rg", ("ffmpeg", "apt install ffmpeg")],
        "lib": [{"name": "pandas", "install": "..."}],
    }

Both can be read from a pack file's text without running it. Looking for a requirement imports
nothing. A command is run only to ask for its version, within a time limit, and only if the tool
itself may run: the pack chooses the command and its flag.
"""

from __future__ import annotations

import ast
import os
import re
import shutil
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, Literal, NamedTuple, TypeVar

from onetool_ipy.base.errors import InvalidTool, Unavailable
from onetool_ipy.base.processes import kill_with_children
from onetool_ipy.base.syntax import constant, last_name
from onetool_ipy.core import current, names
from onetool_ipy.core.decorate import Marks, marks_of, name_of
from onetool_ipy.core.resolve import Require
from onetool_ipy.core.tool import Dep, ToolSpec
from onetool_ipy.render.views import Listing

_F = TypeVar("_F", bound=Callable[..., Any])

Kind = Literal["cli", "lib"]

COLUMNS = ("tool", "kind", "name", "status", "version", "install")

_ATTRIBUTE = "__onetool_deps__"
_VERSION_TIMEOUT_S = 2.0
_LOOK_EVERY_S = 0.005
_MAX_OUTPUT = 4096
_THREADS = 8
_VERSION = re.compile(r"\d+(?:\.\d+)+[\w.+-]*|\b\d+\b")


def requires_cli(name: str, *, version_flag: str = "", install: str = "") -> Callable[[_F], _F]:
    """Declare that a tool needs a command. Leaves the function unchanged.

    Args:
        name: The command as it is typed.
        version_flag: The flag that makes the command print its version, e.g. `--version`; if empty,
            it is not asked.
        install: How to install it.
    """
    return _declaring(Dep("cli", _required_name(name), version_flag, install))


def requires_lib(name: str, *, install: str = "") -> Callable[[_F], _F]:
    """Declare that a tool needs a Python library, by its import name or that of its distribution.

    Args:
        name: e.g. `pandas`.
        install: How to install it; by default `pip install <name>`.
    """
    return _declaring(Dep("lib", _required_name(name), "", install or f"pip install {name}"))


def deps_of(fn: Callable[..., object]) -> tuple[Dep, ...]:
    """Return what decorators declared on a function, in their order."""
    deps = getattr(fn, _ATTRIBUTE, ())
    return deps if isinstance(deps, tuple) else ()


def read_declared(value: object) -> tuple[Dep, ...]:
    """Read a pack's `requires`; raises InvalidTool if it is malformed."""
    if not isinstance(value, Mapping) or not set(value) <= {"cli", "lib"}:
        raise InvalidTool('requires must be {"cli": [...], "lib": [...]}.')
    for kind, entries in value.items():
        if not isinstance(entries, (list, tuple)):
            raise InvalidTool(f"requires: {kind} must be a list.")
    return tuple(_read_dep(kind, entry) for kind in ("cli", "lib") for entry in value.get(kind, ()))


def read_decorated(node: ast.FunctionDef | ast.AsyncFunctionDef) -> tuple[Dep, ...]:
    """Read the declarations in a function's decorators, as far as they are literals."""
    deps = []
    for decorator in node.decorator_list:
        label = last_name(decorator)
        if not isinstance(decorator, ast.Call) or label not in ("requires_cli", "requires_lib"):
            continue
        keywords = {k.arg: constant(k.value) for k in decorator.keywords}
        name = constant(decorator.args[0]) if decorator.args else keywords.get("name")
        if isinstance(name, str):
            deps.append(
                _read_dep("cli" if label == "requires_cli" else "lib", {**keywords, "name": name})
            )
    return tuple(deps)


def merge_deps(pack: tuple[Dep, ...], own: tuple[Dep, ...]) -> tuple[Dep, ...]:
    """Return all that a tool needs; its own declaration wins over the pack's of the same name."""
    return tuple({(dep.kind, dep.name): dep for dep in (*pack, *own)}.values())


class Requirements(Listing):
    """Rows `{tool, kind, name, status, version, install}`; `.df` has these columns even without
    rows."""

    @property
    def df(self) -> Any:
        """The rows as a pandas DataFrame."""
        return super().df.reindex(columns=list(COLUMNS))


def check_deps(tool: str | None = None) -> Requirements:
    """List what tools need: a row for each tool and requirement. `status` is `ok` or `missing`.

    Args:
        tool: Only this tool (`pack.tool`), or the tools of this pack.
    """
    box = current.require()
    registry = box.registry
    registry.refresh()
    spec = None if tool is None else registry.find(tool)
    chosen = (
        registry.known()
        if tool is None
        else registry.known_packs().get(tool)
        if spec is None
        else [spec]
    )
    if chosen is None:
        raise ValueError(f"{'Tool' if '.' in str(tool) else 'Pack'} not found: {tool}")
    specs = [spec for spec in chosen if spec.deps]
    may_run = {dep for spec in specs if box.gate.is_admitted(spec.name) for dep in spec.deps}
    # Look up each requirement once, several at a time, since a command takes a while to print its
    # version.
    from onetool_ipy.sdk.batch import run_items

    def look_up(dep: Dep) -> _State:
        if dep.kind == "lib":
            return (
                _State(True, _distribution_version(dep.name) or module_version(dep.name))
                if _has_library(dep.name)
                else _State(False)
            )
        path = shutil.which(dep.name)
        if path is None:
            return _State(False)
        return _State(
            True,
            _command_version(path, dep.version_flag)
            if dep.version_flag and dep in may_run
            else None,
        )

    ordered = list({dep for spec in specs for dep in spec.deps})
    outcomes = dict(run_items(ordered, look_up, _THREADS))
    states = {
        dep: outcomes[i][1] if outcomes[i][0] else _State(is_installed(dep))
        for i, dep in enumerate(ordered)
    }
    return Requirements(
        {
            "tool": spec.name,
            "kind": dep.kind,
            "name": dep.name,
            "status": "ok" if states[dep].is_installed else "missing",
            "version": states[dep].version,
            "install": dep.install,
        }
        for spec in specs
        for dep in spec.deps
    )


def require_deps() -> Require:
    """Return the function that refuses a tool whose requirements are missing: it raises
    Unavailable."""
    # Only what is there is remembered: a missing requirement is looked for again.
    installed: set[Dep] = set()

    def require(spec: ToolSpec) -> None:
        missing = [dep for dep in spec.deps if dep not in installed and not is_installed(dep)]
        if missing:
            kinds = {"cli": "command", "lib": "library"}
            label = " and ".join(f"the {kinds[dep.kind]} '{dep.name}'" for dep in missing)
            install = "; ".join(dep.install for dep in missing if dep.install)
            raise Unavailable(
                f"'{spec.name}' needs {label}, which {'is' if len(missing) == 1 else 'are'} not"
                " installed.",
                hint=f"Install with: {install}" if install else "See all with: ot.deps()",
            )
        installed.update(spec.deps)

    return require


def is_installed(dep: Dep) -> bool:
    """Whether a requirement is installed. Runs and imports nothing."""
    return _has_library(dep.name) if dep.kind == "lib" else shutil.which(dep.name) is not None


def _declaring(dep: Dep) -> Callable[[_F], _F]:
    def decorate(fn: _F) -> _F:
        setattr(fn, _ATTRIBUTE, (dep, *deps_of(fn)))
        # A cell's tool that the `@tool` below has registered already is registered again, with this
        # requirement.
        marks, scope, box = marks_of(fn), current.scope(), current.toolbox()
        if marks != Marks() and box is not None and not (scope is not None and scope.importing):
            spec = box.registry.get(
                names.canonical(marks.name or name_of(fn), pack=marks.pack or "nb")
            )
            if spec is not None and spec.origin == "cell":
                box.adopt(fn)
        return fn

    return decorate


def _read_dep(kind: Kind, entry: object) -> Dep:
    if isinstance(entry, str):
        entry = {"name": entry}
    elif isinstance(entry, (tuple, list)) and len(entry) == 2:
        entry = {"name": entry[0], "install": entry[1]}
    if not isinstance(entry, Mapping):
        raise InvalidTool(
            f"requires: {entry!r} is not a name, a (name, install) pair or a mapping."
        )
    name, install = _required_name(entry.get("name")), str(entry.get("install") or "")
    if kind == "lib":
        return Dep(kind, name, "", install or f"pip install {name}")
    return Dep(kind, name, str(entry.get("version_flag") or ""), install)


def _required_name(name: object) -> str:
    if not isinstance(name, str) or not name.strip():
        raise InvalidTool(f"A requirement needs a name, not {name!r}.")
    return name


class _State(NamedTuple):
    """Whether a requirement is installed, and its version if that is known."""

    is_installed: bool
    version: str | None = None


def _has_library(name: str) -> bool:
    """Look for an import name, without importing anything, then for a distribution."""
    from importlib.util import find_spec

    if name.isidentifier():
        with suppress(ImportError, ValueError):
            if find_spec(name) is not None:
                return True
    return _distribution_version(name) is not None


def _distribution_version(name: str) -> str | None:
    from importlib import metadata

    with suppress(metadata.PackageNotFoundError, ValueError):
        return metadata.version(name)
    return None


def module_version(name: str) -> str | None:
    """Return the version of the distribution that contains a module, or None."""
    from importlib import metadata

    # `packages_distributions` looks at every installed file, which takes minutes on a slow disk.
    top = name.partition(".")[0]
    for distribution in metadata.distributions():
        tops = (distribution.read_text("top_level.txt") or "").split()
        files = "" if tops else f"\n{distribution.read_text('RECORD') or ''}"
        if top in tops or f"\n{top}/" in files or f"\n{top}.py," in files:
            return distribution.version
    return None


def _command_version(path: str, flag: str) -> str | None:
    """Run a command for its version; None if it prints none in time."""
    import subprocess  # it takes 5 ms, and only this check needs it
    import tempfile

    # A file and not a pipe: Windows cannot wait for a pipe with a limit.
    with tempfile.TemporaryFile() as output:
        try:
            process = subprocess.Popen(
                [path, *flag.split()],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        except OSError:
            return None
        # Only the beginning of what it prints is read, within the time limit; then it is killed,
        # with its children.
        until = time.monotonic() + _VERSION_TIMEOUT_S
        with process:
            while process.poll() is None and time.monotonic() < until:
                if os.fstat(output.fileno()).st_size >= _MAX_OUTPUT:
                    break
                time.sleep(_LOOK_EVERY_S)
            kill_with_children(process)
        output.seek(0)
        text = output.read(_MAX_OUTPUT)
    match = _VERSION.search(text.decode("utf-8", "replace"))
    return match[0] if match else None
