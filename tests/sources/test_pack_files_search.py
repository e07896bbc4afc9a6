"""Pack files are looked for inside `.onetool/` alone, and only those that nobody else may have
written count."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from onetool_ipy import Toolbox
from onetool_ipy.config.paths import home_at
from onetool_ipy.sources.pack_files import MAX_FILES
from tests.harness.programs import python
from tests.harness.project import Project

ONE = 'def one():\n    """One."""\n    return 1\n'


def _problems(box: Toolbox) -> str:
    return "\n".join(str(problem) for problem in box.problems())


def _is_there(box: Toolbox, pack: str) -> bool:
    return box.registry.pack(pack) is not None


@pytest.mark.parametrize(
    "pattern", ["{outside}/*.py", "../elsewhere/*.py", "tools/../../elsewhere/*.py", "~/*.py"]
)
def test_a_pattern_that_leads_outside_is_a_problem_and_finds_nothing(
    project: Project, pattern: str
) -> None:
    outside = project.root / "elsewhere"
    outside.mkdir()
    (outside / "far.py").write_text(ONE)
    project.write("tools/near.py", ONE)
    pattern = pattern.format(outside=outside)

    box = project.open(
        f"tools_dir: ['{pattern}', 'tools/*.py']", env={**project.env, **home_at(outside)}
    )

    assert not _is_there(box, "far")
    assert box.call("near.one").data == 1
    said = (
        f"tools_dir: '{pattern}' leads out of '.onetool/', so it is ignored. Put pack files into"
        " .onetool/tools/"
    )
    assert said in _problems(box)


def test_a_pattern_over_the_whole_disk_reads_none_of_it(project: Project, tmp_path: Path) -> None:
    project.write("tools/near.py", ONE)
    path = project.write("onetool.yaml", "tools_dir: ['/**/*.py', '**/*.py']")
    code = (
        "import sys\nseen = []\nlisting = ('os.scandir', 'os.listdir')\nsys.addaudithook(lambda"
        " event, args: seen.append(str(args[0])) if event in listing else None)\nimport"
        f" onetool_ipy\nbox = onetool_ipy.open_toolbox({str(path)!r},"
        f" env={project.env!r})\nprint(box.call('near.one').data, [each for each in seen if each in"
        " ('/', '/usr', '/proc', '/home')])\n"
    )

    done = python(code, cwd=tmp_path)

    assert done.stdout.strip() == "1 []"


def test_a_link_that_leads_outside_is_a_problem_and_does_not_count(project: Project) -> None:
    outside = project.root / "elsewhere"
    outside.mkdir()
    (outside / "far.py").write_text(ONE)
    (outside / "deep").mkdir()
    (outside / "deep" / "deep.py").write_text(ONE)
    project.write("tools/near.py", ONE)
    (project.home / "tools" / "link.py").symlink_to(outside / "far.py")
    (project.home / "more").symlink_to(outside)
    (project.home / "tools" / "around").symlink_to(".")

    box = project.open(
        'tools_dir: ["tools/**/*.py", "more", "more/*.py", "more/deep/*.py", "more/far.py"]'
    )

    assert [pack for pack in ("near", "link", "far", "deep") if _is_there(box, pack)] == ["near"]
    for name in ("tools/link.py", "more"):
        assert f"{project.home / name}: is a link that leads out of '.onetool/'" in _problems(box)
    assert str(outside) not in _problems(box)


def test_a_folder_of_the_configuration_that_is_a_link_itself_is_fine(project: Project) -> None:
    project.write("tools/near.py", ONE)
    moved = project.root / "moved"
    project.home.rename(moved)
    project.home.symlink_to(moved)

    box = project.open()

    assert box.call("near.one").data == 1
    assert "near" not in _problems(box)


@pytest.mark.slow
def test_more_files_than_may_be_are_a_problem_and_the_first_count(project: Project) -> None:
    (project.home / "tools").mkdir()
    for number in range(MAX_FILES + 2):
        (project.home / "tools" / f"p{number:05}.py").touch()
    (project.home / "tools" / "a.py").write_text(ONE)

    box = project.open()

    assert (
        f"tools_dir: finds {MAX_FILES + 3:,} pack files; only the first 2,000 count."
        in _problems(box)
    )
    assert box.call("a.one").data == 1
    assert len(box.parts.pack_names) == MAX_FILES


@pytest.mark.slow
def test_a_walk_through_too_much_ends(project: Project) -> None:
    project.write("tools/near.py", ONE)
    for number in range(11):
        folder = project.home / "data" / str(number)
        folder.mkdir(parents=True)
        for inner in range(1_000):
            (folder / str(inner)).touch()

    box = project.open('tools_dir: ["tools/*.py", "**/*.py"]')

    assert box.call("near.one").data == 1
    assert "'**/*.py' leads through more than 20,000 files and folders." in _problems(box)


@pytest.mark.parametrize(
    "name",
    [
        pytest.param("we\x1b[2Jird.py", marks=pytest.mark.posix("a name that Windows refuses")),
        pytest.param("od\udcffd.py", marks=pytest.mark.posix("names of bytes")),
        "rtl\u202e.py",
    ],
)
def test_a_file_with_an_odd_name_is_shown_plainly(project: Project, name: str) -> None:
    (project.home / "tools").mkdir()
    (project.home / "tools" / name).write_text(ONE + "def bad(")
    project.write("tools/near.py", ONE)

    box = project.open()

    assert box.call("near.one").data == 1
    assert "SyntaxError" in _problems(box)
    assert _problems(box).replace("\n", "").isprintable()
    for spec in box.registry.list():
        assert spec.name.isprintable()


# --- who may have written it


@pytest.mark.posix("modes of files")
@pytest.mark.parametrize("place", ["tools/near.py", "tools", "tools/sub", "tools/sub/inner.py"])
def test_a_pack_file_that_all_may_write_is_a_problem_and_does_not_count(
    project: Project, place: str
) -> None:
    project.write("tools/near.py", ONE)
    project.write("tools/sub/inner.py", ONE)
    project.write("safe/safe.py", ONE)
    path = project.home / place
    path.chmod(path.stat().st_mode | 0o002)

    box = project.open('tools_dir: ["tools/**/*.py", "safe/*.py"]')

    is_about = {
        "near": ("tools/near.py", "tools"),
        "inner": ("tools", "tools/sub", "tools/sub/inner.py"),
    }
    for pack, places in is_about.items():
        assert _is_there(box, pack) == (place not in places)
    assert box.call("safe.one").data == 1
    assert f"{path}: may be written by every user of this machine, so it is ignored." in _problems(
        box
    )
    assert f"chmod o-w {path}" in _problems(box)

    path.chmod(path.stat().st_mode & ~0o002)
    box.reload()
    assert box.call("near.one").data == box.call("inner.one").data == 1


@pytest.mark.posix("modes of files")
def test_a_sticky_folder_is_as_good_as_another(project: Project) -> None:
    project.write("tools/near.py", ONE)
    (project.home / "tools").chmod(0o1777)

    assert project.open().call("near.one").data == 1


@pytest.mark.skipif(
    getattr(os, "geteuid", lambda: -1)() != 0, reason="only root can give a file away"
)
@pytest.mark.parametrize("place", ["tools/near.py", "tools"])
def test_a_pack_file_of_another_user_is_a_problem_and_does_not_count(
    project: Project, place: str
) -> None:
    project.write("tools/near.py", ONE)
    os.chown(project.home / place, 12345, -1)

    box = project.open()

    assert not _is_there(box, "near")
    assert f"{project.home / place}: belongs to another user, so it is ignored." in _problems(box)


@pytest.mark.posix("modes of files")
def test_a_file_that_is_opened_to_all_after_the_start_is_not_run(project: Project) -> None:
    path = project.write("tools/near.py", ONE)
    box = project.open()

    path.chmod(0o666)
    result = box.call("near.one")

    assert not result.ok
    assert "may be written by every user" in result.error.message
