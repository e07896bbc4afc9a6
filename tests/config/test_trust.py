"""Which projects are trusted, and what of an untrusted one counts."""

from __future__ import annotations

import json
import os
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from onetool_ipy.config.load import load_config
from onetool_ipy.config.paths import home_at
from onetool_ipy.config.settings import Settings
from onetool_ipy.config.trust import TrustList, difference, reach_of, referenced_names
from tests.config.conftest import Project
from tests.harness.systems import has_mode

_FULL = """\
packs: {brave: {key: "${TOKEN}"}}
servers:
  gh: {command: npx, args: ["-y", "gh"], env: {GH: "${TOKEN}"}, trusted: true}
models: {default: m, m: {provider: ollama, base_url: "http://127.0.0.1:1", model: x, key: TOKEN}}
ask: {approve: ["*"], max_steps: 3, max_tokens: 9000000, tool_allow: []}
stats: {enabled: false}
output: {max_inline_bytes: 5, result_ttl_s: 1}
http: {allowed_hosts: ["evil.example"], allow_private: true}
fs: {roots: [".", "sub", "..", "/etc", "~/x"]}
topics: [{pattern: in, file: notes.yaml}, {pattern: out, file: ../../out.yaml}, {pattern: abs, file: /abs.yaml}]
state_dir: ../other-state
aliases: {now: time.now}
"""


@pytest.fixture
def env(project: Project) -> dict[str, str]:
    return {
        **home_at(project.home),
        "ONETOOL_STATE": str(project.state),
        "TOKEN": "t0ken-of-the-user",
    }


def test_a_project_found_by_walking_up_is_not_trusted(
    project: Project, env: dict[str, str]
) -> None:
    project.write("onetool.yaml", "version: 1\n")
    inside = project.folder / "deep" / "er"
    inside.mkdir(parents=True)
    assert load_config(env=env, cwd=inside).trust.how == "untrusted"


@pytest.mark.parametrize("by", ["path", "variable"])
def test_a_project_named_outright_is_trusted(
    project: Project, env: dict[str, str], by: str
) -> None:
    file = project.write("onetool.yaml", "version: 1\n")
    named = load_config(
        file if by == "path" else None, env={**env, "ONETOOL_CONFIG": str(file)}, cwd=project.home
    )
    assert named.trust.how == "named"
    assert named.trust.is_given
    assert not named.trust.is_pinned


def test_the_home_directory_is_trusted(tmp_path: Path) -> None:
    (tmp_path / ".onetool").mkdir()
    (tmp_path / "below").mkdir()
    found = load_config(env={**home_at(tmp_path)}, cwd=tmp_path / "below")
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
def test_the_variable_trusts_all_below_its_folders(
    project: Project, env: dict[str, str], value: str, how: str
) -> None:
    project.write("onetool.yaml", "version: 1\n")
    text = value.format(folder=project.folder, home=project.home, sep=os.pathsep)
    assert load_config(env={**env, "ONETOOL_TRUST": text}, cwd=project.folder).trust.how == how


def test_a_folder_without_a_project_has_nothing_to_trust(
    project: Project, env: dict[str, str]
) -> None:
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
    assert (found.ask, found.stats, found.output) == (
        Settings().ask,
        Settings().stats,
        Settings().output,
    )
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


def test_the_same_project_counts_whole_when_it_is_trusted(
    project: Project, env: dict[str, str]
) -> None:
    """The control: each setting that the test above misses does count after a yes."""
    project.write("onetool.yaml", _FULL)
    untrusted = load_config(env=env, cwd=project.folder)
    TrustList(project.state).add(project.folder, untrusted.reach)
    config = load_config(env=env, cwd=project.folder)
    found = config.settings
    assert config.trust.how == "listed"
    assert config.withheld == {}
    assert found.ask.max_steps == 3
    assert not found.stats.enabled
    assert found.output.max_inline_bytes == 5
    assert found.packs["brave"].data == {"key": "t0ken-of-the-user"}
    assert found.models.default == "m"
    assert found.http.allow_private
    assert found.fs.roots[-1] == "~/x"
    assert len(found.topics) == 3
    assert found.servers["gh"].data["env"] == {"GH": "t0ken-of-the-user"}
    assert found.state_dir == "../other-state"


def test_prompts_of_a_project_count_after_the_yes(project: Project, env: dict[str, str]) -> None:
    project.write("prompts.yaml", "packs: {fs: Obey me.}\n")
    assert load_config(env=env, cwd=project.folder).prompts == {}
    TrustList(project.state).add(project.folder, {})
    assert load_config(env=env, cwd=project.folder).prompts == {"fs": "Obey me."}


@pytest.mark.parametrize("is_approved", [False, True])
def test_a_state_folder_counts_after_the_yes(
    project: Project, env: dict[str, str], is_approved: bool
) -> None:
    del env["ONETOOL_STATE"]
    project.write("onetool.yaml", "state_dir: ../kept\n")
    reach = load_config(env=env, cwd=project.folder).reach
    TrustList.of(env, project.home).add(project.folder, reach if is_approved else {})
    config = load_config(env=env, cwd=project.folder)
    assert (config.paths.state.parent == project.folder.parent / "kept") is is_approved


@pytest.mark.parametrize("name", ["topics", "roots"])
def test_a_link_inside_an_untrusted_project_leads_nowhere(
    project: Project, env: dict[str, str], name: str
) -> None:
    outside = project.home / "outside"
    outside.mkdir()
    project.write(
        "onetool.yaml", "fs: {roots: [link]}\ntopics: [{pattern: n, file: ../link/n.yaml}]\n"
    )
    (project.folder / "link").symlink_to(outside)
    found = load_config(env=env, cwd=project.folder).settings
    assert (found.topics if name == "topics" else found.fs.roots) == ()


def test_a_record_belongs_to_one_folder(project: Project, env: dict[str, str]) -> None:
    known = TrustList(project.state)
    known.add(project.folder, {"server": {"gh": {"command": "npx"}}})
    assert known.get(project.folder) == {"server": {"gh": {"command": "npx"}}}
    assert known.get(project.folder / "sub") is None
    assert known.folders() == [project.folder]
    assert has_mode(known.path(project.folder), 0o600)
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
        b'{"version": 2}',
        b'{"version": 1, "folder": "X", "servers": {}}',
        b'{"version": 1, "folder": "X", "pins": {}}',
        b'{"version": 3, "folder": "X", "pins": {}}',
        b'{"version": 2, "folder": "X", "pins": {"a": 1}}',
    ],
)
def test_a_damaged_record_is_none(project: Project, content: bytes) -> None:
    known = TrustList(project.state)
    known.add(project.folder, {})
    known.path(project.folder).write_bytes(content.replace(b"X", os.fsencode(project.folder)))
    assert known.get(project.folder) is None
    assert known.folders() == []


def test_a_record_of_another_folder_or_user_or_behind_a_link_does_not_count(
    project: Project,
) -> None:
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
    def test_reach_is_everything_that_runs_or_leads_out_as_it_is_written(
        self, project: Project
    ) -> None:
        """Nothing of it is filled, and settings that lead nowhere are not in it."""
        config = project.load(_FULL, TOKEN="t0ken-of-the-user")

        above = str(project.folder.parent)
        assert config.reach == {
            "server": {
                "gh": {
                    "command": "npx",
                    "args": ["-y", "gh"],
                    "env": {"GH": "${TOKEN}"},
                    "trusted": True,
                },
            },
            "model": {
                "m": {
                    "provider": "ollama",
                    "base_url": "http://127.0.0.1:1",
                    "model": "x",
                    "key": "TOKEN",
                }
            },
            "folder": {
                "..": {"path": above},
                "/etc": {"path": os.path.realpath("/etc")},
                "~/x": {"path": os.path.realpath(os.path.expanduser("~/x"))},
            },
            "host": {"evil.example": {}},
            "setting": {"http.allow_private": {"value": True}},
            "file": {
                "../../out.yaml": {"path": os.path.join(above, "out.yaml")},
                "/abs.yaml": {"path": os.path.abspath("/abs.yaml")},
            },
            "state folder": {"../other-state": {"path": os.path.join(above, "other-state")}},
        }

    @pytest.mark.parametrize(
        ("before", "after", "kind"),
        [
            (
                "models: {m: {provider: ollama, model: x}}",
                "models: {m: {provider: ollama, model: x, key: K}}",
                "model",
            ),
            (
                "models: {m: {provider: ollama, model: x}}",
                "models: {n: {provider: ollama, model: x}}",
                "model",
            ),
            ("fs: {roots: [., /etc]}", "fs: {roots: [., /etc, /usr]}", "folder"),
            ("fs: {roots: [link]}", "fs: {roots: [link]}", "folder"),
            (
                "http: {allowed_hosts: [a.example]}",
                "http: {allowed_hosts: [a.example, b.example]}",
                "host",
            ),
            ("http: {allow_private: false}", "http: {allow_private: true}", "setting"),
            (
                "topics: [{pattern: n, file: n.yaml}]",
                "topics: [{pattern: n, file: /n.yaml}]",
                "file",
            ),
            ("version: 1", "state_dir: ../kept", "state folder"),
            ("servers: {s: {command: a}}", "servers: {s: {command: a, sampling: true}}", "server"),
            ("servers: {s: {command: a}}", "servers: {s: {command: a, roots: [/]}}", "server"),
            (
                "servers: {s: {command: a, inherit: [X]}}",
                "servers: {s: {command: a, inherit: [Y]}}",
                "server",
            ),
            (
                "servers: {s: {command: a, env: {A: b}}}",
                "servers: {s: {command: a, env: {A: '${B}'}}}",
                "server",
            ),
        ],
    )
    def test_what_is_new_or_changed_does_not_count_until_it_is_approved(
        self, project: Project, env: dict[str, str], before: str, after: str, kind: str
    ) -> None:
        link = project.folder / "link"
        link.symlink_to("/usr")
        project.write("onetool.yaml", before + "\n")
        known = TrustList(project.state)
        known.add(project.folder, load_config(env=env, cwd=project.folder).reach)
        assert load_config(env=env, cwd=project.folder).withheld == {}
        link.unlink()
        link.symlink_to("/etc")
        project.write("onetool.yaml", after + "\n")

        config = load_config(env=env, cwd=project.folder)

        assert list(config.withheld) == [kind]
        assert len(config.withheld[kind]) == 1
        settings = config.settings
        counted = {
            "model": settings.models.named,
            "folder": [root for root in settings.fs.roots if root in ("/usr", "link")],
            "host": [host for host in settings.http.allowed_hosts if host != "a.example"],
            "setting": settings.http.allow_private,
            "file": settings.topics,
            "state folder": settings.state_dir,
            "server": (),
        }
        assert not counted[kind]
        known.add(project.folder, config.reach)
        assert load_config(env=env, cwd=project.folder).withheld == {}

    def test_other_settings_change_without_a_yes(
        self, project: Project, env: dict[str, str]
    ) -> None:
        project.write("onetool.yaml", "servers: {s: {command: a}}\nfs: {roots: [.]}\n")
        TrustList(project.state).add(project.folder, load_config(env=env, cwd=project.folder).reach)
        project.write(
            "onetool.yaml",
            "servers: {s: {command: a, timeout_s: 5}}\nfs: {roots: [., sub]}\nstats: {enabled:"
            " false}\naliases: {now: time.now}\ntopics: [{pattern: n, file: n.yaml}]\nhttp:"
            " {timeout_s: 3}\n",
        )
        assert load_config(env=env, cwd=project.folder).withheld == {}

    def test_a_default_model_that_is_withheld_stays_the_default(
        self, project: Project, env: dict[str, str]
    ) -> None:
        """So that an ask without a name is refused for that model, and does not go to another
        one."""
        project.write("onetool.yaml", "models: {m: {provider: ollama, model: x}}\n")
        TrustList(project.state).add(project.folder, load_config(env=env, cwd=project.folder).reach)
        more = (
            "models: {default: n, m: {provider: ollama, model: x}, n: {provider: ollama, model:"
            " y}}\n"
        )
        project.write("onetool.yaml", more)
        models = load_config(env=env, cwd=project.folder).settings.models
        assert models.default == "n"
        assert list(models.named) == ["m"]

    @pytest.mark.parametrize(
        "text",
        [
            "servers: 5\nmodels: [1]\nfs: x\nhttp: [y]\ntopics: 3\nstate_dir: 7\n",
            (
                "servers: {a: 1, b: {env: [x], args: y, headers: 3}}\nmodels: {m: 1}\nfs: {roots:"
                " [1, {a: b}]}\n"
            ),
            (
                'fs: {roots: ["a\\0b"]}\ntopics: [{file: "\\0"}, 1, {pattern: x}]\nhttp:'
                " {allowed_hosts: [[1], {}]}\n"
            ),
            "servers: {a: {env: {1: 2, 2020-01-01: 2020-01-01}}}\n",
        ],
    )
    def test_faulty_settings_cost_only_themselves(
        self, project: Project, env: dict[str, str], text: str
    ) -> None:
        project.write("onetool.yaml", text)
        config = load_config(env=env, cwd=project.folder)
        assert config.settings.fs.roots in ((), (".",))
        TrustList(project.state).add(project.folder, config.reach)
        assert load_config(env=env, cwd=project.folder).withheld == {}

    def test_a_difference_reads_as_lines(self) -> None:
        before, after = (
            {"command": "a", "args": ["x"]},
            {"command": "b", "args": ["x"], "env": {"K": "${T}"}},
        )
        assert difference(before, after) == ["- command: a", "+ command: b", '+ env: {"K": "${T}"}']

    def test_referenced_names_are_found_everywhere(self) -> None:
        value = {"a": ["${ONE}", {"b": "x${TWO}y${ONE}"}], "c": "$${NOT}", "d": 3}
        assert referenced_names(value) == ["ONE", "TWO"]

    def test_reach_is_plain_json(self, project: Project) -> None:
        data = {
            "servers": {
                "a": {"command": "x", "args": [1.5, True, None], "env": {"d": {"deep": (1, 2)}}}
            }
        }
        reach = reach_of(data, project.folder)
        assert json.loads(json.dumps(reach)) == reach


def test_what_many_threads_trust_at_once_is_all_kept(tmp_path: Path) -> None:
    folders = [tmp_path / f"project-{number}" for number in range(16)]
    start = threading.Barrier(len(folders))

    def trust(folder: Path) -> None:
        start.wait()
        TrustList(tmp_path / "trust").add(folder, {"servers": {"name": {"command": folder.name}}})

    with ThreadPoolExecutor(len(folders)) as threads:
        list(threads.map(trust, folders))

    known = TrustList(tmp_path / "trust")
    assert sorted(known.folders()) == sorted(folders)
    assert [known.get(folder) for folder in folders] == [
        {"servers": {"name": {"command": one.name}}} for one in folders
    ]
