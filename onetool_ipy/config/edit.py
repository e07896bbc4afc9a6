"""The few edits we make in a user's own files, each after the user asked for it: a host, a server,
a model, a secret, a snippet.

An edit inserts text at a place that the YAML parser gave; everything around stays byte for byte.
The result is parsed and compared before it replaces the file. If a file is written in a way that
nothing can be added to, it stays as it is, and the error names the line to add. Edits of one user
are made one at a time, in whatever process and file, so none is lost; the lock is in their state.

Written by hand because ruamel.yaml does not keep files as they are: of the 15 files in the tests it
changes 6, losing comments in some, and its import takes about 40 ms.
"""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Concatenate, ParamSpec, TypeVar

from onetool_ipy.base import values
from onetool_ipy.base.errors import UsageProblem
from onetool_ipy.base.files import StoreError, bytes_of, locked, newline_of, write_whole
from onetool_ipy.base.values import Json
from onetool_ipy.config.paths import CONFIG_NAME, FOLDER, Paths
from onetool_ipy.config.yaml_text import NotYaml, parse
from onetool_ipy.snippets.definition import MISSING, Snippet

_GITIGNORE = "# Values that belong to you alone.\nsecrets.yaml\n"
_FIX_FIRST = "Fix it first."

P = ParamSpec("P")
T = TypeVar("T")


def editing(paths: Paths) -> AbstractContextManager[None]:
    """Hold off every other edit of this user's files. Raises StoreError."""
    return locked(paths.user_state / "edits")


def _alone(edit: Callable[Concatenate[Paths, P], T]) -> Callable[Concatenate[Paths, P], T]:
    """Make an edit, from its read to its write, while no other one is made."""

    @functools.wraps(edit)
    def edit_alone(paths: Paths, /, *args: P.args, **options: P.kwargs) -> T:
        with editing(paths):
            return edit(paths, *args, **options)

    return edit_alone


@_alone
def allow_host(paths: Paths, host: str) -> Path | None:
    """Allow HTTP tools to reach a host; None if they already may. Creates `onetool.yaml` if it is
    missing."""
    file = paths.config_file or _folder(paths) / CONFIG_NAME
    text = text_of(file)
    before = _parse_ours(file, text)
    section = before.get("http") or {}
    hosts = section.get("allowed_hosts") or [] if isinstance(section, dict) else None
    by_hand = UsageProblem(
        f"'{file}' has a layout that a host cannot be added to.",
        hint=f"Add it by hand:  http: {{allowed_hosts: [{json.dumps(host)}]}}",
    )
    if not isinstance(hosts, list):
        raise by_hand
    if host in hosts:
        return None
    after = {**before, "http": {**section, "allowed_hosts": [*hosts, host]}}
    item = json.dumps(host)
    http = _entry(_compose(text), "http")
    entry = None if http is None else _entry(http[1], "allowed_hosts")
    if entry is None:
        changed = _with_entry(text, "http", f"allowed_hosts: [{item}]")
    elif not isinstance(entry[1].value, list):  # `allowed_hosts:` without a value
        changed = _insert(text, text.index(":", entry[0].end_mark.index) + 1, f" [{item}]")
    elif entry[1].flow_style:
        listed = entry[1].value
        place = listed[-1].end_mark.index if listed else entry[1].start_mark.index + 1
        changed = _insert(text, place, f", {item}" if listed else item)
    else:
        end = _line_end(text, entry[1].value[-1].end_mark.index)
        changed = _insert(text, end, f"\n{' ' * entry[1].start_mark.column}- {item}")
    _replace_config(file, text, changed, after, by_hand)
    return file


@_alone
def add_server(paths: Paths, name: str, data: Json) -> Path:
    """Add an MCP server to `servers:`; never replace one. Creates `onetool.yaml` if it is
    missing."""
    file = paths.config_file or _folder(paths) / CONFIG_NAME
    _add(file, "servers", "server", name, data)
    return file


@_alone
def add_model(paths: Paths, stem: str, data: Json, *, file: Path | None = None) -> str:
    """Add a model to `models:` of a project, or of `file`; return its name, which is `stem` or one
    like it that is free. Creates `onetool.yaml` if it is missing.

    A single model is the default without being named so; it stays the default beside a new one.
    """
    file = file or paths.config_file or _folder(paths) / CONFIG_NAME
    section = _parse_ours(file, text_of(file)).get("models") or {}
    models = section if isinstance(section, dict) else {}
    free = (name for name in (stem, *(f"{stem}-{n}" for n in range(2, len(models) + 3))))
    name = next(name for name in free if name not in models)
    if len(models) == 1 and "default" not in models:
        _add(file, "models", "default", "default", next(iter(models)))
    _add(file, "models", "model", name, data)
    return name


def _add(file: Path, section: str, noun: str, name: str, data: Any) -> None:
    """Add a named entry to a section."""
    text = text_of(file)
    before = _parse_ours(file, text)
    entries = before.get(section) or {}
    entry = f"{json.dumps(name)}: {json.dumps(data, ensure_ascii=False)}"
    by_hand = UsageProblem(
        f"'{file}' has a layout that a {noun} cannot be added to.",
        hint=f"Add it by hand:  {section}: {{{entry}}}",
    )
    if not isinstance(entries, dict):
        raise by_hand
    if name in entries:
        raise UsageProblem(
            f"'{file}' has a {noun} '{name}'.", hint="Change it there, or choose another name."
        )
    changed = {**before, section: {**entries, name: data}}
    _replace_config(file, text, _with_entry(text, section, entry), changed, by_hand)


@_alone
def remove_server(paths: Paths, name: str) -> Path:
    """Take a server out of `servers:`; its secrets stay. Everything else in the file stays as it is
    written."""
    file = paths.config_file or _folder(paths) / CONFIG_NAME
    text = text_of(file)
    before = _parse_ours(file, text)
    servers = before.get("servers") or {}
    by_hand = UsageProblem(
        f"'{file}' has a layout that a server cannot be removed from.",
        hint=f"Remove '{name}' by hand.",
    )
    section = _entry(_compose(text), "servers")
    entry = None if section is None else _entry(section[1], name)
    if section is None or entry is None:
        raise by_hand
    if section[1].flow_style:
        start, end = entry[0].start_mark.index, entry[1].end_mark.index
        comma = re.match(r"\s*,\s*", text[end:])
        head = text[:start] if comma else text[:start].rstrip().removesuffix(",").rstrip()
        rest = {key: each for key, each in servers.items() if key != name}
        changed = head + text[end + (comma.end() if comma else 0) :]
        _replace_config(file, text, changed, {**before, "servers": rest}, by_hand)
        return file
    is_last = len(servers) == 1
    key, value = section if is_last else entry
    start = text.rfind("\n", 0, key.start_mark.index) + 1
    end = (
        value.end_mark.index
        if value.end_mark.column == 0
        else _line_end(text, value.end_mark.index) + 1
    )
    after = {key: each for key, each in before.items() if key != "servers"}
    if not is_last:
        after["servers"] = {key: each for key, each in servers.items() if key != name}
    _replace_config(file, text, text[:start] + text[end:], after, by_hand)
    return file


def text_of(file: Path) -> str:
    """Return the text of a file with its own line ends; empty if it is missing. Raises
    UsageProblem."""
    try:
        return (bytes_of(file) or b"").decode("utf-8")
    except StoreError as exc:
        raise UsageProblem(exc.message, hint=_FIX_FIRST) from exc
    except UnicodeError as exc:
        raise UsageProblem(f"'{file}' cannot be read: {exc}.", hint=_FIX_FIRST) from exc


def with_pack(text: str, name: str) -> str:
    """Return the text of onetool.yaml with settings of a new pack, unless it has some."""
    file = Path(CONFIG_NAME)
    before = _parse_ours(file, text)
    packs = before.get("packs") or {}
    if isinstance(packs, dict) and name in packs:
        return text
    entry = f"{name}: {{greeting: Hello}}"
    changed = _with_entry(text if text.strip() else "version: 1\n", "packs", entry)
    if not isinstance(packs, dict) or _parse(file, changed).get("packs") != {
        name: {"greeting": "Hello"},
        **packs,
    }:
        raise UsageProblem(
            f"Settings of '{name}' cannot be added to '{file}'.", hint=f"Add them by hand: {entry}"
        )
    return _ended_like(text, changed)


@_alone
def save_secret(paths: Paths, name: str, value: str, *, folder: Path | None = None) -> Path:
    """Add a secret to the `secrets.yaml` of a project or of `folder`, readable by its owner alone;
    never replace one."""
    folder = folder or _folder(paths)
    file = folder / "secrets.yaml"
    text = text_of(file)
    before = _parse(file, text)
    if name in before:
        if before[name] == value:
            return file
        raise UsageProblem(
            f"'{file}' has another secret '{name}'.",
            hint="Change it there, or choose another name.",
        )
    changed = f"{_ended(text)}{name}: {json.dumps(value, ensure_ascii=False)}\n"
    if _parse(file, changed) != {**before, name: value}:
        raise _cannot_add(file)
    if not (folder / ".gitignore").exists():
        _write(folder / ".gitignore", _GITIGNORE)
    _write(file, changed, text, mode=0o600)
    return file


@_alone
def save_snippet(paths: Paths, snippet: Snippet) -> Path:
    """Append a snippet to the project's `snippets.yaml`; never replace one. Creates the file if it
    is missing."""
    import yaml

    file = _folder(paths) / "snippets.yaml"
    text = text_of(file)
    before = _parse_ours(file, text)
    nested = before.get("snippets")
    is_nested = isinstance(nested, dict)
    if snippet.name in (nested if isinstance(nested, dict) else before):
        raise UsageProblem(
            f"'{file}' has a snippet '{snippet.name}'.",
            hint="Change it there, or choose another name.",
        )
    params: Json = {}
    for param in snippet.params:
        words = {"type": param.declared, "description": param.description}
        default = {} if param.default is MISSING else {"default": values.to_json(param.default)}
        params[param.name] = {key: value for key, value in words.items() if value} | default
    data = {"description": snippet.description, "params": params, "body": snippet.body}
    data = {key: value for key, value in data.items() if value}
    block = yaml.safe_dump({snippet.name: data}, sort_keys=False, allow_unicode=True, width=10_000)
    if is_nested:
        block = "".join(f"  {line}\n" for line in block.splitlines())
    changed = f"{text.rstrip()}\n\n{block}" if text.strip() else block
    loaded = _parse(file, changed)
    if snippet.name not in (loaded.get("snippets", {}) if is_nested else loaded):
        raise _cannot_add(file)
    _write(file, changed, text)
    return file


def _with_entry(text: str, section: str, entry: str) -> str:
    """Return the text with `entry` as the first of a top-level section."""
    import yaml

    root = _compose(text)
    nodes = _entry(root, section)
    if nodes is None and isinstance(root, yaml.MappingNode) and root.flow_style:
        if root.value:
            return _insert(text, root.start_mark.index + 1, f"{section}: {{{entry}}}, ")
        # `{}` says nothing, and nothing can stand behind it.
        text = text[: root.start_mark.index] + text[root.end_mark.index :]
    if nodes is None:
        return f"{_ended(text)}\n{section}:\n  {entry}\n"
    key, node = nodes
    if not isinstance(node, yaml.MappingNode):  # the section is empty
        return _insert(text, _line_end(text, key.end_mark.index), f"\n  {entry}")
    if node.flow_style:
        return _insert(text, node.start_mark.index + 1, f"{entry}{', ' if node.value else ''}")
    return _insert(text, node.start_mark.index, f"{entry}\n{' ' * node.start_mark.column}")


def _compose(text: str) -> Any:
    import yaml

    return yaml.compose(text, Loader=yaml.SafeLoader)


def _entry(node: Any, name: str) -> tuple[Any, Any] | None:
    """The nodes of a key and its value in a mapping node."""
    pairs = getattr(node, "value", None)
    if not isinstance(pairs, list):
        return None
    return next(((key, value) for key, value in pairs if key.value == name), None)


def _insert(text: str, index: int, piece: str) -> str:
    return text[:index] + piece + text[index:]


def _line_end(text: str, index: int) -> int:
    end = text.find("\n", index)
    return len(text) if end < 0 else end


def _ended(text: str) -> str:
    """The text with a line break at its end, unless it is empty."""
    return text if not text or text.endswith("\n") else f"{text}\n"


def _ended_like(before: str, text: str) -> str:
    """A text with the line ends of what it was before."""
    return re.sub(r"(?<!\r)\n", newline_of(before), text)


def _folder(paths: Paths) -> Path:
    return paths.onetool_dir or paths.project / FOLDER


def _cannot_add(file: Path) -> UsageProblem:
    return UsageProblem(
        f"'{file}' has a layout that nothing can be added to.", hint="Add it by hand."
    )


def _parse_ours(file: Path, text: str) -> Json:
    """Parse a file that has our version; a file of another version is not changed."""
    data = _parse(file, text)
    version = data.get("version", 1)
    if version != 1 and not isinstance(version, dict):  # a snippet may have that name
        raise UsageProblem(
            f"'{file}' has version '{version}', which this release does not know, and is not"
            " changed.",
            hint="Update onetool-ipy, or change the file by hand.",
        )
    return data


def _parse(file: Path, text: str) -> Json:
    try:
        document = parse(text.encode("utf-8"), numbers=file.name != "secrets.yaml")
    except NotYaml as exc:
        raise UsageProblem(
            f"'{file}' line {exc.fault.line}: {exc.fault.message}", hint=_FIX_FIRST
        ) from exc
    if document.faults:
        fault = document.faults[0]
        raise UsageProblem(
            f"'{file}' line {fault.line}: {fault.key}: {fault.message}", hint=_FIX_FIRST
        )
    return document.data


def _replace_config(
    file: Path, text: str, changed: str, after: Json, problem: UsageProblem
) -> None:
    """Write the changed onetool.yaml if it parses to `after`; otherwise raise the problem."""
    if not text.strip():
        changed, after = f"version: 1\n{changed.lstrip()}", {"version": 1, **after}
    try:
        is_right = _parse(file, changed) == after
    except UsageProblem:  # the user's text was good; what we made of it is not
        is_right = False
    if not is_right:
        raise problem
    _write(file, changed, text)


def _write(file: Path, text: str, before: str = "", *, mode: int = 0o644) -> None:
    """Replace a file, or the file that a link leads to. An existing file keeps the ends of its
    lines, and its mode unless it must be private."""
    text = _ended_like(before, text)
    try:
        if mode == 0o600 and file.exists():
            file.chmod(mode)
        file.parent.mkdir(parents=True, exist_ok=True)
        write_whole(file, text.encode("utf-8"), mode=mode)
    except OSError as exc:
        raise UsageProblem(StoreError.of(file, exc).message) from exc
    except StoreError as exc:
        raise UsageProblem(exc.message, hint=exc.hint) from exc
