"""Count the modules that run code during a REST invoke, inside a real Jupyter Server.

`python -m tests.code_map.rest_call FOLDER TOOL` is a process of its own, since Jupyter Server needs
the main thread. The folder is a project with one HTTP tool. A thread asks the server for it; the
modules are printed as JSON.
"""

from __future__ import annotations

import json
import secrets
import sys
import threading
import urllib.request
from typing import Any

from tests.code_map.recorder import Recorder
from tests.harness.surroundings import ROOT

_WARM = 3
_OTHERS = ("jupyter_lsp", "jupyter_server_terminals", "jupyterlab", "notebook_shim")


def main() -> None:
    """Serve the folder that is named, invoke its tool some times, and print what the last call
    ran."""
    folder, tool = sys.argv[1:]
    recorder = Recorder(ROOT / "onetool_ipy")
    threading.setprofile(recorder)
    from jupyter_server.serverapp import ServerApp

    token = secrets.token_hex(16)
    app = ServerApp.instance()
    app.initialize(
        [
            (
                f"--ServerApp.jpserver_extensions={ {'onetool_ipy': True, **dict.fromkeys(_OTHERS, False)} }"
            ),
            *(
                "--no-browser",
                "--allow-root",
                "--ServerApp.ip=127.0.0.1",
                "--ServerApp.port=0",
                "--log-level=ERROR",
            ),
            *(f"--ServerApp.root_dir={folder}", f"--IdentityProvider.token={token}"),
        ]
    )
    # The port is chosen when the loop starts.
    asker = threading.Thread(
        target=_ask, args=(app, f"onetool/tools/{tool}/invoke", token, recorder)
    )
    app.io_loop.add_callback(asker.start)
    sys.setprofile(recorder)
    app.start()
    sys.setprofile(None)
    print(json.dumps(sorted(recorder.files)))  # noqa: T201 - the caller reads it


def _ask(app: Any, path: str, token: str, recorder: Recorder) -> None:
    headers = {"Authorization": f"token {token}", "Content-Type": "application/json"}
    request = urllib.request.Request(
        f"{app.connection_url}{path}",
        json.dumps({"args": {"id": 3}}).encode(),
        headers,
        method="POST",
    )
    try:
        for turn in range(_WARM + 1):
            recorder.is_on = turn == _WARM
            with urllib.request.urlopen(request) as response:
                reply = json.load(response)
            recorder.is_on = False
            assert reply["ok"], reply
    finally:
        app.io_loop.add_callback(app.stop)


if __name__ == "__main__":
    main()
