"""The code of a pack: its file and the modules beside it that it imports.

Any byte of these counts, nothing else does.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from onetool_ipy.sources.pack_code import PackCode
from tests.harness.project import Project
from tests.harness.systems import make_pipe

FILES = (
    "pack.py",
    "a.py",
    "b.py",
    "kit/__init__.py",
    "kit/deep.py",
    "kit/inner/__init__.py",
    "kit/inner/leaf.py",
)
FORMS = (
    "import {name}",
    "import os, {name} as other",
    "from {package} import {last}",
    "from {package} import (\n    nothing,\n    {last} as other,\n)",
    "def later():\n    import {name}",
    "try:\n    import {name}\nexcept ImportError:\n    pass",
    'import importlib\nimportlib.import_module("{name}")',
    'text = "é\\f"; __import__("{name}")',
    "from {dots} import {last}",
)
EDGES = st.lists(
    st.tuples(st.sampled_from(FILES), st.sampled_from(FILES[1:]), st.sampled_from(FORMS)),
    max_size=8,
)


def _module(file: str) -> list[str]:
    return file.removesuffix(".py").removesuffix("/__init__").split("/")


def _statement(importer: str, target: str, form: str) -> str:
    parts = _module(target)
    up = importer.count("/") - (len(parts) - 1)
    is_beside = importer.rpartition("/")[0] == "/".join(parts[:-1]) and up == 0
    if "{dots}" in form and is_beside:
        return form.format(dots=".", last=parts[-1])
    if "{dots}" in form or ("{package}" in form and len(parts) == 1):
        form = FORMS[0]
    return form.format(name=".".join(parts), package=".".join(parts[:-1]), last=parts[-1])


def _reachable(edges: list[tuple[str, str, str]]) -> set[str]:
    """The naive twin: follow the arrows, and run the packages around each module."""
    reached = {"pack.py"}
    while True:
        more = set(reached)
        for importer, target, _ in edges:
            if importer in reached:
                more.add(target)
                folders = target.split("/")[:-1]
                more |= {
                    "/".join([*folders[: depth + 1], "__init__.py"])
                    for depth in range(len(folders))
                }
        if more == reached:
            return reached
        reached = more


@pytest.mark.slow
@given(edges=EDGES, file=st.sampled_from([*FILES, "data.txt", "other.py"]), change=st.data())
def test_a_changed_byte_changes_the_code_exactly_where_the_file_is_imported(
    tmp_path_factory: pytest.TempPathFactory,
    edges: list[tuple[str, str, str]],
    file: str,
    change: st.DataObject,
) -> None:
    folder = tmp_path_factory.mktemp("pack")
    for name in (*FILES, "data.txt", "other.py"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        lines = [_statement(*edge) for edge in edges if edge[0] == name]
        (folder / name).write_text("\n".join([f'"""{name} é"""', *lines, ""]), encoding="utf-8")
    code = PackCode(folder / "pack.py")
    before = code.identity()
    assert {path.relative_to(folder).as_posix() for path in code.modules()} == _reachable(edges)

    data = bytearray((folder / file).read_bytes())
    data[change.draw(st.integers(0, len(data) - 1))] ^= change.draw(st.integers(1, 255))
    (folder / file).write_bytes(data)
    is_different = code.identity() != before
    assert is_different == (file in _reachable(edges))
    assert PackCode(folder / "pack.py").identity() == code.identity(), (
        "no reading depends on an earlier one"
    )


def test_the_same_files_in_another_folder_are_the_same_code(tmp_path: Path) -> None:
    for folder in (tmp_path / "one", tmp_path / "two"):
        (folder / "kit").mkdir(parents=True)
        (folder / "pack.py").write_text("import kit.deep", encoding="utf-8")
        (folder / "kit" / "deep.py").write_text("X = 1", encoding="utf-8")
    one, two = (PackCode(tmp_path / name / "pack.py").identity() for name in ("one", "two"))
    assert one == two
    assert str(tmp_path) not in str(one)


def test_imports_that_lead_nowhere_or_out_of_the_folder_are_not_followed(tmp_path: Path) -> None:
    """Names that are paths, too long, or of the level above; a module that is a FIFO, a folder or
    not Python."""
    folder = tmp_path / "tools"
    (folder / "d.py").mkdir(parents=True)
    (tmp_path / "outside.py").write_text("X = 1", encoding="utf-8")
    make_pipe(folder / "pipe.py")
    (folder / "broken.py").write_text("def (", encoding="utf-8")
    (folder / "deep.py").write_text("(" * 5_000, encoding="utf-8")
    (folder / "zero.py").write_bytes(b"\0")
    (folder / "pack.py").write_text(
        "import d, pipe, broken, deep, zero, "
        + "n" * 300
        + '\nfrom .. import outside\nimport_module("../outside"); import_module("a\\0b");'
        ' import_module("..outside"); import_module("")\nimport_module(name);'
        ' __import__(f"{name}")',
        encoding="utf-8",
    )
    code = PackCode(folder / "pack.py")
    assert {path.name for path in code.modules()} == {"pack.py", "broken.py", "deep.py", "zero.py"}
    (folder / "pack.py").unlink()
    assert code.identity() == ""


def test_a_star_import_covers_every_module_of_the_package(tmp_path: Path) -> None:
    (tmp_path / "kit").mkdir()
    for name in ("__init__.py", "one.py", "two.py"):
        (tmp_path / "kit" / name).write_text("", encoding="utf-8")
    (tmp_path / "pack.py").write_text("from kit import *", encoding="utf-8")
    assert len(PackCode(tmp_path / "pack.py").modules()) == 4


def test_an_installed_pack_covers_the_modules_of_its_package(tmp_path: Path) -> None:
    root = tmp_path / "site" / "company"
    (root / "packs").mkdir(parents=True)
    for name in ("__init__.py", "http.py", "other.py", "packs/__init__.py"):
        (root / name).write_text("", encoding="utf-8")
    (tmp_path / "site" / "foreign.py").write_text("", encoding="utf-8")
    imports = "from ..http import get\nfrom . import nothing\nimport foreign"
    (root / "packs" / "weather.py").write_text(imports, encoding="utf-8")
    code = PackCode(root / "packs" / "weather.py", "company.packs.weather")
    files = {path.relative_to(root).as_posix() for path in code.modules()}
    assert files == {"packs/weather.py", "packs/__init__.py", "__init__.py", "http.py"}
    alone = PackCode(tmp_path / "site" / "foreign.py", "foreign")
    (tmp_path / "site" / "foreign.py").write_text("import company", encoding="utf-8")
    assert len(alone.modules()) == 1, "beside an installed module are the packages of others"


HELPED = '''
import os, sys
sys.path.insert(0, os.path.dirname(__file__))
try:
    import {helper}
finally:
    sys.path.pop(0)

def price(name: str = {helper}.NAME) -> str:
    """Give a price."""
    return {helper}.NAME
'''


@pytest.mark.slow
def test_an_edited_module_beside_a_pack_runs_at_the_next_call(project: Project) -> None:
    """What a yes covers is what runs: the pack and its module are run again, in the kernel that has
    them."""
    project.write("tools/_lockhelp.py", "NAME = 'one'\n")
    project.write("tools/shop.py", HELPED.format(helper="_lockhelp"))
    box = project.open()
    before = box.registry.require("shop.price").fingerprint
    assert box.call("shop.price").data == "one"
    assert box.registry.load("shop.price").parameters["properties"]["name"]["default"] == "one"

    project.write("tools/_lockhelp.py", "NAME = 'two'\n")
    assert box.registry.require("shop.price").fingerprint != before
    assert box.call("shop.price").data == "two"
    assert box.registry.load("shop.price").parameters["properties"]["name"]["default"] == "two"
    sys.modules.pop("_lockhelp")
