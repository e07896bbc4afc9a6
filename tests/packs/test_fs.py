"""The built-in pack `fs`: what it gives, and that no spelling leads out of its roots."""

from __future__ import annotations

import os
import socket
import threading
import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from onetool_ipy import Toolbox
from onetool_ipy.config.paths import home_at, state_base
from tests.core.support import short
from tests.harness.patience import HANG_S
from tests.harness.project import Project
from tests.harness.systems import make_pipe


class Desk:
    """A project with files in it, and a toolbox whose root is the project's folder."""

    def __init__(self, project: Project) -> None:
        self.root = project.root
        (self.root / "a.txt").write_bytes("héllo\r\n".encode())
        (self.root / "sub" / "deep" / "deeper").mkdir(parents=True)
        (self.root / "sub" / "b.txt").write_text("b")
        (self.root / "sub" / "deep" / "c.txt").write_text("ccc")
        (self.root / "sub" / "deep" / "deeper" / "d.txt").write_text("d")
        (self.root.parent / "outside").mkdir()
        (self.root.parent / "outside" / "secret.txt").write_text("outside")
        self.box: Toolbox = project.open()

    def read(self, path: Any, **args: Any) -> Any:
        return self.box.call("fs.read_file", {"path": str(path), **args})

    def list(self, path: Any, **args: Any) -> Any:
        return self.box.call("fs.list_dir", {"path": str(path), **args})


@pytest.fixture
def desk(project: Project) -> Desk:
    return Desk(project)


@pytest.mark.spec("004/Built-ins/fs.read_file")
def test_a_text_file_is_read_as_it_is(desk: Desk) -> None:
    assert desk.read(desk.root / "a.txt").unwrap() == "héllo\r\n"
    assert (
        desk.box.registry.get("fs.read_file").signature
        == "fs.read_file(path: str, maxBytes: int = 204800)"
    )


@pytest.mark.spec("004/Built-ins/fs.read_file")
def test_a_file_over_max_bytes_is_an_error_with_both_numbers(desk: Desk) -> None:
    path = desk.root / "big.txt"
    path.write_bytes(b"x" * 204_801)

    default = desk.read(path).error
    chosen = desk.read(path, maxBytes=10).error

    assert (default.code, default.reason) == ("execution_error", "too_large")
    assert "204801" in default.message
    assert "204800" in default.message
    assert "204801" in chosen.message
    assert " 10." in chosen.message
    assert len(desk.read(path, maxBytes=204_801).unwrap()) == 204_801
    assert len(desk.read(path, maxBytes=10**18).unwrap()) == 204_801
    assert desk.read(desk.root / "a.txt", maxBytes=0).error.reason == "too_large"
    assert desk.read(desk.root / "a.txt", maxBytes=-1).error.code == "execution_error"
    assert desk.read(desk.root / "a.txt", maxBytes="10").error.code == "invalid_args"


def test_max_bytes_counts_bytes_not_characters(desk: Desk) -> None:
    assert desk.read(desk.root / "a.txt", maxBytes=8).ok
    assert desk.read(desk.root / "a.txt", maxBytes=7).error.reason == "too_large"


@pytest.mark.parametrize(
    ("content", "ok"),
    [
        (b"", True),
        (b"\xef\xbb\xbfbom", True),
        (b"\xff\xfe", False),
        (b"caf\xe9", False),
        (b"a\x00b", True),
    ],
    ids=short,
)
def test_what_is_not_utf_8_is_an_error(desk: Desk, content: bytes, ok: bool) -> None:
    path = desk.root / "x.bin"
    path.write_bytes(content)

    result = desk.read(path)

    assert result.ok is ok
    if ok:
        assert result.data.encode() == content
    else:
        assert "is not UTF-8 text" in result.error.message


@pytest.mark.spec("004/Built-ins/fs.list_dir")
def test_a_directory_is_listed_with_path_type_and_size_sorted(desk: Desk) -> None:
    (desk.root / "sub" / "link").symlink_to("b.txt")
    has_pipe = make_pipe(desk.root / "sub" / "pipe")

    rows = desk.list(desk.root / "sub").unwrap()

    base = desk.root / "sub"
    pipe = {"path": str(base / "pipe"), "type": "other", "size": None}
    assert rows == [
        {"path": str(base / "b.txt"), "type": "file", "size": 1},
        {"path": str(base / "deep"), "type": "directory", "size": None},
        {"path": str(base / "link"), "type": "symlink", "size": None},
        *([pipe] if has_pipe else []),
    ]


@pytest.mark.spec("004/Built-ins/fs.list_dir")
@pytest.mark.parametrize(
    ("args", "names"),
    [
        ({}, ["b.txt", "deep"]),
        ({"recursive": False, "maxDepth": 4}, ["b.txt", "deep"]),
        ({"recursive": True, "maxDepth": 1}, ["b.txt", "deep"]),
        ({"recursive": True, "maxDepth": 2}, ["b.txt", "deep", "deep/c.txt", "deep/deeper"]),
        ({"recursive": True}, ["b.txt", "deep", "deep/c.txt", "deep/deeper", "deep/deeper/d.txt"]),
        (
            {"recursive": True, "maxDepth": 10**9},
            ["b.txt", "deep", "deep/c.txt", "deep/deeper", "deep/deeper/d.txt"],
        ),
    ],
    ids=short,
)
def test_depth_counts_from_the_direct_children(
    desk: Desk, args: dict[str, Any], names: list[str]
) -> None:
    rows = desk.list(desk.root / "sub", **args).unwrap()

    sub = desk.root / "sub"
    assert [Path(row["path"]).relative_to(sub).as_posix() for row in rows] == names
    signature = "fs.list_dir(path: str, recursive: bool = False, maxDepth: int = 4)"
    assert desk.box.registry.get("fs.list_dir").signature == signature


def test_the_default_depth_is_four(desk: Desk) -> None:
    (desk.root / "1" / "2" / "3" / "4" / "5").mkdir(parents=True)

    rows = desk.list(desk.root / "1", recursive=True).unwrap()
    paths = [Path(row["path"]) for row in desk.list(desk.root, recursive=True).unwrap()]

    assert rows[-1]["path"] == str(desk.root / "1" / "2" / "3" / "4" / "5")
    assert paths[-1] == desk.root / "sub" / "deep" / "deeper" / "d.txt"
    assert desk.root / "1" / "2" / "3" / "4" / "5" not in paths


@pytest.mark.parametrize("depth", [0, -1])
def test_a_depth_below_one_is_an_error(desk: Desk, depth: int) -> None:
    assert desk.list(desk.root, recursive=True, maxDepth=depth).error.code == "execution_error"


def test_paths_are_relative_to_the_working_directory(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(desk.root / "sub")

    assert desk.read("b.txt").data == "b"
    assert desk.read("../a.txt").ok
    assert [row["path"] for row in desk.list(".").data] == ["b.txt", "deep"]
    assert [row["path"] for row in desk.list("./").data] == ["b.txt", "deep"]
    assert [row["path"] for row in desk.list("deep/").data] == [
        os.path.join("deep", name) for name in ("c.txt", "deeper")
    ]
    assert desk.read("../../outside/secret.txt").error.reason == "not_allowed"


@pytest.mark.slow
def test_a_very_deep_tree_is_walked_without_running_out_of_anything(desk: Desk) -> None:
    place = desk.root / "down"
    for _ in range(900):
        place = place / "d"
    place.mkdir(parents=True)

    rows = desk.list(desk.root / "down", recursive=True, maxDepth=5_000).unwrap()

    assert len(rows) == 900


OUTSIDE = {
    "absolute": "{outside}/secret.txt",
    "dots": "{root}/../outside/secret.txt",
    "many dots": "{root}/sub/../../outside/secret.txt",
    "link": "{root}/link.txt",
    "link to a link": "{root}/link2.txt",
    "linked folder": "{root}/folder/secret.txt",
    "through proc": "/proc/self/root{outside}/secret.txt",
    "through cwd": "/proc/self/cwd/../outside/secret.txt",
    "file descriptor": "/proc/self/fd/{fd}",
    "dev fd": "/dev/fd/{fd}",
    "home": "~/secret.txt",
    "passwd": "/etc/passwd",
    "slashes": "//{outside}//secret.txt",
    "prefix": "{root}-other/x.txt",
}


@pytest.fixture
def ways_out(desk: Desk, request: pytest.FixtureRequest) -> Iterator[dict[str, str]]:
    """Every way out, made ready: links (for the ways that take one), an open file, a folder whose
    name begins like the root's."""
    outside = desk.root.parent / "outside"
    if "link" in request.node.callspec.params["way"]:
        (desk.root / "link.txt").symlink_to(outside / "secret.txt")
        (desk.root / "link2.txt").symlink_to(desk.root / "link.txt")
        (desk.root / "folder").symlink_to(outside)
    other = Path(f"{desk.root}-other")
    other.mkdir()
    (other / "x.txt").write_text("other")
    fd = os.open(outside / "secret.txt", os.O_RDONLY)
    yield {
        name: text.format(root=desk.root, outside=outside, fd=fd) for name, text in OUTSIDE.items()
    }
    os.close(fd)


def test_the_home_folder_is_named_where_it_is_outside(desk: Desk) -> None:
    found = desk.list("~")

    assert found.error is not None
    assert (
        f"'{os.path.realpath(os.path.expanduser('~'))}' is outside the allowed folders"
        in found.error.message
    )


@pytest.mark.parametrize("way", OUTSIDE)
def test_no_spelling_leads_out_of_the_roots(desk: Desk, ways_out: dict[str, str], way: str) -> None:
    path = ways_out[way]

    for result in (desk.read(path), desk.list(os.path.dirname(path) if "txt" in path else path)):
        if result.ok:
            assert isinstance(result.data, list), (
                "only the folder that holds a link, itself inside, is listed"
            )
            assert "secret.txt" not in str(result.data)
        else:
            assert (result.error.code, result.error.reason) == ("execution_error", "not_allowed")
            words = (
                "is outside the allowed folders",
                *(["so it is not opened"] * (os.name == "nt")),
            )
            assert any(each in result.error.message for each in words)
    assert not desk.read(path).ok


def test_links_that_stay_inside_are_followed_for_reading_and_named_in_listings(desk: Desk) -> None:
    (desk.root / "in.txt").symlink_to(desk.root / "sub" / "b.txt")
    (desk.root / "in").symlink_to(desk.root / "sub")

    assert desk.read(desk.root / "in.txt").data == "b"
    assert desk.read(desk.root / "in" / "b.txt").data == "b"
    rows = desk.list(desk.root, recursive=True).data
    assert not [row for row in rows if "in" in Path(row["path"]).parts[:-1]], (
        "a listing does not go through links"
    )


@pytest.mark.parametrize("way", ["itself", "hard link", "link", "dots"])
def test_the_secrets_file_is_never_read(project: Project, desk: Desk, way: str) -> None:
    secrets = project.write("secrets.yaml", "KEY: hunter22\n", mode=0o600)
    paths = {
        "itself": secrets,
        "hard link": desk.root / "innocent.txt",
        "link": desk.root / "innocent-link.txt",
        "dots": desk.root / ".onetool" / ".." / ".onetool" / "secrets.yaml",
    }
    if way == "hard link":
        paths[way].hardlink_to(secrets)
    if way == "link":
        paths[way].symlink_to(secrets)
    box = project.open()

    result = box.call("fs.read_file", {"path": str(paths[way])})

    assert result.error.reason == "not_allowed"
    assert "hunter22" not in str(result.to_dict())
    assert "hunter22" not in repr(result)


def _other_project(folder: Path) -> Path:
    (folder / ".onetool").mkdir(parents=True)
    secrets = folder / ".onetool" / "secrets.yaml"
    secrets.write_text("KEY: hunter22\n")
    return secrets


@pytest.mark.parametrize(
    "way",
    [
        *(
            "nested",
            "neighbour",
            "above",
            "home",
            "link to the file",
            "link to the folder",
            "upper case",
        ),
        *(
            "hard link of the project above",
            "hard link of home",
            "an editor's copy",
            "the temporary file",
        ),
    ],
)
@pytest.mark.parametrize("source", ["python", "model", "mcp"])
def test_the_secrets_file_of_another_project_is_never_read(
    project: Project, way: str, source: Any
) -> None:
    top = project.root.parent
    secrets = {
        "nested": _other_project(project.root / "sub" / "inner"),
        "neighbour": _other_project(top / "neighbour"),
        "above": _other_project(top),
        "home": _other_project(top / "elsewhere" / "home"),
    }
    project.env |= home_at(top / "elsewhere" / "home")
    beside = project.root / "innocent.txt"
    folder = secrets["nested"].parent
    if way == "link to the file":
        beside.symlink_to(secrets["neighbour"])
    elif way == "link to the folder":
        (project.root / "innocent").symlink_to(folder)
        beside = project.root / "innocent" / "secrets.yaml"
    elif way == "upper case":
        beside = project.root / ".OneTool" / "Secrets.YAML"
        beside.parent.mkdir(exist_ok=True)
        beside.write_text("KEY: hunter22")
    elif way == "hard link of the project above":
        beside.hardlink_to(secrets["above"])
    elif way == "hard link of home":
        beside.hardlink_to(secrets["home"])
    elif way == "an editor's copy":
        beside = folder / "secrets.yaml~"
        beside.write_text("KEY: hunter22")
    elif way == "the temporary file":
        beside = folder / ".secrets.yaml.swp"
        beside.write_text("KEY: hunter22")
    roots = ["/"] if way == "home" else [".."]
    box = project.open(f"fs: {{roots: {roots}}}")

    result = box.call("fs.read_file", {"path": str(secrets.get(way, beside))}, source=source)

    assert result.error.reason == "not_allowed"
    assert "holds secrets" in result.error.message
    assert "hunter22" not in str(result.to_dict())


def test_the_name_of_a_secrets_file_is_listed_and_files_beside_it_are_read(
    project: Project,
) -> None:
    secrets = _other_project(project.root / "sub")
    (secrets.parent / "onetool.yaml").write_text("version: 1")
    (project.root / "secrets.yaml").write_text("a file like any other")
    box = project.open()

    names = [
        Path(row["path"]).name
        for row in box.call("fs.list_dir", {"path": str(secrets.parent)}).unwrap()
    ]

    assert names == ["onetool.yaml", "secrets.yaml"]
    assert (
        box.call("fs.read_file", {"path": str(secrets.parent / "onetool.yaml")}).unwrap()
        == "version: 1"
    )
    assert (
        box.call("fs.read_file", {"path": str(project.root / "secrets.yaml")}).unwrap()
        == "a file like any other"
    )


@pytest.mark.parametrize(
    "place", ["in force", "of another project", "of the platform", "state_dir", "through a link"]
)
def test_nothing_in_a_state_directory_is_read_or_listed(project: Project, place: str) -> None:
    home = project.root / "home"
    folder = {
        "of another project": project.root / "state" / "other-0123456789ab" / "results",
        "of the platform": state_base(home_at(home), home) / "other-0123456789ab",
        "state_dir": project.root / "kept" / "results",
    }
    config = "version: 1"
    if place == "state_dir":
        del project.env["ONETOOL_STATE"]
        config = "state_dir: kept"
    box = project.open(config)
    kept = folder.get(place, box.config.paths.state / "results")
    kept.mkdir(parents=True, exist_ok=True)
    (kept / "x.json").write_text("hunter22")
    if place == "through a link":
        (project.root / "link").symlink_to(kept)
        kept = project.root / "link"

    read = box.call("fs.read_file", {"path": str(kept / "x.json")}).error
    listed = box.call("fs.list_dir", {"path": str(kept)}).error
    rows = box.call(
        "fs.list_dir", {"path": str(project.root), "recursive": True, "maxDepth": 9}
    ).unwrap()

    assert (read.reason, listed.reason) == ("not_allowed", "not_allowed")
    assert "state directory" in read.message
    assert "x.json" not in str(rows)


@pytest.mark.parametrize(
    "place", ["tokens/server.json", "other-0123456789ab/approvals.json", "a.txt"]
)
@pytest.mark.parametrize(
    "way", ["the root is the state directory", "it holds the project", "a hard link"]
)
def test_state_is_not_read_where_a_root_is_a_state_directory(
    project: Project, place: str, way: str
) -> None:
    state = project.root if way == "it holds the project" else project.root.parent / "state"
    project.env["ONETOOL_STATE"] = str(state)
    file = state / place
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("t0ken-of-the-user")
    if way == "a hard link":
        (project.root / "linked.txt").hardlink_to(file)
        file = project.root / "linked.txt"
    box = project.open(f"fs: {{roots: ['.', '{state}']}}")

    error = box.call("fs.read_file", {"path": str(file)}).error

    assert error.reason == "not_allowed"
    assert "state directory" in error.message


def test_file_with_two_names_outside_the_state_is_read(project: Project) -> None:
    (project.root / "a.txt").write_text("a")
    (project.root / "b.txt").hardlink_to(project.root / "a.txt")

    assert (
        project.open().call("fs.read_file", {"path": str(project.root / "b.txt")}).unwrap() == "a"
    )


@pytest.mark.parametrize("source", ["model", "rest", "mcp"])
def test_ten_megabytes_are_the_most_that_is_read_for_others(desk: Desk, source: Any) -> None:
    big, fits = desk.root / "big.txt", desk.root / "fits.txt"
    for path, size in ((big, 10 * 1024 * 1024 + 1), (fits, 10 * 1024 * 1024)):
        with path.open("wb") as file:
            file.truncate(size)

    def read(path: Path, source: Any) -> Any:
        return desk.box.call("fs.read_file", {"path": str(path), "maxBytes": 10**18}, source=source)

    error = read(big, source).error
    assert error.reason == "too_large"
    assert str(10 * 1024 * 1024) in error.message
    assert len(read(fits, source).unwrap()) == 10 * 1024 * 1024
    assert len(read(big, "python").unwrap()) == 10 * 1024 * 1024 + 1


@pytest.mark.parametrize(("source", "is_read"), [("model", False), ("python", True)])
def test_limit_for_others_holds_through_a_tool_and_for_no_tool_of_a_person(
    desk: Desk, source: Any, is_read: bool
) -> None:
    with (desk.root / "big.txt").open("wb") as file:
        file.truncate(10 * 1024 * 1024 + 1)

    def reader() -> int:
        """Read the file by another tool."""
        args = {"path": str(desk.root / "big.txt"), "maxBytes": 10**18}
        return len(desk.box.call("fs.read_file", args, source="tool").unwrap())

    desk.box.adopt(reader)
    assert desk.box.call("nb.reader", source=source).ok is is_read


def test_a_huge_max_bytes_takes_no_memory(desk: Desk) -> None:
    with (desk.root / "sparse.bin").open("wb") as file:
        file.truncate(1 << 40)
    tracemalloc.start()

    huge = desk.box.call(
        "fs.read_file", {"path": str(desk.root / "sparse.bin"), "maxBytes": 1 << 41}, source="model"
    )
    small = desk.read(desk.root / "a.txt", maxBytes=1 << 41)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()

    assert huge.error.reason == "too_large"
    assert small.ok
    assert peak < 8 * 1024 * 1024


@pytest.mark.linux("/proc")
def test_what_the_kernel_tells_of_processes_is_not_read(project: Project) -> None:
    box = project.open('fs: {roots: ["/"]}')

    for path in ("/proc/self/environ", "/proc/self/cmdline", "/proc/1/environ", "/proc/self/mem"):
        error = box.call("fs.read_file", {"path": path}).error
        assert error.code == "execution_error"
        assert "not a regular file" in error.message


@pytest.mark.posix("pipes and sockets in folders")
def test_a_fifo_and_a_socket_are_refused_and_do_not_hang(desk: Desk) -> None:
    os.mkfifo(desk.root / "pipe")
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(desk.root / "sock")) if len(str(desk.root)) < 90 else None

    for name in ("pipe", "sock"):
        if (desk.root / name).exists():
            for result in (desk.read(desk.root / name), desk.list(desk.root / name)):
                assert result.error.code == "execution_error"
    listener.close()


@pytest.mark.posix("devices in folders")
def test_devices_are_refused_also_where_the_root_is_everything(project: Project) -> None:
    box = project.open('fs: {roots: ["/"]}')

    for path in ("/dev/zero", "/dev/null", "/dev/tty"):
        error = box.call("fs.read_file", {"path": path}).error
        assert error.code == "execution_error"
        assert "not a regular file" in error.message or "Cannot open" in error.message
    assert box.call("fs.read_file", {"path": "/etc/hostname"}).ok


ON_POSIX = pytest.mark.posix("Windows says that there is no such file")


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("", "must not be empty"),
        ("a\0b", "NUL"),
        pytest.param("{root}/\ud800", "a character that no path can", marks=ON_POSIX),
        ("{root}/none.txt", "No such file or directory"),
        ("{root}/sub", "is a folder"),
        pytest.param("{root}/a.txt/x", "Not a directory", marks=ON_POSIX),
        ("{root}/loop", "is not a regular file"),
        ("{root}/dangling", "No such file"),
        pytest.param("{root}/" + "x" * 300, "File name too long", marks=ON_POSIX),
    ],
    ids=short,
)
def test_what_cannot_be_read_says_why(desk: Desk, path: str, said: str) -> None:
    if "loop" in path:
        (desk.root / "loop").symlink_to(desk.root / "loop")
    if "dangling" in path:
        (desk.root / "dangling").symlink_to(desk.root / "nowhere")

    error = desk.read(path.format(root=desk.root)).error

    assert error.code == "execution_error"
    assert said in error.message


def test_python_may_give_a_path_object(desk: Desk) -> None:
    fs = desk.box.pack("fs")

    assert fs.read_file(desk.root / "a.txt") == desk.read(desk.root / "a.txt").data
    assert fs.list_dir(desk.root / "sub") == desk.list(desk.root / "sub").data


def test_listing_a_file_says_so(desk: Desk) -> None:
    assert "is not a folder" in desk.list(desk.root / "a.txt").error.message


@pytest.mark.linux("names that are no text")
def test_names_that_are_not_utf_8_are_listed(desk: Desk) -> None:
    os.mkdir(os.fsencode(desk.root / "odd") + b"\xff")

    rows = desk.list(desk.root)

    assert any("odd\udcff" in row["path"] for row in rows.data)
    assert any("odd\\udcff" in row["path"] for row in rows.to_dict()["data"])


def test_several_roots_and_none(project: Project, tmp_path: Path) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    for place in (one, two):
        place.mkdir()
        (place / "x.txt").write_text(place.name)

    both = project.open(f"fs: {{roots: ['{one}', '../two']}}")
    assert both.call("fs.read_file", {"path": str(one / "x.txt")}).data == "one"
    assert both.call("fs.read_file", {"path": str(two / "x.txt")}).data == "two"
    assert not both.call("fs.read_file", {"path": str(project.home / "onetool.yaml")}).ok

    none = project.open("fs: {roots: []}")
    error = none.call("fs.read_file", {"path": str(one / "x.txt")}).error
    assert "outside the allowed folders (none)" in error.message


def test_without_configuration_the_root_is_the_working_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from onetool_ipy import open_toolbox

    (tmp_path / "x.txt").write_text("x")
    monkeypatch.chdir(tmp_path)
    with open_toolbox(
        env={**home_at(tmp_path / "home"), "ONETOOL_STATE": str(tmp_path / "state")}
    ) as box:
        assert box.call("fs.read_file", {"path": "x.txt"}).data == "x"
        assert box.call("fs.read_file", {"path": "/etc/passwd"}).error.reason == "not_allowed"


@pytest.mark.slow
def test_a_race_between_check_and_open_does_not_lead_out(desk: Desk) -> None:
    """A folder is swapped with a link to the outside, over and over, while it is listed and
    read."""
    outside = desk.root.parent / "outside"
    place = desk.root / "swap"
    good, bad = desk.root / "swap.good", desk.root / "swap.bad"
    good.mkdir()
    (good / "secret.txt").write_text("inside")
    bad.symlink_to(outside)
    good.rename(place)
    stop = threading.Event()

    def swap() -> None:
        while not stop.is_set():
            place.rename(good)
            bad.rename(place)
            place.rename(bad)
            good.rename(place)

    swapper = threading.Thread(target=swap)
    swapper.start()
    try:
        found = [desk.read(place / "secret.txt") for _ in range(300)]
        listed = [desk.list(desk.root, recursive=True) for _ in range(30)]
    finally:
        stop.set()
        swapper.join(HANG_S)

    assert "outside" not in {result.data for result in found}
    assert any(result.data == "inside" for result in found) or all(
        not result.ok for result in found
    )
    assert all(result.ok for result in listed)


def test_what_a_cached_answer_depends_on(desk: Desk) -> None:
    read = desk.box.registry.get("fs.read_file").function.cache_key
    listed = desk.box.registry.get("fs.list_dir").function.cache_key
    path = desk.root / "a.txt"

    before = read(path=str(path))
    path.write_text("other and longer")

    assert before is not None
    assert read(path=str(path)) != before
    assert read(path=str(desk.root / "none")) is None
    assert read(path="a\0b") is None
    assert listed(path=str(desk.root)) is not None
    assert listed(path=str(desk.root), recursive=True) is None, (
        "a folder does not tell what changed further down"
    )


@pytest.mark.windows("paths that only Windows has")
@pytest.mark.parametrize(
    "form",
    [
        "\\\\?\\{state}\\tokens.json",
        "\\\\.\\{state}\\tokens.json",
        "{state}.\\tokens.json",
        "{state}\\tokens.json ",
        "{state}\\tokens.json::$DATA",
        "{STATE}\\TOKENS.JSON",
        "{state}/../{name}/tokens.json",
        "nul",
        "\\\\evil\\share\\tokens.json",
    ],
)
def test_no_spelling_of_windows_leads_into_the_state(project: Project, form: str) -> None:
    """Promise 14, with the state inside a root, as a person may have put it."""
    state = project.root / "state"
    state.mkdir()
    (state / "tokens.json").write_text("sesame")
    project.env["ONETOOL_STATE"] = str(state)
    box = project.open()
    path = form.format(state=state, STATE=str(state).upper(), name=state.name)

    answer = box.call("fs.read_file", {"path": path})

    assert answer.error is not None
    assert answer.error.reason == "not_allowed"


@pytest.mark.windows("names without case")
def test_a_root_is_the_same_in_any_case(desk: Desk) -> None:
    path = str(desk.root / "sub" / "b.txt")

    assert desk.read(path.upper()).unwrap() == "b"
    assert [row["path"] for row in desk.list(f"{desk.root}\\").unwrap()] != []
