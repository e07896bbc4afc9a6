"""The guard of programs, rule by rule: what is asked, what is free, what a model's program may send."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from onetool_ipy import tool
from onetool_ipy.base.errors import NotApproved
from onetool_ipy.core.tool import GuardFacts, HttpHooks, ServerFacts, ToolSpec
from onetool_ipy.llm import ScriptedModel
from onetool_ipy.llm.ask.answer import Answer
from onetool_ipy.llm.programs.shadows import MAX_PLACES
from onetool_ipy.terminal import approval_text
from tests.llm.ask.guard_cases import TOOLS
from tests.llm.programs.conftest import Shop
from tests.llm.programs.guarded import PLACE, GuardedWorld, Person

_NUMBER = {"type": "object", "properties": {"n": {"type": "integer"}}}


@pytest.fixture
def world(shop: Shop) -> GuardedWorld:
    return GuardedWorld(shop.box)


def test_the_question_names_the_place_the_argument_and_the_text(world: GuardedWorld) -> None:
    code = "import files, web\nweb.search(q=files.read(path='notes.txt'), page=1)"

    answer = world.run(code)

    (question,) = world.person.questions
    assert question.asker == "the program"
    assert question.places == (PLACE,)
    assert question.calls[0].note == (
        f"would send to {PLACE}: 1 value out of files.read('notes.txt'), in `q`:"
        ' "Tango 7391 zulu"'
    )
    text = " ".join(approval_text(question.calls, question.asker).split())
    assert "The program wants to make a call that may send your data elsewhere" in text
    assert f"whatever goes to {PLACE} for the rest of this program" in text
    assert isinstance(answer.error, NotApproved)
    assert "the person did not let it go" in answer.error.message
    assert not world.sent


def test_where_nobody_is_the_program_ends_with_the_line_that_allows_it(world: GuardedWorld) -> None:
    code = (
        "import files, web\ntry:\n    web.search(q=files.read(path='notes.txt'))\n"
        "except Exception:\n    web.search(q='no')"
    )
    answer = world.run(code, None)

    assert isinstance(answer.error, NotApproved)
    assert answer.error.details == {"reason": "guard", "place": PLACE}
    assert 'guard: {allow: [{from: "files.read", to: "search.example.com"}]}' in str(answer.error)
    assert not world.sent


def test_send_is_for_one_call_and_the_rest_for_the_place_in_this_program(
    world: GuardedWorld,
) -> None:
    code = (
        "import files, web\nt = files.read(path='notes.txt')\n"
        "for n in range(3):\n    web.search(q=t[n:])"
    )
    answer = world.run(code, "yes")
    assert (len(world.person.questions), len(world.sent)) == (3, 3)
    assert answer.calls[1].result.meta["guard"] == f"asked: you let it go to {PLACE}"

    answer = world.run(code, "always")
    assert (len(world.person.questions), len(world.sent)) == (1, 3)
    assert answer.calls[2].result.meta["guard"] == f"free: you allowed {PLACE} for this program"

    answer = world.run(code, approve=["web.search"])
    assert (len(world.person.questions), len(world.sent)) == (0, 3)
    assert answer.calls[2].result.meta["guard"] == "free: you named the tool"


def test_a_free_call_says_why_and_its_row_too(world: GuardedWorld) -> None:
    answer = world.run("import db, web\ndb.rows()\nweb.search(q='django')")

    why = "free: it is the same call without your private data"
    assert answer.calls[1].result.meta["guard"] == why
    row = next(each for each in world.box.log.history(limit=5) if each.tool == "web.search")
    assert row.message == why


def test_a_program_that_reads_nothing_private_has_no_shadow(world: GuardedWorld) -> None:
    answer = world.run("import geo, web\nweb.search(q=str(geo.countries()))")
    assert "guard" not in answer.calls[1].result.meta
    assert len(world.sent) == 2


def test_a_variable_of_the_notebook_is_private(world: GuardedWorld) -> None:
    code = "import web\nweb.search(q=df[0]['name'])"
    world.run(code, variables={"df": [{"name": "Zoe 511"}]})
    assert "1 value out of @df, in `q`" in world.person.questions[0].calls[0].note
    assert not world.sent


def test_a_variable_that_a_public_tool_gave_is_public(world: GuardedWorld) -> None:
    result = world.box.call("geo.countries", {})
    world.run("import web\nweb.search(q=c['countries'][0])", variables={"c": result})
    assert not world.person.questions
    assert len(world.sent) == 1


def test_the_limit_of_open_world_reads_stays_where_no_shadow_decides(world: GuardedWorld) -> None:
    hooks = HttpHooks(len, lambda _: [], frozenset(), ("https://api.example.com",), False)
    spec = ToolSpec(name="api.get", description="Get.", parameters=_NUMBER, run=len, read_only=True)
    world.box.registry.register(
        spec.replace(run=lambda args: args, http=hooks._replace(send=lambda args: args))
    )
    loop = "\nlen([api.get(n=n) for n in range(30)])"

    assert world.run(f"import api{loop}").error is not None
    assert "21" not in str(world.person.questions[0].text)
    assert world.run(f"import api, db\ndb.rows(){loop}").value == 30
    assert not world.person.questions


def test_a_write_has_what_it_would_carry_as_its_note(world: GuardedWorld) -> None:
    spec = (
        TOOLS["web.search"]
        .spec("mail.send")
        .replace(
            read_only=False,
            run=lambda args: world.sent.append(args["q"]),
            origin="cell",
            guard=GuardFacts(reads="private", sends="mail.example.com"),
        )
    )
    world.box.registry.register(spec)
    code = "import files, mail\nmail.send(q='hello')\nmail.send(q=files.read(path='notes.txt'))"

    answer = world.run(code, "yes")

    (question,) = world.person.questions
    assert [bool(call.note) for call in question.calls] == [False, True]
    assert "would send to mail.example.com: 1 value out of files.read" in question.calls[1].note
    assert world.sent == ["hello"]
    assert [row["state"] for row in answer.plan] == ["made", "skipped"]


def test_a_server_that_says_it_stays_inside_is_judged_alike(
    make_shop: Callable[..., Shop],
) -> None:
    world = GuardedWorld(make_shop("servers: {ear: {command: 'true', trusted: true}}").box)
    facts = ServerFacts(server="ear", hints={"open world": False})
    spec = TOOLS["web.search"].spec("ear.find")
    world.box.registry.register(spec.replace(run=world.sent.append, server_facts=facts))

    world.run("import ear, files\near.find(q=files.read(path='notes.txt'))")

    assert world.person.questions[0].places == ("server 'ear'",)
    assert not world.sent


def test_a_resumed_program_is_judged_alike(world: GuardedWorld) -> None:
    """A program of a model, resumed without its conversation, has its constants judged, too."""
    code = (
        "import crm, files, web\nt = files.read(path='notes.txt')\nweb.search(q='django')\n"
        "r = crm.remind(customer=1)\nr['sent']\nweb.search(q=t)"
    )
    write = "import crm, web\nr = crm.remind(customer=1)\nr['sent']\nweb.search(q='Tango')"
    assert world.run(code, None).stop_reason == "waiting"
    assert _ask(world, None, _READ, write).stop_reason == "waiting"

    for row in world.box.ask.waiting():
        world.sent.clear()
        world.person = world.box.host = Person("no")
        answer = world.box.ask.resume(str(row["id"]))

        assert isinstance(answer.error, NotApproved)
        assert [each.places for each in world.person.questions] == [(), (PLACE,)]
        assert "files.read('notes.txt')" in world.person.questions[1].calls[0].note
        assert not world.sent


def test_a_read_that_is_made_again_at_a_resume_is_guarded_inside(
    make_shop: Callable[..., Shop],
) -> None:
    """What nb.look raised had a secret in it, so it is called again."""
    world = GuardedWorld(make_shop(secrets="KEY: verysecretvalue123\n").box)
    world.secret = {**world.secret, "notes.txt": "verysecretvalue123"}
    code = (
        "import crm, files, nb\nt = files.read(path='notes.txt')\n"
        "try:\n    nb.look(q=t)\nexcept Exception:\n    pass\ncrm.remind(customer=1)"
    )
    assert world.run(code, None).stop_reason == "waiting"

    (row,) = world.box.ask.waiting()
    world.box.host = Person("yes")
    answer = world.box.ask.resume(str(row["id"]))

    assert (answer.stop_reason, world.sent) == ("done", [])


def test_more_places_than_have_shadows_are_asked_about(world: GuardedWorld) -> None:
    for n in range(MAX_PLACES + 1):
        spec = TOOLS["web.search"].spec(f"p{n}.go")
        guard = GuardFacts(reads="public", sends=f"p{n}.example.com")
        run = lambda args, n=n: world.sent.append(str(n))  # noqa: E731 - one line for each tool
        world.box.registry.register(spec.replace(run=run, origin="cell", guard=guard))
    imports = ", ".join(f"p{n}" for n in range(MAX_PLACES + 1))
    calls = "\n".join(f"p{n}.go(q='x')" for n in range(MAX_PLACES + 1))

    world.run(f"import db, {imports}\ndb.rows()\n{calls}")

    assert len(world.person.questions) == 1
    assert len(world.sent) == MAX_PLACES


# --- a program of a model -------------------------------------------------------------------------


def _ask(
    world: GuardedWorld, reply: str | None, *codes: str, prompt: str = "Go on", **options: Any
) -> Answer:
    world.sent.clear()
    world.person = world.box.host = Person(reply)
    model = ScriptedModel([*(("program", {"code": code}) for code in codes), "ok"])
    return world.box.ask(prompt, model=model, code=True, **options)


_READ = "import files\nfiles.read(path='notes.txt')"


def test_an_attached_result_belongs_to_the_tool_that_gave_it(world: GuardedWorld) -> None:
    rows = world.box.call("crm.customers", {"region": "eu"})
    back = "import crm\n[crm.get(id=row['id'])['owner'] for row in rows]"
    _ask(world, "no", back, attach={"rows": rows})
    assert not world.person.questions
    assert len(world.sent) == 4

    _ask(world, "no", "import web\nweb.search(q=rows[0]['name'])", attach={"rows": rows})
    assert "1 value out of @rows" in world.person.questions[0].calls[0].note
    assert not world.sent


def test_constants_of_a_program_that_was_written_after_private_data_must_be_explained(
    world: GuardedWorld,
) -> None:
    send = "import web\nweb.search(q='Tango 7391')"

    _ask(world, "no", _READ, send)
    assert "2 words out of files.read('notes.txt')" in world.person.questions[0].calls[0].note
    assert not world.sent

    _ask(world, "no", _READ, send, prompt="Read it and look for Tango 7391")
    assert not world.person.questions
    assert len(world.sent) == 1

    # Nothing private was seen before the first program.
    _ask(world, "no", send)
    assert len(world.sent) == 1


def test_what_a_program_shows_is_no_public_data(world: GuardedWorld) -> None:
    """A program that also called a public tool, or that repeats a constant, launders nothing."""
    mixed = "import files, geo\ngeo.countries()\nfiles.read(path='notes.txt')"
    repeats = "import geo\ngeo.countries()\n'Tango 7391 zulu'"
    send = "import web\nweb.search(q='Tango 7391 zulu')"

    _ask(world, "no", mixed, repeats, send)

    assert len(world.person.questions) == 1
    assert world.sent == ["geo.countries {}", "geo.countries {}"]


def test_what_failed_or_printed_was_shown_too(world: GuardedWorld) -> None:
    failing = "import files\nint(files.read(path='notes.txt'))"
    send = "import web\nweb.search(q='Tango 7391 zulu')"
    _ask(world, "no", failing, send)
    assert len(world.person.questions) == 1


def test_a_tool_that_changed_while_the_program_ran_was_private(world: GuardedWorld) -> None:
    def gone() -> str:
        world.box.adopt(tool(name="db.gone", read_only=True, reads="public")(lambda: ""))
        return "Tango 7391 zulu"

    world.read("db.gone", gone)
    _ask(world, "no", "import db\ndb.gone()", "import web\nweb.search(q='Tango 7391 zulu')")
    assert len(world.person.questions) == 1


def test_ids_that_a_place_gave_the_program_explain_its_calls(world: GuardedWorld) -> None:
    loop = (
        "import gh\nlen([gh.issue(repo='acme/app', number=i['number'])"
        " for i in gh.issues(repo='acme/app')[:15]])"
    )
    _ask(world, "no", _READ, loop, prompt="Read notes.txt, and the issues of acme/app")
    assert not world.person.questions
    assert len(world.sent) == 16
