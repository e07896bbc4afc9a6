"""Where a project may lie and what its files may look like, on each system: long paths, other
drives, names with umlauts and blanks, line ends of Windows."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.harness.project import Project

EDITED = {
    "onetool.yaml": "version: 1\nalias:\n  find: geo.lines\n",
    "prompts.yaml": "packs:\n  geo: |\n    Be kind.\n    Be short.\n",
    "secrets.yaml": "KEY: |-\n  a-secret\n  of-mine\nTOKEN: plain-token-1\n",
    "snippets.yaml": "hello:\n  body: |\n    {% if 1 %}\n    a = 1\n    {% endif %}\n    b = 2\n",
    "tools/geo.py": (
        'from onetool_ipy.sdk import get_secret\n\n\ndef lines() -> list:\n    """Give lines.\n\n'
        '    Returns:\n        Some lines.\n    """\n    text = """x\ny"""\n'
        '    return [text, len(get_secret("KEY")), len(get_secret("TOKEN"))]\n'
    ),
}


def test_what_a_person_edits_may_have_the_line_ends_of_windows(tmp_path: Path) -> None:
    shown = []
    for name, end in (("unix", b"\n"), ("windows", b"\r\n")):
        with Project(tmp_path / name) as project:
            for file, text in EDITED.items():
                path = project.write(file, text, mode=0o600)
                path.write_bytes(text.encode().replace(b"\n", end))
            box = project.open()
            parts = [box.call("geo.lines").unwrap(), box.ot.health()["problems"]]
            parts += [str(box.ot.snippets(info="full")), str(box.ot.aliases())]
            shown.append([*parts, str(box.ot.help("geo"))])

    assert shown[0] == shown[1]
    assert shown[0][:2] == [["x\ny", 16, 13], []]
    assert "Be kind." in shown[0][-1]


@pytest.mark.parametrize(
    "place",
    ["Jörg M/Meine Projekte/größe 1", "O'Hara & Söhne (2)", "/".join(["a" * 50] * 6)],
    ids=["umlauts and blanks", "signs", "300 characters"],
)
def test_a_project_and_its_home_may_lie_anywhere(tmp_path: Path, place: str) -> None:
    folder = tmp_path / place
    with Project(folder) as project:
        (folder / "a.txt").write_text("read", encoding="utf-8")
        text = '\ndef large() -> str:\n    """Give much."""\n    return "x\\n" * 100_000\n'
        box = project.open(packs={"geo": text})

        assert box.call("fs.read_file", {"path": str(folder / "a.txt")}).unwrap() == "read"
        handle = box.results.put(box.call("geo.large").unwrap())
        assert box.call("ot.result", {"handle": handle, "limit": 1}).ok
        assert box.ot.health()["problems"] == []
        assert box.ot.stats()["total_calls"] >= 3

        again = project.open()
        assert again.call("ot.result", {"handle": handle, "limit": 1}).ok


@pytest.mark.windows("drives")
def test_a_project_may_name_places_on_a_drive_that_is_another_or_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = os.path.splitdrive(tmp_path)[0]
    drives = [drive for drive in os.listdrives() if not drive.startswith(own)]
    with Project(tmp_path / "p") as project:
        (project.root / "a.txt").write_text("read", encoding="utf-8")
        box = project.open(
            {
                "fs": {"roots": [".", "Q:\\none", "\\\\no-such-host\\share"]},
                "topics": [{"pattern": "notes", "file": "Q:\\none\\notes.yaml"}],
            },
            packs={"geo": '\ndef one() -> int:\n    """Give one."""\n    return 1\n'},
        )
        for place in (*drives, str(tmp_path)):
            monkeypatch.chdir(place)
            path = str(project.root / "a.txt")
            assert box.call("fs.read_file", {"path": path}).unwrap() == "read"
            assert box.call("geo.one").unwrap() == 1
            missing = box.call("fs.read_file", {"path": "Q:\\none\\a.txt"})
            assert missing.error is not None
            assert not missing.error.message.startswith("Traceback")
        noted = box.call("ot.notify", {"topic": "notes", "message": "one"})
        assert "Q:" in str(noted.error or noted.value)
