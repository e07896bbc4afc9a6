"""`ot.health`, `ot.reload`, `ot.notify`, and the span of each call (spec 001)."""

from __future__ import annotations

import json
import logging
import os
import platform
import re
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from onetool_ipy import Toolbox, __version__, open_toolbox
from onetool_ipy.assemble import open_leniently
from onetool_ipy.base.processes import kill
from onetool_ipy.config.paths import home_at
from onetool_ipy.packs.ot.health import Health
from tests.harness.servers import hostile, wait_until_gone

Open = Callable[..., Toolbox]


@pytest.fixture
def opened(tmp_path: Path) -> Open:
    """Open a toolbox on a project with this onetool.yaml."""

    def start(config: str = "version: 1\n") -> Toolbox:
        folder = tmp_path / ".onetool"
        folder.mkdir(exist_ok=True)
        (folder / "onetool.yaml").write_text(config, encoding="utf-8")
        return open_toolbox(tmp_path, env={"ONETOOL_STATE": str(tmp_path / "state")})

    return start


@pytest.mark.spec("001/Health Check/Show health")
def test_health_names_every_component(opened: Open) -> None:
    with opened() as box:
        found = box.ot.health()
        assert list(found)[:5] == ["version", "python", "cwd", "registry", "proxy"]
        assert found["version"] == __version__
        assert found["python"] == platform.python_version()
        assert found["cwd"] == str(Path.cwd())
        assert found["registry"] == {"status": "ok", "tool_count": len(box.registry.list())}
        assert found["proxy"] == {"status": "ok", "server_count": 0, "servers": {}, "states": {}}
        assert found["problems"] == []
        own = len(found_tools := box.registry.list()) - len(box.registry.packs()["ot"])
        assert f"{own} tools" in found.to_text(200), "people count without the toolbox itself"
        assert own < len(found_tools)
        assert yaml.safe_load(str(found)) == found
        assert f"Project: {box.config.paths.project}" in found._repr_html_()


def test_health_says_what_a_project_is_without_a_configuration(tmp_path: Path) -> None:
    """Each folder is one of its own, until a folder above has a `.onetool/`."""
    env = {"ONETOOL_STATE": str(tmp_path / "state"), **home_at(tmp_path)}
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
    with open_leniently(env=env, cwd=tmp_path / "a") as box:
        box.call("tools.echo", {"message": "x"})
        said = box.ot.health().to_text(300)
        assert f"Project: {tmp_path / 'a'}, this folder alone." in said
        assert "onetool-ipy init" in said
    with open_leniently(env=env, cwd=tmp_path / "b") as box:
        assert box.ot.history(tool="tools.echo") == []
    (tmp_path / "b" / ".onetool").mkdir()
    (tmp_path / "b" / "deep").mkdir()
    with open_leniently(env=env, cwd=tmp_path / "b" / "deep") as box:
        assert box.config.paths.about == f"Project: {tmp_path / 'b'}"


@pytest.mark.spec("001/Health Check/Disconnected server")
def test_a_server_that_died_is_disconnected(opened: Open) -> None:
    with opened(f"version: 1\nservers: {json.dumps({'gone': hostile()})}\n") as box:
        box.servers.start("gone")
        pid = box.servers.pid("gone")
        assert pid is not None
        kill(pid)
        assert wait_until_gone({pid}) == {}
        proxy = box.ot.health()["proxy"]
        assert proxy["servers"] == proxy["states"] == {"gone": "disconnected"}
        assert proxy["status"] == "degraded"
        assert proxy["server_count"] == 1
        ending = "It ended with status 15." if os.name == "nt" else "It was ended by signal 9."
        assert box.servers.reason("gone") == ending


def test_a_server_that_was_stopped_says_so(opened: Open) -> None:
    with opened(f"version: 1\nservers: {json.dumps({'gone': hostile()})}\n") as box:
        box.servers.start("gone")
        box.servers.stop("gone")
        proxy = box.ot.health()["proxy"]
        assert (proxy["status"], proxy["states"]) == ("degraded", {"gone": "stopped"})


@pytest.mark.spec("001/Health Check/Disconnected server")
def test_a_server_that_does_not_start_is_disconnected_since_it_failed(opened: Open) -> None:
    with opened(
        "version: 1\nservers: {gone: {type: stdio, command: no-such-command-here}}\n"
    ) as box:
        assert dict(box.servers) == {"gone": "not started"}
        proxy = box.ot.health()["proxy"]
        assert (proxy["servers"], proxy["states"]) == ({"gone": "disconnected"}, {"gone": "failed"})
        assert proxy["status"] == "degraded"


def test_health_lists_problems_with_what_to_do(opened: Open, tmp_path: Path) -> None:
    """True now: a problem that is mended is gone at the next look."""
    with opened("version: 1\naliases: {a: no.tool}\n") as box:
        tools = tmp_path / ".onetool" / "tools"
        tools.mkdir()
        (tools / "bad.py").write_text("def f(:\n", encoding="utf-8")
        box.ot.reload()
        said = [p["message"] for p in box.ot.health()["problems"]]
        assert any("no.tool" in text for text in said)
        assert any("SyntaxError" in text for text in said)
        (tools / "bad.py").write_text('def f() -> int:\n    "F."\n    return 1\n', encoding="utf-8")
        box.ot.reload()
        assert not any("SyntaxError" in p["message"] for p in box.ot.health()["problems"])


WRONG = """version: 1
tools: [{name: bad_tool}, 3]
servers: {bad_server: {type: ftp}, no_server: {type: stdio, command: /no/such/command}}
snippets: {no_body: {description: d}, bad_body: {description: d, body: "{{ x }}"}}
aliases: {lost: qqqq.wwww}
"""


@pytest.mark.parametrize(
    "bad", ["bad_tool", "tools[1]", "bad_server", "no_server", "no_body", "bad_body", "lost"]
)
def test_what_is_wrong_is_logged_as_an_error_and_listed_with_what_to_do(
    opened: Open, caplog: pytest.LogCaptureFixture, bad: str
) -> None:
    """One bad tool, server or snippet stops no other."""
    with caplog.at_level(logging.ERROR, logger="onetool_ipy"), opened(WRONG) as box:
        found = [p for p in box.ot.health()["problems"] if bad in p["where"] + p["message"]]
        assert found
        assert all(p["message"] and p["hint"] for p in found)
        assert box.call("time.now").ok

    assert [r for r in caplog.records if r.levelno == logging.ERROR and bad in r.getMessage()]


@pytest.mark.posix("modes of files")
def test_health_tells_the_mode_of_the_secrets_as_it_is_now(opened: Open, tmp_path: Path) -> None:
    secrets = tmp_path / ".onetool" / "secrets.yaml"
    with opened() as box:
        secrets.write_text("KEY: long-enough\n", encoding="utf-8")
        secrets.chmod(0o644)
        (problem,) = box.ot.health()["problems"]
        assert problem == {
            "where": ".onetool/secrets.yaml",
            "message": "has the file mode 0644; it must be 0600, for you alone.",
            "hint": "Run: chmod 600 .onetool/secrets.yaml",
        }
        box.ot.reload()
        assert box.ot.health()["problems"] == [problem]

        secrets.chmod(0o600)
        assert box.ot.health()["problems"] == []


@pytest.mark.spec("001/Reload Configuration/Reload config")
def test_reload_reads_everything_again(opened: Open, tmp_path: Path) -> None:
    with opened() as box:
        assert box.ot.aliases() == []
        box.registry.register(_definition("mine.tool"))
        folder = tmp_path / ".onetool"
        (folder / "onetool.yaml").write_text(
            "version: 1\naliases: {t: time.now}\n", encoding="utf-8"
        )
        (folder / "prompts.yaml").write_text("packs: {time: Ask nicely}\n", encoding="utf-8")
        assert box.ot.reload() == "OK: Configuration reloaded"
        assert box.ot.aliases() == ["t -> time.now"]
        assert "Ask nicely" in box.ot.packs(pattern="time", info="full")
        assert box.registry.get("mine.tool") is not None


def test_a_failed_reload_keeps_the_last_good_state(opened: Open, tmp_path: Path) -> None:
    with opened("version: 1\naliases: {t: time.now}\n") as box:
        (tmp_path / ".onetool" / "onetool.yaml").write_text("version: [\n", encoding="utf-8")
        said = box.ot.reload()
        assert said.startswith("Error: ")
        assert "onetool.yaml" in said
        assert said.endswith("The last good configuration is still in use.")
        assert box.ot.aliases() == ["t -> time.now"]
        assert any("last good" in p["hint"] for p in box.ot.health()["problems"])
        failed = box.call("ot.reload")
        assert (failed.ok, failed.error and failed.error.message) == (False, said)


async def test_reload_works_inside_a_running_loop_and_under_calls(opened: Open) -> None:
    with opened() as box:
        stop = threading.Event()
        failures: list[object] = []

        def call() -> None:
            while not stop.is_set():
                result = box.call("tools.echo", {"message": 1})
                if not result.ok:
                    failures.append(result.error)

        threads = [threading.Thread(target=call) for _ in range(3)]
        for thread in threads:
            thread.start()
        for _ in range(5):
            assert await box.ot.reload.aio() == "OK: Configuration reloaded"
        stop.set()
        for thread in threads:
            thread.join()
        assert failures == []


@pytest.mark.spec("001/Notify Message/Send notification")
def test_notify_appends_a_yaml_document(opened: Open, tmp_path: Path) -> None:
    with opened("version: 1\ntopics: [{pattern: notes, file: notes.yaml}]\n") as box:
        said = box.ot.notify(topic="notes", message="Remember to review PR #123")
        assert said.startswith("OK: notes -> ")
        assert box.ot.notify(topic="notes", message="--- odd: [text") == said
        documents = list(
            yaml.safe_load_all((tmp_path / ".onetool" / "notes.yaml").read_text(encoding="utf-8"))
        )
        assert [d["message"] for d in documents] == ["Remember to review PR #123", "--- odd: [text"]
        assert [d["topic"] for d in documents] == ["notes", "notes"]
        assert all("ts" in d for d in documents)


@pytest.mark.spec("001/Notify Message/No matching topic")
def test_notify_without_a_topic_is_skipped(opened: Open) -> None:
    with opened() as box:
        assert box.ot.notify(topic="unknown:topic", message="test") == "SKIP: no matching topic"


@pytest.mark.spec("001/Logging/Span naming")
@pytest.mark.parametrize("function", ["tools", "packs", "health", "stats", "version"])
def test_each_call_leaves_one_span_with_its_name(
    opened: Open, caplog: pytest.LogCaptureFixture, function: str
) -> None:
    with opened() as box, caplog.at_level(logging.INFO, logger="onetool_ipy.span"):
        getattr(box.ot, function)()
        spans = [record for record in caplog.records if record.name == "onetool_ipy.span"]
        assert [record.__dict__["span"] for record in spans] == [f"ot.{function}"]
        assert spans[0].__dict__["ok"] is True
        assert spans[0].__dict__["duration_ms"] >= 0


@pytest.mark.spec("001/Result Query Logging/Span naming")
def test_the_span_of_a_result_query_holds_what_was_asked(
    opened: Open, caplog: pytest.LogCaptureFixture
) -> None:
    with opened() as box, caplog.at_level(logging.INFO, logger="onetool_ipy.span"):
        handle = box.results.put("a\nb\n")
        box.ot.result(handle=handle, offset=1, limit=5, search="b")
        span = next(r for r in caplog.records if r.__dict__.get("span") == "ot.result")
        assert span.__dict__["fields"] == {
            "handle": repr(handle), "offset": "1", "limit": "5", "search": "'b'", "fuzzy": "False",
        }  # fmt: skip
        caplog.clear()
        box.ot.result(handle=handle)
        (span,) = caplog.records
        assert span.__dict__["fields"] == {
            "handle": repr(handle), "offset": "1", "limit": "100", "fuzzy": "False",
        }  # fmt: skip


def _definition(name: str) -> dict[str, object]:
    return {
        "name": name,
        "description": "Mine.",
        "type": "function",
        "handler": "mine",
        "parameters": {"type": "object"},
        "implementation": {"type": "mock", "mock_response": 1},
    }


@pytest.mark.slow
def test_a_missing_need_is_said_by_deps_health_and_the_call_itself(
    opened: Open, tmp_path: Path
) -> None:
    tools = tmp_path / ".onetool" / "tools"
    tools.mkdir(parents=True)
    (tools / "media.py").write_text(
        'requires = {"cli": [("no-such-encoder", "apt install encoder")], "lib": ["json"]}\n'
        'def encode() -> int:\n    "Encode."\n    return 1\n',
        encoding="utf-8",
    )
    with opened() as box:
        rows = {row["name"]: row["status"] for row in box.ot.deps()}
        assert rows == {"no-such-encoder": "missing", "json": "ok"}
        assert list(box.ot.deps(tool="media").df["tool"]) == ["media.encode"] * 2
        problem = next(p for p in box.ot.health()["problems"] if p["where"] == "media.encode")
        assert "no-such-encoder" in problem["message"]
        assert problem["hint"] == "apt install encoder"
        failed = box.call("media.encode")
        assert failed.error is not None
        assert (failed.error.reason, "no-such-encoder" in failed.error.message) == (
            "unavailable",
            True,
        )


def test_health_is_shown_as_a_list_with_a_dot_and_a_word_for_each_part() -> None:
    said = {
        "where": "onetool.yaml:3",
        "message": "The server 'crm': no <licence>",
        "hint": "Buy one.",
    }
    other = {"where": "tools/a.py", "message": "SyntaxError.", "hint": "Mend it."}
    found = Health(
        version="1.0",
        python="3.12",
        cwd="/x",
        registry={"status": "ok", "tool_count": 2},
        proxy={
            "status": "degraded",
            "server_count": 2,
            "servers": {"crm": "disconnected", "web": "connected"},
            "states": {"crm": "failed", "web": "connected"},
        },
        problems=[said, other],
    )
    found.tools = 2

    assert found.to_text(100).splitlines()[:6] == [
        "onetool_ipy 1.0 (Python 3.12, /x)",
        "",
        "  tools       ok         2 tools",
        "  server crm  failed     no <licence>. Buy one.",
        "  server web  connected",
        "  tools/a.py  problem    SyntaxError. Mend it.",
    ]
    shown = found._repr_html_()
    assert re.search(r"error-color1[^>]*>●</span> <span[^>]*>failed</span>", shown)
    assert "no &lt;licence&gt;. Buy one." in shown
    assert shown.count("●") == 4
