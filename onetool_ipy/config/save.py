"""Write a snippet of the session into `snippets.yaml`. What is there already is never changed, comments included."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from onetool_ipy.config.paths import FOLDER, Paths
from onetool_ipy.core import values
from onetool_ipy.core.errors import UsageProblem
from onetool_ipy.core.snippets import MISSING, Snippet

__all__ = ["save_snippet"]


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
