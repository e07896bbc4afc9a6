"""`load_config` as a whole: light, deterministic, and never an exception for what files hold."""

from __future__ import annotations

import gc
import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from onetool_ipy.config.load import Config, load_config
from onetool_ipy.config.paths import home_at
from onetool_ipy.config.settings import HttpSettings, Settings
from tests.config.conftest import Project
from tests.harness.programs import python

HEAVY = (
    "yaml",
    "pydantic",
    "jinja2",
    "platformdirs",
    "httpx",
    "pandas",
    "IPython",
    "rapidfuzz",
    "orjson",
)


def test_load_without_configuration_imports_nothing_heavy(tmp_path: Path) -> None:
    """Importing the room and loading in an empty folder leave the libraries alone, and write
    nothing."""
    script = f"""
import sys
from pathlib import Path
from onetool_ipy.config.load import load_config
before = set(sys.modules)
config = load_config(env={{}}, cwd=Path(sys.argv[1]), home=Path(sys.argv[1]))
new = [m for m in set(sys.modules) - before if "hash" not in m and "blake" not in m]
print([m for m in {HEAVY!r} if m in sys.modules], new, config.problems)
"""
    assert python(script, tmp_path).stdout == "[] [] ()\n"
    assert list(tmp_path.iterdir()) == []


def test_garbage_collection_is_as_it_was(project: Project) -> None:
    """It is off while files are read, whatever they hold."""
    for text in ("aliases: {a: time.now}\n", "a: [\n"):
        project.load(text)
        assert gc.isenabled()
    gc.disable()
    try:
        project.load("version: 1\n")
        assert not gc.isenabled()
    finally:
        gc.enable()


def test_reload_sees_every_file_and_the_old_config_stays_good(project: Project) -> None:
    """A reload is a second call; who keeps the first one keeps all of it."""
    project.write("secrets.yaml", "TOKEN: first-value\n")
    first = project.load('packs: {p: {k: "${TOKEN}"}}\n')
    project.write("secrets.yaml", "TOKEN: second-value\n")
    second = project.load()
    broken = project.load("packs: [\n")
    assert first.settings.packs["p"].data == {"k": "first-value"}
    assert second.settings.packs["p"].data == {"k": "second-value"}
    assert broken.errors
    assert first.secrets.mask("first-value second-value") == "*** second-value"


def test_thousand_tools(project: Project) -> None:
    """All of them, in their order, each with its line, cold and warm."""
    text = "tools:\n" + "".join(
        f"  - name: tool_{i}\n    description: Number {i}.\n" for i in range(1000)
    )
    for config in (project.load(text), project.load()):
        assert [d.data["name"] for d in config.settings.tools] == [f"tool_{i}" for i in range(1000)]
        assert config.settings.tools[999].where == ".onetool/onetool.yaml:2000"


@pytest.mark.slow
def test_file_with_endless_mistakes_is_read_and_told_in_short(project: Project) -> None:
    """Ten thousand servers, each wrong in three ways: no quadratic work, and a list that one can
    read."""
    text = "servers:\n" + "".join(
        f'  s{i}: {{command: 1, arg: x, env: {{A: .nan, B: ["${{TOKEN}}"]}}}}\n  t{i}: {{comand:'
        ' "${TOKEN}"}\n'
        for i in range(5000)
    )
    config = project.load(text + "aliases: {a: time.now}\n", TOKEN="abcdef123")
    assert len(config.problems) == 201
    assert str(config.problems[-1]).endswith(
        "has more than 200 problems; the others are not listed."
    )
    assert config.settings.aliases == {"a": "time.now"}
    assert config.settings.servers == {}
    assert not config.errors
    assert project.load(text + "ask: {max_steps: x}\n", TOKEN="abcdef123").errors


PLAIN = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats()
    | st.text(max_size=8)
    | st.sampled_from(
        ["${TOKEN}", "${NOPE}", "${", "$${x}", "http://x", "stdio", "time.now", "a.b:80"]
    ),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=8,
)
NAMES = st.sampled_from([*Settings._fields, "alias", "htp"])
INNER = st.sampled_from(
    [
        *HttpSettings._fields,
        "default",
        "type",
        "command",
        "url",
        "env",
        "args",
        "body",
        "params",
        "provider",
        "model",
        "pattern",
    ]
)
DEEPER = st.dictionaries(INNER, PLAIN | st.dictionaries(INNER, PLAIN, max_size=4), max_size=4)
DOCUMENTS = st.dictionaries(NAMES, PLAIN | DEEPER | st.lists(DEEPER, max_size=3), max_size=6)


def check(config: Config) -> None:
    assert isinstance(config.settings, Settings)
    for problem in config.problems:
        assert "\n" not in str(problem)
        assert problem.where.startswith(".onetool/")
    assert set(config.errors) <= set(config.problems)
    repr(config)


@pytest.mark.slow
@pytest.mark.timeout(600)
@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(document=DOCUMENTS)
def test_no_document_raises_and_warm_is_as_cold(project: Project, document: dict[str, Any]) -> None:
    """Whatever stands under the known keys."""
    cold = project.load(yaml.safe_dump(document, allow_unicode=True), TOKEN="abcdef123")
    check(cold)
    warm = project.load(TOKEN="abcdef123")
    assert json.dumps(repr([warm.settings, warm.problems])) == json.dumps(
        repr([cold.settings, cold.problems])
    )
    assert warm == cold._replace(secrets=warm.secrets)
    assert "abcdef123" not in repr(cold)


@pytest.mark.parametrize("hosts", ["{a: b}", "3", "{}", "true"])
def test_hosts_that_are_no_list_are_a_problem_and_allow_nothing(
    project: Project, hosts: str
) -> None:
    config = project.load(f"http: {{allowed_hosts: {hosts}}}\n")

    assert config.settings.http.allowed_hosts == ()
    assert any("http.allowed_hosts" in problem.message for problem in config.problems)


@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    data=st.binary(max_size=60)
    | st.text(":-[]{}&*!|>'\"#%@`,? \n\tab1<", max_size=40).map(str.encode)
)
def test_no_bytes_raise(project: Project, data: bytes) -> None:
    """In any of the files."""
    for name in ("onetool.yaml", "prompts.yaml", "snippets.yaml", "secrets.yaml"):
        project.write(name, data)
    check(project.load())


@pytest.mark.posix("XDG_STATE_HOME")
def test_environment_is_an_argument(project: Project, tmp_path: Path) -> None:
    """Nothing is read from os.environ: home and state are those that were given."""
    env = {**home_at(project.home), "XDG_STATE_HOME": str(tmp_path / "xdg")}
    config = load_config(env=env, cwd=project.folder)
    assert config.paths.state.is_relative_to(tmp_path / "xdg" / "onetool_ipy")
