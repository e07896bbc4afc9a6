"""The wheel in a venv outside the checkout, without Node: what a user has after `pip install`.

All is marked `browser`, the quick ones `screen`: the process of the browser's tests has the wheel
anyway, another one would build and install it again.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tests.harness.surroundings import OUTSIDE, ROOT, private
from tests.harness.wheel import Installed

PANEL = ".data/data/share/jupyter/labextensions/onetool-ipy/"


@pytest.mark.browser
@pytest.mark.screen
def test_wheel_ships_the_built_panel_once(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    built = ROOT / "onetool_ipy" / "labextension"
    expected = {str(path.relative_to(built)) for path in built.rglob("*") if path.is_file()}

    shipped = {name.partition(PANEL)[2] for name in names if PANEL in name}

    assert shipped == expected | {"install.json"}
    assert not [name for name in names if name.startswith("onetool_ipy/labextension")]
    assert not [name for name in names if "node_modules" in name or name.startswith("tests")]


@pytest.mark.browser
@pytest.mark.screen
def test_package_comes_from_the_wheel_and_not_from_the_checkout(
    installed_wheel: Installed, tmp_path: Path
) -> None:
    code = "import onetool_ipy, sys; print(onetool_ipy.__file__); print(sys.path)"

    place, path = installed_wheel.run("-c", code, cwd=tmp_path).splitlines()

    assert Path(place).is_relative_to(installed_wheel.prefix)
    assert repr(str(ROOT)) not in path


@pytest.mark.browser
@pytest.mark.slow
def test_panel_is_enabled_without_node(installed_wheel: Installed, tmp_path: Path) -> None:
    assert shutil.which("node", path=installed_wheel.path) is None

    listing = installed_wheel.run("-m", "jupyterlab.labextensions", "list", cwd=tmp_path)

    (line,) = [line for line in listing.splitlines() if "onetool-ipy" in line]
    assert "enabled" in line
    assert "OK" in line
    assert str(installed_wheel.prefix / "share" / "jupyter" / "labextensions") in listing


@pytest.mark.browser
@pytest.mark.slow
def test_server_extension_is_enabled_by_the_wheel(
    installed_wheel: Installed, tmp_path: Path
) -> None:
    """`jupyter server extension list` finds our configuration in the venv, and can load what it
    names."""
    listing = installed_wheel.run(
        "-m", "jupyter_server.extension.serverextension", "list", cwd=tmp_path
    )

    plain = re.sub(r"\x1b\[[0-9;]*m", "", listing)
    (enabled,) = [
        line for line in plain.splitlines() if "onetool_ipy" in line and "enabled" in line
    ]
    assert "onetool_ipy enabled" in enabled
    (checked,) = [line for line in plain.splitlines() if "onetool_ipy" in line and "OK" in line]
    assert checked
    assert (
        installed_wheel.prefix / "etc/jupyter/jupyter_server_config.d/onetool_ipy.json"
    ).is_file()


@pytest.mark.browser
@pytest.mark.screen
def test_console_script_calls_a_tool(installed_wheel: Installed, tmp_path: Path) -> None:
    script = str(installed_wheel.prefix / "bin" / "onetool-ipy")

    answer = installed_wheel.run(script, "tools", "invoke", "time.now", cwd=tmp_path)

    assert json.loads(answer)["data"].keys() == {"timestamp", "iso"}


@pytest.mark.browser
@pytest.mark.soak
def test_wheel_installs_with_dependencies_of_its_own(wheel: Path, tmp_path: Path) -> None:
    """Nothing lent: pip resolves and installs all we ask for, and the first call works."""
    prefix = tmp_path / "venv"
    subprocess.run([sys.executable, "-m", "venv", str(prefix)], check=True)
    python = str(prefix / "bin" / "python")
    env = {**OUTSIDE, "PATH": str(prefix / "bin")}
    subprocess.run([python, "-m", "pip", "install", "--quiet", str(wheel)], env=env, check=True)

    installed = Installed(prefix, wheel)
    home = private(tmp_path / "home")
    code = "import onetool_ipy as o; print(o.open_toolbox().call('time.now').ok)"

    assert installed.run("-c", code, cwd=tmp_path, env=home).strip() == "True"
    assert "onetool-ipy" in installed.run(
        "-m", "jupyterlab.labextensions", "list", cwd=tmp_path, env=home
    )
