"""`python -m tests.benchmarks [--big] [row or module ...]`: run every module that has `run()`,
print one table.

The lines of each module that ran go to `docs/benchmarks.md` as well (`page`), beside what is kept
of the others. How cost grows is measured up to ten million calls in the history and a result of a
gigabyte if all modules run, or with `--big`. A module that breaks costs only its own lines; the
command then ends with 1. A missed target does not, nor does a module that is left out because what
it needs is not installed.
"""

from __future__ import annotations

import compileall
import importlib
import os
import pkgutil
import sys
import tempfile
import time
import traceback
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import onetool_ipy
from tests import benchmarks
from tests.benchmarks import page
from tests.benchmarks.timing import BIG, LeftOut, note, table
from tests.harness import surroundings


def main(wanted: Sequence[str]) -> int:
    lines: list[dict[str, Any]] = []
    broken: list[str] = []
    left_out: list[str] = []
    # As pip does; or the first lines pay for it.
    compileall.compile_dir(str(Path(onetool_ipy.__file__).parent), quiet=1)
    with tempfile.TemporaryDirectory(prefix="onetool-bench-") as home:
        surroundings.enter(Path(home))
        # What makes tests cheaper would flatter us here: users read all certificates, and Jupyter
        # all its libraries.
        for name in ("SSL_CERT_FILE", "PYTHONPATH"):
            del os.environ[name]
        os.environ[BIG] = "1" if "--big" in sys.argv or not wanted else ""
        for name in _names(wanted, broken):
            module = _imported(name, broken)
            if module is None or not _is_wanted(module, name, wanted):
                continue
            began = time.monotonic()
            note(f"{name} ...")
            try:
                found = module.run()
            except LeftOut as exc:
                left_out.append(f"LEFT OUT: {name}: {exc}")
                continue
            except Exception:  # another module's lines are worth having
                note(traceback.format_exc())
                broken.append(name)
                continue
            lines += [one for one in found if _asked_for(one, name, wanted)]
            page.keep(name, found)
            note(f"{name}: {time.monotonic() - began:.0f} s")
        surroundings.leave()
    page.write()
    print(page.machine())
    print(table(lines))
    for text in dict.fromkeys(one["note"] for one in lines if one.get("note")):
        print(text)
    for text in left_out:
        print(text)
    for name in broken:
        print(f"BROKEN: {name} (see above)")
    return 1 if broken else 0


def _names(wanted: Sequence[str], broken: list[str]) -> Iterator[str]:
    found = [
        m.name
        for m in pkgutil.iter_modules(benchmarks.__path__)
        if not m.ispkg and m.name != "__main__"
    ]
    unknown = [word for word in wanted if not word.isdigit() and word not in found]
    broken += [f"no module '{word}'; there are {', '.join(found)}" for word in unknown]
    yield from found


def _imported(name: str, broken: list[str]) -> ModuleType | None:
    try:
        module = importlib.import_module(f"{benchmarks.__name__}.{name}")
    except Exception:  # a module of somebody else's, half written
        note(traceback.format_exc())
        broken.append(name)
        return None
    return module if callable(getattr(module, "run", None)) else None


def _is_wanted(module: ModuleType, name: str, wanted: Sequence[str]) -> bool:
    rows = getattr(module, "ROWS", None)
    return not wanted or name in wanted or rows is None or any(str(row) in wanted for row in rows)


def _asked_for(one: dict[str, Any], name: str, wanted: Sequence[str]) -> bool:
    return not wanted or name in wanted or str(one.get("row")) in wanted


if __name__ == "__main__":
    sys.exit(main([word for word in sys.argv[1:] if word != "--big"]))
