"""Nothing that reads text of other people takes far longer than the text is long."""

from __future__ import annotations

import subprocess
import sys

import pytest

LIMIT_S = 600


@pytest.mark.slow
@pytest.mark.timeout(LIMIT_S)  # some 20 s of CPU time, beside others
def test_foreign_text_takes_time_by_its_length() -> None:
    """Each expression of the package, and each reader, is given its worst texts, in a process of
    its own.

    Mend one that is slow with possessive quantifiers (`*+`), or with `partition` and `split`. One
    that hangs is the last of the output.
    """
    command = [sys.executable, "-m", "tests.harness.readers"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    try:
        output, _ = process.communicate(timeout=LIMIT_S - 60)
    except subprocess.TimeoutExpired:
        process.kill()
        output, _ = process.communicate()
        pytest.fail(f"It hangs at {output.splitlines()[-1]}.")

    assert process.returncode == 0, output
    assert [line for line in output.splitlines() if line.startswith("slow:")] == []
    assert len(output.splitlines()) > 240
