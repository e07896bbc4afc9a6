"""`init`: a commented `.onetool/` that documents every key, loads without problems and overwrites
nothing."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest
import yaml

from onetool_ipy.base.errors import InvalidConfig
from onetool_ipy.config.check import settings_schema
from onetool_ipy.config.settings import Settings
from onetool_ipy.config.template import init_project, settings_text
from tests.config.conftest import Project
from tests.harness.systems import has_mode

SCHEMA = settings_schema()
SECTIONS = {
    name: node["properties"] for name, node in SCHEMA["properties"].items() if "properties" in node
}


def uncommented(text: str) -> str:
    """The example with its keys switched on; sentences stay comments."""
    return re.sub(
        r"^# ((?: {2,}|- )?.*)$",
        lambda m: m[1] if re.match(r" *(- |[a-z_]+:)| {4,}", m[1]) else m[0],
        text,
        flags=re.M,
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
    for section in ("packs", "tools", "aliases", "snippets", "servers", "topics"):
        assert getattr(config.settings, section), section
    assert config.settings.models.default == "local"
    assert config.settings.state_dir
    for key, properties in SECTIONS.items():
        if key != "models":
            block = re.search(rf"^# {key}:\n((?:#   .*\n)+)", main, re.M)
            assert block, key
            assert re.findall(r"^#   ([a-z_]+):", block[1], re.M) == list(properties), key
            assert getattr(config.settings, key) == getattr(Settings(), key), (
                "what is shown is the default"
            )
    for name in ("server", "model", "snippet"):
        for word in SCHEMA["$defs"][name]["properties"]:
            assert re.search(rf"\b{word}:", main), word
    assert max(map(len, main.splitlines())) <= 120


def test_schema_has_the_keys_and_defaults_of_the_settings() -> None:
    """The values have their defaults in Python, where they are typed; editors read them in the
    schema."""
    assert set(SCHEMA["properties"]) == {*Settings._fields, "alias"}
    for key, properties in SECTIONS.items():
        if key != "models":
            section = getattr(Settings(), key)
            values = {name: getattr(section, name) for name in section._fields}
            plain = {
                name: list(value) if isinstance(value, tuple) else value
                for name, value in values.items()
            }
            assert {name: node["default"] for name, node in properties.items()} == plain, key
    assert SCHEMA["properties"]["tools_dir"]["default"] == list(Settings().tools_dir)


def test_editors_find_the_schema_beside_the_settings(project: Project) -> None:
    """The path is relative, so that it holds for everybody who clones the project; every example is
    valid by it."""
    init_project(project.folder)
    reference = re.match(
        r"# yaml-language-server: \$schema=(\S+)\n", (project.onetool / "onetool.yaml").read_text()
    )
    assert reference
    schema = json.loads((project.onetool / reference[1]).read_text())
    assert schema == SCHEMA
    jsonschema_rs.meta.validate(schema)
    data = yaml.safe_load(uncommented(settings_text()))
    assert list(jsonschema_rs.validator_for(schema).iter_errors(data)) == []
    assert list(jsonschema_rs.validator_for(schema).iter_errors({"htp": {}})) != []


def nodes(node: Any, path: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    """Every key of the settings in the schema."""
    for name, inner in node.get("properties", {}).items():
        if inner is not True:
            yield f"{path}.{name}", inner
            yield from nodes(inner, f"{path}.{name}")
    for name in ("additionalProperties", "items"):
        if isinstance(node.get(name), dict):
            yield from nodes(node[name], f"{path}.*")


def test_every_key_of_the_schema_has_a_description() -> None:
    """The template, the reference and editors show it."""
    keys = [
        *nodes(SCHEMA),
        *(pair for name, node in SCHEMA["$defs"].items() for pair in nodes(node, name)),
    ]
    assert len(keys) > 80
    assert [path for path, node in keys if not node.get("description") and "$ref" not in node] == []


def test_examples_of_the_other_files_are_valid(project: Project) -> None:
    """Snippets and prompts, switched on."""
    init_project(project.folder)
    project.write("snippets.yaml", uncommented((project.onetool / "snippets.yaml").read_text()))
    prompts = (
        (project.onetool / "prompts.yaml")
        .read_text()
        .replace("packs: {}", "packs:")
        .replace("#  example", "  example")
    )
    project.write("prompts.yaml", prompts)
    config = project.load()
    assert config.problems == ()
    assert set(config.settings.snippets) == {"hello"}
    assert set(config.prompts) == {"example"}


def test_files_and_their_modes(project: Project) -> None:
    """secrets.yaml is for the user alone, and ignored by git."""
    written = init_project(project.folder)
    names = [
        "onetool.yaml",
        "prompts.yaml",
        "snippets.yaml",
        "secrets.yaml",
        ".gitignore",
        "tools/example.py",
    ]
    assert written == [project.onetool / name for name in [*names, "onetool.schema.json"]]
    assert written.left_alone == []
    assert has_mode(project.onetool / "secrets.yaml", 0o600)
    assert "secrets.yaml" in (project.onetool / ".gitignore").read_text().splitlines()


def test_nothing_is_overwritten(project: Project) -> None:
    """It says which files it left alone; a link is left alone too, and nothing is written through
    it."""
    mine = project.write("onetool.yaml", "aliases: {a: time.now}\n")
    outside = project.home / "outside"
    (project.onetool / "secrets.yaml").symlink_to(outside)
    written = init_project(project.folder)
    assert written.left_alone == [mine, project.onetool / "secrets.yaml"]
    assert mine.read_text() == "aliases: {a: time.now}\n"
    assert not outside.exists()
    assert len(written) == 5
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
    functions = {
        f.name: ast.get_docstring(f) or "" for f in module.body if isinstance(f, ast.FunctionDef)
    }
    assert names["__all__"] == list(functions)
    assert all(
        word in doc for doc in functions.values() for word in ("Args:", "Returns:", "Example:")
    )
    assert names["count"](text="one three five", longest=1) == {"words": 3, "longest": ["three"]}  # type: ignore[operator]
