"""The side panel's line to a kernel, over the protocol, exactly as the panel uses it."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import pytest

from onetool_ipy import __version__
from onetool_ipy.core.question import Question, Reply
from onetool_ipy.faces.widgets.comms import TARGET, PanelComms
from onetool_ipy.faces.widgets.questions import OpenQuestions
from tests.faces.widgets.conftest import Side
from tests.harness.kernel import Kernel
from tests.harness.patience import HANG_S

LOAD = "%load_ext onetool_ipy"
LOADED = "sorted(m for m in __import__('sys').modules if m.startswith('onetool_ipy.faces.widgets'))"


class Line:
    """A page's end of the line."""

    def __init__(self, client: Any) -> None:
        self.client = client
        self.subshell: str | None = None
        self.comm = ""

    def open_subshell(self) -> None:
        asked = self.client.session.msg("create_subshell_request", {})
        self.client.control_channel.send(asked)
        reply = self._reply(asked, self.client.get_control_msg)
        self.subshell = reply["content"]["subshell_id"]

    def look(self) -> list[str]:
        """Ids of the lines that the kernel has."""
        asked = self._message("comm_info_request", {"target_name": TARGET})
        self.client.shell_channel.send(asked)
        found = [*self._reply(asked, self.client.get_shell_msg)["content"]["comms"]]
        self.comm = found[-1] if found else ""
        return found

    def send(self, kind: str, **payload: Any) -> None:
        data = {"id": "1", "kind": kind, "payload": payload}
        self.client.shell_channel.send(
            self._message("comm_msg", {"comm_id": self.comm, "data": data})
        )

    def hear(self, kind: str = "comm_msg") -> dict[str, Any]:
        while True:
            message = self.client.get_iopub_msg(timeout=HANG_S)
            content: dict[str, Any] = message["content"]
            if (
                message["msg_type"] == kind
                and content["comm_id"] == self.comm
                and "event" not in content["data"]
            ):
                return content["data"]

    def ask(self, kind: str, **payload: Any) -> Any:
        self.send(kind, **payload)
        answer = self.hear()
        assert "error" not in answer, answer
        return answer["value"]

    def _message(self, kind: str, content: dict[str, Any]) -> dict[str, Any]:
        message: dict[str, Any] = self.client.session.msg(kind, content)
        if self.subshell is not None:
            message["header"]["subshell_id"] = self.subshell
        return message

    def _reply(self, asked: dict[str, Any], get: Any) -> dict[str, Any]:
        while True:
            reply: dict[str, Any] = get(timeout=HANG_S)
            if reply["parent_header"].get("msg_id") == asked["header"]["msg_id"]:
                return reply


@contextmanager
def page(kernel: Kernel) -> Iterator[Line]:
    client = kernel.another_client()
    try:
        yield Line(client)
    finally:
        client.stop_channels()


@pytest.fixture
def line(kernel: Kernel) -> Iterator[Line]:
    with page(kernel) as opened:
        yield opened


def test_kernel_without_us_has_no_line_and_says_nothing(kernel: Kernel, line: Line) -> None:
    before = kernel.evaluate(LOADED)

    assert line.look() == []

    assert kernel.evaluate(LOADED) == before
    outcome = kernel.execute("1")
    assert (outcome.stdout, outcome.stderr) == ("", "")


def test_listing_makes_no_desk(kernel: Kernel, line: Line) -> None:
    kernel.execute(LOAD)

    assert len(line.look()) == 1
    assert (
        kernel.evaluate("get_ipython().magics_manager.registry['onetool_ipy'].is_open") == "False"
    )


def test_about_tells_version_project_tools_and_problems(kernel: Kernel, line: Line) -> None:
    onetool = kernel.cwd / ".onetool"
    onetool.mkdir()
    (onetool / "onetool.yaml").write_text(
        "version: 1\naliases: {lost: nowhere.tool}\n", encoding="utf-8"
    )
    kernel.execute(LOAD)
    line.look()

    about = line.ask("report")

    assert about["version"] == __version__
    assert about["project"] == str(kernel.cwd.resolve())
    assert [problem["where"] for problem in about["problems"]] == ["alias 'lost'"]
    kernel.execute(
        "from onetool_ipy import tool\n@tool\ndef twice(n: int) -> int:\n    return 2 * n"
    )
    after = line.ask("report")
    assert after["tools"] == about["tools"] + 1
    assert after["fingerprint"] != about["fingerprint"]


@pytest.mark.slow
def test_line_answers_in_its_subshell_while_a_cell_runs(kernel: Kernel, line: Line) -> None:
    """Also right after a cell has published, which would send an ordinary comm's questions to the
    main shell."""
    kernel.execute(LOAD)
    line.open_subshell()
    line.look()
    line.ask("report")
    # A tool that a cell makes is published to the screens.
    kernel.execute(
        "from onetool_ipy import tool\n@tool\ndef twice(n: int) -> int:\n    return 2 * n"
    )
    kernel.execute("import threading; go_on = threading.Event()")
    running = kernel.start_execute("print('began', flush=True)\nwhile not go_on.wait(0.1): pass")
    running.wait_for_output("began")

    assert line.ask("tool", name="nb.twice")["signature"] == "nb.twice(n: int)"

    assert line.ask("run", name="nb.twice", args={"n": 2})["job"]
    kernel.interrupt()
    assert running.wait(allow_errors=True).error is not None  # it was still waiting


def test_two_pages_share_the_line_and_unloading_closes_it(kernel: Kernel, line: Line) -> None:
    kernel.execute(LOAD)
    line.look()
    with page(kernel) as second:
        assert second.look() == [line.comm]
        assert second.ask("overview")["tools"] == line.ask("overview")["tools"]
        second.client.shell_channel.send(
            second.client.session.msg("comm_close", {"comm_id": line.comm, "data": {}})
        )
        assert second.look() == [line.comm]  # one page let go; the line is there for the others
        kernel.execute("%unload_ext onetool_ipy")
        line.hear("comm_close")
        assert second.look() == []
    kernel.execute(LOAD)
    assert line.look() != []


def test_a_page_that_connects_while_a_question_waits_gets_its_time_to_show_it(side: Side) -> None:
    """A cell loads us and asks: the first second is over before the page has drawn the question."""
    ids, is_over, first_second_s = [], threading.Event(), 1.0
    questions = OpenQuestions(lambda _event: None)
    host = SimpleNamespace(box=side.box, questions=questions)
    panels = PanelComms(SimpleNamespace(user_ns={}), lambda: host)

    def connect_and_draw() -> None:
        is_over.wait(first_second_s / 5)
        panels.handle_msg({"content": {"data": {}}})
        if not is_over.wait(first_second_s * 1.5):
            questions.answer({"question": ids[0], "action": "decline"})

    page = threading.Thread(target=connect_and_draw)
    page.start()
    reply = questions.ask(Question("server 'shop'", "Go?"), ids.append)
    is_over.set()
    page.join(HANG_S)

    assert reply == Reply("decline")


@pytest.mark.parametrize(
    ("name", "source", "said"),
    [
        ("Bad Name", "def f(): pass", "not a valid pack name"),
        ("../up", "def f(): pass", "not a valid pack name"),
        ("good", "1 + 1", "no function"),
        ("good", "%magic\ndef f(): pass", "not plain Python (line 1)"),
        ("good", "def f(:", "not plain Python"),
        ("time", "def f(): pass", "'time' is the name of a built-in pack"),
        ("good", "def _hidden(): pass", "no function"),
    ],
)
def test_cell_that_cannot_be_a_tool_is_refused(
    kernel: Kernel, line: Line, name: str, source: str, said: str
) -> None:
    kernel.execute(LOAD)
    line.look()

    line.send("saveTool", name=name, source=source)

    assert said in json.dumps(line.hear()["error"])
    assert not (kernel.cwd / ".onetool").exists()


def test_cell_is_kept_as_a_tool_and_never_over_another(kernel: Kernel, line: Line) -> None:
    kernel.execute(LOAD)
    line.look()
    source = "def shout(text: str) -> str:\n    'Loudly.'\n    return text.upper()"

    assert line.ask("saveTool", name="voice", source=source)["tools"] == ["voice.shout"]

    assert "HEY" in kernel.execute("%tool voice.shout text=hey").text
    line.send("saveTool", name="voice", source="def other() -> int:\n    return 1")
    assert "a pack 'voice' already" in line.hear()["error"]["message"]
    assert (
        (kernel.cwd / ".onetool" / "tools" / "voice.py")
        .read_text(encoding="utf-8")
        .endswith(f"\n{source}\n")
    )


def test_a_tool_that_the_panel_saves_is_a_name_in_the_next_cell(kernel: Kernel) -> None:
    """The Code tab offers `my_api.get_orders()` to copy."""
    kernel.execute(LOAD)
    with page(kernel) as line:
        line.look()
        record = {
            "type": "http",
            "description": "x",
            "http": {"request": {"urlTemplate": "https://api.test/orders"}},
        }
        saved = line.ask("httpSave", bundle="my-api", slug="get-orders", version="", tool=record)

    assert saved["name"] == "my-api.get-orders", saved
    assert kernel.execute("my_api.get_orders").result_text == "<tool my-api.get-orders()>"
