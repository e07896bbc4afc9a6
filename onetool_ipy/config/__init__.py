"""Files -> frozen values: settings, secrets, paths. Nothing else in the product reads these files.

`load_config` finds the files (contract 3), reads them, and never raises for what they hold: every fault is a Problem
with file, line and key, and what is good is kept. `Config.raise_if_bad()` is for callers who want the error.
Importing this room loads no YAML library; see `load` for the road a load takes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from onetool_ipy.base.masking import Secrets
    from onetool_ipy.config.load import Config, load_config
    from onetool_ipy.config.paths import Paths
    from onetool_ipy.config.settings import Definition, Model, Settings, Topic
    from onetool_ipy.config.template import init_project

__all__ = [
    "Config",
    "Definition",
    "Model",
    "Paths",
    "Secrets",
    "Settings",
    "Topic",
    "init_project",
    "load_config",
]

_HOMES = {
    "Config": "config.load",
    "Definition": "config.settings",
    "Model": "config.settings",
    "Paths": "config.paths",
    "Secrets": "base.masking",
    "Settings": "config.settings",
    "Topic": "config.settings",
    "init_project": "config.template",
    "load_config": "config.load",
}


def __getattr__(name: str) -> Any:
    """Load each part when it is first asked for: `%load_ext` only looks whether there is anything to read."""
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"onetool_ipy.{home}"), name)
