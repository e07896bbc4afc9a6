"""The warm cache: what it saves, when it is not believed, and what never gets into it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import zlib
from pathlib import Path

import pytest

from onetool_ipy.config.load import Config, cache_key, fetch, load_config, store
from onetool_ipy.config.yaml_text import Document, YamlFault
from tests.config.conftest import Project

TEXT = """\
aliases: {ws: brave.search}
packs: {p: {k: "${TOKEN}", deep: [1, 2.5, true, null, "é🎉"]}}
http: {timeout_s: abc}
htpp: 1
tools:
  - {name: a, description: b}
  - {name: a, name: b}
"""


def place(project: Project) -> Path:
    (found,) = project.state.rglob("config-*.json")
    return found


def facts(config: Config) -> list[object]:
    return [config.settings, config.prompts, config.problems, config.errors, config.paths, config.fingerprint]


def test_second_load_is_the_same_and_imports_no_yaml(project: Project) -> None:
    """Values, problems with their lines, secrets filled in: all but the parsing."""
    project.write("secrets.yaml", "TOKEN: abcdef123\n")
    project.write("prompts.yaml", "packs: {p: Hello.}\n")
    project.write("snippets.yaml", "s: {body: x}\nbad: {}\n")
    cold = project.load(TEXT)
    assert len(cold.problems) == 4
    assert facts(project.load()) == facts(cold)
    script = """
import sys
from pathlib import Path
from onetool_ipy.config.load import load_config
env = {"ONETOOL_STATE": sys.argv[2], "ONETOOL_TRUST": sys.argv[1]}
config = load_config(env=env, cwd=Path(sys.argv[1]), home=Path(sys.argv[1]).parent)
print(*config.problems, sep="\\n")
print(config.settings.packs["p"].data["k"])
heavy = {"yaml", "pydantic", "jinja2", "platformdirs", "httpx", "IPython"} & set(sys.modules)
print("heavy:", sorted(heavy))
"""
    command = [sys.executable, "-c", script, str(project.folder), str(project.state)]
    lines = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    assert lines[:-2] == [str(p) for p in cold.problems]
    assert lines[-2:] == ["abcdef123", "heavy: []"]


def test_cache_is_believed(project: Project) -> None:
    """Proof that the second load really comes from it: a cache that lies is taken at its word."""
    project.load("aliases: {a: time.now}\n")
    path = place(project)
    head, body = path.read_bytes().split(b"\n", 1)
    body = body.replace(b"time.now", b"time.lie")
    path.write_bytes(head[:-8] + f"{zlib.crc32(body):08x}".encode() + b"\n" + body)
    assert project.load().settings.aliases == {"a": "time.lie"}


@pytest.mark.parametrize("name", ["onetool.yaml", "snippets.yaml", "prompts.yaml"])
def test_any_change_of_any_file_is_seen(project: Project, name: str) -> None:
    """Content counts, not the time: here size and time stay the same."""
    texts = {
        "onetool.yaml": "aliases: {a: time.now}\n",
        "snippets.yaml": "s: {body: aaa}\n",
        "prompts.yaml": "packs: {p: aaa}\n",
    }
    for file, text in texts.items():
        project.write(file, text)
    before = project.load()
    path = project.onetool / name
    found = path.stat()
    project.write(name, texts[name].replace("aaa", "bbb").replace("now", "won"))
    os.utime(path, ns=(found.st_atime_ns, found.st_mtime_ns))
    after = project.load()
    assert after.settings != before.settings or after.prompts != before.prompts
    assert after.fingerprint != before.fingerprint


def test_fingerprint_follows_every_file_and_nothing_else(project: Project) -> None:
    """The same for the same files; another one when a secret changes, or a file comes or goes."""
    project.write("onetool.yaml", "version: 1\n")
    first = project.load().fingerprint
    assert project.load().fingerprint == first
    secrets = project.write("secrets.yaml", "TOKEN: abcdef\n")
    second = project.load().fingerprint
    project.write("secrets.yaml", "TOKEN: abcdef123\n")
    third = project.load().fingerprint
    secrets.unlink()
    project.write("prompts.yaml", "")
    fourth = project.load().fingerprint
    assert len({first, second, third, fourth}) == 4


def damages() -> dict[str, bytes]:
    body = b'{"main":[{"aliases":{"a":"lie.lie"}},{},[]]}'
    crc = f"{zlib.crc32(body):08x}".encode()
    return {
        "empty": b"",
        "garbage": os.urandom(500),
        "no newline": b"x" * 1000,
        "another key": b"onetool_ipy " + b"0" * 64 + b" " + crc + b"\n" + body,
        "other program": b'{"version": 3}\n{}',
        "pickle": b"\x80\x04cos\nsystem\n(S'echo hi'\ntR.",
    }


@pytest.mark.parametrize("damage", damages().values(), ids=damages().keys())
def test_damaged_or_foreign_cache_is_ignored_and_written_anew(project: Project, damage: bytes) -> None:
    """Never a traceback, never a wrong value."""
    good = project.load("aliases: {a: time.now}\n")
    path = place(project)
    whole = path.read_bytes()
    path.write_bytes(damage)
    assert facts(project.load()) == facts(good)
    assert path.read_bytes() == whole


@pytest.mark.parametrize(
    "body", [b"[]", b"{}", b'{"main":[]}', b'{"main":[1,{},[]]}', b'{"main":[{},{},[1]]}', b'{"x":[{},{},[]]}', b"{"]
)
def test_cache_of_another_shape_is_ignored(project: Project, body: bytes) -> None:
    """Even with the right key and checksum."""
    good = project.load("aliases: {a: time.now}\n")
    path = place(project)
    head = path.read_bytes().split(b" ")[:2]
    path.write_bytes(b" ".join([*head, f"{zlib.crc32(body):08x}".encode()]) + b"\n" + body)
    assert facts(project.load()) == facts(good)


@pytest.mark.parametrize("cut", [1, 50, 90, 100, -1])
def test_torn_or_flipped_cache_is_ignored(project: Project, cut: int) -> None:
    """A crash or a bad disk."""
    good = project.load("aliases: {a: time.now}\nstats: {enabled: false}\n")
    path = place(project)
    whole = path.read_bytes()
    path.write_bytes(whole[:cut])
    assert facts(project.load()) == facts(good)
    flipped = bytearray(whole)
    flipped[cut] ^= 1
    path.write_bytes(flipped)
    assert facts(project.load()) == facts(good)
    assert path.read_bytes() == whole


def test_no_secret_is_in_it(project: Project) -> None:
    """Templates stay templates, and secrets.yaml is not part of it."""
    project.write("secrets.yaml", "TOKEN: abcdef123\n")
    config = project.load('packs: {p: {k: "${TOKEN} ${FROM_ENV}"}}\n', FROM_ENV="env-value-1")
    assert config.settings.packs["p"].data["k"] == "abcdef123 env-value-1"
    written = [p for p in project.home.rglob("*") if p.is_file() and p.name != "secrets.yaml"]
    assert place(project) in written
    for path in written:
        assert b"abcdef123" not in path.read_bytes()
        assert b"env-value-1" not in path.read_bytes()


def test_it_is_json_for_the_user_alone(project: Project) -> None:
    """Mode 0600 in a folder 0700; a head line, the documents as JSON, then the tools as JSON."""
    project.load("aliases: {a: time.now}\ntools: [{name: t}]\n")
    path = place(project)
    assert path.parent.name == "cache"
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.parent.stat().st_mode & 0o777 == 0o700
    _, index, bodies = path.read_bytes().split(b"\n", 2)
    assert json.loads(index)["main"][0] == {"aliases": {"a": "time.now"}, "tools": [["t", 0, 12]]}
    assert json.loads(bodies) == {"name": "t"}
    assert sorted(p.name for p in path.parent.iterdir()) == [path.name]


def test_place_that_the_project_names_is_not_believed(project: Project) -> None:
    """A project could ship a cache of its own in `state_dir`, and with it settings that nobody sees in its files."""
    env = {"HOME": str(project.home), "ONETOOL_TRUST": str(project.folder)}
    project.write("onetool.yaml", "state_dir: .state\naliases: {a: time.now}\n")
    config = load_config(env=env, cwd=project.folder)
    assert config.paths.state == project.folder / ".state" / "v2"
    assert not (project.folder / ".state").exists()
    assert list(project.home.glob(".local/state/onetool_ipy/*/cache/config-*.json"))


def test_place_that_cannot_be_written_means_no_cache(project: Project) -> None:
    """Silently: here a file stands where the folder should be."""
    project.state.write_text("in the way")
    assert project.load("aliases: {a: time.now}\n").problems == ()
    assert project.state.read_text() == "in the way"


def test_full_disk_leaves_no_temporary_file(tmp_path: Path) -> None:
    """/dev/full cannot be a folder, so the rename fails here: its target is one."""
    target = tmp_path / "config-x.json"
    target.mkdir()
    store(target, "k", {"main": Document({}, {}, [])})
    assert [p.name for p in tmp_path.iterdir()] == ["config-x.json"]


@pytest.mark.skipif(os.name != "posix" or os.geteuid() != 0, reason="only root can give a file away")
def test_cache_of_another_user_is_not_read(project: Project) -> None:
    """Someone else may have prepared it in a shared folder."""
    project.load("aliases: {a: time.now}\n")
    path = place(project)
    key = path.read_bytes().split(b" ")[1].decode()
    assert fetch(path, key) is not None
    os.chown(path, 12345, -1)
    assert fetch(path, key) is None


def test_tools_are_unpacked_when_they_are_looked_at(project: Project) -> None:
    """A warm load of thousands pays for the names only; the values are those of a cold one."""
    text = "tools:\n  - {name: a, x: [1, {y: é}]}\n  - 3\n  - {name: 7}\n  - {x: 1}\n  - {name: b, name: c}\n"
    cold, warm = project.load(text).settings.tools, project.load().settings.tools
    assert [d.name for d in warm] == [d.name for d in cold] == ["a", "", ""]
    assert [d.where for d in warm] == [d.where for d in cold]
    assert [d.data for d in warm] == [{"name": "a", "x": [1, {"y": "é"}]}, {"name": 7}, {"x": 1}]
    assert warm == cold
    assert warm[0].data is warm[0].data


def test_number_that_json_would_change_is_not_cached(project: Project) -> None:
    """An integer beyond 64 bits stays exact, at the price of a cold load."""
    text = "packs: {p: {n: 123456789012345678901234567890}}\n"
    for _ in range(2):
        assert project.load(text).settings.packs["p"].data == {"n": 123456789012345678901234567890}
    assert list(project.state.rglob("*.json")) == []


def test_text_that_does_not_parse_is_not_cached(project: Project) -> None:
    """Its problem is told each time."""
    for _ in range(2):
        assert project.load("a: [\n").errors
    assert list(project.state.rglob("*.json")) == []


def test_round_trip(tmp_path: Path) -> None:
    """What is stored comes back equal, small or large; for another key nothing does."""
    for size in (1, 20_000):
        data = {"a": [1, 1.5, True, None, "é\u2028\x7f"], "tools": [{"name": f"tool{i}", "x": {}} for i in range(size)]}
        document = Document(data, {"a": 1, "tools": 2}, [YamlFault(3, "k", "message", "hint")])
        store(tmp_path / "c.json", "key", {"main": document})
        found = fetch(tmp_path / "c.json", "key")
        assert found is not None
        back = found["main"]
        tools = [packed.unpack() for packed in back.data["tools"]]
        assert back.replace(data={**back.data, "tools": tools}) == document
        assert fetch(tmp_path / "c.json", "other") is None


def test_key_tells_files_apart() -> None:
    """Neither moving bytes between files nor an empty file for none gives the same key."""
    keys = [
        cache_key(files)
        for files in ({}, {"a": b""}, {"b": b""}, {"a": b"x", "b": b""}, {"a": b"", "b": b"x"}, {"a": b"\nb 1\nx"})
    ]
    assert len(set(keys)) == len(keys)
