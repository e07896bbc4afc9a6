"""Which projects are trusted, and what of an untrusted one counts (contract 16)."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from onetool_ipy.config.load import load_config
from onetool_ipy.config.trust import TrustList, difference, pin_of, referenced_names
from tests.config.conftest import Project

_FULL = """\
packs: {brave: {key: "${TOKEN}"}}
servers:
  gh: {command: npx, args: ["-y", "gh"], env: {GH: "${TOKEN}"}, trusted: true}
models: {default: m, m: {provider: ollama, base_url: "http://127.0.0.1:1", model: x, key: TOKEN}}
ask: {approve: ["*"], max_steps: 3}
http: {allowed_hosts: ["evil.example"], allow_private: true}
fs: {roots: [".", "sub", "..", "/etc", "~/x"]}
topics: [{pattern: in, file: notes.yaml}, {pattern: out, file: ../../out.yaml}, {pattern: abs, file: /abs.yaml}]
state_dir: ../other-state
aliases: {now: time.now}
"""


@pytest.fixture
def env(project: Project) -> dict[str, str]:
    return {"HOME": str(project.home), "ONETOOL_STATE": str(project.state), "TOKEN": "t0ken-of-the-user"}


def test_a_project_found_by_walking_up_is_not_trusted(project: Project, env: dict[str, str]) -> None:
    project.write("onetool.yaml", "version: 1\n")
    inside = project.folder / "deep" / "er"
    inside.mkdir(parents=True)
    assert load_config(env=env, cwd=inside).trust.how == "untrusted"


@pytest.mark.parametrize("by", ["path", "variable"])
def test_a_project_named_outright_is_trusted(project: Project, env: dict[str, str], by: str) -> None:
    file = project.write("onetool.yaml", "version: 1\n")
    named = load_config(file if by == "path" else None, env={**env, "ONETOOL_CONFIG": str(file)}, cwd=project.home)
    assert named.trust.how == "named"
    assert named.trust.is_given
    assert not named.trust.is_pinned


def test_the_home_directory_is_trusted(tmp_path: Path) -> None:
    (tmp_path / ".onetool").mkdir()
    (tmp_path / "below").mkdir()
    found = load_config(env={"HOME": str(tmp_path)}, cwd=tmp_path / "below")
    assert found.trust.how == "home"


@pytest.mark.parametrize(
    ("value", "how"),
    [
        ("{folder}", "environment"),
        ("{home}", "environment"),
        ("/nowhere{sep}{folder}", "environment"),
        ("~/project", "environment"),
        ("{folder}/sub", "untrusted"),
        ("{folder}x", "untrusted"),
        (".", "untrusted"),
        ("", "untrusted"),
        ("{sep}{sep}", "untrusted"),
    ],
)
def test_the_variable_trusts_all_below_its_folders(project: Project, env: dict[str, str], value: str, how: str) -> None:
    project.write("onetool.yaml", "version: 1\n")
    text = value.format(folder=project.folder, home=project.home, sep=os.pathsep)
    assert load_config(env={**env, "ONETOOL_TRUST": text}, cwd=project.folder).trust.how == how


def test_a_folder_without_a_project_has_nothing_to_trust(project: Project, env: dict[str, str]) -> None:
    found = load_config(env=env, cwd=project.folder).trust
    assert found.how == "no project"
    assert not found.is_given


def test_nothing_of_an_untrusted_project_reaches_out(project: Project, env: dict[str, str]) -> None:
    project.write("onetool.yaml", _FULL)
    project.write("secrets.yaml", "OTHER: 0ther-secret\n")
    (project.folder / "sub").mkdir()
    config = load_config(env=env, cwd=project.folder)
    found = config.settings
    assert config.problems == ()
    assert found.packs == {}
    assert found.models.named == {}
    assert found.models.default is None
    assert found.ask.approve == ()
    assert found.ask.max_steps == 3
    assert found.http.allowed_hosts == ()
    assert not found.http.allow_private
    assert found.fs.roots == (".", "sub")
    assert [topic.pattern for topic in found.topics] == ["in"]
    assert found.state_dir is None
    assert config.paths.state.is_relative_to(project.state)
    assert found.aliases == {"now": "time.now"}
    server = found.servers["gh"].data
    assert server["env"] == {"GH": "${TOKEN}"}, "nothing is filled"
    assert server["trusted"] is False


def test_the_same_project_counts_whole_when_it_is_trusted(project: Project, env: dict[str, str]) -> None:
    """The control: each setting that the test above misses does count after a yes."""
    project.write("onetool.yaml", _FULL)
    TrustList(project.state).add(project.folder, {})
    config = load_config(env=env, cwd=project.folder)
    found = config.settings
    assert config.trust.how == "listed"
    assert found.packs["brave"].data == {"key": "t0ken-of-the-user"}
    assert found.models.default == "m"
    assert found.http.allow_private
    assert found.fs.roots[-1] == "~/x"
    assert len(found.topics) == 3
    assert found.servers["gh"].data["env"] == {"GH": "t0ken-of-the-user"}
    assert found.state_dir == "../other-state"


@pytest.mark.parametrize("name", ["topics", "roots"])
def test_a_link_inside_an_untrusted_project_leads_nowhere(project: Project, env: dict[str, str], name: str) -> None:
    outside = project.home / "outside"
    outside.mkdir()
    project.write("onetool.yaml", "fs: {roots: [link]}\ntopics: [{pattern: n, file: ../link/n.yaml}]\n")
    (project.folder / "link").symlink_to(outside)
    found = load_config(env=env, cwd=project.folder).settings
    assert (found.topics if name == "topics" else found.fs.roots) == ()


def test_a_record_belongs_to_one_folder(project: Project, env: dict[str, str]) -> None:
    known = TrustList(project.state)
    known.add(project.folder, {"gh": {"command": "npx"}})
    assert known.get(project.folder) == {"gh": {"command": "npx"}}
    assert known.get(project.folder / "sub") is None
    assert known.folders() == [project.folder]
    assert known.path(project.folder).stat().st_mode & 0o777 == 0o600
    assert known.remove(project.folder)
    assert not known.remove(project.folder)
    assert known.get(project.folder) is None


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        b"\xff" * 9,
        b"[" * 100_000,
        b'{"version": 1}',
        b'{"version": 2, "folder": "X", "servers": {}}',
        b'{"version": 1, "folder": "X", "servers": {"a": 1}}',
    ],
)
def test_a_damaged_record_is_none(project: Project, content: bytes) -> None:
    known = TrustList(project.state)
    known.add(project.folder, {})
    known.path(project.folder).write_bytes(content.replace(b"X", os.fsencode(project.folder)))
    assert known.get(project.folder) is None
    assert known.folders() == []


def test_a_record_of_another_folder_or_user_or_behind_a_link_does_not_count(project: Project) -> None:
    known = TrustList(project.state)
    known.add(project.folder, {})
    own = known.path(project.folder)
    other = project.home / "other"
    known.path(other).write_bytes(own.read_bytes())
    assert known.get(other) is None, "the record names its folder"
    moved = own.rename(project.home / "moved.json")
    own.symlink_to(moved)
    assert known.get(project.folder) is None
    own.unlink()
    moved.rename(own)
    assert known.get(project.folder) is not None
    os.chown(own, 12345, -1)
    assert known.get(project.folder) is None


def test_a_change_of_mind_shows(project: Project, env: dict[str, str]) -> None:
    project.write("onetool.yaml", "version: 1\n")
    before = load_config(env=env, cwd=project.folder).trust
    assert not before.has_changed()
    known = TrustList(project.state)
    known.add(project.folder, {})
    assert before.has_changed()
    after = load_config(env=env, cwd=project.folder).trust
    assert not after.has_changed()
    known.remove(project.folder)
    assert after.has_changed()


class TestPins:
    def test_a_pin_holds_the_definition_as_written(self, project: Project) -> None:
        config = project.load(
            'servers: {gh: {command: npx, args: [1, "${TOKEN}"], env: {A: b}, timeout_s: 3}}\n', TOKEN="t0ken"
        )
        assert pin_of(config.settings.servers["gh"].written) == {
            "command": "npx",
            "args": [1, "${TOKEN}"],
            "env": {"A": "b"},
        }

    def test_only_the_pinned_definition_is_covered(self, project: Project, env: dict[str, str]) -> None:
        project.write("onetool.yaml", "version: 1\n")
        pin = {"command": "npx", "args": ["a"]}
        TrustList(project.state).add(project.folder, {"gh": pin})
        trust = load_config(env=env, cwd=project.folder).trust
        assert trust.covers("gh", dict(pin))
        assert not trust.covers("gh", {**pin, "args": ["b"]})
        assert not trust.covers("other", pin)

    def test_a_difference_reads_as_lines(self) -> None:
        before, after = {"command": "a", "args": ["x"]}, {"command": "b", "args": ["x"], "env": {"K": "${T}"}}
        assert difference(before, after) == ["- command: a", "+ command: b", '+ env: {"K": "${T}"}']

    def test_referenced_names_are_found_everywhere(self) -> None:
        value = {"a": ["${ONE}", {"b": "x${TWO}y${ONE}"}], "c": "$${NOT}", "d": 3}
        assert referenced_names(value) == ["ONE", "TWO"]

    def test_a_pin_is_plain_json(self) -> None:
        json.dumps(pin_of({"command": "x", "args": [1.5, True, None], "env": {"d": {"deep": 1}}}))
