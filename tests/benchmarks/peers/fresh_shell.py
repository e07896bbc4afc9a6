"""A program: start IPython, `%load_ext` what the command line names, print what that cost as one line of JSON.

`cpu_s` is the process's own CPU time, `loaded` the top-level modules that came with it. Imports nothing of ours.
"""

from __future__ import annotations

import json
import sys
import time


def main(extension: str) -> None:
    from IPython.terminal.ipapp import TerminalIPythonApp

    app = TerminalIPythonApp.instance()
    app.initialize(["--no-banner", "--no-confirm-exit", "--simple-prompt"])
    shell = app.shell
    shell.run_cell("1 + 1;", silent=True)
    before = set(sys.modules)
    began, cpu = time.perf_counter(), time.process_time()
    shell.run_line_magic("load_ext", extension)
    cpu, wall = time.process_time() - cpu, time.perf_counter() - began
    assert extension in shell.extension_manager.loaded, f"{extension} was not loaded"
    fresh = set(sys.modules) - before
    print(
        json.dumps(
            {
                "cpu_s": cpu,
                "wall_s": wall,
                "modules": len(fresh),
                "loaded": sorted({n.partition(".")[0] for n in fresh}),
            }
        )
    )


if __name__ == "__main__":
    main(sys.argv[1])
