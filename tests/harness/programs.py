"""A Python program of a test's own, run to its end in another process."""

from __future__ import annotations

import json
import subprocess
import sys
import textwrap
from typing import Any

from tests.harness.surroundings import ROOT

__all__ = ["actor", "python"]


def python(
    code: str, *words: object, check: bool = True, **options: Any
) -> subprocess.CompletedProcess[str]:
    """Run a program with these words behind it; `options` are those of `subprocess.run`. One that
    fails fails the test with what it said, unless the test looks at that itself."""
    return _run(["-c", textwrap.dedent(code), *map(str, words)], check=check, **options)


def actor(module: str, *words: object, is_silent: bool = False) -> dict[str, Any]:
    """Run a module of the tests, and return the JSON that it answers with; a silent one has
    nothing to say on stderr."""
    done = _run(["-m", module, *map(str, words)], check=True, cwd=ROOT)
    assert not is_silent or not done.stderr, done.stderr
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


def _run(words: list[str], *, check: bool, **options: Any) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        [sys.executable, *words], capture_output=True, text=True, check=False, **options
    )
    assert not check or not done.returncode, done.stderr
    return done
