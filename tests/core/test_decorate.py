"""`@tool` in all its forms, and the current toolbox it registers in."""

from __future__ import annotations

import functools
from typing import Any

import pytest

from onetool_ipy import DuplicateTool, InvalidTool, tool
from onetool_ipy.core.decorate import Marks, marks_of
from tests.core.support import short
from tests.harness.programs import python
from tests.harness.project import Project


def test_a_bare_tool_goes_to_pack_nb_and_the_function_stays_as_it_is(project: Project) -> None:
    box = project.open()

    def add(a: int, b: int = 1) -> int:
        return a + b

    same = tool(add)

    assert same is add
    assert add(1) == 2
    assert box.call("nb.add", {"a": 1}).data == 2
    assert box.registry.get("nb.add").origin == "cell"


def test_every_word_of_the_decorator_is_taken(project: Project) -> None:
    box = project.open()

    @tool(
        name="find",
        pack="geo",
        description="Find a place.",
        tags=["maps", "web"],
        read_only=True,
        cache_key=lambda **args: args,
        timeout=2,
        examples=["find('x')", "find('y')"],
    )
    def locate(place: str) -> str:
        return place

    spec = box.registry.get("geo.find")
    assert (spec.description, spec.tags, spec.read_only, spec.timeout_s) == (
        "Find a place.",
        ("maps", "web"),
        True,
        2.0,
    )
    assert spec.example == "find('x')\nfind('y')"
    assert spec.function.cache_key(a=1) == {"a": 1}
    assert locate("x") == "x"


@pytest.mark.parametrize(
    ("words", "name"),
    [
        ({}, "nb.fn"),
        ({"pack": "geo"}, "geo.fn"),
        ({"name": "a.b"}, "a.b"),
        ({"name": "b"}, "nb.b"),
        ({"name": "b", "pack": "geo"}, "geo.b"),
        ({"name": "get-sum", "pack": "geo"}, "geo.get-sum"),
    ],
    ids=short,
)
def test_how_a_tool_gets_its_name(project: Project, words: dict[str, Any], name: str) -> None:
    box = project.open()

    @tool(**words)
    def fn() -> None:
        """Do."""

    assert box.registry.get(name) is not None


def test_a_name_may_be_the_only_argument(project: Project) -> None:
    box = project.open()

    @tool("geo.locate")
    def fn() -> int:
        return 1

    assert box.call("geo.locate").data == 1


def test_running_a_cell_again_replaces_its_tool(project: Project) -> None:
    box = project.open()
    for n in (1, 2):

        @tool
        def give(n: int = n) -> int:
            return n

    assert box.call("nb.give").data == 2


def test_a_cell_cannot_take_the_name_of_another_source(project: Project) -> None:
    box = project.open()

    with pytest.raises(DuplicateTool, match="taken by a builtin tool"):

        @tool("time.now")
        def mine() -> None:
            """Mine."""

    assert box.call("time.now").data["timestamp"] > 0


@pytest.mark.parametrize("examples", ["one", ["one"]])
def test_a_single_example_or_tag_need_not_be_a_list(examples: Any) -> None:
    @tool(examples=examples, tags="web")
    def fn() -> None: ...

    assert marks_of(fn).examples == ("one",)
    assert marks_of(fn).tags == ("web",)


@pytest.mark.parametrize(
    ("make", "match"),
    [
        (lambda: tool(5), "for functions"),
        (lambda: tool("a.b")(5), "for functions"),
        (lambda: tool(len), "cannot mark"),
        (lambda: tool(int), "cannot mark"),
        (lambda: tool([].append), "cannot mark"),
        (lambda: tool(timeout=0)(lambda: 1), "above 0"),
        (lambda: tool(timeout="5")(lambda: 1), "above 0"),
        (lambda: tool(lambda: 1), "has no name of its own"),
        (lambda: tool("no name at all")(lambda: 1), "holds blanks"),
    ],
    ids=range(9),
)
def test_what_cannot_be_a_tool_says_why(project: Project, make: Any, match: str) -> None:
    project.open()

    with pytest.raises(InvalidTool, match=match):
        make()


def test_a_partial_has_the_name_of_its_function_and_a_lambda_needs_one(project: Project) -> None:
    box = project.open()

    def power(base: int, exponent: int) -> int:
        return base**exponent

    tool(functools.partial(power, exponent=2))
    tool("nb.half")(lambda n: n / 2)

    assert box.call("nb.power", {"base": 3}).data == 9
    assert box.call("nb.half", {"n": 3}).data == 1.5


def test_without_a_toolbox_the_function_is_only_marked() -> None:
    code = (
        "from onetool_ipy import tool\n"
        "from onetool_ipy.core.decorate import marks_of\n"
        "@tool(read_only=True)\n"
        "def f(): return 1\n"
        "assert marks_of(f).read_only and f() == 1\n"
        "import sys; print('onetool_ipy.assemble' in sys.modules)"
    )

    done = python(code)

    assert done.stdout.strip() == "False"


def test_what_was_never_marked_has_empty_marks() -> None:
    assert marks_of(len) == Marks()


# --- which toolbox is current
