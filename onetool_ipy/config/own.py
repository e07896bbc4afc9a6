"""The user's own settings, in `~/.onetool/onetool.yaml`, also while a project's are in force.

What a project must not decide for its reader, such as `ask.approve`, is read from here alone. Read when it is needed.
"""

from __future__ import annotations

import os
from pathlib import Path

from onetool_ipy.config.ownership import Owners
from onetool_ipy.config.paths import CONFIG_NAME, FOLDER, Paths, is_ours
from onetool_ipy.config.settings import Settings

__all__ = ["is_own", "own_settings"]


def is_own(paths: Paths, home: Path) -> bool:
    """Whether the configuration in force is the user's own."""
    file = paths.config_file
    return file is not None and os.path.realpath(file) == os.path.realpath(home / FOLDER / CONFIG_NAME)


def own_settings(home: Path) -> Settings:
    """The settings of the user's own file; the defaults where it is missing, broken or not the user's."""
    folder = home / FOLDER
    if not is_ours(str(folder)):
        return Settings()
    from onetool_ipy.config.check import check_settings
    from onetool_ipy.config.document import NotYaml
    from onetool_ipy.config.notes import File, Notes
    from onetool_ipy.config.read import Unreadable, read
    from onetool_ipy.config.yaml_text import parse

    try:
        content = read(folder / CONFIG_NAME)
        is_refused = content is None or Owners().fault(content.stat, CONFIG_NAME) is not None
        document = None if content is None or is_refused else parse(content.data)
    except (Unreadable, NotYaml):
        return Settings()
    if document is None:
        return Settings()
    return check_settings(File(CONFIG_NAME, document, Notes(()), strict=True), None, lambda name: None)  # noqa: ARG005
