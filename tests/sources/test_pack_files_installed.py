"""Packs of installed distributions: real metadata in a folder on sys.path, nothing patched."""

from __future__ import annotations

import os
import sys
import textwrap
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from onetool_ipy import Toolbox
from onetool_ipy.config.paths import home_at
from onetool_ipy.sources.pack_files import EntryPoints
from tests.harness.patience import HANG_S
from tests.harness.programs import python
from tests.harness.project import Project
from tests.harness.surroundings import ROOT


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Path]:
    """A folder on sys.path, like site-packages."""
    folder = tmp_path / "site"
    folder.mkdir()
    before = set(sys.modules)
    sys.path.insert(0, str(folder))
    yield folder
    sys.path.remove(str(folder))
    for name in set(sys.modules) - before:
        if name.startswith("distpack"):
            del sys.modules[name]


def _install(site: Path, name: str, points: str | bytes, **files: str) -> Path:
    """Put a distribution with an entry_points.txt and modules into a folder, as an installer
    would."""
    info = site / f"{name}-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    text = points.encode() if isinstance(points, str) else points
    (info / "entry_points.txt").write_bytes(b"[onetool_ipy.packs]\n" + text + b"\n")
    for module, code in files.items():
        path = site / module.replace("__dot__", "/")
        path = path.with_name(path.name + ".py")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(code))
    return info


CODE = '''
    import sys
    sys.stdout.write("")
    LOADED = True

    def search(query: str, count: int = 3) -> str:
        """Search.

        Args:
            query: What.
        """
        return f"{query}{count}{__name__}"
'''


def _problems(box: Toolbox) -> str:
    return "\n".join(str(problem) for problem in box.problems())


def test_an_installed_pack_is_offered_without_importing_it(project: Project, site: Path) -> None:
    _install(site, "distpack-one", "webby = distpack_one", distpack_one=CODE)
    box = project.open()

    spec = box.registry.get("webby.search")

    assert spec.origin == "entry_point"
    assert spec.signature == "webby.search(query: str, count: int = 3)"
    assert box.registry.require("webby.search").checker.check({"query": "a"}, "webby.search") == {
        "query": "a"
    }
    assert "webby.search" in str(box.ot.help(query="webby.search"))
    assert box.ot.tools(pattern="webby", info="full")[0]["args"] == ["query: What.", "count: int"]
    assert list(box.ot.deps(tool="webby")) == []
    assert "distpack_one" not in sys.modules
    assert box.call("webby.search", {"query": "a"}).data == "a3distpack_one"
    assert sys.modules["distpack_one"].LOADED


def test_a_module_inside_a_package_is_imported_as_what_it_is(project: Project, site: Path) -> None:
    _install(
        site,
        "distpack-two",
        "deep = distpack_two.tools\nwhole = distpack_two",
        distpack_two__dot____init__='def top() -> str:\n    """Top."""\n    return __name__\n',
        distpack_two__dot__helper="WORD = 'helped'\n",
        distpack_two__dot__tools=(
            "from onetool_ipy import tool\nfrom .helper import WORD\n\n@tool(read_only=True)\n"
            'def give() -> str:\n    """Give."""\n    return WORD\n'
        ),
    )
    box = project.open()

    assert box.call("deep.give").data == "helped"
    assert box.registry.require("deep.give").read_only
    assert box.call("whole.top").data == "distpack_two"
    assert box.registry.pack("nb") is None, "what a pack defines is the pack's"


@pytest.mark.parametrize(
    ("points", "files", "said"),
    [
        ("gone = distpack_gone", {}, "entry point 'gone': No module 'distpack_gone'."),
        ("odd = not a module!", {}, "entry point 'odd': No module 'not a module!'."),
        ("bad = distpack_bad", {"distpack_bad": "def x(:\n"}, "SyntaxError"),
        (b"\xff\xfe = x", {}, "entry points"),
    ],
    ids=["missing", "no name", "syntax error", "not text"],
)
def test_a_broken_distribution_is_a_problem_and_stops_nothing(
    project: Project, site: Path, points: str | bytes, files: dict[str, str], said: str
) -> None:
    _install(site, "distpack-broken", points, **files)
    project.write("tools/geo.py", 'def one() -> int:\n    """One."""\n    return 1\n')

    box = project.open()

    assert box.call("geo.one").data == 1
    assert said in _problems(box)


def test_one_bad_point_does_not_cost_the_others(project: Project, site: Path) -> None:
    _install(
        site, "distpack-mixed", "gone = distpack_gone\nwebby = distpack_three", distpack_three=CODE
    )
    box = project.open()

    assert box.call("webby.search", {"query": "a"}).ok
    assert "No module 'distpack_gone'" in _problems(box)


def test_a_pack_that_fails_at_import_is_unavailable(project: Project, site: Path) -> None:
    _install(
        site,
        "distpack-fails",
        "webby = distpack_fails",
        distpack_fails="raise SystemExit(2)\n" + textwrap.dedent(CODE),
    )
    box = project.open()

    error = box.call("webby.search", {"query": "a"}).error

    assert (error.reason, "SystemExit: 2" in error.message) == ("unavailable", True)
    assert "SystemExit: 2" in _problems(box)


def test_pack_files_come_before_entry_points(project: Project, site: Path) -> None:
    _install(site, "distpack-late", "webby = distpack_late", distpack_late=CODE)
    project.write(
        "tools/webby.py", 'def search(query: str) -> str:\n    """Mine."""\n    return "mine"\n'
    )
    box = project.open()

    assert box.call("webby.search", {"query": "a"}).data == "mine"
    assert "The name 'webby.search' is taken by a file tool" in _problems(box)


def test_what_is_installed_or_removed_later_is_seen(project: Project, site: Path) -> None:
    box = project.open()
    assert box.call("webby.search", {"query": "a"}).error.code == "tool_not_found"

    info = _install(site, "distpack-new", "webby = distpack_new", distpack_new=CODE)
    assert box.call("webby.search", {"query": "a"}).ok

    for file in info.iterdir():
        file.unlink()
    info.rmdir()
    assert box.call("webby.none").error.code == "tool_not_found"
    assert box.pack("webby") is None


def test_an_edited_module_is_imported_anew(project: Project, site: Path) -> None:
    _install(site, "distpack-edit", "webby = distpack_edit", distpack_edit=CODE)
    box = project.open()
    assert box.call("webby.search", {"query": "a"}).data == "a3distpack_edit"

    (site / "distpack_edit.py").write_text(
        textwrap.dedent(CODE).replace("count: int = 3", "count: int = 12345")
    )

    assert box.call("webby.search", {"query": "a"}).data == "a12345distpack_edit"


def test_a_distribution_in_an_archive_is_found(tmp_path: Path) -> None:
    """Its modules are no files, which is said; and the quick look does not overlook it."""
    info = _install(tmp_path / "build", "distpack-zip", "zipped = distpack_zip", distpack_zip=CODE)
    archive = tmp_path / "dist.zip"
    with zipfile.ZipFile(archive, "w") as file:
        for path in sorted(info.parent.rglob("*")):
            file.write(path, path.relative_to(info.parent))
    code = (
        "from onetool_ipy.sources.pack_files import EntryPoints\n"
        "print([str(problem) for problem in EntryPoints().problems()])"
    )

    done = python(code, env={**os.environ, "PYTHONPATH": f"{archive}{os.pathsep}{ROOT}"})

    assert "entry point 'zipped': No module 'distpack_zip'." in done.stdout


def test_metadata_is_not_read_where_nobody_offers_a_pack() -> None:
    code = (
        "import sys\n"
        "from onetool_ipy.sources.pack_files import EntryPoints\n"
        "assert list(EntryPoints().tools()) == []\n"
        "print('importlib.metadata' in sys.modules)"
    )

    done = python(code)

    assert done.stdout.strip() == "False"


def test_a_distribution_in_the_working_directory_was_installed_by_nobody(
    project: Project, site: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A kernel has the working directory on its path, and a cloned folder may hold the metadata of
    a distribution."""
    _install(site, "distpackown", "own = distpackown", distpackown=CODE)
    clone = tmp_path / "clone"
    _install(clone, "distpackclone", "clone = distpackclone", distpackclone=CODE)
    monkeypatch.chdir(clone)
    monkeypatch.syspath_prepend("")
    assert "" in sys.path

    box = project.open()

    assert box.registry.get("own.search") is not None
    assert box.registry.get("clone.search") is None


def test_odd_places_on_the_path_are_passed_over(site: Path) -> None:
    sys.path[:0] = ["/no/such/place", "\0", ""]
    try:
        assert EntryPoints().refresh() is False
    finally:
        del sys.path[:3]


# --- what lies in the project is not installed


def _run(script: str, cwd: Path, tmp_path: Path, **env: str) -> str:
    own = {**home_at(tmp_path / "home"), "ONETOOL_STATE": str(tmp_path / "state"), **env}
    done = python(
        f"import sys\nsys.path.insert(0, '')\n{textwrap.dedent(script)}",
        cwd=cwd,
        env={**os.environ, **own},
        timeout=HANG_S,
    )
    return done.stdout


@pytest.mark.parametrize("where", ["the project", "a folder in it"])
def test_a_distribution_in_the_project_is_not_an_installed_one(tmp_path: Path, where: str) -> None:
    """A kernel has the working directory on sys.path, so a cloned project could bring its own
    metadata."""
    project = tmp_path / "clone"
    (project / ".onetool").mkdir(parents=True)
    cwd = project if where == "the project" else project / "notebooks"
    cwd.mkdir(exist_ok=True)
    marker = tmp_path / "ran"
    _install(
        cwd,
        "distpack-evil",
        "webby = distpack_evil",
        distpack_evil=f"open({str(marker)!r}, 'w')\n{_dedented(CODE)}",
    )
    script = """
        sys.path.insert(1, {cwd!r})
        import onetool_ipy
        with onetool_ipy.open_toolbox() as box:
            print(box.registry.pack("webby"), box.call("webby.search", {{"query": "a"}}).ok)
    """

    assert _run(script.format(cwd=str(cwd)), cwd, tmp_path).strip() == "None False"
    assert not marker.exists()


@pytest.mark.slow
def test_a_module_of_the_project_does_not_take_the_place_of_an_installed_pack(
    tmp_path: Path,
) -> None:
    project, site = tmp_path / "clone", tmp_path / "site"
    project.mkdir()
    marker = tmp_path / "ran"
    _install(site, "distpack-good", "webby = distpack_good", distpack_good=CODE)
    (project / "distpack_good.py").write_text(f"open({str(marker)!r}, 'w')\n{_dedented(CODE)}")
    script = """
        import onetool_ipy
        with onetool_ipy.open_toolbox() as box:
            print(box.registry.get("webby.search").where)
            print(box.call("webby.search", {"query": "a"}).error)
    """

    where, error = _run(script, project, tmp_path, PYTHONPATH=str(site)).splitlines()

    assert where.startswith(str(site))
    assert "would be imported from" in error
    assert not marker.exists()
    (project / "distpack_good.py").unlink()
    assert _run(script, project, tmp_path, PYTHONPATH=str(site)).splitlines()[1] == "None"


def _dedented(code: str) -> str:
    return textwrap.dedent(code)
