"""Write a snippet of the session into `snippets.yaml`. What is there already is never changed, comments included.

Add one allowed host, one server or one secret: the few edits we make in a user's own files, after a yes.

The text around stays byte for byte: comments, order and quotes. What was written is read back before it replaces the
file; where a file is written in a way that cannot be added to, nothing is changed and the line to add is named.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from onetool_ipy.base import values
from onetool_ipy.base.errors import UsageProblem
from onetool_ipy.config.paths import CONFIG_NAME, FOLDER, Paths
from onetool_ipy.snippets.definition import MISSING, Snippet

__all__ = ["add_server", "allow_host", "save_secret", "save_snippet"]


def save_snippet(paths: Paths, snippet: Snippet) -> Path:
    """Append a snippet to the project's `snippets.yaml`, making the folder where there is none."""
    import yaml

    file = (paths.onetool_dir or paths.project / FOLDER) / "snippets.yaml"
    old = file.read_text(encoding="utf-8") if file.exists() else ""
    try:
        known = yaml.safe_load(old) or {}
    except yaml.YAMLError as exc:
        raise UsageProblem(f"'{file}' cannot be read: {exc}", hint="Mend it first.") from exc
    if not isinstance(known, dict):
        raise UsageProblem(f"'{file}' holds no snippets by name.", hint="Mend it first.")
    if isinstance(version := known.get("version", 1), int) and version != 1:
        raise UsageProblem(
            f"'{file}' has version '{version}', which this release does not know, and is not changed.",
            hint="Update onetool-ipy, or change the file by hand.",
        )
    nested = known.get("snippets") if isinstance(known.get("snippets"), dict) else None
    if snippet.name in (known if nested is None else nested):
        raise UsageProblem(f"'{file}' has a snippet '{snippet.name}'.", hint="Change it there, or take another name.")
    block = yaml.safe_dump({snippet.name: _data(snippet)}, sort_keys=False, allow_unicode=True, width=10_000)
    if nested is not None:
        block = "".join(f"  {line}\n" for line in block.splitlines())
    text = f"{old.rstrip()}\n\n{block}" if old.strip() else block
    loaded = yaml.safe_load(text)
    if snippet.name not in (loaded if nested is None else loaded["snippets"]):
        raise UsageProblem(f"'{file}' is written in a way that nothing can be added to.", hint="Add it by hand.")
    _write(file, text)
    return file


def _data(snippet: Snippet) -> dict[str, Any]:
    params: dict[str, Any] = {}
    for param in snippet.params:
        said = {"type": param.declared, "description": param.description}
        fields: dict[str, Any] = {key: value for key, value in said.items() if value}
        if param.default is not MISSING:
            fields["default"] = values.to_json(param.default)
        params[param.name] = fields
    data = {"description": snippet.description, "params": params, "body": snippet.body}
    return {key: value for key, value in data.items() if value}


def _write(file: Path, text: str) -> None:
    temp = file.with_name(f".{file.name}.{os.getpid()}.tmp")
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        with temp.open("w", encoding="utf-8") as out:
            out.write(text)
            out.flush()
            os.fsync(out.fileno())
        temp.replace(file)
    except OSError as exc:
        temp.unlink(missing_ok=True)
        raise UsageProblem(f"Cannot write '{file}': {exc.strerror}.") from exc


_IGNORED = "# Values that belong to you alone.\nsecrets.yaml\n"


def allow_host(paths: Paths, host: str) -> Path | None:
    """Allow HTTP tools to reach a host; None where they may already. Makes `onetool.yaml` where there is none."""
    file = paths.config_file or _folder(paths) / CONFIG_NAME
    text = _read(file)
    before = _known(file, text)
    section = before.get("http") or {}
    known = section.get("allowed_hosts") or [] if isinstance(section, dict) else None
    if not isinstance(known, list):
        raise _by_hand(file, host)
    if host in known:
        return None
    changed = _with_host(text, host)
    wanted = {**before, "http": {**section, "allowed_hosts": [*known, host]}}
    if not text.strip():
        changed, wanted = f"version: 1\n{changed.lstrip()}", {"version": 1, **wanted}
    if _parse(file, changed) != wanted:
        raise _by_hand(file, host)
    _write_edit(file, changed, mode=0o644)
    return file


def add_server(paths: Paths, name: str, data: dict[str, Any]) -> Path:
    """Add an MCP server to `servers:`; one of that name is never replaced. Makes `onetool.yaml` where there is none."""
    file = paths.config_file or _folder(paths) / CONFIG_NAME
    text = _read(file)
    before = _known(file, text)
    known = before.get("servers") or {}
    entry = f"{json.dumps(name)}: {json.dumps(data, ensure_ascii=False)}"
    by_hand = UsageProblem(
        f"'{file}' is written in a way that a server cannot be added to.", hint=f"Add it by hand:  servers: {{{entry}}}"
    )
    if not isinstance(known, dict):
        raise by_hand
    if name in known:
        raise UsageProblem(f"'{file}' has a server '{name}'.", hint="Change it there, or take another name.")
    changed = _with_server(text, entry)
    wanted = {**before, "servers": {**known, name: data}}
    if not text.strip():
        changed, wanted = f"version: 1\n{changed.lstrip()}", {"version": 1, **wanted}
    if _parse(file, changed) != wanted:
        raise by_hand
    _write_edit(file, changed, mode=0o644)
    return file


def _with_server(text: str, entry: str) -> str:
    """The text with the server as the first of its section."""
    import yaml

    found = _entry(yaml.compose(text, Loader=yaml.SafeLoader), "servers")
    if found is None:
        lead = "" if not text or text.endswith("\n") else "\n"
        return f"{text}{lead}\nservers:\n  {entry}\n"
    key, section = found
    if not isinstance(section, yaml.MappingNode):  # `servers:` with nothing behind it
        return _insert(text, _line_end(text, key.end_mark.index), f"\n  {entry}")
    if section.flow_style:
        return _insert(text, section.start_mark.index + 1, f"{entry}{', ' if section.value else ''}")
    return _insert(text, section.start_mark.index, f"{entry}\n{' ' * section.start_mark.column}")


def save_secret(paths: Paths, name: str, value: str) -> Path:
    """Put a secret into `secrets.yaml`, which is for its owner alone; one of that name is never replaced."""
    folder = _folder(paths)
    file = folder / "secrets.yaml"
    text = _read(file)
    before = _parse(file, text)
    if name in before:
        if before[name] == value:
            return file
        raise UsageProblem(f"'{file}' has another secret '{name}'.", hint="Change it there, or take another name.")
    lead = "" if not text or text.endswith("\n") else "\n"
    changed = f"{text}{lead}{name}: {json.dumps(value, ensure_ascii=False)}\n"
    if _parse(file, changed) != {**before, name: value}:
        raise UsageProblem(f"'{file}' is written in a way that nothing can be added to.", hint="Add it by hand.")
    folder.mkdir(parents=True, exist_ok=True)
    if not (folder / ".gitignore").exists():
        _write_edit(folder / ".gitignore", _IGNORED, mode=0o644)
    _write_edit(file, changed, mode=0o600)
    return file


def _by_hand(file: Path, host: str) -> UsageProblem:
    return UsageProblem(
        f"'{file}' is written in a way that a host cannot be added to.",
        hint=f"Add it by hand:  http: {{allowed_hosts: [{json.dumps(host)}]}}",
    )


def _with_host(text: str, host: str) -> str:
    """The text with the host in it, wherever its place is."""
    import yaml

    item = json.dumps(host)
    root: Any = yaml.compose(text, Loader=yaml.SafeLoader)
    http = _entry(root, "http")
    if http is None:
        lead = "" if not text or text.endswith("\n") else "\n"
        return f"{text}{lead}\nhttp:\n  allowed_hosts: [{item}]\n"
    key, section = http
    if not isinstance(section, yaml.MappingNode):  # `http:` with nothing behind it
        return _insert(text, _line_end(text, key.end_mark.index), f"\n  allowed_hosts: [{item}]")
    found = _entry(section, "allowed_hosts")
    if found is None:
        return _into_section(text, section, item)
    listed = found[1]
    if not isinstance(listed, yaml.SequenceNode):
        end = found[0].end_mark.index
        return _insert(text, text.index(":", end) + 1, f" [{item}]")
    if listed.flow_style:
        after = listed.value[-1].end_mark.index if listed.value else listed.start_mark.index + 1
        return _insert(text, after, f", {item}" if listed.value else item)
    last = listed.value[-1]
    return _insert(text, _line_end(text, last.end_mark.index), f"\n{' ' * listed.start_mark.column}- {item}")


def _into_section(text: str, section: Any, item: str) -> str:
    if section.flow_style:
        rest = ", " if section.value else ""
        return _insert(text, section.start_mark.index + 1, f"allowed_hosts: [{item}]{rest}")
    return _insert(text, section.start_mark.index, f"allowed_hosts: [{item}]\n{' ' * section.start_mark.column}")


def _entry(node: Any, name: str) -> tuple[Any, Any] | None:
    pairs = getattr(node, "value", None)
    if not isinstance(pairs, list):
        return None
    return next(((key, value) for key, value in pairs if key.value == name), None)


def _insert(text: str, place: int, piece: str) -> str:
    return text[:place] + piece + text[place:]


def _line_end(text: str, place: int) -> int:
    found = text.find("\n", place)
    return len(text) if found < 0 else found


def _folder(paths: Paths) -> Path:
    return paths.onetool_dir or paths.project / FOLDER


def _read(file: Path) -> str:
    try:
        return file.read_bytes().decode("utf-8")
    except FileNotFoundError:
        return ""
    except (OSError, UnicodeError) as exc:
        raise UsageProblem(f"'{file}' cannot be read: {exc}.", hint="Mend it first.") from exc


def _known(file: Path, text: str) -> dict[str, Any]:
    """What stands in `onetool.yaml`; one of another version is not ours to change."""
    found = _parse(file, text)
    if found.get("version", 1) != 1:
        raise UsageProblem(
            f"'{file}' has version '{found['version']}', which this release does not know, and is not changed.",
            hint="Update onetool-ipy, or change the file by hand.",
        )
    return found


def _parse(file: Path, text: str) -> dict[str, Any]:
    from onetool_ipy.config.yaml_text import NotYaml, parse

    try:
        document = parse(text.encode("utf-8"), numbers=file.name != "secrets.yaml")
    except NotYaml as exc:
        raise UsageProblem(f"'{file}' line {exc.fault.line}: {exc.fault.message}", hint="Mend it first.") from exc
    if document.faults:
        fault = document.faults[0]
        raise UsageProblem(f"'{file}' line {fault.line}: {fault.key}: {fault.message}", hint="Mend it first.")
    return document.data


def _write_edit(file: Path, text: str, *, mode: int) -> None:
    """Replace a file whole; where it is a link, what it leads to. A file that was there keeps its mode."""
    target = Path(os.path.realpath(file))
    temp = target.with_name(f".{target.name}.{os.getpid()}.tmp")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        if target.exists() and mode != 0o600:
            mode = target.stat().st_mode & 0o777
        with open(os.open(temp, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "w", encoding="utf-8", newline="") as out:
            os.fchmod(out.fileno(), mode)
            out.write(text)
            out.flush()
            os.fsync(out.fileno())
        temp.replace(target)
    except OSError as exc:
        temp.unlink(missing_ok=True)
        raise UsageProblem(f"Cannot write '{file}': {exc.strerror}.") from exc
