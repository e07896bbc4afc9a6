"""Environments of a bundle: named sets of a base URL, auth and variables, in `.onetool/environments.json`.

Switching makes a set the bundle's own, so a call reads the bundle alone. Auth and variables name their secrets; no
value of a secret is in the file. The active environment is the one whose name and set the bundle has. A file that
cannot be read has none.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from onetool_ipy.base import files
from onetool_ipy.base.values import Json
from onetool_ipy.faces.creation import changed_bundle, wire_auth
from onetool_ipy.toolbox import Toolbox

if TYPE_CHECKING:
    from onetool_ipy.bundles.model import Bundle


class Environment(BaseModel):
    """Where the tools of a bundle send to, how they sign in, and the texts for `${name}` in their requests."""

    model_config = ConfigDict(frozen=True, defer_build=True)

    base_url: str
    auth: Json | None = None
    variables: dict[str, str] = Field(default_factory=dict)

    def applied(self, bundle: Bundle, name: str) -> Bundle:
        """The bundle as it is in this environment; raises InvalidRequest for one that no bundle can have."""
        active = {"name": name, "variables": self.variables}
        return changed_bundle(bundle, self.base_url.rstrip("/"), self.auth, active)


_FILE = TypeAdapter(dict[str, dict[str, Environment]], config=ConfigDict(defer_build=True))


def environments_of(box: Toolbox, slug: str) -> dict[str, Environment]:
    """The environments of a bundle by their names, in the order in which they were made."""
    return _read(_path(box)).get(slug, {})


def present_environment(bundle: Bundle) -> Environment:
    """What the bundle uses now, as an environment."""
    variables = bundle.environment.variables if bundle.environment else {}
    return Environment(base_url=bundle.base_url or "", auth=wire_auth(bundle), variables=variables)


def active_environment(box: Toolbox, bundle: Bundle) -> str:
    """The name of the environment that the bundle uses now; empty if it uses none of them."""
    name = bundle.environment.name if bundle.environment else ""
    return name if environments_of(box, bundle.slug).get(name) == present_environment(bundle) else ""


def save_environment(box: Toolbox, slug: str, name: str, environment: Environment) -> None:
    """Keep an environment under its name."""
    path = _path(box)
    files.make_folder(path.parent)
    with files.locked(path):
        whole = _read(path)
        whole.setdefault(slug, {})[name] = environment
        text = json.dumps(_FILE.dump_python(whole, mode="json", exclude_none=True), indent=1)
        files.write_whole(path, text.encode("utf-8"))


def _path(box: Toolbox) -> Path:
    return box.config.paths.project / ".onetool" / "environments.json"


def _read(path: Path) -> dict[str, dict[str, Environment]]:
    try:
        return _FILE.validate_json(path.read_bytes())
    except (OSError, ValidationError):
        return {}
