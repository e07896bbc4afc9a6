"""No secret is in what is shown of our values: every class with a text or HTML of its own holds
one, and is looked at.

The classes are found in the package. A new one needs a case here, or a reason why it holds no
foreign text.
"""

from __future__ import annotations

import importlib
import inspect
import json
import pkgutil
import sys
import types
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from IPython.core.formatters import DisplayFormatter
from IPython.lib.pretty import pretty

import onetool_ipy
from onetool_ipy import ToolResult, tool
from onetool_ipy.core.question import ProposedCall, Question
from onetool_ipy.core.result import Failure
from onetool_ipy.core.shown import DISPLAYS
from onetool_ipy.llm.ask.answer import Answer, AnswerCall, AnswerCalls, PlannedCalls
from onetool_ipy.llm.ask.session import Session
from onetool_ipy.mcp.resources import Watch
from onetool_ipy.packs.ot.health import Health
from onetool_ipy.packs.ot.results import ResultLines
from onetool_ipy.packs.ot.usage import UsagePlot, UsageStats
from onetool_ipy.proxies import UnlistedOffers
from onetool_ipy.render import media
from onetool_ipy.render.origin import Origin
from onetool_ipy.render.pages import PageText
from onetool_ipy.render.views import ForPeople, Listing, Record, Text
from onetool_ipy.stores.cassettes import Cassette
from onetool_ipy.toolbox import Toolbox
from tests.harness.project import Project

SECRET = "verysecretvalue123"
NOW = datetime(2026, 1, 1, tzinfo=UTC)
_PLACE = Path(onetool_ipy.__file__).parent
_MORE = ("_ipython_display_", "_render_traceback_", "_repr_pretty_", "_repr_png_", "_repr_svg_")

_NOTHING_FOREIGN = {
    "base.masking.Form": "says how it masks, and no value",
    "base.masking.Secrets": "says how many there are",
    "bundles.http.template.Ref": "a name in a template, which is a file of the user",
    "config.load.Config": "the folder of the project",
    "config.settings.Model": "leaves the key out; see tests/config",
    "bundles.model.Bundle": "a name and a state",
    "bundles.model.Page": "shows what its items show",
    "bundles.model.Tool": "a name and a state",
    "config.settings.Definition": "the keys of a definition, and its place",
    "config.settings.HttpSettings": "counts",
    "config.settings.Settings": "counts",
    "core.jobs.Job": "the name of a tool and a state",
    "faces.export._Source": "a place in a notebook",
    "faces.mcp.http.Serving": "shows its own address, and no token",
    "faces.notebook.names.LazyObject": "shows what another class shows",
    "faces.widgets.forms.Variable": "the name of a variable",
    "faces.widgets.widget.View": "a screen gets masked answers; see tests/faces/widgets",
    "llm.client.HttpModelClient": "names of the user's own settings",
    "llm.programs.sandbox.StandIn": "always the same words",
    "llm.scripted.ScriptedModel": "a name and counts",
    "mcp.callback.CallbackAnswer": "leaves the code out; see tests/mcp",
    "mcp.definition.AuthSettings": "leaves the secret out; see tests/mcp",
    "mcp.definition.ServerDefinition": "a name and a kind",
    "mcp.servers.Servers": "names and states",
    "net.hosts.Hosts": "hosts that the user allowed",
    "net.hosts.UrlOrigin": "an address as it is sent",
    "net.response.HttpResponse": "a status and a size",
    "schema.read._Shown": "stands for a default in a signature, which is masked where it is shown",
    "stores.replays.Replaying": "has the file that its caller named",
    "stores.tokens.TokenStore": "a folder",
    "toolbox.Toolbox": "the folder of the project",
    "base.errors.ToolCallError": "its failure is a Failure, which the executor masked",
    "base.errors.ToolNotFound": "words of ours about a name that somebody typed",
    "base.errors.OneToolError": "whoever raises it masks the message: it may be sent, too",
    "base.files.Content": "a path and a size",
    "core.tool.Problem": "whoever lists problems masks them, by box.mask",
    "core.tool.ToolSpec": "the signature; what comes from a server is masked where it is listed",
    "proxies.PackProxy": "masks itself, with its own toolbox",
    "proxies.ToolProxy": "masks itself, with its own toolbox",
}


def _handwritten(cls: type, name: str) -> bool:
    """Whether a class defines a method in our source; dataclasses and others have made ones."""
    method = inspect.unwrap(vars(cls).get(name, None) or object)
    code = getattr(method, "__code__", None)
    return isinstance(code, types.CodeType) and Path(code.co_filename).is_relative_to(_PLACE)


def _shown_classes() -> dict[str, type]:
    """Return the classes of the package that say themselves how they are shown."""
    for info in pkgutil.walk_packages(onetool_ipy.__path__, "onetool_ipy."):
        if not info.name.endswith("__main__"):
            importlib.import_module(info.name)
    classes = {}
    for name, module in list(sys.modules.items()):
        for cls in vars(module).values() if name.startswith("onetool_ipy.") else ():
            is_own = inspect.isclass(cls) and cls.__module__ == name
            if is_own and any(_handwritten(cls, method) for method in (*DISPLAYS, *_MORE)):
                classes[f"{name.removeprefix('onetool_ipy.')}.{cls.__name__}"] = cls
    return classes


def _plan(box: Toolbox) -> Answer:
    """A program that waits, whose text, arguments and prints have the secret."""
    box.adopt(tool(name="crm.send")(lambda text: text))
    code = f"import crm\nprint('{SECRET}')\ncrm.send(text='{SECRET}')\n'{SECRET}'"
    return box.ask.program(code, plan=True)


def _answer() -> Answer:
    failed = ToolResult(False, error=Failure("execution_error", f"no {SECRET}", "a.b"))
    calls = [AnswerCall("1", "a.b", {"key": SECRET}, ToolResult(True, SECRET), SECRET)]
    calls += [AnswerCall("2", "a.b", {"key": "x" * 75 + SECRET}, failed, None)]
    return Answer(
        prompt="",
        text=f"It is {SECRET}.",
        calls=AnswerCalls(calls),
        model="m",
        note=SECRET,
        stop_reason="cut",
    )


def _usage() -> UsageStats:
    row = {"tool": SECRET, "calls": 1, "failures": 0, "p50_ms": 1.0, "p95_ms": 1.0, "bytes": 1}
    return UsageStats({"period": "all", "total_calls": 1, "tools": [row], "failures": []})


def _health() -> Health:
    return Health(
        version=SECRET,
        python=SECRET,
        cwd=SECRET,
        registry={"tool_count": 1, "status": "ok"},
        proxy={"states": {}},
        problems=[{"where": SECRET, "message": SECRET, "hint": SECRET}],
    )


def _lines() -> ResultLines:
    return ResultLines(lines=[SECRET], offset=1, returned=1, total_lines=1, has_more=False)


_CASES: dict[str, Callable[[Toolbox], Any]] = {
    "core.result.Failure": lambda box: box.call("fs.read_file", {"path": SECRET}).error,
    "core.result.ToolResult": lambda box: [
        ToolResult(True, {"a": SECRET}),
        box.call("time.now", {SECRET: 1}),
    ],
    "llm.ask.answer.Answer": lambda box: [
        _answer(),
        _plan(box),
        box.ask.program(f"print('{SECRET}')\n'{SECRET}'"),
    ],
    "llm.ask.answer.AnswerCall": lambda _box: list(_answer().calls),
    "llm.ask.answer.PlannedCalls": lambda box: [_plan(box).plan, PlannedCalls([{"args": SECRET}])],
    "llm.ask.session.Session": lambda _box: Session(SECRET),
    "mcp.resources.Watch": lambda _box: Watch(
        "s", f"a://{SECRET}", read=lambda: None, follow=lambda _watch: None
    ),
    "packs.ot.health.Health": lambda _box: _health(),
    "packs.ot.results.ResultLines": lambda _box: _lines(),
    "packs.ot.usage.UsagePlot": lambda _box: UsagePlot(_usage()),
    "packs.ot.usage.UsageStats": lambda _box: _usage(),
    "proxies.UnlistedOffers": lambda _box: UnlistedOffers(SECRET, lambda: Listing([{"a": SECRET}])),
    "render.difference.Difference": lambda box: [
        box.ot.diff(
            [{"id": 1, "key": "old"}], [{"id": 1, "key": SECRET}, {"id": 2, "key": SECRET}]
        ),
        box.ot.diff({"a": "old"}, {"a": SECRET, SECRET: 1}),
        box.ot.diff("old", f"old\n{SECRET}"),
    ],
    "render.media.Audio": lambda _box: media.Audio(SECRET.encode(), f"audio/{SECRET}"),
    "render.media.Blocks": lambda _box: media.Blocks([SECRET, {"a": SECRET}]),
    "render.media.Image": lambda _box: media.Image(b"x", f"image/{SECRET}"),
    "render.media.PromptMessages": lambda _box: media.PromptMessages(
        [media.PromptMessage("user", SECRET)]
    ),
    "render.media.Resource": lambda _box: media.Resource(f"a://{SECRET}", "text/plain", SECRET),
    "render.media.ResourceLink": lambda _box: media.ResourceLink(f"a://{SECRET}", SECRET, SECRET),
    "render.origin.Origin": lambda _box: Origin(
        call_id="1", tool=SECRET, call=f"%tool {SECRET}", notebook=SECRET
    ),
    "render.pages.PageText": lambda _box: PageText(SECRET),
    "render.views.ForPeople": lambda _box: ForPeople({"a": SECRET, "rows": [{"b": SECRET}]}),
    "render.views.Listing": lambda _box: Listing([{"a": SECRET}, {SECRET: 1}]),
    "render.views.Record": lambda _box: Record({"a": SECRET, "rows": [{"b": SECRET}]}),
    "render.views.Text": lambda _box: Text(SECRET),
    "stores.cassettes.Cassette": lambda box: Cassette(box.config.paths.state / SECRET),
}


@pytest.fixture
def box(project: Project) -> Toolbox:
    return project.open(secrets={"KEY": SECRET}, clock=None)


def _all_shown(value: Any) -> str:
    """Return everything that Python, a terminal and a notebook show of a value."""
    data, metadata = DisplayFormatter().format(value)
    texts = [repr(value), pretty(value), json.dumps([data, metadata], default=str)]
    # Text is its own data; of anything else `str` is what `print` shows.
    return "\n".join(texts if isinstance(value, str) else [*texts, str(value), f"{value}"])


def test_every_class_that_shows_itself_has_a_case_or_a_reason() -> None:
    classes = _shown_classes()

    assert sorted(classes.keys() - _CASES.keys() - _NOTHING_FOREIGN.keys()) == []
    assert sorted((_CASES.keys() | _NOTHING_FOREIGN.keys()) - classes.keys()) == []


@pytest.mark.parametrize("name", _CASES)
def test_no_secret_is_in_what_is_shown(box: Toolbox, name: str) -> None:
    made = _CASES[name](box)
    for value in made if type(made) is list else [made]:
        assert type(value).__module__.startswith("onetool_ipy."), value
        shown = _all_shown(value)
        assert SECRET not in shown
        assert SECRET[:-4] not in shown, "a part of the secret is left"


def test_a_question_that_is_put_has_no_secret(box: Toolbox) -> None:
    question = Question(
        "a",
        SECRET,
        calls=(ProposedCall(SECRET, SECRET, (("a", SECRET),), (), SECRET),),
        program=SECRET,
    )
    assert SECRET not in repr(question.masked(box.mask))


def test_an_error_of_a_program_has_no_secret(box: Toolbox) -> None:
    answer = box.ask.program(f"raise ValueError('{SECRET}')")
    assert answer.error is not None
    assert SECRET not in "\n".join(
        [str(answer.error), *answer.error.lines(), answer.note, repr(answer.error.details)]
    )


def test_the_value_itself_keeps_what_it_holds(box: Toolbox) -> None:
    """Only what is shown is masked: the data is the user's own."""
    assert Listing([{"a": SECRET}])[0]["a"] == SECRET
    assert _plan(box).plan[0]["args"] == {"text": SECRET}
    assert _answer().text == f"It is {SECRET}."
