"""A configuration file is kept as it was parsed: when that is used, when not, and what never gets
into it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import orjson
import pytest

from onetool_ipy.config.load import Config, load_config
from onetool_ipy.config.paths import home_at
from tests.config.conftest import Project
from tests.harness.programs import python
from tests.harness.systems import has_mode

LARGE = f"# {'x' * 40_000}\n"
TEXT = f"""{LARGE}\
aliases: {{ws: brave.search}}
packs: {{p: {{k: "${{TOKEN}}", deep: [1, 2.5, true, null, "é🎉"]}}}}
http: {{timeout_s: abc}}
htpp: 1
tools:
  - {{name: a, description: b}}
  - {{name: a, name: b}}
"""


def place(project: Project) -> Path:
    (file,) = project.state.rglob("onetool.yaml.json")
    return file


def facts(config: Config) -> list[object]:
    return [
        config.settings,
        config.prompts,
        config.problems,
        config.errors,
        config.paths,
        config.fingerprint,
    ]


def test_second_load_is_the_same_and_imports_no_yaml(project: Project) -> None:
    """Values, problems with their lines, `${NAME}` filled: all but the parsing."""
    cold = project.load(TEXT, TOKEN="abcdef123")
    assert len(cold.problems) == 3
    assert facts(project.load(TOKEN="abcdef123")) == facts(cold)
    script = """
import sys
from pathlib import Path
from onetool_ipy.config.load import load_config
env = {"ONETOOL_STATE": sys.argv[2], "ONETOOL_TRUST": sys.argv[1], "TOKEN": "abcdef123"}
config = load_config(env=env, cwd=Path(sys.argv[1]), home=Path(sys.argv[1]).parent)
print(*config.problems, sep="\\n")
print(config.settings.packs["p"].data["k"])
print("heavy:", sorted({"yaml", "pydantic", "jinja2", "pandas", "mcp", "IPython"} & set(sys.modules)))
"""
    lines = python(script, project.folder, project.state).stdout.splitlines()
    assert lines == [*map(str, cold.problems), "abcdef123", "heavy: []"]


@pytest.mark.slow
def test_a_file_that_fits_its_schema_is_not_checked_again(project: Project) -> None:
    """A later load does not even import the validator, until the text is another one."""
    script = """
import sys
from pathlib import Path
from onetool_ipy.config.load import load_config
env = {"ONETOOL_STATE": sys.argv[2], "ONETOOL_TRUST": sys.argv[1]}
config = load_config(env=env, cwd=Path(sys.argv[1]), home=Path(sys.argv[1]).parent)
print(config.settings.aliases["a"], len(config.problems), "jsonschema_rs" in sys.modules)
"""
    command = [sys.executable, "-c", script, str(project.folder), str(project.state)]

    def later_load(text: str) -> str:
        project.write("onetool.yaml", text)
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()

    good = f"{LARGE}aliases: {{a: time.now}}\ntools: [{{name: t, parameters: {{type: object}}}}]\n"
    assert later_load(good) == "time.now 0 True"
    assert later_load(good) == "time.now 0 False"
    bad = good.replace("tools:", "htpp: 1\ntools:")
    assert [later_load(bad) for _ in range(2)] == ["time.now 1 True"] * 2


def test_what_the_environment_fills_is_checked_at_each_load(project: Project) -> None:
    """The file fits as it is written, and the value of the variable does not."""
    text = f'{LARGE}servers: {{s: {{url: "https://x.example", headers: {{X-Key: "${{KEY}}"}}}}}}\n'
    assert project.says(text, KEY="abcdef123") == []
    assert orjson.loads(place(project).read_bytes())["fits"] is True
    assert any("is not a header's value" in problem for problem in project.says(KEY="two\nlines"))
    assert project.says(KEY="abcdef123") == []


def test_a_tool_whose_parameters_are_no_schema_is_looked_at_each_time(project: Project) -> None:
    """The file then does not count as one that fits."""
    text = f"{LARGE}tools: [{{name: t, parameters: {{type: object, properties: 3}}}}]\n"
    for _ in range(2):
        assert [tool.fits for tool in project.load(text).settings.tools] == [False]


def test_a_project_without_trust_leaves_nothing_behind_and_uses_nothing(project: Project) -> None:
    """What was kept while it was trusted does not count afterwards, whatever is in it."""
    text = "aliases: {a: time.now}\n"
    project.load(text, ONETOOL_TRUST="0")
    assert not project.state.exists()

    project.load(text)
    file = place(project)
    file.write_bytes(file.read_bytes().replace(b"time.now", b"time.won"))

    assert project.load(text).settings.aliases == {"a": "time.won"}
    assert project.load(text, ONETOOL_TRUST="0").settings.aliases == {"a": "time.now"}


def test_a_small_project_with_secrets_is_loaded_again_without_parser_and_validator(
    project: Project,
) -> None:
    project.write("secrets.yaml", "TOKEN: abcdef123\n").chmod(0o600)
    project.write("snippets.yaml", "s: {body: a}\n")
    project.write("prompts.yaml", "packs: {p: a}\n")
    cold = project.load("packs: {p: {k: 1}}\naliases: {a: time.now}\n")
    script = """
import sys
from pathlib import Path
from onetool_ipy.config.load import load_config
env = {"ONETOOL_STATE": sys.argv[2], "ONETOOL_TRUST": sys.argv[1]}
config = load_config(env=env, cwd=Path(sys.argv[1]), home=Path(sys.argv[1]).parent)
print(config.fingerprint, sorted({"yaml", "jsonschema_rs"} & set(sys.modules)))
"""

    done = python(script, project.folder, project.state)

    assert done.stdout.split() == [cold.fingerprint, "[]"]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("snippets.yaml", "s: {body: 7}\nt: {boddy: a}\n"),
        ("snippets.yaml", "snippets: {s: {body: a, params: 3}}\n"),
        ("prompts.yaml", "packs: {p: [1]}\n"),
    ],
)
def test_what_does_not_fit_is_said_at_each_load(project: Project, name: str, text: str) -> None:
    project.write(name, text)

    cold = project.says("aliases: {a: time.now}\n")

    assert cold
    assert project.says() == cold


@pytest.mark.parametrize("name", ["onetool.yaml", "snippets.yaml", "prompts.yaml"])
def test_any_change_of_any_file_is_seen(project: Project, name: str) -> None:
    """Content counts, not the time: here size and time stay the same."""
    texts = {
        "onetool.yaml": f"{LARGE}aliases: {{a: time.now}}\n",
        "snippets.yaml": "s: {body: aaa}\n",
        "prompts.yaml": "packs: {p: aaa}\n",
    }
    for file, text in texts.items():
        project.write(file, text)
    before = project.load()
    path = project.onetool / name
    status = path.stat()
    project.write(name, texts[name].replace("aaa", "bbb").replace("now", "won"))
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
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


@pytest.mark.parametrize(
    "damage",
    [
        *(
            b"",
            b"x" * 1000,
            b'{"version": 3}',
            b"[]",
            b"7",
            b"\x80\x04cos\nsystem\n(S'echo hi'\ntR.",
        ),
        *("cut", "another key", "no lines", "odd lines", "odd faults"),
    ],
    ids=repr,
)
def test_what_is_damaged_or_foreign_is_made_again(project: Project, damage: bytes | str) -> None:
    """Never a traceback, never a wrong value."""
    good = project.load(f"{LARGE}aliases: {{a: time.now}}\n")
    path = place(project)
    whole = path.read_bytes()
    record = orjson.loads(whole)
    changed = {
        "another key": {"key": "0", "data": {}},
        "no lines": {"lines": None},
        "odd lines": {"lines": [1]},
    }
    changed["odd faults"] = {"faults": [[1]]}
    if damage == "cut":
        damage = whole[:-9]
    path.write_bytes(
        damage if isinstance(damage, bytes) else orjson.dumps({**record, **changed[damage]})
    )
    assert facts(project.load()) == facts(good)
    assert path.read_bytes() == whole


def test_no_secret_is_in_it_and_it_is_for_the_user_alone(project: Project) -> None:
    """Templates stay templates, and secrets.yaml is not part of it."""
    project.write("secrets.yaml", f"{LARGE}TOKEN: abcdef123\n")
    config = project.load(
        f'{LARGE}packs: {{p: {{k: "${{TOKEN}} ${{FROM_ENV}}"}}}}\n', FROM_ENV="env-value-1"
    )
    assert config.settings.packs["p"].data["k"] == "abcdef123 env-value-1"
    path = place(project)
    assert [file for file in project.state.rglob("*") if file.is_file()] == [path]
    assert b"abcdef123" not in path.read_bytes()
    assert b"env-value-1" not in path.read_bytes()
    assert has_mode(path, 0o600)
    assert has_mode(path.parent, 0o700)


def test_place_that_the_project_names_is_not_believed(project: Project) -> None:
    """A project could ship in `state_dir` what nobody sees in its files."""
    env = {**home_at(project.home), "ONETOOL_TRUST": str(project.folder)}
    project.write("onetool.yaml", f"{LARGE}state_dir: .state\naliases: {{a: time.now}}\n")
    for _ in range(2):
        config = load_config(env=env, cwd=project.folder)
        assert config.paths.state == project.folder / ".state" / "v2"
        assert not (project.folder / ".state").exists()
        assert not list(project.home.rglob("onetool.yaml.json"))


def test_place_that_cannot_be_written_costs_nothing(project: Project) -> None:
    """Here a file is where the folder should be."""
    project.state.write_text("in the way")
    assert project.load(f"{LARGE}aliases: {{a: time.now}}\n").problems == ()
    assert project.state.read_text() == "in the way"


@pytest.mark.skipif(
    os.name != "posix" or getattr(os, "geteuid", lambda: -1)() != 0,
    reason="only root can give a file away",
)
def test_what_another_user_owns_is_not_read(project: Project) -> None:
    """Someone else may have prepared it in a shared folder."""
    project.load(f"{LARGE}aliases: {{a: time.now}}\n")
    path = place(project)
    path.write_bytes(path.read_bytes().replace(b"time.now", b"time.lie"))
    assert project.load().settings.aliases == {"a": "time.lie"}, "proof that it is read"
    os.chown(path, 12345, -1)
    assert project.load().settings.aliases == {"a": "time.now"}


def test_number_that_json_cannot_hold_stays_exact(project: Project) -> None:
    """The file is parsed at each load then."""
    text = f"{LARGE}packs: {{p: {{n: 123456789012345678901234567890}}}}\n"
    for _ in range(2):
        assert project.load(text).settings.packs["p"].data == {"n": 123456789012345678901234567890}
    assert list(project.state.rglob("*.json")) == []


def test_text_that_does_not_parse_is_not_kept(project: Project) -> None:
    """Its problem is told each time."""
    for _ in range(2):
        assert project.load(f"{LARGE}a: [\n").errors
    assert list(project.state.rglob("*.json")) == []
