"""Spec 003: tools declared in `.onetool/onetool.yaml`, through a real file and a real toolbox."""

from __future__ import annotations

import json
import logging
import re
from typing import Any

import pytest

from onetool_ipy import DuplicateTool, InvalidTool, Toolbox, ToolSpec
from onetool_ipy.sources.declared import HTTP_REFUSED, read_definition
from tests.core.support import short
from tests.harness.project import Project

BUILTINS = ["time.now", "tools.echo", "shell.pwd", "fs.list_dir", "fs.read_file"]


def definition(name: str = "weather", **changes: Any) -> dict[str, Any]:
    """A definition that is right, but for the changes; None takes a key out."""
    made: dict[str, Any] = {
        "name": name,
        "description": "Tell the weather.",
        "type": "function",
        "handler": "weather",
        "parameters": {
            "type": "object",
            "properties": {"city": {"type": "string"}},
            "required": ["city"],
        },
        "implementation": {"type": "mock", "mock_response": {"temperature": 21}},
        **changes,
    }
    return {key: value for key, value in made.items() if value is not None}


def _open(project: Project, *definitions: Any) -> Toolbox:
    return project.open("tools: " + json.dumps(list(definitions)))


def _problems(box: Toolbox) -> list[str]:
    return [str(problem) for problem in box.problems()]


def _declared(box: Toolbox) -> list[str]:
    return [spec.name for spec in box.registry.list() if spec.origin == "config"]


@pytest.mark.spec("003/Tool Registration/Register tool from configuration")
def test_tools_of_the_configuration_are_registered_and_bad_ones_stop_nothing(
    project: Project, caplog: pytest.LogCaptureFixture
) -> None:
    """WHEN the system starts THEN each is validated and registered AND invalid ones are logged as
    errors."""
    with caplog.at_level(logging.ERROR):
        box = _open(
            project, definition("one"), definition("bad", description=None), definition("geo.two")
        )
        assert _declared(box) == ["config.one", "geo.two"]

    assert box.call("one", {"city": "x"}).data == {"temperature": 21}
    assert box.call("geo.two", {"city": "x"}).ok
    assert box.call("one", {}).error.code == "invalid_args"
    errors = [r for r in caplog.records if r.levelno == logging.ERROR]
    assert any(
        "'config.bad': 'description' is missing or not text." in r.getMessage() for r in errors
    )
    (problem,) = [text for text in _problems(box) if "bad" in text]
    assert problem.startswith(".onetool/onetool.yaml:1:")


@pytest.mark.spec("003/Tool Registration/Reject duplicate tool names")
def test_the_second_tool_of_a_name_fails_and_the_first_stays(
    project: Project, caplog: pytest.LogCaptureFixture
) -> None:
    """WHEN two have the same name THEN the second fails with an error AND the first remains."""
    second = definition("one", implementation={"type": "mock", "mock_response": "second"})

    with caplog.at_level(logging.ERROR):
        box = _open(project, definition("one"), second, definition("two"))
        assert _declared(box) == ["config.one", "config.two"]

    assert box.call("one", {"city": "x"}).data == {"temperature": 21}
    assert any("The name 'config.one' is taken by a config tool" in text for text in _problems(box))
    assert any(
        "config.one" in r.getMessage() and r.levelno == logging.ERROR for r in caplog.records
    )
    with pytest.raises(InvalidTool, match="taken by a config tool"):
        box.registry.register(definition("one"))
    assert box.call("one", {"city": "x"}).data == {"temperature": 21}


@pytest.mark.spec("003/Tool Registration/Reject duplicate tool names")
def test_a_definition_registered_by_code_replaces_nothing(project: Project) -> None:
    """Only a cell's `@tool` may replace: the same name given to `register` again is
    refused."""
    box = _open(project)
    box.registry.register(definition("late"))
    second = definition("config.late", implementation={"type": "mock", "mock_response": "second"})

    with pytest.raises(
        DuplicateTool, match=re.escape("The name 'config.late' is taken by a cell tool.")
    ):
        box.registry.register(second)

    assert box.call("late", {"city": "x"}).data == {"temperature": 21}


WRONG: list[tuple[str, dict[str, Any], str]] = [
    ("no name", {"name": None}, "A tool needs a name."),
    ("empty name", {"name": ""}, "A tool needs a name."),
    ("name is a number", {"name": 5}, "A tool needs a name."),
    ("name with blanks", {"name": "two words"}, "holds blanks"),
    ("no description", {"description": None}, "'description' is missing or not text."),
    ("empty description", {"description": " "}, "'description' is missing or not text."),
    ("description is a list", {"description": ["x"]}, "'description' is missing or not text."),
    ("no type", {"type": None}, 'type must be "function", not None.'),
    ("other type", {"type": "tool"}, "type must be \"function\", not 'tool'."),
    ("no handler", {"handler": None}, "'handler' is missing or not text."),
    ("handler is a number", {"handler": 5}, "'handler' is missing or not text."),
    ("no parameters", {"parameters": None}, "parameters must be a JSON Schema object."),
    ("parameters is a list", {"parameters": []}, "parameters must be a JSON Schema object."),
    (
        "parameters of another type",
        {"parameters": {"type": "array"}},
        "parameters.type must be \"object\", not 'array'.",
    ),
    (
        "parameters without a type",
        {"parameters": {}},
        'parameters.type must be "object", not None.',
    ),
    (
        "not json schema",
        {"parameters": {"type": "object", "properties": {"a": {"type": "x"}}}},
        "Not a JSON Schema",
    ),
    (
        "remote schema",
        {"parameters": {"type": "object", "$ref": "http://127.0.0.1:9/x"}},
        "Not a JSON Schema",
    ),
    ("no implementation", {"implementation": None}, "implementation must be an object with a type"),
    (
        "implementation is text",
        {"implementation": "mock"},
        "implementation must be an object with a type",
    ),
    (
        "implementation without a type",
        {"implementation": {"mock_response": 1}},
        "must be an object with a type",
    ),
    (
        "unknown implementation",
        {"implementation": {"type": "magic"}},
        "no implementation type 'magic'",
    ),
    (
        "mock without response",
        {"implementation": {"type": "mock"}},
        "a mock needs implementation.mock_response.",
    ),
    ("tags are no list", {"tags": 5}, "tags must be a list of texts."),
]


@pytest.mark.spec(
    "003/Tool Registration/Validate tool definition",
    "003/Tool Definition Schema/Tool definition structure",
)
@pytest.mark.parametrize(
    ("changes", "said"), [row[1:] for row in WRONG], ids=[row[0] for row in WRONG]
)
def test_a_definition_is_validated(project: Project, changes: dict[str, Any], said: str) -> None:
    """THEN name and description are present AND parameters are JSON Schema AND their type is
    "object".

    It MUST include name, description, type "function", handler, parameters, AND implementation with
    a type.
    """
    box = _open(project, definition(**changes), definition("good"))

    assert _declared(box) == ["config.good"]
    assert any(said in text for text in _problems(box))
    with pytest.raises(InvalidTool) as caught:
        box.registry.register(
            definition("other", **changes) if "name" not in changes else definition(**changes)
        )
    assert said in caught.value.message
    assert _declared(box) == ["config.good"]


@pytest.mark.spec("003/Tool Definition Schema/Tool definition structure")
def test_a_whole_definition_is_taken_as_it_is_written(project: Project) -> None:
    box = _open(project, definition("geo.rain", tags=["maps"], read_only=False))

    spec = box.registry.get("geo.rain")

    assert (spec.name, spec.description, spec.tags, spec.read_only) == (
        "geo.rain",
        "Tell the weather.",
        ("maps",),
        False,
    )
    assert spec.parameters == definition()["parameters"]
    assert spec.where == ".onetool/onetool.yaml:1"
    assert spec.source == "local"


@pytest.mark.spec("003/Tool Lookup/Get tool by name")
def test_a_declared_tool_is_found_by_name(project: Project) -> None:
    box = _open(project, *(definition(f"t{i}") for i in range(200)))

    spec = box.registry.get("config.t7")

    assert isinstance(spec, ToolSpec)
    assert spec is box.registry.get("t7")
    assert box.call("t7", {"city": "x"}).meta["tool"] == "config.t7"


@pytest.mark.spec("003/Tool Lookup/Tool not found")
def test_an_unregistered_tool_is_none_and_the_caller_handles_it(project: Project) -> None:
    box = _open(project, definition())

    assert box.registry.get("wether") is None
    result = box.call("wether", {"city": "x"})
    assert (result.ok, result.error.code) == (False, "tool_not_found")
    assert "Did you mean 'weather'" in result.error.message


@pytest.mark.spec("003/Tool Lookup/List all tools")
def test_all_registered_tools_are_listed(project: Project) -> None:
    box = _open(project, definition("z"), definition("a.b"))

    listed = [spec.name for spec in box.registry.list()]

    assert listed[:5] == BUILTINS
    assert listed[-2:] == ["config.z", "a.b"]
    assert any(name.startswith("ot.") for name in listed)


@pytest.mark.spec("003/Tool Definition Schema/Mock tool implementation")
@pytest.mark.parametrize(
    "answer", [None, True, 0, 1.5, "text", "", [], [1, [2]], {}, {"a": {"b": None}}], ids=short
)
def test_a_mock_answers_with_any_json_value(project: Project, answer: Any) -> None:
    """It MUST include mock_response AND that can be any valid JSON value."""
    box = _open(project, definition(implementation={"type": "mock", "mock_response": answer}))

    assert box.call("weather", {"city": "x"}).unwrap() == answer
    assert box.registry.get("weather").read_only


def test_a_mock_answers_anew_each_time(project: Project) -> None:
    box = _open(
        project, definition(implementation={"type": "mock", "mock_response": {"list": [1]}})
    )

    box.call("weather", {"city": "x"}).data["list"].append(2)

    assert box.call("weather", {"city": "x"}).data == {"list": [1]}


def _forwarding(kind: str, handler: Any, **parameters: Any) -> dict[str, Any]:
    inner = {"type": kind} if handler is None else {"type": kind, "handler": handler}
    return definition("mine", implementation=inner, parameters={"type": "object", **parameters})


@pytest.mark.spec("003/Tool Definition Schema/Builtin tool implementation")
@pytest.mark.parametrize("handler", BUILTINS)
def test_a_builtin_handler_is_one_of_the_five(project: Project, handler: str) -> None:
    """It MUST include handler AND that corresponds to a registered builtin function."""
    folder = project.root / "files"
    folder.mkdir()
    (folder / "a.txt").write_text("hello")
    args = {
        "tools.echo": {"message": [1]},
        "fs.list_dir": {"path": str(folder)},
        "fs.read_file": {"path": str(folder / "a.txt")},
    }.get(handler, {})
    box = _open(project, _forwarding("builtin", handler))

    assert box.call("mine", args).unwrap() == box.call(handler, args).unwrap()
    assert box.registry.get("mine").read_only


@pytest.mark.spec("003/Tool Definition Schema/Internal tool implementation")
def test_an_internal_handler_is_a_function_of_ot(project: Project) -> None:
    """It MUST include handler AND that corresponds to an internal service integration."""
    box = _open(project, _forwarding("internal", "ot.version"))

    assert box.call("mine").unwrap() == box.call("ot.version").unwrap()


@pytest.mark.spec(
    "003/Tool Definition Schema/Builtin tool implementation",
    "003/Tool Definition Schema/Internal tool implementation",
)
@pytest.mark.parametrize(
    ("kind", "handler", "said", "valid"),
    [
        ("builtin", None, "builtin needs implementation.handler.", ""),
        ("internal", None, "internal needs implementation.handler.", ""),
        ("builtin", 5, "builtin needs implementation.handler.", ""),
        (
            "builtin",
            "time.nwo",
            "no builtin handler 'time.nwo'. Did you mean 'time.now'?",
            "Valid: time.now, tools.echo",
        ),
        ("builtin", "ot.version", "no builtin handler 'ot.version'", "Valid: time.now"),
        ("internal", "time.now", "no internal handler 'time.now'", "ot.version"),
        ("builtin", "os.system", "no builtin handler 'os.system'", "Valid: time.now"),
    ],
    ids=short,
)
def test_an_unknown_handler_is_refused_with_the_valid_ones(
    project: Project, kind: str, handler: Any, said: str, valid: str
) -> None:
    box = _open(project, _forwarding(kind, handler))

    assert _declared(box) == []
    assert any(said in text and valid in text for text in _problems(box))


def test_a_handler_checks_its_own_arguments_too(project: Project) -> None:
    box = _open(
        project, _forwarding("builtin", "tools.echo", properties={"text": {"type": "string"}})
    )

    error = box.call("mine", {"text": "x"}).error

    assert error.code == "invalid_args"
    assert "missing argument 'message'" in error.message


@pytest.mark.spec("003/Tool Definition Schema/HTTP tool implementation validation")
def test_an_http_tool_is_refused_with_its_exact_text(
    project: Project, caplog: pytest.LogCaptureFixture
) -> None:
    """THEN registration is rejected with the text AND the tool is not added to the registry."""
    http = definition("web", implementation={"type": "http", "url": "http://127.0.0.1"})

    with caplog.at_level(logging.ERROR):
        box = _open(project, http, definition())
        assert _declared(box) == ["config.weather"]

    assert HTTP_REFUSED == "HTTP tools not yet supported (coming in v2)"
    (problem,) = [p for p in box.problems() if HTTP_REFUSED in p.message]
    assert problem.message == HTTP_REFUSED
    assert any(HTTP_REFUSED in r.getMessage() for r in caplog.records)
    assert box.registry.get("web") is None
    with pytest.raises(InvalidTool) as caught:
        box.registry.register(http)
    assert str(caught.value) == HTTP_REFUSED
    assert box.registry.get("web") is None


def test_an_unknown_key_is_said_and_the_tool_stays(project: Project) -> None:
    box = _open(
        project,
        definition(
            descripton="typo", implementation={"type": "mock", "mock_response": 1, "delay": 5}
        ),
    )

    assert box.call("weather", {"city": "x"}).data == 1
    said = "\n".join(_problems(box))
    assert "unknown key 'descripton'" in said
    assert "unknown key 'implementation.delay'" in said


def test_a_definition_registered_in_a_session_is_a_tool_like_any_other(project: Project) -> None:
    box = project.open()

    spec = box.registry.register(definition("geo.rain"))

    assert spec.name == "geo.rain"
    assert box.call("geo.rain", {"city": "x"}).ok
    box.reload()
    assert box.call("geo.rain", {"city": "x"}).ok


def test_every_start_says_the_same_problems(
    project: Project, caplog: pytest.LogCaptureFixture
) -> None:
    """Each wrong definition is a problem and an error in the log; the others work."""
    wrong = [
        definition("no_words", description=None),
        definition("typo", descripton="x"),
        definition("lost", implementation={"type": "builtin", "handler": "no.such"}),
    ]
    for _ in range(2):
        caplog.clear()
        box = _open(project, definition("one"), *wrong)

        names = [spec.name for spec in box.registry.list() if spec.origin == "config"]
        assert names == ["config.one", "config.typo"]
        assert box.call("one", {"city": "x"}).data == {"temperature": 21}
        problems, logged = [
            [str(each) for each in box.problems()],
            [each.getMessage() for each in caplog.records],
        ]
        for word in ("no_words", "descripton", "no.such"):
            assert (
                sum(word in text for text in problems) == sum(word in text for text in logged) == 1
            )


def test_a_thousand_tools_are_read_in_a_moment(project: Project) -> None:
    import time

    box = _open(project, *(definition(f"t{i}") for i in range(1_000)))
    began = time.process_time()

    assert len(_declared(box)) == 1_000

    assert time.process_time() - began < 15


def test_a_definition_that_is_no_mapping_is_refused_by_reading_it() -> None:
    with pytest.raises(InvalidTool):
        read_definition({}, lambda: {"builtin": {}, "internal": {}})


@pytest.mark.parametrize(
    ("handler", "said", "read_only"),
    [
        ("ot.notify", True, False),
        ("ot.reload", True, False),
        ("ot.stats", True, False),
        ("ot.map", None, False),
        ("ot.version", None, True),
        ("ot.version", False, False),
    ],
)
def test_a_definition_is_not_more_read_only_than_its_handler(
    project: Project, handler: str, said: bool | None, read_only: bool
) -> None:
    """A model runs what is read-only without asking."""
    box = _open(
        project,
        {**_forwarding("internal", handler), **({} if said is None else {"read_only": said})},
    )

    assert box.registry.get("mine").read_only is read_only
