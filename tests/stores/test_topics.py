"""Messages to topics: which topic, what is written, and that anything written loads back equal."""

from __future__ import annotations

import datetime
import os
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import example, given, settings
from hypothesis import strategies as st

from onetool_ipy.base.files import StoreError
from onetool_ipy.base.masking import Secrets
from onetool_ipy.config.settings import Topic
from onetool_ipy.stores.topics import NO_TOPIC, Topics, document, matches
from tests.harness import macos
from tests.harness.systems import make_pipe

NOW = datetime.datetime(2026, 3, 4, 10, 20, 30, 123456, tzinfo=datetime.UTC)


def topics(folder: Path | None, *pairs: tuple[str, str], **options: Any) -> Topics:
    return Topics(
        [Topic(pattern=p, file=f) for p, f in pairs], folder, clock=lambda: NOW, **options
    )


def loaded(path: Path) -> list[Any]:
    return list(yaml.safe_load_all(path.read_text(encoding="utf-8")))


@pytest.mark.spec("001/Notify Message/Send notification")
def test_a_message_is_appended_to_the_file_of_its_topic(tmp_path: Path) -> None:
    notes = topics(tmp_path, ("notes", "notes.yaml"), ("*", "rest.yaml"))

    first = notes.notify("notes", "Remember to review PR #123")
    notes.notify("notes", "And #124")

    assert first == "OK: notes -> notes.yaml"
    assert loaded(tmp_path / "notes.yaml") == [
        {"ts": NOW, "topic": "notes", "message": "Remember to review PR #123"},
        {"ts": NOW, "topic": "notes", "message": "And #124"},
    ]
    assert not (tmp_path / "rest.yaml").exists()


@pytest.mark.linux("what macOS answers about a file is made of what Linux knows")
def test_a_message_is_on_the_disk_itself_as_on_macos(tmp_path: Path) -> None:
    """There fsync ends at the cache of the drive."""
    said = macos.run(
        "import datetime, pathlib\n"
        "from onetool_ipy.config.settings import Topic\n"
        "from onetool_ipy.stores.topics import Topics\n"
        "topics = [Topic(pattern='notes', file='notes.yaml')]\n"
        "clock = lambda: datetime.datetime(2026, 1, 1)\n"
        "Topics(topics, pathlib.Path(sys.argv[1]), clock=clock).notify('notes', 'x')\n"
        "print(len(macos.SYNCED))\n",
        str(tmp_path),
    )

    assert said.strip() == "1"


@pytest.mark.spec("001/Notify Message/No matching topic")
def test_a_topic_that_nothing_matches_is_skipped(tmp_path: Path) -> None:
    answer = topics(tmp_path, ("notes", "notes.yaml")).notify("unknown:topic", "test")

    assert answer == "SKIP: no matching topic" == NO_TOPIC
    assert os.listdir(tmp_path) == []
    assert topics(None).notify("notes", "x") == NO_TOPIC


@pytest.mark.parametrize(
    ("pattern", "topic", "expected"),
    [
        ("notes", "notes", True),
        ("notes", "Notes", False),
        ("notes", "notes2", False),
        ("*", "notes", True),
        ("*", "", True),
        ("*", "a:b", False),
        ("a:*", "a:b", True),
        ("a:*", "a", False),
        ("a:*", "a:b:c", False),
        ("*:*", "a:b", True),
        ("*:err", "web:err", True),
        ("a*c", "abc", True),
        ("a*c", "ac", True),
        ("a*c", "a:c", False),
        ("a*a", "a", False),
        ("a*b*c", "a-b-c", True),
        ("a*b*b", "ab", False),
        ("**", "x", True),
        ("[ab]?", "a1", False),
        ("[ab]?", "[ab]?", True),
        ("a.c", "abc", False),
        ("*a" * 30 + "b", "a" * 5000, False),
    ],
)
def test_a_star_stands_for_text_without_colons(pattern: str, topic: str, expected: bool) -> None:
    assert matches(pattern, topic) is expected


def test_the_first_topic_that_matches_wins(tmp_path: Path) -> None:
    notes = topics(tmp_path, ("a:*", "one.yaml"), ("*:b", "two.yaml"), ("a:b", "three.yaml"))

    assert notes.notify("a:b", "x") == "OK: a:b -> one.yaml"
    assert notes.notify("c:b", "x") == "OK: c:b -> two.yaml"


AWKWARD = [
    "",
    "---",
    "a\n---\nb\n...\nc",
    "...",
    "\n...\n",
    "\n\n\n",
    "ends in a newline\n",
    "  leading\n  blanks \n\tand tabs\t",
    "nul \0 bell \x07 del \x7f nel \x85",
    "quotes \" and ' and \\ and \\n",
    "next \x85line \U0010491a",
    "line \u2028 and paragraph \u2029 and BOM \ufeff",
    "lone \ud800 surrogate \udfff",
    "\r\n and \r",
    "emoji 😀 and ünïcode 漢字",
    "null",
    "2026-01-01",
    "# comment",
    "key: value",
    "- item",
    "{a: b}",
    "!!python/object:os.system",
    "&anchor *alias %directive @at `tick",
    "\U0010ffff\uffff\ufffe",
    " ",
    "x" * 100_000,
]


@pytest.mark.parametrize("message", AWKWARD, ids=lambda message: ascii(message)[:24])
def test_an_awkward_message_loads_back_equal(tmp_path: Path, message: str) -> None:
    notes = topics(tmp_path, ("*", "notes.yaml"))
    notes.notify("before", "x")
    notes.notify("t", message)
    notes.notify("after", "y")

    assert [found["message"] for found in loaded(tmp_path / "notes.yaml")] == ["x", message, "y"]


@pytest.mark.slow
@settings(deadline=None)
@given(st.text(st.characters()), st.text(st.characters(exclude_characters=":")))
@example(topic="t", message="a\x85")
@example(topic="t\u2028", message="a\u2029 b")
def test_any_message_and_topic_load_back_equal(message: str, topic: str) -> None:
    text = (
        document(NOW, "a", "b") + document(NOW, topic, message) + document(NOW, "c", "d")
    ).decode()

    found = list(yaml.safe_load_all(text))

    assert found[1] == {"ts": NOW, "topic": topic, "message": message}
    assert len(found) == 3


def test_a_document_can_be_read_by_people() -> None:
    text = document(NOW, "notes", "Größe prüfen 📏, dann melden").decode()

    assert text == (
        "--- # onetool_ipy\nts: 2026-03-04 10:20:30.123456+00:00\ntopic: notes\n"
        "message: Größe prüfen 📏, dann melden\n...\n"
    )


def test_a_secret_is_masked(tmp_path: Path) -> None:
    secret = "my-very-own-secret"
    notes = topics(tmp_path, ("*", "notes.yaml"), mask=Secrets({"KEY": secret}, {}).mask)

    notes.notify("t", f"the key is {secret}")

    assert loaded(tmp_path / "notes.yaml")[0]["message"] == "the key is ***"


def test_a_file_written_by_hand_is_kept(tmp_path: Path) -> None:
    for text in (
        "a: 1",
        "- x\n- y\n",
        "---\nts: 2020-01-01\nmessage: by hand",
        "# only a comment\n",
        "a: 1\r\n...\r\n",
    ):
        path = tmp_path / "notes.yaml"
        path.write_text(text, encoding="utf-8", newline="")
        topics(tmp_path, ("*", "notes.yaml")).notify("t", "m")

        assert path.read_bytes().startswith(text.encode())
        assert loaded(path)[-1]["message"] == "m"


def test_a_file_that_is_not_yaml_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "notes.yaml"
    path.write_bytes(b'\xff\xfe "unclosed: {')

    topics(tmp_path, ("*", "notes.yaml")).notify("t", "m")

    assert path.read_bytes() == b'\xff\xfe "unclosed: {\n' + document(NOW, "t", "m")


def test_a_file_in_a_folder_is_made_with_it(tmp_path: Path) -> None:
    assert (
        topics(tmp_path, ("*", "log/2026/notes.yaml")).notify("t", "m")
        == "OK: t -> log/2026/notes.yaml"
    )
    assert loaded(tmp_path / "log" / "2026" / "notes.yaml")[0]["message"] == "m"


@pytest.mark.parametrize(
    "file",
    [
        "../notes.yaml",
        "a/../../notes.yaml",
        "/tmp/onetool-notes.yaml",
        "out/notes.yaml",
        "link.yaml",
        "dangling.yaml",
        "fifo.yaml",
        "sub",
        "",
        ".",
        "..",
        "onetool.yaml",
        "Secrets.YAML",
        "prompts.yaml",
        "tools/evil.py",
        "tools/evil.yaml",
        "bundles/x.yaml",
        "code.py",
        "a\0b",
        "n" * 300,
    ],
)
def test_a_file_elsewhere_or_with_another_meaning_is_refused(tmp_path: Path, file: str) -> None:
    folder, outside = tmp_path / ".onetool", tmp_path / "outside"
    for made in (folder / "sub", folder / "tools", outside):
        made.mkdir(parents=True)
    (outside / "target.yaml").write_text("theirs\n", encoding="utf-8")
    (folder / "out").symlink_to(outside)
    (folder / "link.yaml").symlink_to(outside / "target.yaml")
    (folder / "dangling.yaml").symlink_to(outside / "new.yaml")
    make_pipe(folder / "fifo.yaml")

    with pytest.raises(StoreError) as caught:
        topics(folder, ("*", file)).notify("t", "m")

    assert caught.value.reason
    assert sorted(os.listdir(outside)) == ["target.yaml"]
    assert (outside / "target.yaml").read_text(encoding="utf-8") == "theirs\n"
    assert not (tmp_path / "notes.yaml").exists()
    assert not Path("/tmp/onetool-notes.yaml").exists()


@pytest.mark.slow
def test_a_folder_that_is_a_link_is_followed(tmp_path: Path) -> None:
    """The `.onetool/` itself may be a link: what counts is that the file stays inside."""
    (tmp_path / "real").mkdir()
    (tmp_path / ".onetool").symlink_to(tmp_path / "real")

    topics(tmp_path / ".onetool", ("*", "notes.yaml")).notify("t", "m")

    assert loaded(tmp_path / "real" / "notes.yaml")[0]["message"] == "m"
