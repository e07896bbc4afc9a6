"""The environment tests run in: a home, state and Jupyter folders that are nobody's own.

Owns the list of variables that decide where IPython, Jupyter and we read and write. `enter` moves
this process (and so each child) there; what was before is kept in `OUTSIDE` for the few children
that need the developer's own settings, such as npm. Every project of a test is trusted; the tests
of trust take `ONETOOL_TRUST` away. No test meets a keyring: not the developer's, and not the ones
that another test defines, which the library would choose from by their addresses in memory.
"""

from __future__ import annotations

import json
import os
import re
import sys
from pathlib import Path

import certifi

__all__ = ["OUTSIDE", "ROOT", "enter", "leave", "private"]

ROOT = Path(__file__).resolve().parents[2]
_KEPT = "ONETOOL_TESTS_OUTSIDE"
_LIGHT = str(Path(__file__).with_name("light"))
# A worker of a parallel run is started inside the surroundings: what was outside is handed on to
# it.
OUTSIDE: dict[str, str] = json.loads(os.environ[_KEPT]) if _KEPT in os.environ else dict(os.environ)

# Set in a developer's shell, each would reach into a test.
_UNWANTED = (
    "CI",
    "DASK_SCHEDULER_ADDRESS",
    "JUPYTERLAB_DIR",
    "JUPYTERLAB_SETTINGS_DIR",
    "JUPYTERLAB_WORKSPACES_DIR",
    "JUPYTER_CONFIG_PATH",
    "JUPYTER_PATH",
    "JUPYTER_TOKEN",
    "ONETOOL_CONFIG",
    "ONETOOL_REPLAY",
    "PYTHONDONTWRITEBYTECODE",
    "PYTHONPATH",
    "PYTHONSTARTUP",
    "SSL_CERT_DIR",
)


def private(home: Path) -> dict[str, str]:
    """Variables that put everything a user owns below `home`, which is made."""
    places = {
        "HOME": home,
        "IPYTHONDIR": home / "ipython",
        "JUPYTER_CONFIG_DIR": home / "jupyter" / "config",
        "JUPYTER_DATA_DIR": home / "jupyter" / "data",
        "JUPYTER_RUNTIME_DIR": home / "jupyter" / "runtime",
        "ONETOOL_STATE": home / "state",
        "XDG_CACHE_HOME": home / "cache",
        "XDG_CONFIG_HOME": home / "config",
        "XDG_DATA_HOME": home / "data",
        "XDG_STATE_HOME": home / "xdg-state",
    }
    if os.name == "nt":
        data = home / "AppData"
        places |= {"USERPROFILE": home, "APPDATA": data / "Roaming", "LOCALAPPDATA": data / "Local"}
    for place in places.values():
        place.mkdir(parents=True, exist_ok=True)
    return {
        **{name: str(place) for name, place in places.items()},
        "ONETOOL_TRUST": os.path.abspath(os.sep),
        "PYTHON_KEYRING_BACKEND": "keyring.backends.fail.Keyring",
    }


def enter(home: Path) -> None:
    """Move this process into surroundings below `home`."""
    for name in _UNWANTED:
        os.environ.pop(name, None)
    os.environ.update(private(home))
    os.environ["PYTHONPATH"] = _LIGHT
    sys.path.insert(0, _LIGHT)
    # Reading all certificates of a machine takes 50 ms of CPU for each HTTP client. No test meets a
    # server of theirs, so one certificate is enough.
    certificates = home / "certificates.pem"
    certificates.write_text(
        re.split("(?<=-----END CERTIFICATE-----\n)", certifi.contents())[0], encoding="utf-8"
    )
    os.environ["SSL_CERT_FILE"] = str(certificates)
    os.environ[_KEPT] = json.dumps(OUTSIDE)


def leave() -> None:
    """Give this process the variables back that it was started with."""
    os.environ.clear()
    os.environ.update(OUTSIDE)
