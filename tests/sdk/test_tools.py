"""Other packs, settings, secrets and progress, as a running tool sees them (spec 000)."""

from __future__ import annotations

import pytest

from onetool_ipy import tool
from onetool_ipy.sdk import call_tool, get_config, get_pack, get_secret
from tests.harness.patience import HANG_S
from tests.harness.project import Project

LLM = '''
from onetool_ipy.sdk import get_config, get_secret

def transform(input: str, prompt: str) -> dict:
    """Transform text."""
    return {"input": input, "prompt": prompt, "model": get_config()["model"], "key": get_secret("LLM_KEY")}

def fail() -> None:
    """Fail."""
    raise KeyError("the pack's own")

def rename(name: str) -> str:
    """Take an argument that is called name."""
    return name.upper()
'''
NOTES = '''
from onetool_ipy.sdk import call_tool, get_config, get_pack

def summarize(text: str) -> dict:
    """Summarize by another pack."""
    before = get_config()
    other = get_pack("llm").transform(input=text, prompt="summarize")
    return {"before": before, "other": other, "after": get_config()}

def by_name(text: str) -> dict:
    """Summarize by a tool's name."""
    return call_tool("llm.transform", input=text, prompt="summarize")

def missing() -> object:
    """Ask for a pack that is not there."""
    return get_pack("nonexistent")

def missing_tool() -> object:
    """Call a tool of a pack that is not there."""
    return call_tool("nonexistent.foo", arg="value")
'''


@pytest.fixture
def packs(project: Project) -> Project:
    project.pack("llm", LLM)
    project.pack("notes", NOTES)
    project.settings(packs={"llm": {"model": "qwen"}, "notes": {"lines": 3}})
    project.secrets(LLM_KEY="sk-llm-0123456789")
    return project


@pytest.mark.spec("000/Pack Access/Retrieve pack proxy")
def test_a_tool_gets_another_pack_with_its_own_settings_and_secrets(packs: Project) -> None:
    found = packs.open().call("notes.summarize", {"text": "hello"}).unwrap()

    assert found["other"] == {
        "input": "hello",
        "prompt": "summarize",
        "model": "qwen",
        "key": "sk-llm-0123456789",
    }
    assert found["before"] == found["after"] == {"lines": 3}


@pytest.mark.spec("000/Pack Access/Retrieve pack proxy")
def test_a_pack_has_its_tools_as_methods(packs: Project) -> None:
    packs.open()

    llm = get_pack("llm")

    assert llm is not None
    assert callable(llm.transform)
    assert llm.transform(input="a", prompt="b")["prompt"] == "b"
    assert dir(llm) == ["fail", "rename", "transform"]


@pytest.mark.spec("000/Pack Access/Pack not found")
def test_a_pack_that_is_not_there_is_none(packs: Project) -> None:
    assert packs.open().call("notes.missing").unwrap() is None
    assert get_pack("nonexistent") is None


@pytest.mark.spec("000/Tool Invocation/Call tool successfully")
def test_a_tool_is_called_by_its_name(packs: Project) -> None:
    box = packs.open()

    inside = box.call("notes.by_name", {"text": "hello"}).unwrap()
    outside = call_tool("llm.transform", input="hello", prompt="summarize")

    assert inside == outside
    assert outside["input"] == "hello"
    assert outside["prompt"] == "summarize"


@pytest.mark.spec("000/Tool Invocation/Pack not found error")
def test_a_tool_of_a_missing_pack_is_a_value_error(packs: Project) -> None:
    box = packs.open()

    with pytest.raises(ValueError, match=r"^Pack not found: nonexistent$"):
        call_tool("nonexistent.foo", arg="value")
    result = box.call("notes.missing_tool")
    assert result.error is not None
    assert result.error.message == "ValueError: Pack not found: nonexistent"


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("llm.nope", "Tool not found: llm.nope"),
        ("llm", "Tool not found: llm"),
        ("llm.", "Tool not found: llm."),
        ("", "Pack not found: "),
        (".transform", "Pack not found: "),
    ],
)
def test_a_missing_tool_is_a_value_error_that_names_it(
    packs: Project, name: str, words: str
) -> None:
    packs.open()

    with pytest.raises(ValueError) as caught:  # noqa: PT011 - the text is compared whole
        call_tool(name)

    assert str(caught.value) == words


def test_a_tools_own_exception_passes_through(packs: Project) -> None:
    packs.open()

    with pytest.raises(KeyError, match="the pack's own"):
        call_tool("llm.fail")


def test_a_tool_may_have_an_argument_called_name(packs: Project) -> None:
    packs.open()

    assert call_tool("llm.rename", name="ada") == "ADA"


def test_a_tool_is_found_by_its_bare_name_too(project: Project) -> None:
    project.settings(
        tools=[
            {
                "name": "greeting",
                "description": "Say hello.",
                "type": "function",
                "handler": "greeting",
                "parameters": {"type": "object", "properties": {}},
                "implementation": {"type": "mock", "mock_response": "hello"},
            }
        ]
    )
    project.open()

    assert call_tool("greeting") == call_tool("config.greeting") == "hello"


def test_settings_are_a_copy_that_may_be_changed(packs: Project) -> None:
    packs.settings(packs={"llm": {"model": "qwen", "nested": {"a": [1]}}})
    packs.open()

    get_config("llm")["nested"]["a"].append(2)

    assert get_config("llm") == {"model": "qwen", "nested": {"a": [1]}}
    assert get_config("nope") == {}
    assert get_config() == {}


def test_a_pack_reads_its_own_settings_while_it_is_imported_by_anothers_call(
    project: Project,
) -> None:
    project.pack(
        "inner",
        "from onetool_ipy.sdk import get_config\nSIZE = get_config()\ndef size():\n    'Size.'\n   "
        " return SIZE\n",
    )
    project.pack(
        "outer",
        "from onetool_ipy.sdk import call_tool\ndef ask():\n    'Ask.'\n    return"
        " call_tool('inner.size')\n",
    )
    project.settings(packs={"inner": {"size": 1}, "outer": {"size": 2}})

    assert project.open().call("outer.ask").unwrap() == {"size": 1}


def test_a_secret_comes_from_the_file_then_from_the_environment(
    project: Project,
) -> None:
    outer = {"IN_BOTH": "from the environment", "IN_ENV": "environment only"}
    project.open(secrets={"IN_BOTH": "from the file"}, env={**project.env, **outer})

    assert [get_secret(name) for name in ("IN_BOTH", "IN_ENV", "NOWHERE")] == [
        "from the file",
        "environment only",
        None,
    ]


def test_progress_reaches_who_listens(project: Project) -> None:
    project.pack(
        "slow",
        """
        from onetool_ipy.sdk import progress
        def work():
            "Work."
            progress(1, 2, "half")
            return "done"
        """,
    )
    job = project.open().start("slow.work")

    assert job.result(HANG_S).unwrap() == "done"
    assert tuple(job.progress) == (1, 2, "half")


@pytest.mark.parametrize(
    ("said", "heard"),
    [
        ("np.int64(3), np.float32(0.5), np.str_('rows')", (3, 0.5, "rows")),
        ("10**5000, Mute(), Mute()", ("int", "Mute", "Mute")),
        ("None, True, 5", (None, 1, "5")),
    ],
)
def test_whatever_a_tool_says_can_be_drawn(
    project: Project, said: str, heard: tuple[object, ...]
) -> None:
    project.pack(
        "odd",
        f"""
        import numpy as np
        from onetool_ipy.sdk import progress
        class Mute:
            def __str__(self):
                raise ValueError
        def work():
            "Work."
            progress({said})
            return "done"
        """,
    )
    job = project.open().start("odd.work")

    assert job.result(HANG_S).unwrap() == "done"
    assert tuple(job.progress) == heard
    assert all(
        type(value) in (int, float, str, type(None)) or value == "rows" for value in job.progress
    )


def test_outside_a_call_the_toolbox_opened_last_is_used(
    project: Project, tmp_path_factory: pytest.TempPathFactory
) -> None:
    project.secrets(WHO="first toolbox")
    project.open()

    with Project(tmp_path_factory.mktemp("second")) as second:
        second.secrets(WHO="second toolbox")
        second.open()
        inner = get_secret("WHO")

    assert inner == "second toolbox"
    assert get_secret("WHO") == "first toolbox"


def test_a_cells_tool_sees_the_settings_of_its_pack(project: Project) -> None:
    project.settings(packs={"nb": {"size": 5}})
    box = project.open()

    @tool
    def size() -> dict:
        return get_config()

    assert box.call("nb.size").unwrap() == {"size": 5}
