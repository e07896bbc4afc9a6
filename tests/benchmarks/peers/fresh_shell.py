"""A program: start IPython, `%load_ext` what the command line names, print what that cost as one
line of JSON.

The second word says what is started, a `terminal` shell or a `kernel`. `cpu_s` is the process's own
CPU time, `loaded` the top-level modules that came with the extension. Imports nothing of ours.
"""

from __future__ import annotations

import json
import sys
import time
from typing import Any


def main(extension: str, kind: str) -> None:
    shell = _kernel() if kind == "kernel" else _terminal()
    shell.run_cell("1 + 1;", silent=True)
    before = set(sys.modules)
    began = time.process_time()
    shell.run_line_magic("load_ext", extension)
    spent = time.process_time() - began
    assert extension in shell.extension_manager.loaded, f"{extension} was not loaded"
    fresh = {name.partition(".")[0] for name in set(sys.modules) - before}
    print(json.dumps({"cpu_s": spent, "loaded": sorted(fresh)}), file=sys.__stdout__, flush=True)


def _terminal() -> Any:
    from IPython.terminal.ipapp import TerminalIPythonApp

    app = TerminalIPythonApp.instance()
    app.initialize(["--no-banner", "--no-confirm-exit", "--simple-prompt"])
    return app.shell


def _kernel() -> Any:
    from ipykernel.kernelapp import IPKernelApp

    app = IPKernelApp.instance(capture_fd_output=False, log_level=40)
    app.initialize([])
    return app.shell


if __name__ == "__main__":
    main(*sys.argv[1:])
