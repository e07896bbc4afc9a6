"""Record and replay of an ask: the model's replies and the tools' results come from one
cassette."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from onetool_ipy.llm import ScriptedModel
from onetool_ipy.stores.replays import Replaying
from onetool_ipy.toolbox import Toolbox
from tests.llm.ask.conftest import MakeBox, Traces


def _replay(box: Toolbox, file: Path, mode: str) -> Replaying:
    return Replaying(box.replays, file, mode=mode, mask=box.mask, clock=box.now)


def test_an_ask_is_played_again_without_model_and_tools(
    box: Toolbox, traces: Traces, tmp_path: Path
) -> None:
    traces.add(box, "a.b", read_only=True, gives={"n": 1})
    script = [["Look:", ("a.b", {}), ("time.now", {})], "It is 1."]
    model, silent = ScriptedModel(script), ScriptedModel([])
    file = tmp_path / "asked.jsonl"

    with _replay(box, file, "auto"):
        first = box.ask("How many?", model=model)
    with _replay(box, file, "replay"):
        again = box.ask("How many?", model=silent)

    assert silent.requests == []
    assert traces.left() == {"a.b": 1}
    assert again.text == first.text == "It is 1."
    assert [c.result.data for c in again.calls] == [c.result.data for c in first.calls]
    assert again.to_dict()["usage"] == first.to_dict()["usage"]


def test_what_was_not_recorded_is_an_error_that_says_so(box: Toolbox, tmp_path: Path) -> None:
    file = tmp_path / "asked.jsonl"
    with _replay(box, file, "auto"):
        box.ask("One", model=ScriptedModel(["1"]))

    with _replay(box, file, "replay"):
        answer = box.ask("Two", model=ScriptedModel(["2"]))

    assert answer.stop_reason == "error"
    assert "was not recorded" in answer.note


def test_handles_of_large_results_are_found_when_played(
    make_box: MakeBox, traces: Traces, tmp_path: Path
) -> None:
    box = make_box("output: {max_inline_bytes: 100, preview_lines: 1}")
    traces.add(box, "a.big", read_only=True, gives="\n".join(f"line {n}" for n in range(100)))

    def read_on(request: Any) -> Any:
        return "ot.result", {
            "handle": request.outcomes[0].content["data"]["handle"],
            "offset": 50,
            "limit": 1,
        }

    file = tmp_path / "asked.jsonl"
    with _replay(box, file, "auto"):
        first = box.ask("Go", model=ScriptedModel([("a.big", {}), read_on, "Read."]))
    with _replay(box, file, "replay"):
        again = box.ask("Go", model=ScriptedModel([]))

    assert again.stop_reason == "done", again.note
    assert again.calls[1].result.data["lines"] == first.calls[1].result.data["lines"] == ["line 49"]
    assert again.calls[1].args["handle"] != first.calls[1].args["handle"]


def test_secrets_do_not_reach_the_cassette(make_box: MakeBox, tmp_path: Path) -> None:
    box = make_box(secrets="TOKEN: very-secret-value-1\n")
    file = tmp_path / "asked.jsonl"

    with _replay(box, file, "auto"):
        box.ask("Is it very-secret-value-1?", model=ScriptedModel(["It is very-secret-value-1."]))

    assert "very-secret-value-1" not in file.read_text(encoding="utf-8")
