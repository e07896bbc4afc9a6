"""What goes along with a prompt, in an ask with a scripted model."""

from __future__ import annotations

import json
import threading
from typing import Any

import pandas as pd  # type: ignore[import-untyped]  # it ships no stubs
import pytest

from onetool_ipy import sdk
from onetool_ipy.base.errors import UsageProblem
from onetool_ipy.llm import ScriptedModel, User
from onetool_ipy.llm.ask.context import AskListener
from onetool_ipy.toolbox import Toolbox
from tests.harness.tables import FOREIGN
from tests.llm.ask.conftest import MakeBox

ROWS = 2_000


@pytest.fixture
def frame() -> pd.DataFrame:
    return pd.DataFrame({"id": range(ROWS), "name": [f"person-{number}" for number in range(ROWS)]})


def sent_objects(model: ScriptedModel) -> list[Any]:
    """The JSON objects of the attachments in the first request."""
    (message,) = [one for one in model.requests[0].messages if isinstance(one, User)]
    return [
        json.loads(part.partition("\n")[2])
        for part in message.text.split("\n\nAttached data, ")[1:]
    ]


def test_rule_12_a_variable_goes_as_a_description_with_a_handle(
    box: Toolbox, frame: pd.DataFrame
) -> None:
    model = ScriptedModel(["Fine."])

    answer = box.ask("What is odd in @df?", model=model, attach={"df": frame, "limit": 97})

    table, limit = sent_objects(model)
    assert table["data_from"] == "@df"
    assert table["data"]["preview"].startswith("DataFrame with 2,000 rows and 2 columns\n")
    assert limit == {"data_from": "@limit", "data": 97}
    assert answer.sent.startswith("Sent @df: 3 of 2,000 rows, 0.")
    assert "; @limit: 0.0 kB" in answer.sent
    assert box.results.query(table["data"]["handle"], limit=1)["total_lines"] == ROWS


@pytest.mark.parametrize("kind", sorted(FOREIGN))
def test_rule_12_a_table_of_another_library_goes_as_one(
    kind: str, box: Toolbox, frame: pd.DataFrame
) -> None:
    model = ScriptedModel(["Fine."])

    answer = box.ask(
        "Look at @t", model=model, attach={"t": FOREIGN[kind](frame.to_dict("records"))}
    )

    (table,) = sent_objects(model)
    assert table["data"]["preview"].startswith("DataFrame with 2,000 rows")
    assert answer.sent.startswith("Sent @t: 3 of 2,000 rows")
    assert box.results.query(table["data"]["handle"], limit=1)["total_lines"] == ROWS


def test_rule_12_rows_that_the_model_pages_are_counted(box: Toolbox, frame: pd.DataFrame) -> None:
    def page(request: Any) -> Any:
        (message,) = [one for one in request.messages if isinstance(one, User)]
        handle = json.loads(message.text.partition("an instruction to you:\n")[2])["data"]["handle"]
        return ("ot.result", {"handle": handle, "offset": 11, "limit": 25})

    lines: list[str] = []

    class Ear(AskListener):
        def sent(self, text: str) -> None:
            lines.append(text)

    answer = box.ask(
        "Look",
        model=ScriptedModel([page, "ok"]),
        attach={"df": frame},
        listener=Ear(),
        tool_allow=[],
    )

    assert "person-10" in json.dumps(answer.calls[0].sent)
    assert answer.sent.endswith(", and 25 lines that the model read")
    assert lines == [answer.sent.removesuffix(", and 25 lines that the model read")]


def test_rule_12_without_tools_there_is_nothing_to_page(box: Toolbox, frame: pd.DataFrame) -> None:
    model = ScriptedModel(["Fine."])

    box.ask("Look", model=model, attach={"df": frame}, with_tools=False)

    assert isinstance(sent_objects(model)[0]["data"], str)
    assert model.requests[0].tools == ()


@pytest.mark.parametrize("count", [1, 4, 9, 30])
def test_rule_12_descriptions_have_4_kb_each_and_16_kb_together(box: Toolbox, count: int) -> None:
    model = ScriptedModel(["Fine."])
    wide = pd.DataFrame([["ä" * 300] * 300] * 9)

    box.ask("Look", model=model, attach={f"df{number}": wide for number in range(count)})

    sizes = [len(json.dumps(one, ensure_ascii=False).encode()) for one in sent_objects(model)]
    assert len(sizes) == count
    assert max(sizes) <= 4096
    assert sum(sizes) <= 16_384


@pytest.mark.parametrize("method", ["__repr__", "to_pandas"])
def test_rule_12_a_value_that_takes_a_minute_to_describe_is_named(
    box: Toolbox, method: str
) -> None:
    released = threading.Event()

    def wait(_self: object) -> str:
        released.wait()
        return "at last"

    Slow = type("Slow", (), {method: wait})  # noqa: N806 - a class
    box.ask.attachments.limit_s = 0.05
    model = ScriptedModel(["Fine."])

    answer = box.ask("Look", model=model, attach={"slow": Slow()})
    released.set()

    assert sent_objects(model) == [{"data_from": "@slow", "data": "a value of type Slow"}]
    assert answer.sent.startswith("Sent @slow: its type only")


def test_rule_12_secrets_in_variables_are_masked(make_box: MakeBox) -> None:
    box = make_box(secrets="KEY: key-of-the-tests-1\n")
    model = ScriptedModel(["Fine."])
    secret = "key-of-the-tests-1"

    box.ask(
        "Look",
        model=model,
        attach={"a": {"x": secret}, "b": secret, "c": pd.DataFrame({secret: [secret] * 5})},
    )

    assert secret not in str(model.requests[0].messages)
    assert [one["data"] for one in sent_objects(model)[:2]] == [{"x": "***"}, "***"]


def test_rule_12_a_pack_may_register_a_description(make_box: MakeBox) -> None:
    class Basket:
        def to_pandas(self) -> pd.DataFrame:
            """It is a table, too, which the description of its own class comes before."""
            return pd.DataFrame({"a": [1]})

    box = make_box()
    sdk.describe_for_model(Basket, lambda basket: f"a basket, {type(basket).__name__}")
    model = ScriptedModel(["Fine."])

    box.ask("Look", model=model, attach={"basket": Basket()})

    assert sent_objects(model) == [{"data_from": "@basket", "data": "a basket, Basket"}]


def test_rule_12_a_describer_of_a_pack_file_counts_at_the_first_ask(make_box: MakeBox) -> None:
    box = make_box('tools_dir: ["tools/*.py"]')
    folder = box.config.paths.project / ".onetool" / "tools"
    folder.mkdir()
    (folder / "shop.py").write_text(
        'pack = "shop"\n'
        "from datetime import time\n"
        "from onetool_ipy.sdk import describe_for_model\n"
        'describe_for_model(time, lambda value: "opening time")\n'
        'def prices() -> list:\n    """List the prices."""\n    return []\n',
        encoding="utf-8",
    )
    box.reload()
    from datetime import time

    model = ScriptedModel(["Fine."])

    box.ask("Look", model=model, attach={"noon": time(12)})

    assert sent_objects(model) == [{"data_from": "@noon", "data": "opening time"}]


def test_rule_12_the_preview_has_every_part_and_sends_nothing(
    box: Toolbox, frame: pd.DataFrame
) -> None:
    model = ScriptedModel([])

    parts = box.ask.preview(
        "What is odd in @df?", model=model, attach={"df": frame}, tool_allow=["time.*"]
    )

    assert [part.name.partition(",")[0] for part in parts] == [
        "instructions",
        "2 tools",
        "prompt",
        "@df: 3 of 2",
    ]
    assert parts[1].text == "time.now, ot.result"
    assert all(part.tokens > 0 for part in parts)
    assert "DataFrame with 2,000 rows" in parts[3].text
    assert model.requests == []
    assert box.ask.preview("No model is needed")[0].name == "instructions"


@pytest.mark.parametrize(
    "attach", ["text", b"bytes", 7, {1: 2}, pd.DataFrame({"a": [1]}), {"set"}], ids=repr
)
def test_rule_12_what_is_neither_a_dict_nor_a_list_is_refused(box: Toolbox, attach: Any) -> None:
    model = ScriptedModel([])

    with pytest.raises(UsageProblem, match="attach takes a dict of values by name, or a list"):
        box.ask("Look", model=model, attach=attach)

    assert model.requests == []
