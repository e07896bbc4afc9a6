"""The ui module by itself: node's test runner over its own tests, and what Python relies on."""

from __future__ import annotations

import json
import random
import re
import subprocess
from pathlib import Path

import pytest

from onetool_ipy.base.search import Entry, Index
from onetool_ipy.faces.widgets.widget import linked, style
from tests.harness.surroundings import ROOT

SOURCE = ROOT / "onetool_ipy" / "ui" / "src"
TESTS = ROOT / "tests" / "node" / "ui"
VERBS = ("get", "list", "create", "delete", "update", "search", "read", "write", "send", "fetch", "merge", "parse")
NOUNS = ("user", "repo", "issue", "file", "page", "chart", "order", "weather", "token", "Über", "größe", "数据", "文件")
COMPARE = """
import fs from 'node:fs';
import { SearchIndex } from '%s';
const { entries, queries } = JSON.parse(fs.readFileSync(0));
const index = new SearchIndex(entries);
console.log(JSON.stringify(queries.map(query => index.search(query, 20).map(hit => [hit.entry.name, hit.tier]))));
"""

pytestmark = pytest.mark.timeout(600)  # Node starts slowly beside others


def test_the_module_passes_its_own_tests() -> None:
    """Form, browser and viewer in jsdom."""
    files = sorted(str(file) for file in TESTS.glob("*.test.mjs"))
    bounds = ("--test-timeout=100000", "--test-force-exit")
    ran = subprocess.run(["node", "--test", *bounds, *files], check=False, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stdout[-8000:]
    passed = re.search(r"^# pass (\d+)", ran.stdout, re.MULTILINE)
    assert passed is not None
    assert int(passed[1]) >= 35


def test_both_engines_rank_alike() -> None:
    """The browser's own search gives what `ot.help` gives, typos and other scripts included."""
    dice = random.Random(7)
    names = [
        f"{dice.choice(NOUNS)}{p}.{dice.choice(VERBS)}_{dice.choice(NOUNS)}_{i}"
        if i % 3
        else f"{dice.choice(NOUNS)}{p}.{dice.choice(VERBS)}{dice.choice(NOUNS).title()}{i}"
        for p in range(40)
        for i in range(30)
    ]
    entries = [
        Entry(
            name,
            " ".join(dice.choices([*VERBS, *NOUNS, "the", "of"], k=8)),
            tuple(dice.sample(NOUNS, 2)),
            (dice.choice(VERBS),),
        )
        for name in dict.fromkeys(names)
    ]
    queries = [
        "",
        " ",
        "a",
        "ge",
        "get",
        "get user",
        "the user",
        "reed fiel",
        "文件",
        "grösse",
        "GRÖSSE",
        "a.b",
        "x" * 300,
    ]
    for entry in dice.sample(entries, 120):
        at = dice.randrange(len(entry.name))
        queries += [entry.name, entry.name[:at] + entry.name[at + 1 :], entry.name[: at + 1]]
        queries += [entry.name[:at] + dice.choice("abcxyz") + entry.name[at:], " ".join(entry.description.split()[:2])]
        queries.append(entry.description.title() + ".")
    asked = {
        "entries": [
            {"name": e.name, "description": e.description, "arguments": e.arguments, "tags": e.tags} for e in entries
        ],
        "queries": queries,
    }
    ran = subprocess.run(
        ["node", "--input-type=module", "-e", COMPARE % (SOURCE / "search.js").as_uri()],
        input=json.dumps(asked),
        capture_output=True,
        text=True,
        check=True,
    )
    index = Index(entries)
    for query, found in zip(queries, json.loads(ran.stdout), strict=True):
        assert found == [[hit.item.name, hit.tier] for hit in index.search(query, limit=20)], query


def test_the_files_become_one_module_that_node_reads(tmp_path: Path) -> None:
    """What a widget is given is whole: no import is left, nothing comes from another place."""
    text = linked()
    assert not re.search(r"^import |https?://(?!www\.w3\.org|api\.example\.com)", text, re.MULTILINE)
    file = tmp_path / "module.mjs"
    file.write_text(text)
    said = subprocess.run(
        [
            "node",
            "--input-type=module",
            "-e",
            f"const m = await import({file.as_uri()!r}); console.log(typeof m.default.render)",
        ],
        capture_output=True,
        text=True,
        check=True,
    )
    assert said.stdout.strip() == "function"


def test_no_way_to_hand_over_markup() -> None:
    """The source has none of the doors by which text becomes markup or code; the style loads nothing."""
    doors = r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function|srcdoc|DOMParser"
    for file in SOURCE.glob("*.js"):
        assert not re.search(doors, file.read_text(encoding="utf-8")), file.name
    assert "url(" not in style()
    assert "@import" not in style()
