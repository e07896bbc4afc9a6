"""A pack of another distribution, really installed, is found by its entry point."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.harness.patience import HANG_S
from tests.harness.programs import python
from tests.harness.surroundings import ROOT


@pytest.mark.slow
def test_an_installed_pack_is_listed_called_and_named(tmp_path: Path) -> None:
    target = tmp_path / "site"
    install = [
        sys.executable,
        "-m",
        "pip",
        "install",
        "--quiet",
        "--no-deps",
        "--no-build-isolation",
        "--target",
    ]
    subprocess.run(
        [*install, str(target), str(ROOT / "tests" / "data" / "example_pack")],
        check=True,
        capture_output=True,
        timeout=120,
    )
    script = """
import json, onetool_ipy, sys
with onetool_ipy.open_toolbox() as box:
    before = "weather_pack.tools" in sys.modules
    result = box.call("weather.forecast", {"city": "Ulm", "unit": "f"})
    from onetool_ipy.live import weather
    print(json.dumps([before, box.ot.tools(pattern="weather"), result.to_dict()["data"], weather.forecast("Ulm")]))
"""
    ran = python(
        script, cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(target)}, timeout=HANG_S
    )
    before, listed, data, plain = json.loads(ran.stdout)
    assert before is False
    assert listed == [{"name": "weather.forecast", "description": "Tell tomorrow's weather."}]
    assert data == {"city": "Ulm", "degrees": 68}
    assert plain == {"city": "Ulm", "degrees": 20}
