"""Files -> frozen values: settings, secrets, paths. Nothing else in the product reads these files.

`load_config` finds the files (contract 3), reads them, and never raises for what they hold: every fault is a Problem
with file, line and key, and what is good is kept. `Config.raise_if_bad()` is for callers who want the error.
Importing this room loads no YAML library; see `load` for the road a load takes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from onetool_ipy.config.load import Config, load_config
from onetool_ipy.config.paths import Paths
from onetool_ipy.config.secrets import Secrets
from onetool_ipy.config.settings import Definition, Model, Settings, Topic

if TYPE_CHECKING:
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


def __getattr__(name: str) -> Any:
    """Load the template's long texts only for those who ask for them."""
    if name == "init_project":
        from onetool_ipy.config.template import init_project

        return init_project
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
