"""A project folder on disk, to write files into and load from."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest

from onetool_ipy.config.load import Config, load_config
from onetool_ipy.config.paths import home_at


@dataclass(frozen=True)
class Project:
    """A folder `project` below a home directory, with a `.onetool/`; nothing outside tmp_path is
    looked at."""

    home: Path

    @property
    def folder(self) -> Path:
        return self.home / "project"

    @property
    def onetool(self) -> Path:
        return self.folder / ".onetool"

    @property
    def state(self) -> Path:
        return self.home / "state"

    def write(self, name: str, text: str | bytes) -> Path:
        path = self.onetool / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text.encode() if isinstance(text, str) else text)
        if name == "secrets.yaml":
            path.chmod(0o600)
        return path

    def load(self, text: str | bytes | None = None, /, **env: str) -> Config:
        if text is not None:
            self.write("onetool.yaml", text)
        env = {
            **home_at(self.home),
            "ONETOOL_STATE": str(self.state),
            "ONETOOL_TRUST": str(self.home),
            **env,
        }
        return load_config(env=env, cwd=self.folder)

    def says(self, text: str | bytes | None = None, /, **env: str) -> list[str]:
        return [str(problem) for problem in self.load(text, **env).problems]


@pytest.fixture
def project(tmp_path: Path) -> Project:
    made = Project(tmp_path / "home")
    made.folder.mkdir(parents=True)
    return made
