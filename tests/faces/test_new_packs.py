"""Names for new servers, bundles and packs: none takes the name of a pack, a Python keyword or a
variable."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from onetool_ipy import Toolbox, UsageProblem
from onetool_ipy.faces.creation import name_bundle, store_draft
from onetool_ipy.faces.new_packs import (
    proposed_name,
    require_free_name,
    save_cell,
    save_new_pack,
)
from onetool_ipy.faces.widgets.requests import ServerRequests
from tests.harness.kernel import Kernel
from tests.harness.project import Project
from tests.harness.servers import hostile

DOCUMENT = {
    "openapi": "3.0.0",
    "info": {"title": "time", "version": "1"},
    "servers": [{"url": "https://api.example.com"}],
    "paths": {"/now": {"get": {"operationId": "now", "responses": {"200": {"description": "ok"}}}}},
}


@pytest.fixture
def box(tmp_path: Path) -> Iterator[Toolbox]:
    with Project(tmp_path) as project:
        yield project.open(packs={"weather": 'def rain() -> int:\n    "Rain."\n    return 1\n'})


@pytest.mark.parametrize(
    ("name", "owner"),
    [
        ("time", "the name of a built-in pack"),
        ("ot", "the name of a built-in pack"),
        ("nb", "the name of a built-in pack"),
        ("class", "a Python keyword"),
        ("weather", "the name of a pack of this project"),
        ("Weather", "the name of a pack of this project"),
        ("aux", "the name of a device of Windows"),
    ],
)
def test_a_taken_name_is_changed_if_we_propose_it_and_refused_if_a_person_typed_it(
    box: Toolbox, name: str, owner: str
) -> None:
    assert proposed_name(box, name, "_server") == (
        f"{name}_server",
        f"It is named {name}_server: '{name}' is {owner}.",
    )
    with pytest.raises(UsageProblem) as refused:
        require_free_name(box, name, "_server")
    assert (refused.value.message, refused.value.hint) == (
        f"'{name}' is {owner}.",
        f"Choose another name: {name}_server",
    )


def test_a_free_name_is_taken_as_it_is(box: Toolbox) -> None:
    assert proposed_name(box, "git", "_server") == ("git", "")
    require_free_name(box, "git", "_server")


def test_a_pasted_server_never_shares_the_name_of_a_built_in_pack(
    box: Toolbox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first server that anybody tries is `mcp-server-time`."""
    program = tmp_path / "bin" / "uvx"
    program.parent.mkdir()
    program.symlink_to(sys.executable)
    monkeypatch.setenv("PATH", str(program.parent), prepend=os.pathsep)
    servers = ServerRequests(box)

    said = servers.add({"text": "uvx mcp-server-time"})["said"]

    assert "time_server: added for this session." in said
    assert "It is named time_server: 'time' is the name of a built-in pack." in said
    assert list(box.servers) == ["time_server"]
    assert box.ot.health()["proxy"]["server_count"] == 1
    assert not [problem for problem in box.problems() if "built" in problem.message]
    with pytest.raises(UsageProblem) as refused:
        servers.add({"text": "uvx mcp-server-time", "name": "time"})
    assert "Choose another name: time_server" in " ".join(refused.value.lines())


def test_the_same_server_pasted_twice_is_there_already(box: Toolbox) -> None:
    servers = ServerRequests(box)
    line = shlex.join([hostile()["command"], *hostile()["args"]])
    servers.add({"text": line})
    (name,) = box.servers
    servers.act({"name": name, "action": "start"})

    with pytest.raises(UsageProblem, match=f"There is a server '{name}'"):
        servers.add({"text": line})


def test_an_imported_bundle_gets_a_free_name(box: Toolbox) -> None:
    from onetool_ipy.bundles.importing.draft import ImportRequest
    from onetool_ipy.bundles.importing.formats import import_document

    data = json.dumps(DOCUMENT).encode()
    draft = import_document(data, ImportRequest())
    notes = name_bundle(box, draft, None)

    assert store_draft(box, draft).bundle.slug == "time-tools"
    assert notes == ["It is named time-tools: 'time' is the name of a built-in pack."]
    with pytest.raises(UsageProblem, match="'class' is a Python keyword"):
        name_bundle(box, import_document(data, ImportRequest(slug="class")), "class")


def test_a_saved_cell_takes_no_name_of_another_pack(box: Toolbox) -> None:
    with pytest.raises(UsageProblem, match="'time' is the name of a built-in pack") as refused:
        save_new_pack(box, "time", "def now() -> int:\n    return 1\n")
    assert refused.value.hint == "Choose another name: time_tools"


def test_kernels_that_save_into_one_pack_at_once_lose_no_function(tmp_path: Path) -> None:
    project = Project(tmp_path)
    boxes = [project.open({}) for _ in range(4)]
    begin = threading.Barrier(len(boxes))

    def save(number: int) -> None:
        begin.wait()
        for turn in range(3):
            name = f"tool_{number}_{turn}"
            save_cell(boxes[number], "shop", f"def {name}(x: int) -> int:\n    return x\n")

    with project, ThreadPoolExecutor(len(boxes)) as kernels:
        list(kernels.map(save, range(len(boxes))))
        names = {spec.name for spec in project.open().registry.list(["shop.*"])}

    assert names == {f"shop.tool_{number}_{turn}" for number in range(4) for turn in range(3)}


@pytest.mark.slow
def test_init_makes_no_pack_of_a_built_in_name(tmp_path: Path) -> None:
    line = [sys.executable, "-m", "onetool_ipy", "init", "--pack", "time"]

    done = subprocess.run(line, capture_output=True, text=True, check=False, cwd=tmp_path)

    assert done.returncode == 1
    assert "'time' is the name of a built-in pack. Choose another name: time_tools" in " ".join(
        done.stderr.split()
    )
    assert not (tmp_path / ".onetool").exists()


@pytest.mark.slow
def test_import_on_the_command_line_says_the_name(box: Toolbox, tmp_path: Path) -> None:
    (tmp_path / "api.json").write_text(json.dumps(DOCUMENT), encoding="utf-8")
    line = [
        sys.executable,
        "-m",
        "onetool_ipy",
        "--config",
        str(tmp_path),
        "import",
        str(tmp_path / "api.json"),
    ]

    done = subprocess.run(line, capture_output=True, text=True, check=True)

    assert json.loads(done.stdout)["bundle"]["slug"] == "time-tools"
    assert "It is named time-tools" in done.stderr


def test_a_name_in_the_notebook_stays_what_it_is(kernel: Kernel) -> None:
    """Typed, it is refused with a proposal; from another client's file it is changed, and said."""
    (kernel.cwd / "mcp.json").write_text(
        json.dumps({"mcpServers": {"prices": hostile()}}), encoding="utf-8"
    )
    kernel.execute("%load_ext onetool_ipy\nprices = [1, 2]")

    for line in (
        "%tool server add prices python server.py",
        "%tool new http prices.get --url https://api.example.com/x",
        "%%tool --save prices\ndef low() -> int:\n    return 1",
    ):
        refused = kernel.execute(line, allow_errors=True).text
        assert "'prices' is a name in this notebook." in refused
        assert "Choose another name: prices" in refused
    said = kernel.execute("%tool server import mcp.json --yes").text
    assert "It is named prices_server: 'prices' is a name in this notebook." in said
    again = kernel.execute("%tool server import mcp.json --yes", allow_errors=True).text
    assert "prices_server: left out, there is a server of that name" in again
    assert kernel.evaluate("prices") == "[1, 2]"
