"""The README and the pages in docs/ are true: what can run runs, what can be loaded loads, links
lead somewhere."""

from __future__ import annotations

import json
import re
import shlex
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

import onetool_ipy
from onetool_ipy import open_toolbox
from onetool_ipy.faces.cli import read_line
from tests.harness.kernel import Kernel
from tests.harness.stub import Asked, Stub
from tests.harness.surroundings import ROOT

README = ROOT / "README.md"
PAGES = [README, ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").glob("*.md"))]
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
MOST_WORDS = 800
_STORY = "geo.town"
MOST_BYTES = 160_000
"""Of a picture: whoever clones the repository gets them all."""


def blocks(page: Path, language: str) -> Iterator[str]:
    text = page.read_text(encoding="utf-8")
    yield from re.findall(rf"^```{language}\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)


def everywhere(language: str) -> list[Any]:
    """The blocks of all pages, as parameters that say where they are from."""
    found = [(page.stem, block) for page in PAGES for block in blocks(page, language)]
    return [
        pytest.param(block, id=f"{name}-{number}") for number, (name, block) in enumerate(found)
    ]


def test_first_lines_show_themselves_pasted_into_one_cell_or_into_several(kernel: Kernel) -> None:
    text = README.read_text(encoding="utf-8")
    block = re.search(
        r"<!-- session.*?-->\n```python\n%load_ext onetool_ipy\n```\n\n```python\n(.*?)```",
        text,
        re.DOTALL,
    )
    assert block is not None
    lines = block[1].splitlines()
    assert len(lines) <= 10
    kernel.execute("%load_ext onetool_ipy")

    pasted = kernel.execute(block[1])
    cells = ["\n".join(lines[4:6]) if i == 4 else line for i, line in enumerate(lines) if i != 5]
    outputs = [kernel.execute(cell).result_text for cell in cells]

    assert "tools in" in outputs[0]
    assert "fs.read_file(path: str" in outputs[1]
    assert outputs[-2:] == ["5", "5"]
    shown = [display.data["text/plain"] for display in pasted.displays]
    assert "tools in" in shown[0]
    assert "fs.read_file(path: str" in shown[1]
    assert shown[2:] == ["5"]
    assert pasted.result_text == "5"


@pytest.mark.slow
def test_the_story_at_the_top_is_true(kernel: Kernel) -> None:
    """An API becomes a tool, a column goes through it, one row fails, is fixed and runs alone."""

    def town(asked: Asked) -> tuple[int, Any]:
        name = dict(asked.query)["name"]
        if name == "Lintz":
            return 404, {"message": f"no town called {name!r}"}
        return 200, {"people": len(name)}

    cells = [block for block in blocks(README, "python") if _STORY in block]
    assert len(cells) == 3
    with Stub(town) as api:
        pasted = cells[0].replace("https://api.example.com", api.url("")).replace("sk-...", "sk-1")
        kernel.execute("%load_ext onetool_ipy")
        kernel.execute(pasted)
        outputs = []
        for cell in cells[1:]:
            asked = len(api.asked)
            code, _, comment = cell.rpartition("  # ")
            outputs.append((kernel.execute(code).text, len(api.asked) - asked, comment.strip()))

    (first, first_calls, said), (second, second_calls, said_then) = outputs
    assert first_calls == 3
    for part in said.split(": ", 1)[1].split(", "):
        assert part in first
    assert "2 ok, 1 failed" in said
    assert "2 ok, 1 failed" in first
    assert (second_calls, said_then) == (1, "2 kept, 1 called: 3 ok")
    assert "1 called · 3 ok" in second


@pytest.mark.parametrize(
    "page", [page for page in PAGES if any(blocks(page, "python"))], ids=lambda page: page.stem
)
def test_the_python_of_a_page_runs_from_top_to_bottom(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A block that begins with `# .onetool/...` is that file; every tool in it can be called."""
    monkeypatch.chdir(tmp_path)
    for block in blocks(page, "python"):
        if block.startswith("%") or _STORY in block:
            continue  # the tests above
        if place := re.match(r"# (\.onetool/\S+)\n", block):
            file = tmp_path / place[1]
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(block, encoding="utf-8")
            with open_toolbox() as box:
                assert not box.problems()
                assert file.stem in box.registry.packs()
        else:
            exec(compile(block, page.name, "exec"), {})


@pytest.mark.parametrize("block", everywhere("yaml"))
def test_yaml_is_a_configuration_without_a_problem(block: str, tmp_path: Path) -> None:
    is_own = block.startswith("# ~/.onetool/")
    home = tmp_path if is_own else tmp_path / "home"
    file = tmp_path / ".onetool" / "onetool.yaml"
    file.parent.mkdir()
    file.write_text(block, encoding="utf-8")
    names = dict.fromkeys(re.findall(r"\$\{(\w+)\}|key: (\w+)", block), "")
    secrets = {name: "a-value-of-yours" for pair in names for name in pair if name}

    with open_toolbox(file, env={**secrets, "HOME": str(home)}) as box:
        assert not box.config.problems


@pytest.mark.parametrize("block", everywhere("json"))
def test_json_is_a_tool_that_can_be_stored(
    block: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / ".onetool").mkdir()
    monkeypatch.chdir(tmp_path)
    with open_toolbox() as box:
        bundle = box.bundles.put_bundle(box.bundles.new_id(), slug="my-api", display_name="My API")
        tool = box.bundles.put_tool(bundle.bundle_id, "one", "1", json.loads(block))
        assert tool.available, tool.reason


@pytest.mark.parametrize("block", everywhere("console"))
def test_commands_are_as_the_command_line_takes_them(block: str) -> None:
    for line in block.splitlines():
        assert line.startswith("$ onetool-ipy "), line
        read_line(shlex.split(line)[2:])  # it raises for what it does not take


def test_the_makefile_has_every_target_that_is_named() -> None:
    targets = set(
        re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
    )
    for page in PAGES:
        named = set(
            re.findall(r"(?:`|^ {4})make ([a-z-]+)", page.read_text(encoding="utf-8"), re.MULTILINE)
        )
        assert named <= targets, page.name


def test_every_link_leads_somewhere() -> None:
    for page in [*PAGES, *NOTEBOOKS]:
        for target in _links(_words(page)):
            path, _, part = target.partition("#")
            place = (page.parent / path) if path else page
            assert place.exists(), f"{page.name}: {target}"
            if part and place.suffix == ".md":
                assert part in _anchors(place), f"{page.name}: {target}"


def test_pages_and_notebooks_use_the_words_of_the_screens() -> None:
    """docs/architecture.md is about the code, docs/reference.md has names of it."""
    inner = re.compile(r"\b(cassettes?|slugs?|a record|proxy)\b", re.IGNORECASE)
    pages = [ROOT / "README.md", *ROOT.glob("docs/*.md"), *ROOT.glob("notebooks/*.ipynb")]
    found = {page.name: inner.findall(page.read_text(encoding="utf-8")) for page in pages}
    about_code = {"architecture.md", "reference.md", "benchmarks.md"}
    assert {name: words for name, words in found.items() if words and name not in about_code} == {}


def test_readme_is_readable_and_its_pictures_are_small() -> None:
    text = README.read_text(encoding="utf-8")
    assert len(text.split()) <= MOST_WORDS
    pictures = {ROOT / target for target in re.findall(r"!\[[^\]]+\]\(([^)]+)\)", text)}
    assert pictures
    for picture in pictures:
        assert picture.stat().st_size < MOST_BYTES, picture.name
    kept = {*(ROOT / "docs" / "screens").iterdir(), *(ROOT / "docs" / "benchmarks").glob("*.svg")}
    pages = [
        (page, re.findall(r"!\[[^\]]+\]\(([^)]+)\)", page.read_text(encoding="utf-8")))
        for page in PAGES
    ]
    assert kept == {
        (page.parent / target).resolve() for page, found in pages for target in found
    }, "shown by nobody"
    assert all(picture.stat().st_size < MOST_BYTES for picture in kept)


def test_nothing_one_may_start_from_is_left_out() -> None:
    """Scripts, the entry point group, notebooks and pages."""
    text = README.read_text(encoding="utf-8")
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    for script in project["scripts"]:
        assert f"`{script} " in text
    for group in {"onetool_ipy.packs", *project.get("entry-points", {})}:
        assert group in text
    for notebook in NOTEBOOKS:
        assert notebook.name in text, "the README names every notebook"
    for page in PAGES[1:]:
        assert f"]({page.relative_to(ROOT).as_posix()}" in text


def test_the_tour_names_every_notebook() -> None:
    words = _words(ROOT / "notebooks" / "index.ipynb")
    for notebook in NOTEBOOKS:
        assert notebook.name == "index.ipynb" or f"]({notebook.name})" in words


def test_the_version_is_one_everywhere() -> None:
    from onetool_ipy.faces.rest.routes import ROUTES, openapi

    version = onetool_ipy.__version__
    newest = re.search(
        r"^## (\S+)", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), re.MULTILINE
    )
    assert newest is not None
    assert newest[1] == version
    assert f"Version {version} " in README.read_text(encoding="utf-8")
    lock = json.loads((ROOT / "labextension" / "package-lock.json").read_text(encoding="utf-8"))
    assert {lock["version"], lock["packages"][""]["version"]} == {version}
    assert f"'{version}'" in (ROOT / "labextension" / "src" / "panel" / "version.ts").read_text(
        encoding="utf-8"
    )
    assert openapi(ROUTES)["info"]["version"] == version
    with open_toolbox() as box:
        assert box.ot.version() == version


def _words(page: Path) -> str:
    if page.suffix != ".ipynb":
        return page.read_text(encoding="utf-8")
    cells = json.loads(page.read_text(encoding="utf-8"))["cells"]
    return "\n\n".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "markdown")


def _links(text: str) -> Iterator[str]:
    bare = re.sub(r"^```.*?^```$", "", text, flags=re.DOTALL | re.MULTILINE)
    for target in re.findall(r"\]\(([^)\s]+)\)", re.sub(r"`[^`\n]*`", "", bare)):
        if not re.match(r"[a-z]+:", target):
            yield target


def _anchors(page: Path) -> set[str]:
    """Headings as GitHub names them."""
    heads = re.findall(r"^#+ (.+)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", head.lower()).replace(" ", "-") for head in heads}


def test_yaml_blocks_are_yaml_at_all() -> None:
    """The loader of ours is stricter than YAML; what we show others must be plain YAML, too."""
    for page in PAGES:
        for block in blocks(page, "yaml"):
            assert isinstance(yaml.safe_load(block), dict)
