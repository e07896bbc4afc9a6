"""`onetool-ipy ask` as a user runs it: JSON on stdout, words on stderr, exit codes; a model over
real HTTP."""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from onetool_ipy.faces.cli import main
from tests.harness.models import ModelDouble
from tests.harness.patience import HANG_S

KEYS = {
    "text",
    "toolCalls",
    "toolResults",
    "toolError",
    "sessionContextUpdated",
    "stopReason",
    "usage",
}
ORDER = """
from pathlib import Path

def order(item: str) -> str:
    \"\"\"Order something.\"\"\"
    Path("ordered.txt").write_text(item)
    return "ordered"
"""
Run = Callable[..., tuple[int, Any, str]]


@pytest.fixture(scope="module")
def double(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ModelDouble]:
    with ModelDouble(tmp_path_factory.mktemp("aimock")) as running:
        yield running


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, double: ModelDouble) -> Path:
    folder = tmp_path / ".onetool"
    (folder / "tools").mkdir(parents=True)
    (folder / "tools" / "shop.py").write_text(ORDER, encoding="utf-8")
    model = {"provider": "ollama", "base_url": double.url, "model": "m"}
    (folder / "onetool.yaml").write_text(
        f"version: 1\nmodels: {json.dumps({'local': model})}\n", encoding="utf-8"
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ONETOOL_STATE", str(tmp_path / "state"))
    return tmp_path


@pytest.fixture
def run(project: Path, capsys: pytest.CaptureFixture[str]) -> Run:
    def command(*words: str) -> tuple[int, Any, str]:
        code = main(["ask", *words])
        seen = capsys.readouterr()
        return code, json.loads(seen.out) if seen.out else None, seen.err

    return command


def say(
    double: ModelDouble, prompt: str, calls: list[tuple[str, dict[str, Any]]], text: str
) -> None:
    made = [{"name": name, "arguments": json.dumps(args)} for name, args in calls]
    double.say(
        [
            {
                "match": {"userMessage": prompt, "hasToolResult": False},
                "response": {"toolCalls": made},
            },
            {
                "match": {"userMessage": prompt, "hasToolResult": True},
                "response": {"content": text},
            },
        ]
    )


@pytest.mark.slow
def test_it_prints_the_answer_as_json(run: Run, double: ModelDouble) -> None:
    say(double, "what time", [("time_now", {}), ("shell_pwd", {})], "It is late.")

    code, answer, words = run("what time")

    assert code == 0
    assert set(answer) == KEYS
    assert answer["text"] == "It is late."
    assert [call["name"] for call in answer["toolCalls"]] == ["time.now", "shell.pwd"]
    assert words == ""


@pytest.mark.slow
@pytest.mark.spec("004/Ask Flags/with-tools")
@pytest.mark.parametrize(
    ("flags", "offered"),
    [
        ([], True),
        (["--with-tools"], True),
        (["--with-tools=true"], True),
        (["--with-tools=false"], False),
        (["--with-tools", "false"], False),
    ],
)
def test_tools_are_on_unless_said_otherwise(
    run: Run, double: ModelDouble, flags: list[str], offered: bool
) -> None:
    double.say([{"match": {"userMessage": "hello"}, "response": {"content": "hi"}}])

    code, answer, _ = run("hello", *flags)

    assert (code, answer["text"]) == (0, "hi")
    assert bool(double.journal()[0]["body"].get("tools")) == offered


@pytest.mark.slow
@pytest.mark.spec("004/Ask Flags/tool-allow")
def test_tool_allow_names_what_is_visible(run: Run, double: ModelDouble) -> None:
    say(double, "read it", [("fs_read_file", {"path": "x"}), ("time_now", {})], "no")

    code, answer, _ = run("read it", "--tool-allow", "time.now,shell.pwd")

    offered = [tool["function"]["name"] for tool in double.journal()[0]["body"]["tools"]]
    assert sorted(offered) == ["shell_pwd", "time_now"]
    assert code == 0
    assert answer["toolError"]["code"] == "tool_not_found"
    assert [result["ok"] for result in answer["toolResults"]] == [False, True]


@pytest.mark.slow
def test_a_session_goes_on_in_the_next_command(run: Run, double: ModelDouble) -> None:
    double.say([{"match": {"userMessage": "hello"}, "response": {"content": "hi"}}])

    assert run("hello", "--session", "trip", "--no-tools")[0] == 0
    assert run("hello", "--session=trip", "--no-tools")[0] == 0

    first, second = (entry["body"]["messages"] for entry in double.journal())
    texts = [message["content"] for message in second]
    assert len(second) == len(first) + 2
    assert texts[-3:] == ["hello", "hi", "hello"]


@pytest.mark.slow
def test_nobody_is_asked_where_there_is_no_terminal(
    run: Run, double: ModelDouble, project: Path
) -> None:
    say(double, "order", [("shop_order", {"item": "pen"})], "ok")

    _, refused, _ = run("order")
    assert not (project / "ordered.txt").exists()
    _, allowed, _ = run("order", "--approve", "shop.order")

    assert "approve=['shop.order']" in refused["toolError"]["message"]
    assert allowed["toolError"] is None
    assert (project / "ordered.txt").read_text() == "pen"


@pytest.mark.posix("a terminal of its own")
@pytest.mark.slow
def test_in_a_terminal_the_question_is_on_stderr_and_the_answer_stays_json(
    project: Path, double: ModelDouble
) -> None:
    say(double, "order", [("shop_order", {"item": "ink"})], "ok")
    code, answer, seen = _at_terminal(project, ["order"], "always", "all")

    assert 'shop.order item="ink"' in seen
    assert (code, answer["toolError"]) == (0, None)
    assert (project / "ordered.txt").read_text() == "ink"


def test_a_tool_without_a_model(run: Run) -> None:
    code, answer, _ = run('tool:tools.echo {"message": [1, 2]}')
    failed, _, _ = run("tool:no.such")

    assert (code, json.loads(answer["text"])) == (0, [1, 2])
    assert answer["toolResults"][0]["meta"]["source"] == "cli"
    assert failed == 1


@pytest.mark.slow
def test_a_tool_without_a_model_runs_where_it_only_reads_or_is_approved(
    run: Run, project: Path
) -> None:
    refused, answer, _ = run('tool:shop.order {"item": "pen"}')
    was_ordered = (project / "ordered.txt").exists()
    allowed, _, _ = run('tool:shop.order {"item": "pen"}', "--approve", "shop.order")

    assert (refused, answer["toolResults"][0]["error"]["reason"]) == (1, "not_approved")
    assert "--approve shop.order" in answer["toolError"]["message"]
    assert not was_ordered
    assert allowed == 0
    assert (project / "ordered.txt").read_text() == "pen"


def test_a_tool_without_a_model_has_the_limit_of_the_command_line(run: Run, project: Path) -> None:
    config = project / ".onetool" / "onetool.yaml"
    config.write_text(
        config.read_text(encoding="utf-8") + "timeouts: {local_s: 0.2}\n", encoding="utf-8"
    )
    (project / ".onetool" / "tools" / "slow.py").write_text(
        'import time\n\ndef nap() -> None:\n    """Sleep."""\n    time.sleep(30)\n',
        encoding="utf-8",
    )

    code, answer, _ = run("tool:slow.nap", "--approve", "slow.nap")

    assert (code, answer["toolResults"][0]["error"]["reason"]) == (1, "timeout")


def test_a_tool_without_a_model_takes_json_and_nothing_else(run: Run) -> None:
    code, answer, _ = run('tool:tools.echo {"message": NaN}')

    assert (code, answer["toolError"]["code"]) == (1, "invalid_args")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["hello", "--model", "nobody"], 1, "nobody"),
        (["hello", "--with-tools=perhaps"], 2, "perhaps"),
        (["hello", "--max-steps", "0"], 2, "1 to 1000"),
        ([""], 2, "nothing to ask"),
        ([], 2, "prompt"),
        (["nobody says anything to this"], 1, ""),
    ],
)
def test_what_is_wrong_is_said_on_stderr(run: Run, words: list[str], code: int, said: str) -> None:
    found, _, err = run(*words)

    assert found == code
    assert said in err


@pytest.mark.slow
@pytest.mark.parametrize(("finish", "end"), [("length", "cut"), ("content_filter", "refused")])
def test_rule_15_a_reply_that_is_cut_or_refused_is_a_failure(
    run: Run, double: ModelDouble, project: Path, finish: str, end: str
) -> None:
    """The JSON has what came, stderr says what happened, and a script sees it by the exit
    status."""
    model = {"provider": "openai", "base_url": double.url, "model": "m"}
    settings = f"version: 1\nmodels: {json.dumps({'local': model})}\n"
    (project / ".onetool" / "onetool.yaml").write_text(settings, encoding="utf-8")
    response = {"content": "Half of the", "finishReason": finish}
    double.say([{"match": {"userMessage": "tell me"}, "response": response}])

    code, answer, words = run("tell me")

    assert (code, answer["stopReason"], answer["text"]) == (1, end, "Half of the")
    assert (
        "was cut at the token limit" if end == "cut" else "refused to answer (content_filter)"
    ) in words


PROGRAM = """\
import shop
for item in ["pen", "ink"]:
    shop.order(item=item)
"ordered"
"""


@pytest.mark.posix("a terminal of its own")
@pytest.mark.slow
@pytest.mark.parametrize(
    ("typed", "ordered", "value"),
    [("all", "ink", "ordered"), ("1", "pen", "ordered"), ("y\ny", "", None)],
)
def test_rule_5_a_terminal_shows_the_program_and_its_writes_and_runs_what_is_chosen(
    project: Path, double: ModelDouble, typed: str, ordered: str, value: str | None
) -> None:
    """The question is on stderr; the answer on stdout stays JSON. A reply that is not offered runs
    nothing."""
    say(double, "order both", [("program", {"code": PROGRAM})], "Done.")

    code, answer, seen = _at_terminal(project, ["--code", "order both"], "Run?", typed)

    assert "for item in" in seen
    assert "The program wants to make 2 writes." in seen
    assert [line.split() for line in seen.splitlines() if "shop.order " in line] == [
        ["1.", "shop.order", '"pen"'],
        ["2.", "shop.order", '"ink"'],
    ]
    file = project / "ordered.txt"
    assert (file.read_text() if file.exists() else "") == ordered
    assert (code, answer["program"], answer.get("value")) == (0, PROGRAM, value)
    states = {"all": ["made", "made"], "1": ["made", "skipped"]}.get(typed, ["not reached"] * 2)
    assert answer["plan"] == [
        {"tool": "shop.order", "args": {"item": item}, "state": state}
        for item, state in zip(("pen", "ink"), states, strict=True)
    ]


@pytest.mark.slow
def test_rule_6_without_a_terminal_a_program_waits_and_goes_on_in_another_command(
    run: Run, double: ModelDouble, project: Path
) -> None:
    """Nothing is written, the exit status says so, and the message has the line that goes on in
    this shell."""
    say(double, "order both", [("program", {"code": PROGRAM})], "Done.")

    code, answer, words = run("--code", "order both")
    assert (code, answer["stopReason"], (project / "ordered.txt").exists()) == (1, "waiting", False)
    _, (row,), _ = run("--waiting")
    assert f"onetool-ipy ask --resume {row['id']}" in words
    code, again, words = run("--resume", row["id"])
    assert (code, again["stopReason"], again["plan"]) == (1, "waiting", answer["plan"])
    assert f"onetool-ipy ask --resume {row['id']}" in words
    code, answer, _ = run("--resume", row["id"], "--approve", "shop.order")

    assert (code, answer["value"], (project / "ordered.txt").read_text()) == (0, "ordered", "ink")
    assert run("--waiting")[1] == []


@pytest.mark.slow
def test_a_plan_is_kept_and_can_be_dropped(run: Run, double: ModelDouble, project: Path) -> None:
    """`--plan` asks for no more than the plan, so a program that waits is what was wanted."""
    say(double, "order both", [("program", {"code": PROGRAM})], "Done.")

    code, answer, words = run("--plan", "order both")
    _, (row,), _ = run("--waiting")
    assert "  | for item in" in words
    assert '  2.  shop.order  "ink"\n' in words

    assert (code, answer["stopReason"], len(answer["plan"])) == (0, "waiting", 2)
    assert run("--drop", row["id"])[:2] == (0, {"dropped": row["id"]})
    assert (run("--waiting")[1], (project / "ordered.txt").exists()) == ([], False)


@pytest.mark.slow
@pytest.mark.parametrize("flags", [[], ["--code"]], ids=["plain", "code"])
def test_show_prints_what_would_be_sent_and_sends_nothing(
    run: Run, double: ModelDouble, flags: list[str]
) -> None:
    """With --code it has the guide, and the stubs of the tools that a program may call."""
    double.say([])

    code, page, words = run("--show", *flags, "order both")

    texts = {row["part"]: "\n".join(row["text"]) for row in page["parts"]}
    assert (code, words, double.journal()) == (0, "Nothing was sent.\n", [])
    assert texts["prompt"] == "order both"
    guide = texts.get("how to write a program, and its modules", "")
    assert ("def order(item: str)" in guide, "one Python program" in guide) == (
        bool(flags),
        bool(flags),
    )
    assert page["tokens"] == sum(row["tokens"] for row in page["parts"])


def _at_terminal(
    project: Path, words: list[str], question: str, typed: str
) -> tuple[int, Any, str]:
    """Run `ask` at a terminal and answer its question. Returns the exit code, the JSON, and what
    was on stderr."""
    import pty

    master, slave = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "onetool_ipy.faces.cli", "ask", *words],
        stdin=slave,
        stdout=subprocess.PIPE,
        stderr=slave,
        cwd=project,
    )
    os.close(slave)
    seen = b""
    while question.encode() not in seen and select.select([master], [], [], HANG_S)[0]:
        seen += os.read(master, 4096)
    os.write(master, f"{typed}\n".encode())
    out, _ = process.communicate(timeout=HANG_S)
    os.close(master)
    return process.returncode, json.loads(out), seen.decode()
