"""A recording as a server: the TypeScript SDK and Inspector get the recorded answers, and HTTP
requests theirs."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from onetool_ipy import open_toolbox
from onetool_ipy.base.masking import MASK
from onetool_ipy.core.tool import HttpHooks, ToolSpec
from onetool_ipy.faces.cli import main
from onetool_ipy.faces.mcp.mock import RestMock, mock_toolbox, read_recording
from onetool_ipy.stores.cassettes import RecordedCall
from tests.harness import exam
from tests.harness.patience import HANG_S
from tests.harness.surroundings import ROOT, private

CLIENT = ROOT / "tests" / "node" / "client.mjs"
INSPECTOR = (
    ROOT
    / "tests/node/exam/node_modules/@modelcontextprotocol/inspector/clients/launcher/build/index.js"
)
SCHEMA = {"type": "object", "properties": {"page": {"type": "integer"}}, "required": ["page"]}


@pytest.fixture
def recording(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Calls of a plain tool, of one that failed, of an HTTP tool twice, and of a built-in one."""
    path, state = tmp_path / "calls.jsonl", {"ONETOOL_STATE": str(tmp_path / "state")}
    answers = iter([[{"id": 1}], [{"id": 1}, {"id": 2}], "plain text"])

    def preview(args: dict[str, Any]) -> list[dict[str, Any]]:
        return [
            {"method": "GET", "url": f"https://api.example/v1/items?page={args['page']}&sort=a%20b"}
        ]

    def fail(args: dict[str, Any]) -> None:
        raise LookupError(f"no page {args['page']}")

    with open_toolbox(tmp_path, env={**os.environ, **state}) as box:
        hooks = HttpHooks(send=lambda _args: None, preview=preview)
        for name, run, http in (
            ("shop.find", lambda args: {"found": args["page"]}, None),
            ("shop.fail", fail, None),
            ("api.items", lambda _args: next(answers), hooks),
        ):
            box.registry.register(
                ToolSpec(name=name, description="d", parameters=SCHEMA, run=run, http=http)
            )
        with box.ot.replay(path):
            box.call("shop.find", {"page": 1})
            box.call("shop.fail", {"page": 2})
            for page in (1, 1, 9):
                box.call("api.items", {"page": page})
            box.call("tools.echo", {"message": "hello"})
    monkeypatch.chdir(tmp_path)
    for name, value in state.items():
        monkeypatch.setenv(name, value)
    return path


@contextmanager
def served(recording: Path) -> Iterator[str]:
    """The address of the mock, started as a user starts it."""
    command = [sys.executable, "-m", "onetool_ipy", "mock", recording.name, "--http"]
    with subprocess.Popen(
        command, cwd=recording.parent, stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stderr is not None
            for line in process.stderr:
                if found := re.search(
                    r"Serving on (http://\S+)/mcp: 4 tools, and 2 requests", line
                ):
                    yield found[1]
                    break
            else:
                raise AssertionError("it did not start")
        finally:
            process.terminate()
            process.wait(HANG_S)


def _sdk(asked: dict[str, Any]) -> dict[str, Any]:
    command = ["node", str(CLIENT), json.dumps(asked)]
    run = subprocess.run(command, capture_output=True, text=True, timeout=HANG_S, check=True)
    seen: dict[str, Any] = json.loads(run.stdout)
    return seen


def _calls(wire: dict[str, str]) -> list[dict[str, Any]]:
    calls = [
        ("shop.find", {"page": 1}),
        ("shop.find", {"page": 1}),
        ("shop.fail", {"page": 2}),
        ("shop.find", {"page": 7}),
    ]
    calls += [("tools.echo", {"message": "hello"}), ("tools.echo", {"message": "other"})]
    return [{"name": wire[name], "arguments": args} for name, args in calls]


@pytest.mark.slow
@pytest.mark.parametrize("how", ["http", "stdio"])
def test_the_typescript_sdk_gets_the_recorded_answers(recording: Path, how: str) -> None:
    wire = {
        name: name.replace(".", "_")
        for name in ("shop.find", "shop.fail", "api.items", "tools.echo")
    }
    if how == "http":
        with served(recording) as url:
            seen = _sdk({"url": f"{url}/mcp", "calls": _calls(wire)})
    else:
        args = ["-m", "onetool_ipy", "mock", recording.name]
        seen = _sdk(
            {
                "command": sys.executable,
                "args": args,
                "cwd": str(recording.parent),
                "calls": _calls(wire),
            }
        )

    assert "error" not in seen, seen
    tools = {tool["name"]: tool for tool in seen["tools"]}
    assert {*wire.values()} <= {*tools}
    assert tools[wire["shop.find"]]["inputSchema"]["required"] == ["page"]
    texts = [call["content"][0]["text"] for call in seen["calls"]]
    assert json.loads(texts[0]) == json.loads(texts[1]) == {"found": 1}
    assert [bool(call.get("isError")) for call in seen["calls"]] == [
        False,
        False,
        True,
        True,
        False,
        True,
    ]
    assert "no page 2" in texts[2]
    assert "was not recorded with these arguments" in texts[3]
    assert texts[4] == "hello"


def _inspect(folder: Path, target: list[str], *words: str) -> dict[str, Any]:
    """What the Inspector's command line prints."""
    # On a busy machine a server takes longer to start than the 15 s that the Inspector waits.
    patience = ["--connect-timeout", str(round(HANG_S * 1000))]
    program = [exam.node(), str(INSPECTOR), "--cli", *patience, *target, *words]
    env = {
        **os.environ,
        **private(folder / "home"),
        "MCP_CATALOG_PATH": str(folder / "catalog.json"),
    }
    run = subprocess.run(
        program, cwd=folder, env=env, capture_output=True, text=True, timeout=HANG_S, check=False
    )
    assert run.stdout.strip(), run.stderr
    printed: dict[str, Any] = json.loads(run.stdout)
    return printed


@pytest.mark.slow
@pytest.mark.parametrize("how", ["http", "stdio"])
def test_the_inspector_lists_and_calls_the_recorded_tools(
    recording: Path, tmp_path: Path, how: str
) -> None:
    with served(recording) if how == "http" else nullcontext() as url:
        own = [
            "--cwd",
            str(recording.parent),
            sys.executable,
            "-m",
            "onetool_ipy",
            "mock",
            recording.name,
        ]
        target = own if url is None else ["--transport", "http", "--server-url", f"{url}/mcp"]
        inspect = partial(_inspect, tmp_path, target)
        tools = inspect("--method", "tools/list")["tools"]
        call = ("--method", "tools/call", "--tool-name", "shop_find", "--tool-arg")
        answers = [inspect(*call, page) for page in ("page=1", "page=7")]

    assert {"shop_find", "shop_fail", "api_items", "tools_echo"} <= {tool["name"] for tool in tools}
    assert json.loads(answers[0]["content"][0]["text"]) == {"found": 1}
    assert answers[1]["isError"] is True
    assert "was not recorded with these arguments" in answers[1]["content"][0]["text"]


@pytest.mark.slow
def test_http_requests_get_the_recorded_answers_and_anything_else_is_404(recording: Path) -> None:
    with served(recording) as url, httpx.Client(base_url=url) as client:
        path = "/v1/items?sort=a+b&page=1"
        assert [client.get(path).json() for _ in range(3)] == [
            [{"id": 1}],
            *[[{"id": 1}, {"id": 2}]] * 2,
        ]
        assert client.get("/v1/items?page=9&sort=a%20b").text == "plain text"
        for method, other in (
            ("POST", path),
            ("GET", "/v1/items?page=1"),
            ("GET", "/"),
            ("GET", "/v1/items/1"),
        ):
            response = client.request(method, other)
            assert (response.status_code, response.json()) == (404, {"error": "not recorded"})


KEY = "sk-mock-0123456789"


@pytest.fixture
def keyed(tmp_path: Path) -> RestMock:
    """A mock of an API that takes its key in the query, and a tenant's name in the path."""
    folder, path = tmp_path / ".onetool", tmp_path / "calls.jsonl"
    folder.mkdir()
    (folder / "onetool.yaml").write_text("version: 1\n", encoding="utf-8")
    (folder / "secrets.yaml").write_text(
        f'KEY: "{KEY}"\nTENANT: "tenant/of-mine"\n', encoding="utf-8"
    )
    (folder / "secrets.yaml").chmod(0o600)

    def preview(args: dict[str, Any]) -> list[dict[str, Any]]:
        place = f"/tenant%2Fof-mine/{args['page']}" if args["page"] > 1 else "/weather"
        return [
            {"method": "GET", "url": f"https://api.example{place}?appid={KEY}&page={args['page']}"}
        ]

    with open_toolbox(
        folder / "onetool.yaml", env={"ONETOOL_STATE": str(tmp_path / "state")}
    ) as box:
        hooks = HttpHooks(send=lambda _args: None, preview=preview)
        run = partial(dict, sky="blue")
        box.registry.register(
            ToolSpec(name="api.sky", description="d", parameters=SCHEMA, run=run, http=hooks)
        )
        with box.ot.replay(path):
            for page in (1, 2):
                assert box.call("api.sky", {"page": page}).ok
        text = path.read_text(encoding="utf-8")
        assert KEY not in text
        assert "appid=***" in text
        return RestMock(read_recording(path, box.mask))


@pytest.mark.parametrize(
    ("address", "page"),
    [
        (f"/weather?appid={KEY}&page=1", 1),
        ("/weather?page=1&appid=another", 1),
        ("/weather?page=1&appid=***", 1),
        ("/weather?page=1&appid=", None),
        ("/weather?page=1", None),
        ("/weather?page=2&appid=another", None),
        ("/weather?page=1&key=another", None),
        ("/weather?page=1&appid=another&more=1", None),
        ("/weather?page=another&appid=1", None),
        ("/tenant%2Fof-mine/2?appid=another&page=2", 2),
        ("/another/2?appid=another&page=2", 2),
        ("/another/3?appid=another&page=2", None),
        ("//weather?appid=another&page=1", None),
    ],
)
async def test_a_request_with_another_secret_gets_the_recorded_answer(
    keyed: RestMock, address: str, page: int | None
) -> None:
    """What is masked in the recording fits any value; everything else must be as recorded."""
    async with httpx.AsyncClient(
        transport=httpx.ASGITransport(keyed), base_url="http://mock"
    ) as client:
        response = await client.get(f"http://mock{address}")
    expected = (
        (404, {"error": "not recorded"}) if page is None else (200, {"sky": "blue", "page": page})
    )
    assert (response.status_code, response.json()) == expected


SAFE = st.text("ab/&=?%+ é", max_size=4)
PAIRS = st.lists(st.tuples(SAFE.filter(bool), SAFE | st.just(MASK)), max_size=4)


@given(
    recorded=PAIRS,
    secrets=st.lists(SAFE.filter(bool), min_size=4, max_size=4),
    change=st.none() | st.integers(0, 3),
)
async def test_any_secrets_in_the_masked_places_fit_and_nothing_else(
    recorded: list[tuple[str, str]], secrets: list[str], change: int | None
) -> None:
    """The naive twin: fill the masks, shuffle nothing away, and change one plain value."""
    call = {"format": 1, "tool": "a.b", "key": "k", "result": {"n": 1}}
    url = f"https://api.example/x?{urlencode(recorded, safe='*')}"
    mock = RestMock([RecordedCall(**call, requests=[{"method": "GET", "url": url}])])
    sent = [
        (name, secrets[at] if value == MASK else value) for at, (name, value) in enumerate(recorded)
    ]
    is_changed = change is not None and change < len(sent) and recorded[change][1] != MASK
    if change is not None and is_changed:
        sent[change] = (sent[change][0], sent[change][1] + "!")
    async with httpx.AsyncClient(
        transport=httpx.ASGITransport(mock), base_url="http://mock"
    ) as client:
        response = await client.get(f"http://mock/x?{urlencode(sent[::-1])}")
    # A changed value may still fit where the same name is masked, too.
    is_ambiguous = is_changed and any(
        name == sent[change or 0][0] and value == MASK for name, value in recorded
    )
    assert is_ambiguous or (response.status_code == 200) != is_changed


@pytest.mark.parametrize(
    ("line", "words"),
    [
        (
            '{"format": 1, "tool": "a.b", "key": "k", "result": 1, "requests": "GET /"}',
            "its 'requests' is of another",
        ),
        (
            '{"format": 1, "tool": "a.b", "key": "k", "result": 1, "requests": [{"m": 1}]}',
            "its 'requests' is of",
        ),
        (
            '{"format": 1, "tool": "a.b", "key": "k", "failure": "no"}',
            "its 'failure' is of another kind",
        ),
        (
            '{"format": 1, "tool": "a.b", "key": "k", "result": 1, "version": 5}',
            "its 'version' is of another kind",
        ),
        (
            '{"format": 1, "tool": "a.b", "key": "k", "result": ' + "[" * 5_000,
            "line 1 is nested deeper",
        ),
        (
            r'{"format": 1, "tool": "a.b", "key": "k", "result": "\ud800"}',
            "line 1 has half of a character",
        ),
        (
            '{"format": 1, "tool": "a.b", "key": "k", "result": 1e999}',
            "line 1 has a number that is too large",
        ),
    ],
)
def test_a_damaged_recording_is_said_in_words(
    recording: Path, capsys: pytest.CaptureFixture[str], line: str, words: str
) -> None:
    recording.write_text(line + "\n", encoding="utf-8")
    assert main(["mock", recording.name]) == 1
    assert words in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["missing.jsonl"], "There is no recording 'missing.jsonl'"),
        (["calls.jsonl", "--http", "--stdio"], "served on --stdio, or with --http"),
        (["calls.jsonl", "--port", "1"], "served on --stdio, or with --http"),
        ([], "needs one recording"),
    ],
)
def test_wrong_words_say_what_to_type(
    recording: Path, capsys: pytest.CaptureFixture[str], words: list[str], message: str
) -> None:
    assert recording.exists()
    assert main(["mock", *words])
    assert message in capsys.readouterr().err


def test_a_recording_with_a_secret_is_refused(
    recording: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = recording.parent / ".onetool"
    folder.mkdir(exist_ok=True)
    (folder / "onetool.yaml").write_text("version: 1\n", encoding="utf-8")
    (folder / "secrets.yaml").write_text('KEY: "sk-mock-0123456789"\n', encoding="utf-8")
    (folder / "secrets.yaml").chmod(0o600)
    recording.write_text(
        recording.read_text(encoding="utf-8").replace("hello", "sk-mock-0123456789"),
        encoding="utf-8",
    )
    assert main(["mock", recording.name]) == 1
    error = capsys.readouterr().err
    assert "holds a secret of this project" in error
    assert "sk-mock" not in error


def test_a_tool_call_with_the_projects_secret_gets_the_recorded_answer(tmp_path: Path) -> None:
    """The secret is masked in the recording, so it is in what the caller sends."""
    folder, path = tmp_path / ".onetool", tmp_path / "calls.jsonl"
    folder.mkdir()
    (folder / "onetool.yaml").write_text("version: 1\n", encoding="utf-8")
    (folder / "secrets.yaml").write_text(f'KEY: "{KEY}"\n', encoding="utf-8")
    (folder / "secrets.yaml").chmod(0o600)
    asked = {"message": f"with {KEY}"}

    with open_toolbox(
        folder / "onetool.yaml", env={"ONETOOL_STATE": str(tmp_path / "state")}
    ) as box:
        with box.ot.replay(path, mode="auto"):
            assert box.call("tools.echo", asked).ok
        calls = read_recording(path, box.mask)
        with mock_toolbox(path, calls, box.mask) as (mock, _):
            answer = mock.call("tools.echo", asked)
            other = mock.call("tools.echo", {"message": "with another"})

    assert KEY not in path.read_text(encoding="utf-8")
    assert answer.unwrap() == "with ***"
    assert not other.ok
