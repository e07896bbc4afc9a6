"""The process of a server: its environment and its folder."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from onetool_ipy import Toolbox, open_toolbox
from onetool_ipy.base.processes import INHERITED
from onetool_ipy.config.paths import home_at
from tests.harness import macos
from tests.harness.servers import hostile, write_project

Open = Callable[..., Toolbox]


def test_a_server_gets_the_safe_few_what_is_named_and_its_own(opened: Open, tmp_path: Path) -> None:
    definition = hostile(
        env={"OWN": "mine", "KEY": "${TOKEN}"}, inherit=["WANTED", "ABSENT"], cwd="sub"
    )
    (tmp_path / "sub").mkdir()
    around = {**os.environ, "TOKEN": "sesame-open", "WANTED": "yes", "PRIVATE": "no"}

    found = opened({"srv": definition}, env=around).call("srv.environment").unwrap()

    named = {"OWN": "mine", "KEY": "sesame-open", "WANTED": "yes"}
    safe = {name: around[name] for name in INHERITED if name in around}
    ours = {"LC_CTYPE", "ONETOOL_SERVER"}
    assert {key: value for key, value in found["env"].items() if key not in ours} == {
        **safe,
        **named,
    }
    assert found["cwd"] == str(tmp_path / "sub")


def test_the_environment_of_the_toolbox_is_what_counts(tmp_path: Path) -> None:
    env: Mapping[str, str] = {
        "PATH": "/nowhere",
        **home_at(tmp_path),
        "ONETOOL_STATE": str(tmp_path / "state"),
    }
    write_project(tmp_path, {"srv": {"command": "sleep", "args": ["9"]}})
    with open_toolbox(tmp_path, env=env) as box:
        box.servers.check()

        assert box.servers.reason("srv") == "There is no command 'sleep'."


@pytest.mark.posix("select's limit of descriptors")
def test_a_server_lives_where_its_kernel_has_a_thousand_files_open(
    opened: Open, tmp_path: Path
) -> None:
    import resource

    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(limits[0], 2048), limits[1]))
    files: list[int] = []
    try:
        while not files or files[-1] < 1024:
            files.append(os.open(tmp_path, os.O_RDONLY))
        box = opened({"srv": hostile()})
        pids = {
            (box.call("srv.echo", {"text": "one"}).unwrap(), box.servers.pid("srv"))
            for _ in range(2)
        }
    finally:
        for file in files:
            os.close(file)
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)

    assert len(pids) == 1


@pytest.mark.slow
@pytest.mark.linux("what macOS lacks is taken away from Linux")
def test_a_project_with_a_server_works_as_on_macos(tmp_path: Path) -> None:
    write_project(tmp_path, {"srv": hostile()})
    (tmp_path / "a.txt").write_text("read", encoding="utf-8")
    home = tmp_path / "home"
    said = macos.run(
        "import os\n"
        "from onetool_ipy import open_toolbox\n"
        "os.chdir(sys.argv[1])\n"
        "with open_toolbox(sys.argv[1]) as box:\n"
        "    print(box.call('fs.read_file', {'path': 'a.txt'}).unwrap())\n"
        "    print(box.call('srv.echo', {'text': 'töne'}).unwrap())\n"
        "    print(box.ot.health()['problems'])\n",
        str(tmp_path),
        env={"HOME": str(home), "ONETOOL_STATE": "", "ONETOOL_TRUST": str(tmp_path)},
    )

    assert said.splitlines() == ["read", "töne", "[]"]
    assert [*(home / "Library" / "Application Support" / "onetool_ipy").rglob("*.jsonl")]
