"""What a terminal shows of listings and records; the same values print as YAML for programs."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from onetool_ipy.render.views import Listing, Record
from tests.harness.patience import HANG_S


def test_rows_stand_in_columns_and_in_one_line_of_the_screen() -> None:
    rows = Listing(
        [{"tool": "a.b", "ms": 5, "args": "x" * 50}, {"tool": "c.dd", "ms": 100, "args": None}]
    )
    assert rows.to_text(24).splitlines() == [
        "tool   ms  args",
        "a.b     5  xxxxxxxxxxxx…",
        "c.dd  100",
    ]
    assert str(rows).startswith("- {tool: a.b, ms: 5")


def test_names_and_nothing_stay_as_they_print() -> None:
    for plain in (Listing(["a", "b"]), Listing()):
        assert plain.to_text(80) == str(plain)


def test_a_record_shows_its_keys_its_tables_and_its_long_lists_line_by_line() -> None:
    found = {
        "status": {"ok": True, "of": {}},
        "rows": [{"a": 1}, {"a": 22}],
        "lines": ["x" * 30, "y" * 30],
    }
    assert Record(found).to_text(40).splitlines() == [
        "status: {ok: true, of: {}}",
        *("rows:", "   a", "   1", "  22"),
        *("lines:", f"  {'x' * 30}", f"  {'y' * 30}"),
    ]


@pytest.mark.slow
def test_terminal_ipython_shows_tables(tmp_path: Path) -> None:
    typed = '%load_ext onetool_ipy\not.packs("f")\nprint(ot.packs("f"))\n%unload_ext onetool_ipy\n'
    command = [
        sys.executable,
        "-m",
        "IPython",
        "--simple-prompt",
        "--no-banner",
        "--colors=NoColor",
    ]
    ran = subprocess.run(
        command,
        cwd=tmp_path,
        input=typed,
        capture_output=True,
        text=True,
        check=True,
        timeout=HANG_S,
    )
    assert "name  source  tool_count\nfs    local            2" in ran.stdout
    assert "- {name: fs, source: local, tool_count: 2}" in ran.stdout
