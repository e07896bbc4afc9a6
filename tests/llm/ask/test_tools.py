"""What is offered: `+names` in a prompt, more tools than a model takes, tools that are off."""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, Self

import hypothesis
import pytest
from hypothesis import strategies as st

from onetool_ipy.base.errors import UsageProblem
from onetool_ipy.core.registry import Registry
from onetool_ipy.core.tool import CallSource, ToolSpec, fingerprint
from onetool_ipy.host import Host
from onetool_ipy.llm import ScriptedModel
from onetool_ipy.llm.ask.session import Session
from onetool_ipy.llm.ask.tools import ToolSelection, mentioned
from onetool_ipy.toolbox import Toolbox
from tests.harness import servers
from tests.llm.ask.conftest import MakeBox, Traces


@pytest.mark.parametrize(
    ("prompt", "offered"),
    [
        ("Use +time.now please", ["time.now"]),
        ("+fs what is here?", ["fs.list_dir", "fs.read_file"]),
        ("With +fs.read_file, +time.now.", ["fs.read_file", "time.now"]),
        ("(+read-file)", ["fs.read_file"]),
        ("try +clock", ["time.now"]),
        ("+list_dir and +fs.list_dir", ["fs.list_dir"]),
    ],
)
def test_naming_tools_in_the_prompt_offers_just_these(
    make_box: MakeBox, prompt: str, offered: list[str]
) -> None:
    box = make_box("aliases: {clock: time.now}")
    model = ScriptedModel(["ok"])

    box.ask(prompt, model=model)

    assert sorted(model.requests[0].offered) == sorted(offered)
    assert model.requests[0].prompt == prompt


@pytest.mark.parametrize(
    "prompt",
    ["2 +3 is?", "a C++ question", "call +49 30 1234", "a diff:\n+xylophones\n", "x+time.now"],
)
def test_other_plus_signs_are_text(box: Toolbox, prompt: str) -> None:
    model = ScriptedModel(["ok"])

    box.ask(prompt, model=model)

    offered = model.requests[0].offered
    assert {s.name for s in box.registry.known() if s.is_offered and s.pack != "ot"} < {*offered}
    assert [name for name in offered if name.startswith("ot.")] == ["ot.result", "ot.results"]


@pytest.mark.parametrize(
    "prompt", ["+time.nwo", "+fs.read_fil", "+tim.now", "+nothing.like_it", "hi +qqq"]
)
def test_a_mistyped_name_is_an_error_and_never_offers_everything(box: Toolbox, prompt: str) -> None:
    model = ScriptedModel(["ok"])

    with pytest.raises(UsageProblem, match="not there"):
        box.ask(prompt, model=model)

    assert model.requests == []


def test_a_name_outside_the_allow_list_is_an_error(box: Toolbox) -> None:
    with pytest.raises(UsageProblem, match="not among the tools allowed"):
        box.ask("+fs.read_file", model=ScriptedModel(["ok"]), tool_allow=["time.*"])


def test_what_the_prompt_does_not_name_does_not_run(box: Toolbox, traces: Traces) -> None:
    traces.add(box, "a.b", read_only=True)

    answer = box.ask("+time.now", model=ScriptedModel([[("a.b", {}), ("time.now", {})], "ok"]))

    assert [call.ok for call in answer.calls] == [False, True]
    assert traces.left() == {}


def test_a_tool_that_is_off_is_neither_offered_nor_run(box: Toolbox, traces: Traces) -> None:
    traces.add(box, "a.off", read_only=True, disabled="not today")
    model = ScriptedModel([("a.off", {}), "ok"])

    answer = box.ask("Go", model=model)

    assert "a.off" not in model.requests[0].offered
    error = answer.calls[0].result.error
    assert error is not None
    assert (error.code, error.reason) == ("tool_not_found", "disabled")
    assert traces.left() == {}


@pytest.fixture
def many(box: Toolbox, traces: Traces) -> Toolbox:
    """300 tools, of which one tells the tide."""
    for n in range(300):
        _quiet(box, f"pack{n % 10}.tool{n}", f"Do number {n} with widgets.")
    traces.add(
        box,
        "sea.tide",
        description="Tell when it is high water at a port.",
        read_only=True,
        gives="noon",
    )
    traces.add(box, "sea.flood", description="Open the dam and let high water in.")
    return box


def test_over_96_tools_the_best_matches_are_offered_with_a_search(many: Toolbox) -> None:
    model = ScriptedModel(["ok"])

    many.ask("When is high water in Lisbon?", model=model)

    (request,) = model.requests
    assert len(request.tools) <= 96
    assert "sea.tide" in request.offered
    assert "ask.search_tools" in request.offered


def test_a_word_that_few_tools_have_counts_beside_words_that_all_have(many: Toolbox) -> None:
    model = ScriptedModel(["ok"])

    many.ask("Please do number 277 with widgets, and number 298", model=model)

    assert {"pack7.tool277", "pack8.tool298"} <= set(model.requests[0].offered)


def test_what_the_search_finds_can_be_called(many: Toolbox, traces: Traces) -> None:
    model = ScriptedModel(
        [
            ("ask.search_tools", {"query": "sea tide"}),
            lambda r: (_found(r)[0], {}),
            "It is noon.",
        ]
    )

    answer = many.ask("Hello there", model=model)

    assert "sea.tide" not in model.requests[0].offered
    assert "sea.tide" in model.requests[1].offered
    assert (answer.calls[1].name, answer.calls[1].result.data) == ("sea.tide", "noon")
    assert {"name", "description", "parameters"} == set(
        model.requests[1].outcomes[0].content["data"][0]
    )
    assert answer.to_cells() == ["%tool sea.tide"]
    assert traces.left() == {"sea.tide": 1}


def test_the_search_reaches_every_tool(many: Toolbox) -> None:
    for n in (0, 77, 299):
        model = ScriptedModel([("ask.search_tools", {"query": f"tool{n}"}), "ok"])
        many.ask("Hello", model=model)
        assert f"pack{n % 10}.tool{n}" in model.requests[1].offered


def test_a_found_tool_still_needs_to_be_allowed_and_approved(many: Toolbox, traces: Traces) -> None:
    model = ScriptedModel(
        [("ask.search_tools", {"query": "open the dam"}), ("sea.flood", {}), "no"]
    )
    narrow = ScriptedModel([("ask.search_tools", {"query": "high water"}), ("sea.tide", {}), "no"])

    answer = many.ask("Hello", model=model)
    allowed = [f"pack{n}.*" for n in range(10)]
    kept_out = many.ask("Hello", model=narrow, tool_allow=allowed)

    assert answer.calls[1].result.error is not None
    assert answer.calls[1].result.error.reason == "not_approved"
    assert (
        narrow.requests[1].outcomes[0].content["data"] == []
        or "sea.tide" not in narrow.requests[1].offered
    )
    assert kept_out.calls[1].result.error is not None
    assert kept_out.calls[1].result.error.reason == "not_allowed"
    assert traces.left() == {}


def test_rule_18_a_request_repeats_the_tools_of_the_one_before_and_appends_new_ones(
    many: Toolbox,
) -> None:
    """Three searches in an ask of a session with 300 tools, and the last request; then another
    ask."""
    searches = [("ask.search_tools", {"query": f"tool{n}"}) for n in (7, 77, 177)]
    model = ScriptedModel([*searches, "ok", "ok"])

    many.ask("Do number 5 with widgets", model=model, session="s", max_steps=3)
    many.ask("When is high water?", model=model, session="s")

    offers = [request.offered for request in model.requests]
    assert [len(offer) for offer in offers] == sorted(len(offer) for offer in offers)
    assert len(offers[0]) == 96
    assert all(later[: len(offer)] == offer for offer, later in pairwise(offers))
    assert [request.forbids_calls for request in model.requests] == [
        False,
        False,
        False,
        True,
        False,
    ]
    assert "sea.tide" in set(offers[-1]) - set(offers[0])
    assert len({request.messages[0] for request in model.requests}) == 1


def test_rule_18_the_first_tools_stay_whatever_is_found(many: Toolbox) -> None:
    """More tools are found than there is room for: the oldest of these make room, the first 96
    stay."""
    model = ScriptedModel(
        [*(("ask.search_tools", {"query": f"tool{n}"}) for n in range(0, 300, 23)), "ok"]
    )

    many.ask("Do number 5 with widgets", model=model, max_steps=30)

    first, last = model.requests[0].offered, model.requests[-1].offered
    assert len(last) == 128
    assert last[:96] == first
    assert "pack9.tool299" in last


def test_an_ask_starts_no_server_and_says_whose_tools_are_not_offered(make_box: MakeBox) -> None:
    box = make_box("servers: " + json.dumps({"srv": servers.hostile()}))
    box.host = host = NotingHost()
    model = ScriptedModel(["ok"] * 4)

    box.ask("Hello", model=model)
    box.ask("Hello", model=model, tool_allow=["time.*"])
    with pytest.raises(UsageProblem, match="has not been started yet") as problem:
        box.ask("Try +srv.echo", model=model)
    state = box.servers["srv"]
    box.servers.start("srv")
    box.ask("Try +srv.echo", model=model)

    assert state == "not started"
    start = "Start it with: %tool server start srv"
    assert host.notes == [
        f"The tools of the server 'srv' are not offered: it has not been started yet. {start}"
    ]
    assert problem.value.hint == start
    assert [name for name in model.requests[0].offered if name.startswith("srv.")] == []
    assert model.requests[-1].offered == ["srv.echo"]


def test_a_list_that_names_no_tool_says_so(make_box: MakeBox) -> None:
    box = make_box("servers: " + json.dumps({"srv": servers.hostile()}))
    box.host = host = NotingHost()

    box.ask("Hello", model=ScriptedModel(["ok"]), tool_allow="tools.ecko,srv.*", approve=["time.*"])

    assert host.notes[0] == "No tool is called 'tools.ecko'. Did you mean 'tools.echo'?"
    assert "srv" in host.notes[1]
    assert len(host.notes) == 2


class NotingHost(Host):
    """A host that keeps the lines it is given."""

    def __init__(self) -> None:
        self.notes: list[str] = []

    def note(self, text: str) -> None:
        self.notes.append(text)


@pytest.mark.parametrize("args", [{}, {"query": 3}, {"query": "x", "more": 1}])
def test_a_wrong_search_is_an_invalid_call(many: Toolbox, args: dict[str, Any]) -> None:
    answer = many.ask("Hello", model=ScriptedModel([("ask.search_tools", args), "ok"]))

    assert answer.to_dict()["toolError"]["code"] == "invalid_args"


def test_with_few_tools_there_is_no_search(box: Toolbox) -> None:
    model = ScriptedModel([("ask.search_tools", {"query": "x"}), "ok"])

    answer = box.ask("Hello", model=model)

    assert "ask.search_tools" not in model.requests[0].offered
    assert answer.to_dict()["toolError"]["code"] == "tool_not_found"


def _quiet(box: Toolbox, name: str, description: str) -> None:
    box.session.specs[name] = ToolSpec(
        name=name,
        description=description,
        parameters={"type": "object", "properties": {}},
        run=lambda args: name,
        read_only=True,
    )


def _found(request: Any) -> list[str]:
    return [row["name"] for row in request.outcomes[0].content["data"]]


@pytest.mark.parametrize("source", ["model", "rest", "mcp"])
def test_a_tool_that_calls_any_other_is_for_people(
    box: Toolbox, traces: Traces, source: CallSource
) -> None:
    """`ot.map` would go past an allow-list, and past the yes to a tool."""
    traces.add(box, "a.one")
    model = ScriptedModel(["ok"])
    args = {"tool": "a.one", "data": [{"x": "a"}], "x": "x"}

    box.ask("Go", model=model, tool_allow=["ot.*"])
    result = box.call("ot.map", args, source=source)
    person = box.call("ot.map", args)

    assert "ot.stats" in model.requests[0].offered
    assert "ot.map" not in model.requests[0].offered
    assert result.error is not None
    assert result.error.reason == "not_allowed"
    assert person.ok
    assert traces.left() == {"a.one": 1}


def test_what_runs_code_or_opens_screens_is_no_tool(box: Toolbox) -> None:
    """`ot.run` would run any alias, snippet or tool: Python has it, a model does not."""
    for name in ("ot.run", "ot.browser", "ot.view", "ot.usage", "ot.replay"):
        result = box.call(name, {"name": "time.now"}, source="model")

        assert result.error is not None
        assert result.error.code == "tool_not_found"


class CallCounter:
    """Counts how often functions of the package are entered in this thread: `with CallCounter() as
    counter: ...`."""

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()

    def __enter__(self) -> Self:
        sys.setprofile(self._note)
        return self

    def __exit__(self, *exc: object) -> None:
        sys.setprofile(None)

    def of(self, function: Callable[..., Any]) -> int:
        return self._counts[self._key(function.__code__)]

    @property
    def total(self) -> int:
        return self._counts.total()

    def _note(self, frame: FrameType, event: str, _arg: object) -> None:
        if event == "call":
            self._counts[self._key(frame.f_code)] += 1

    @staticmethod
    def _key(code: CodeType) -> str:
        return f"{code.co_filename}:{code.co_firstlineno}"


def test_an_ask_lists_the_registry_once_and_a_call_is_looked_at_once(box: Toolbox) -> None:
    """Two requests and one call between them. The registry checks trust, servers and folders at
    each listing."""
    replies = [("tools.echo", {"message": 1}), "ok"]
    # Imports what an ask needs, which is slow while calls are counted.
    box.ask("Go", model=ScriptedModel(replies))

    with CallCounter() as counter:
        answer = box.ask("Go", model=ScriptedModel(replies))

    assert [call.ok for call in answer.calls] == [True]
    assert (counter.of(Registry.known), counter.of(Registry.list)) == (1, 0)
    assert counter.of(fingerprint) == 1


NEWS = st.sampled_from(["add", "remove", "search", "large result", "nothing", "other session"])


@hypothesis.settings(
    max_examples=25,
    deadline=None,
    suppress_health_check=[hypothesis.HealthCheck.function_scoped_fixture],
)
@hypothesis.given(st.lists(NEWS, max_size=6))
def test_a_kept_offer_is_the_one_that_would_be_made_now(box: Toolbox, news: list[str]) -> None:
    """Beside a twin that keeps nothing: each of its offers is its first one."""
    kept_session, fresh_session = Session(), Session()
    options: dict[str, Any] = {"allow": None, "prompt": "Go", "is_on": True}
    kept = ToolSelection(box.registry, kept_session, **options)
    for number, change in enumerate(news):
        name = f"a.tool_{number}"
        if change == "add":
            box.registry.register(a_tool(name))
        elif change == "remove":
            box.registry.register_all([a_tool(name)], replacing=list(box.registry.session.specs))
        elif change == "search":
            kept.search("echo")
        elif change == "large result":
            kept_session.handles["r_1"] = fresh_session.handles["r_1"] = None
        elif change == "other session":
            kept_session.offered = fresh_session.offered = fresh_session.offered[1:]
        twin = ToolSelection(box.registry, fresh_session, **options)

        assert kept.offer() == twin.offer()

    box.registry.session.specs.clear()
    box.registry.rebuild()


def a_tool(name: str) -> ToolSpec:
    return ToolSpec(
        name=name, description="Do it.", parameters={"type": "object"}, run=lambda args: args
    )


def test_names_in_a_prompt_list_the_registry_once(box: Toolbox) -> None:
    with CallCounter() as counter:
        mentioned("+fs, +read-file and +time.now", box.registry, box.shortcuts)

    assert (counter.of(Registry.known), counter.of(Registry.list)) == (1, 0)


def test_a_tool_that_an_earlier_call_of_the_turn_changed_is_not_run(
    box: Toolbox, traces: Traces
) -> None:
    """Both calls are checked before the first one runs; that one replaces the second tool, which
    only reads."""

    def replace(_args: Any) -> str:
        traces.add(box, "a.second", description="Do another thing.", read_only=True, origin="cell")
        return "replaced"

    traces.add(box, "a.first", gives=replace, read_only=True)
    traces.add(box, "a.second", read_only=True, origin="cell")

    answer = box.ask("Go", model=ScriptedModel([[("a.first", {}), ("a.second", {})], "ok"]))

    assert [call.ok for call in answer.calls] == [True, False]
    assert "changed since it was checked" in str(answer.calls[1].result.error)
    assert traces.left() == {"a.first": 1}


def test_a_model_is_told_the_schemas_of_the_code(make_box: MakeBox) -> None:
    """A class of the pack file's own as an argument's type, which the text alone does not tell."""
    tools = Path(".onetool/tools")
    tools.mkdir(parents=True)
    text = "from typing import TypedDict\nclass Item(TypedDict):\n    name: str\n"
    text += 'def order(items: list[Item]) -> int:\n    """Order."""\n    return len(items)\n'
    (tools / "shop.py").write_text(text, encoding="utf-8")
    model = ScriptedModel(["ok"])

    make_box().ask("+shop.order", model=model)

    (offered,) = model.requests[0].tools
    assert offered.parameters["$defs"]["Item"]["properties"]["name"]["type"] == "string"


def test_an_ask_costs_few_function_calls(box: Toolbox) -> None:
    """Two requests and one call between them, of Python functions of every package."""
    replies = [("tools.echo", {"message": 1}), "ok"]
    # Imports what an ask needs, and what is known of the tools from then on.
    box.ask("Go", model=ScriptedModel(replies))

    with CallCounter() as counter:
        box.ask("Go", model=ScriptedModel(replies))

    assert 300 < counter.total <= 900
