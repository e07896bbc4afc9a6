"""Edits in a user's own files: everything else stays byte for byte, and what cannot be added to is
left alone."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from onetool_ipy import UsageProblem
from onetool_ipy.config.edit import add_server, allow_host, remove_server, save_secret, save_snippet
from onetool_ipy.config.load import load_config
from onetool_ipy.config.paths import home_at
from onetool_ipy.snippets.definition import Snippet
from tests.harness.patience import HANG_S
from tests.harness.systems import has_mode

HOST = "api.example.com"


def _paths(folder: Path, text: str | None):  # noqa: ANN202 - Paths
    if text is not None:
        file = folder / ".onetool" / "onetool.yaml"
        file.parent.mkdir()
        file.write_bytes(text.encode())
    return load_config(env=home_at(folder), cwd=folder).paths


@pytest.mark.parametrize(
    "text",
    [
        None,
        "",
        "# nothing but words\n",
        "---\n",
        "--- # a document\n# with words\n",
        "{version: 1}\n",
        "{version: 1, fs: {roots: ['.']}}  # no newline at the end",
        "--- {'version': 1,\n  # words\n}\n",
        "version: 1\n# http:\n#   allowed_hosts: []\n",
        "version: 1\nfs: {roots: ['.']}  # no newline at the end",
        "http:\n",
        "http: # later\nfs: {roots: ['.']}\n",
        "http:\n    timeout_s: 5   # long\n\nfs: {roots: ['.']}\n",
        "http: {}\n",
        "http: {timeout_s: 5} # five\n",
        "http:\n  allowed_hosts: []\n",
        "http:\n  allowed_hosts:\n  timeout_s: 5\n",
        "http:\n  allowed_hosts: [a.com, 'b.com'] # both\n  timeout_s: 5\n",
        "http:\n  allowed_hosts: [\n    a.com,  # one\n    b.com,\n  ]\n",
        (
            "http:\n  allowed_hosts:\n    - a.com  # one\n    # two\n    - b.com # end\n\n "
            " timeout_s: 5\n"
        ),
        "http:\n  allowed_hosts:\n  - a.com\n",
        "http: {allowed_hosts: [a.com], timeout_s: 5}\n",
    ],
)
def test_a_host_is_added_and_every_other_byte_stays(tmp_path: Path, text: str | None) -> None:
    paths = _paths(tmp_path, text)
    before = (yaml.safe_load(text or "") or {}).get("http") or {}

    file = allow_host(paths, HOST)

    assert file is not None
    changed = file.read_text(encoding="utf-8")
    loaded = load_config(env=home_at(tmp_path), cwd=tmp_path)
    assert loaded.problems == ()
    assert loaded.settings.http.allowed_hosts == (*(before.get("allowed_hosts") or ()), HOST)
    kept = iter(changed)
    assert all(any(mine == each for each in kept) for mine in text or ""), "something was taken out"
    assert allow_host(loaded.paths, HOST) is None
    assert file.read_text(encoding="utf-8") == changed


@pytest.mark.parametrize(
    ("name", "text", "edit"),
    [
        ("onetool.yaml", "http:\r\n  allowed_hosts:\r\n  - a.com\r\n", "host"),
        ("onetool.yaml", "servers:\r\n  a: {command: b}\r\n", "server"),
        ("onetool.yaml", "version: 1", "host"),
        ("secrets.yaml", "A: b\r\n", "secret"),
        ("snippets.yaml", "hello:\r\n  body: 1\r\n", "snippet"),
        ("snippets.yaml", "snippets:\r\n  hello:\r\n    body: 1\r\n", "snippet"),
    ],
)
def test_an_edit_ends_its_lines_as_the_file_does(
    tmp_path: Path, name: str, text: str, edit: str
) -> None:
    paths = _paths(tmp_path, "version: 1\r\n")
    file = tmp_path / ".onetool" / name
    file.write_bytes(text.encode())
    edits: dict[str, Callable[[], object]] = {
        "host": lambda: allow_host(paths, HOST),
        "server": lambda: add_server(paths, "clock", {"command": "uvx"}),
        "secret": lambda: save_secret(paths, "KEY", "sesame"),
        "snippet": lambda: save_snippet(paths, Snippet(name="two", body="a = 1\nb = 2\n")),
    }

    edits[edit]()

    lines = file.read_bytes().splitlines(keepends=True)
    assert len(lines) > text.count("\n")
    assert {line.endswith(b"\r\n") for line in lines} == {"\r\n" in text}


@pytest.mark.parametrize(
    ("text", "rest"),
    [
        ("{}", ""),
        ("{}\n", "\n"),
        (" { } # words\n", "  # words\n"),
        ("# words\n--- {}\n", "# words\n--- \n"),
    ],
)
def test_file_that_says_nothing_in_braces_can_be_edited(
    tmp_path: Path, text: str, rest: str
) -> None:
    paths = _paths(tmp_path, text)

    allow_host(paths, HOST)
    file = add_server(paths, "clock", {"command": "uvx"})

    assert file.read_text(encoding="utf-8").startswith(rest)
    assert yaml.safe_load(file.read_text(encoding="utf-8")) == {
        "servers": {"clock": {"command": "uvx"}},
        "http": {"allowed_hosts": [HOST]},
    }
    assert load_config(env=home_at(tmp_path), cwd=tmp_path).problems == ()


@pytest.mark.parametrize(
    "text", [None, "{}", "{version: 1}", "servers: {}\n", "servers: { 'b': {command: b} , }\n"]
)
def test_servers_that_were_added_can_be_removed_in_any_order(
    tmp_path: Path, text: str | None
) -> None:
    paths = _paths(tmp_path, text)
    before = yaml.safe_load(text or "") or {}
    file = add_server(paths, "one", {"command": "a", "args": ["}", "},"]})
    add_server(_paths(tmp_path, None), "two", {"command": "a"})

    for name in ("two", "one"):
        remove_server(_paths(tmp_path, None), name)

    after = yaml.safe_load(file.read_text(encoding="utf-8")) or {}
    assert (after.get("servers") or {}) == before.get("servers", {})
    assert {key: value for key, value in after.items() if key not in ("servers", "version")} == {}


@pytest.mark.parametrize(
    "text",
    [
        "--- {}\n...\n",
        "http: &h {allowed_hosts: &l [a.com]}\npacks: {x: {hosts: *l}}\n",
        "http: [1\n",
        "http: 5\n",
        "a: 1\na: 2\n",
    ],
)
def test_what_cannot_be_added_to_is_left_alone(tmp_path: Path, text: str) -> None:
    paths = _paths(tmp_path, text)

    with pytest.raises(UsageProblem):
        allow_host(paths, HOST)

    assert (tmp_path / ".onetool" / "onetool.yaml").read_text(encoding="utf-8") == text


def test_a_link_stays_a_link(tmp_path: Path) -> None:
    real = tmp_path / "real.yaml"
    real.write_text("version: 1\n", encoding="utf-8")
    real.chmod(0o640)
    (tmp_path / ".onetool").mkdir()
    (tmp_path / ".onetool" / "onetool.yaml").symlink_to(real)

    allow_host(_paths(tmp_path, None), HOST)

    assert (tmp_path / ".onetool" / "onetool.yaml").is_symlink()
    assert HOST in real.read_text(encoding="utf-8")
    assert has_mode(real, 0o640)


@pytest.mark.parametrize(
    "value", ["sk-123456", 'a"b\\c: #d', "  spaces  ", "123456", "ünï", "true"]
)
def test_a_secret_is_kept_for_its_owner_alone(tmp_path: Path, value: str) -> None:
    (tmp_path / ".onetool").mkdir()
    (tmp_path / ".onetool" / "secrets.yaml").write_text("# mine\nOTHER: abcdefgh", encoding="utf-8")
    paths = _paths(tmp_path, None)

    file = save_secret(paths, "MY_KEY", value)
    save_secret(paths, "MY_KEY", value)

    loaded = load_config(env=home_at(tmp_path), cwd=tmp_path)
    assert loaded.secrets.get("MY_KEY") == value
    assert loaded.secrets.get("OTHER") == "abcdefgh"
    assert has_mode(file, 0o600)
    assert file.read_text(encoding="utf-8").startswith("# mine\nOTHER: abcdefgh\n")
    assert "secrets.yaml" in (tmp_path / ".onetool" / ".gitignore").read_text(encoding="utf-8")
    with pytest.raises(UsageProblem, match="another secret"):
        save_secret(paths, "MY_KEY", "something else")


SERVER = {
    "type": "stdio",
    "command": "uvx",
    "args": ["mcp-server-time"],
    "env": {"MODE": "a: b # c"},
}


@pytest.mark.parametrize(
    "text",
    [
        None,
        "",
        "# nothing but words\n",
        "version: 1\nfs: {roots: ['.']}  # no newline at the end",
        "servers:\n",
        "servers: # later\nfs: {roots: ['.']}\n",
        "servers: {}\n",
        "servers: {one: {type: stdio, command: x}} # one\n",
        (
            "servers:\n    one:   # first\n        type: stdio\n        command: x\n\nfs: {roots:"
            " ['.']}\n"
        ),
    ],
)
def test_a_server_is_added_and_every_other_byte_stays(tmp_path: Path, text: str | None) -> None:
    paths = _paths(tmp_path, text)
    before = (yaml.safe_load(text or "") or {}).get("servers") or {}

    file = add_server(paths, "clock", SERVER)

    changed = file.read_text(encoding="utf-8")
    loaded = load_config(env=home_at(tmp_path), cwd=tmp_path)
    assert loaded.problems == ()
    assert set(loaded.settings.servers) == {*before, "clock"}
    assert loaded.settings.servers["clock"].data["env"] == SERVER["env"]
    kept = iter(changed)
    assert all(any(mine == each for each in kept) for mine in text or ""), "something was taken out"
    with pytest.raises(UsageProblem, match="has a server 'clock'"):
        add_server(loaded.paths, "clock", {"type": "stdio", "command": "other"})
    assert file.read_text(encoding="utf-8") == changed


@pytest.mark.parametrize(
    "text", ["servers: [1]\n", "servers: 5\n", "servers: [1\n", "a: 1\na: 2\n"]
)
def test_a_server_is_not_added_to_what_holds_none(tmp_path: Path, text: str) -> None:
    paths = _paths(tmp_path, text)

    with pytest.raises(UsageProblem):
        add_server(paths, "clock", SERVER)

    assert (tmp_path / ".onetool" / "onetool.yaml").read_text(encoding="utf-8") == text


NAMES = st.from_regex(r"[a-z][a-z0-9_]{0,8}", fullmatch=True)
LINES = st.sampled_from(
    [
        "# words",
        "",
        "fs: {roots: ['.']}",
        "http:\n  timeout_s: 5  # long",
        "aliases:\n    now: time.now",
        "#",
    ]
)


@pytest.mark.slow
@given(
    lines=st.lists(LINES, unique=True), names=st.lists(NAMES, unique=True, min_size=1, max_size=4)
)
def test_servers_that_are_added_are_there_and_every_line_of_the_person_stays(
    tmp_path_factory: pytest.TempPathFactory, lines: list[str], names: list[str]
) -> None:
    """The naive twin: what YAML reads before, with one key more."""
    text = "".join(f"{line}\n" for line in ["version: 1", *lines])
    paths = _paths(tmp_path_factory.mktemp("edit"), text)
    entries = {name: {"command": "run", "args": [name, "#x", ": y"]} for name in names}

    for name, entry in entries.items():
        file = add_server(paths, name, entry)

    edited = file.read_text(encoding="utf-8")
    assert yaml.safe_load(edited) == {**(yaml.safe_load(text) or {}), "servers": entries}
    rest = iter(edited.splitlines())
    assert all(line in rest for line in text.splitlines()), "each line, in its order"
    for name in names:
        remove_server(paths, name)
    assert not (yaml.safe_load(file.read_text(encoding="utf-8")) or {}).get("servers")


ADDER = """
import sys
import subprocess
import sys
from pathlib import Path
from onetool_ipy.config.edit import add_model, add_server, allow_host, save_secret
from onetool_ipy.config.load import load_config
from onetool_ipy.config.paths import home_at

home, work, mine = Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3]
paths = load_config(work / ".onetool/onetool.yaml", env=home_at(home), cwd=home / mine).paths
for n in range(8):
    allow_host(paths, f"{mine}{n}.example.com")
    add_server(paths, f"{mine}{n}", {"command": "uvx"})
    save_secret(paths, f"{mine}_{n}", "value")
    add_model(paths, "local", {"provider": "ollama", "model": mine}, file=home / ".onetool/onetool.yaml")
"""


@pytest.mark.slow
def test_two_processes_that_edit_at_once_lose_nothing(tmp_path: Path) -> None:
    """They use one configuration from two folders, and the user's own beside it."""
    _paths(tmp_path, "version: 1\n")
    for name in ("a", "b", "work/.onetool"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "work/.onetool/onetool.yaml").write_text("version: 1\n", encoding="utf-8")
    command = [sys.executable, "-c", ADDER, str(tmp_path), str(tmp_path / "work")]

    writers = [subprocess.Popen([*command, mine]) for mine in ("a", "b")]

    assert [writer.wait(HANG_S) for writer in writers] == [0, 0]
    data = yaml.safe_load((tmp_path / "work/.onetool/onetool.yaml").read_bytes())
    secrets = yaml.safe_load((tmp_path / "work/.onetool/secrets.yaml").read_bytes())
    own = yaml.safe_load((tmp_path / ".onetool/onetool.yaml").read_bytes())
    both = [f"{mine}{n}" for mine in "ab" for n in range(8)]
    assert sorted(data["http"]["allowed_hosts"]) == [f"{name}.example.com" for name in both]
    assert sorted(data["servers"]) == both
    assert sorted(secrets) == [f"{name[0]}_{name[1]}" for name in both]
    assert len(own["models"]) == len(both) + 1  # and which is the default
