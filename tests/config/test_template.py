"""`init`: a commented `.onetool/` that documents every key, loads without problems and overwrites nothing."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from onetool_ipy.base.errors import InvalidConfig
from onetool_ipy.config.check import MODEL_KEYS, PARAM_KEYS, SERVER_KEYS, SNIPPET_KEYS
from onetool_ipy.config.settings import (
    AskSettings,
    FsSettings,
    HttpSettings,
    OutputSettings,
    Settings,
    StatsSettings,
    TimeoutSettings,
    Topic,
)
from onetool_ipy.config.template import init_project
from tests.config.conftest import Project

SECTIONS = {
    "http": HttpSettings,
    "fs": FsSettings,
    "output": OutputSettings,
    "stats": StatsSettings,
    "ask": AskSettings,
    "timeouts": TimeoutSettings,
}


def uncommented(text: str) -> str:
    """The example with its keys switched on; sentences stay comments."""
    return re.sub(
        r"^# ((?: {2,}|- )?.*)$", lambda m: m[1] if re.match(r" *(- |[a-z_]+:)| {4,}", m[1]) else m[0], text, flags=re.M
    )


def test_template_loads_to_the_defaults_without_problems(project: Project) -> None:
    """A fresh `.onetool/` changes nothing but adds an example pack."""
    init_project(project.folder)
    config = project.load()
    assert config.problems == ()
    assert config.settings == Settings()
    assert config.prompts == {}


def test_every_key_is_documented_and_every_example_is_valid(project: Project) -> None:
    """With all examples switched on, each key is there and nothing is wrong with it."""
    init_project(project.folder)
    main = (project.onetool / "onetool.yaml").read_text()
    project.write("onetool.yaml", uncommented(main))
    names = ("BRAVE_KEY", "GITHUB_TOKEN", "DOCS_TOKEN")
    config = project.load(**dict.fromkeys(names, "some-value"))
    assert config.problems == ()
    s = config.settings
    for key in Settings.fields():
        assert re.search(rf"^(# )?{key}:", main, re.M), key
    for section in ("packs", "tools", "aliases", "snippets", "servers", "topics"):
        assert getattr(s, section), section
    assert s.models.default == "local"
    assert s.state_dir
    for key, section in SECTIONS.items():
        block = re.search(rf"^# {key}:\n((?:#   .*\n)+)", main, re.M)
        assert block, key
        written = set(re.findall(r"^#   ([a-z_]+):", block[1], re.M))
        assert written == set(section.fields()), key
        assert getattr(s, key) == section(), "what is shown is the default"
    for word in (*MODEL_KEYS, *SNIPPET_KEYS, *PARAM_KEYS, *SERVER_KEYS["stdio"], *SERVER_KEYS["http"], *Topic.fields()):
        assert re.search(rf"\b{word}:", main), word


def test_examples_of_the_other_files_are_valid(project: Project) -> None:
    """Snippets and prompts, switched on."""
    init_project(project.folder)
    project.write("snippets.yaml", uncommented((project.onetool / "snippets.yaml").read_text()))
    prompts = (
        (project.onetool / "prompts.yaml").read_text().replace("packs: {}", "packs:").replace("#  example", "  example")
    )
    project.write("prompts.yaml", prompts)
    config = project.load()
    assert config.problems == ()
    assert set(config.settings.snippets) == {"hello"}
    assert set(config.prompts) == {"example"}


def test_files_and_their_modes(project: Project) -> None:
    """secrets.yaml is for the user alone, and ignored by git."""
    written = init_project(project.folder)
    names = ["onetool.yaml", "prompts.yaml", "snippets.yaml", "secrets.yaml", ".gitignore", "tools/example.py"]
    assert written == [project.onetool / name for name in names]
    assert written.left_alone == []
    assert (project.onetool / "secrets.yaml").stat().st_mode & 0o777 == 0o600
    assert "secrets.yaml" in (project.onetool / ".gitignore").read_text().splitlines()


def test_nothing_is_overwritten(project: Project) -> None:
    """It says which files it left alone; a link is left alone too, and nothing is written through it."""
    mine = project.write("onetool.yaml", "aliases: {a: time.now}\n")
    outside = project.home / "outside"
    (project.onetool / "secrets.yaml").symlink_to(outside)
    written = init_project(project.folder)
    assert written.left_alone == [mine, project.onetool / "secrets.yaml"]
    assert mine.read_text() == "aliases: {a: time.now}\n"
    assert not outside.exists()
    assert len(written) == 4
    assert list(init_project(str(project.folder))) == []


def test_place_that_cannot_be_written_is_told(project: Project) -> None:
    """Here a file stands where the folder should be."""
    (project.folder / ".onetool").write_text("in the way")
    with pytest.raises(InvalidConfig, match="Cannot write"):
        init_project(project.folder)


def test_example_pack_is_a_good_example(project: Project) -> None:
    """`pack`, `__all__`, and for each tool a docstring with Args, Returns and Example."""
    init_project(project.folder)
    path = project.onetool / "tools" / "example.py"
    assert [path] == sorted(Path(project.onetool).glob(Settings().tools_dir[0]))
    names: dict[str, object] = {}
    exec(compile(path.read_text(), str(path), "exec"), names)
    assert names["pack"] == "example"
    module = ast.parse(path.read_text())
    functions = {f.name: ast.get_docstring(f) or "" for f in module.body if isinstance(f, ast.FunctionDef)}
    assert names["__all__"] == list(functions)
    assert all(word in doc for doc in functions.values() for word in ("Args:", "Returns:", "Example:"))
    assert names["count"](text="one three five", longest=1) == {"words": 3, "longest": ["three"]}  # type: ignore[operator]
