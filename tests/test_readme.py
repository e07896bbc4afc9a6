"""The README's session runs as written, in a real kernel."""

from __future__ import annotations

import re

from tests.harness.kernel import Kernel
from tests.harness.surroundings import ROOT


def test_the_ten_lines_run_in_a_fresh_notebook(kernel: Kernel) -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    block = re.search(r"<!-- session.*?-->\n```python\n(.*?)```", text, re.DOTALL)
    assert block is not None
    lines = block[1].splitlines()
    assert len(lines) <= 10
    cells = ["\n".join(lines[6:8]) if i == 6 else line for i, line in enumerate(lines) if i != 7]
    shown = [kernel.execute(cell).result_text for cell in cells]
    assert "tools in" in shown[1]
    assert "fs.read_file(path: str" in shown[2]
    assert "timestamp" in shown[3]
    assert shown[-2:] == ["5", "5"]
