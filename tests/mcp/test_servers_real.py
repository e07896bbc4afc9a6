"""MCP servers that others wrote: every tool is listed and reachable, a call to each gives what it
says."""

from __future__ import annotations

import ast
import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from onetool_ipy import Toolbox
from onetool_ipy.render.media import Blocks, Image, Resource, ResourceLink
from onetool_ipy.schema.read import identifier, params
from tests.harness.patience import HANG_S
from tests.harness.stub import Asked, Stub
from tests.harness.surroundings import ROOT

# How many tools each lists, as installed by tests/servers.txt and tests/node/package-lock.json.
COUNTS = {
    "clock": 2,
    "git": 12,
    "fetch": 1,
    "everything": 16,
    "filesystem": 14,
    "memory": 9,
    "sequential-thinking": 1,
}
KNOWN = {"clock": "time"}
# What `everything` offers only to a client that can be asked.
ASKING = [
    {"name": "get-roots-list", "inputSchema": {"type": "object", "properties": {}}},
    {"name": "trigger-elicitation-request", "inputSchema": {"type": "object", "properties": {}}},
    {
        "name": "trigger-url-elicitation",
        "inputSchema": {
            "type": "object",
            "properties": {
                "url": {"type": "string"},
                "message": {"type": "string", "default": ""},
                "elicitationId": {"type": "string"},
                "errorPath": {"type": "boolean", "default": False},
            },
            "required": ["url"],
        },
    },
]


def recorded(server: str) -> dict[str, Any]:
    """The tools of a server as they were written down once, by name."""
    text = (
        ROOT / "tests" / "data" / "mcp_schemas" / f"{KNOWN.get(server, server)}.json"
    ).read_text(encoding="utf-8")
    found = json.loads(text)
    tools = found["tools"] if isinstance(found, dict) else found
    if server == "everything":
        tools = [*tools, *ASKING]
    return {tool["name"]: tool for tool in tools}


@pytest.mark.slow
def test_every_tool_of_every_server_is_listed(real_box: Toolbox) -> None:
    rows = real_box.ot.packs()

    proxies = {row["name"]: row["tool_count"] for row in rows if row["source"] == "proxy"}
    assert proxies == COUNTS
    for server in COUNTS:
        names = {spec.short_name for spec in real_box.registry.packs()[server]}
        assert names == set(recorded(server))


@pytest.mark.slow
def test_health_is_true_now(real_box: Toolbox) -> None:
    proxy = real_box.ot.health()["proxy"]

    assert proxy["states"] == {**dict.fromkeys(COUNTS, "connected"), "sqlite": "failed"}
    assert (proxy["status"], proxy["server_count"]) == ("degraded", len(COUNTS) + 1)


@pytest.mark.slow
@pytest.mark.spec("001/List Tools/Proxy tool signature from schema")
def test_signatures_are_python_and_say_what_is_required(real_box: Toolbox) -> None:
    """Required parameters without defaults, optional ones with theirs or '...': ast reads what the
    schema has."""
    rows = [row for row in real_box.ot.tools(info="full") if row["source"].startswith("proxy:")]

    assert len(rows) == sum(COUNTS.values())
    for row in rows:
        server, _, tool = row["name"].partition(".")
        wanted = recorded(server)[tool]["inputSchema"]
        required = set(wanted.get("required", ()))
        labels = {
            param.name: label for param in params(wanted) for label in [identifier(param.name)]
        }
        head, _, rest = row["signature"].partition("(")
        assert head == row["name"]
        (function,) = ast.parse(f"def f({rest}: ...").body
        assert isinstance(function, ast.FunctionDef)
        names = [argument.arg for argument in function.args.args]
        optional = set(names[len(names) - len(function.args.defaults) :])
        assert set(names) == set(labels.values())
        assert set(names) - optional == {labels[name] for name in required}
    signatures = {row["name"]: row["signature"] for row in rows}
    assert (
        signatures["git.git_diff_unstaged"]
        == "git.git_diff_unstaged(repo_path: str, context_lines: int = 3)"
    )
    assert signatures["filesystem.read_text_file"].count("'...'") == 2


@pytest.mark.slow
@pytest.mark.spec("001/List Tools/Proxy tool arguments from schema")
def test_arguments_come_from_the_schema(real_box: Toolbox) -> None:
    (row,) = real_box.ot.tools(pattern="clock.convert_time", info="full")

    described = recorded("clock")["convert_time"]["inputSchema"]["properties"]
    assert row["args"] == [
        f"{name}: {' '.join(sub['description'].split())}" for name, sub in described.items()
    ]


@pytest.mark.slow
@pytest.mark.spec("001/Pack Discovery/Proxy pack")
def test_a_pack_of_a_server_lists_its_tools_and_what_the_server_says(real_box: Toolbox) -> None:
    text = real_box.ot.packs(pattern="everything", info="full")

    assert text.startswith("## everything\n\nsource: proxy\n")
    assert "- everything.echo: Echoes back the input string" in text
    assert real_box.servers.instructions("everything").strip()[:40] in text


@pytest.mark.slow
@pytest.mark.spec("001/Health Check/Disconnected server")
def test_why_a_server_did_not_start(real_box: Toolbox) -> None:
    """mcp-server-sqlite as installed breaks with mcp 2.x: the state, the reason from its stderr,
    and where to look."""
    health = real_box.ot.health()

    assert health["proxy"]["states"]["sqlite"] == "failed"
    assert health["proxy"]["status"] == "degraded"
    (problem,) = [p for p in health["problems"] if "sqlite" in p["message"]]
    assert "It ended with status 1: AttributeError" in problem["message"]
    assert "has no attribute 'list_resources'" in problem["message"]
    assert problem["hint"] == "See what it wrote: %tool server logs sqlite"
    assert "Traceback" in real_box.servers.logs("sqlite")
    tested = real_box.servers.test("sqlite")
    assert (tested["ok"], tested["tools"]) == (False, 0)
    assert "list_resources" in tested["reason"]
    assert "Traceback" in tested["stderr"]
    result = real_box.call("sqlite.read_query", {"query": "select 1"})
    assert result.error is not None
    assert result.error.code == "tool_not_found"


# One call per server


@pytest.mark.slow
def test_time_gives_structured_data(real_box: Toolbox) -> None:
    found = real_box.pack("clock").convert_time(
        source_timezone="UTC", time="12:00", target_timezone="Asia/Tokyo"
    )

    assert found["target"]["datetime"].endswith("T21:00:00+09:00")
    assert found["time_difference"] == "+9.0h"


@pytest.mark.slow
def test_git_log_of_a_real_repository(real_box: Toolbox, tmp_path: Path) -> None:
    run = ["git", "-C", str(tmp_path), "-c", "user.name=A", "-c", "user.email=a@b"]
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    subprocess.run([*run, "commit", "-q", "--allow-empty", "-m", "the first of many"], check=True)

    result = real_box.call("git.git_log", {"repo_path": str(tmp_path)})

    assert result.ok
    assert "the first of many" in result.text


@pytest.mark.slow
def test_fetch_reads_a_page(real_box: Toolbox, page: str) -> None:
    # The server starts Node for each page, which takes seconds on a busy machine.
    result = real_box.call("fetch.fetch", {"url": page}, timeout=HANG_S)

    assert result.ok, result.error
    assert "The quick brown fox" in result.text


@pytest.mark.slow
def test_filesystem_reads_a_file_of_the_folder_on_its_command_line(real_box: Toolbox) -> None:
    """`server-filesystem DIR` forgets DIR for a client that declares roots."""
    folder = Path(real_box.config.settings.servers["filesystem"].data["args"][-1])

    found = real_box.pack("filesystem").read_text_file(path=str(folder / "hello.txt"))

    assert found == {"content": "hello, world\n"}


@pytest.mark.slow
def test_memory_keeps_what_it_is_told(real_box: Toolbox) -> None:
    memory = real_box.pack("memory")
    entity = {"name": "Ada", "entityType": "person", "observations": ["wrote notes"]}
    memory.create_entities(entities=[entity])

    result = real_box.call("memory.open_nodes", {"names": ["Ada"]})

    assert result["entities"] == [entity]
    assert result.to_df("entities")["name"].tolist() == ["Ada"]


@pytest.mark.slow
def test_sequential_thinking_takes_a_thought(real_box: Toolbox) -> None:
    thinking = real_box.pack("sequential_thinking")  # as Python spells it

    found = thinking.sequentialthinking(
        thought="a", nextThoughtNeeded=False, thoughtNumber=1, totalThoughts=1
    )

    assert found["thoughtHistoryLength"] == 1


@pytest.mark.slow
def test_everything_has_structured_content(real_box: Toolbox) -> None:
    everything = real_box.pack("everything")

    found = everything.get_structured_content(location="New York")

    assert set(found) == {"temperature", "conditions", "humidity"}
    assert everything["get-sum"](a=2, b=3) == everything.get_sum(2, 3) == "The sum of 2 and 3 is 5."
    frame = real_box.call("everything.get-structured-content", {"location": "Chicago"}).df
    assert list(frame.columns) == ["temperature", "conditions", "humidity"]


@pytest.mark.slow
def test_everything_has_images_resources_and_links(real_box: Toolbox) -> None:
    everything = real_box.pack("everything")

    words, image, _ = everything.get_tiny_image()
    assert isinstance(image, Image)
    assert image.data.startswith(b"\x89PNG")
    assert "image" in words
    links = everything.get_resource_links(count=2)
    assert isinstance(links, Blocks)
    assert [link.uri for link in links if isinstance(link, ResourceLink)]
    resources = [
        piece for piece in everything.get_resource_reference() if isinstance(piece, Resource)
    ]
    assert resources[0].uri.startswith("demo://")
    assert "plaintext resource" in resources[0].content


@pytest.mark.slow
def test_everything_reports_progress(real_box: Toolbox) -> None:
    heard: list[tuple[float, float | None]] = []

    job = real_box.start(
        "everything.trigger-long-running-operation",
        {"duration": 0.4, "steps": 4},
        notify=lambda job: heard.append((job.progress.done, job.progress.total)),
    )

    assert job.result(HANG_S).ok
    assert (4.0, 4.0) in heard
    assert (1.0, 4.0) in heard


@pytest.mark.slow
def test_wrong_arguments_never_leave_the_kernel(real_box: Toolbox) -> None:
    result = real_box.call("everything.get-structured-content", {"location": "Atlantis", "x": 1})

    assert result.error is not None
    assert result.error.code == "invalid_args"
    assert "Atlantis" in result.error.message


@pytest.mark.slow
def test_what_a_server_says_is_wrong_is_an_execution_error(real_box: Toolbox) -> None:
    result = real_box.call("clock.get_current_time", {"timezone": "Mars/Olympus"})

    assert result.error is not None
    assert result.error.code == "execution_error"
    assert "Mars/Olympus" in result.error.message


@pytest.fixture(scope="module")
def page() -> Any:
    """A page on loopback."""

    words = "The quick brown fox jumps over the lazy dog. " * 20
    text = f"<html><body><article><h1>A</h1><p>{words}</p></article></body></html>".encode()

    def answer(asked: Asked) -> tuple[int, bytes, dict[str, str]]:
        is_page = asked.path == "/page"
        return 200 if is_page else 404, text if is_page else b"", {"Content-Type": "text/html"}

    with Stub(answer) as stub:
        yield stub.url("/page")
