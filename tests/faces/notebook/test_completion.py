"""Tab through the kernel protocol, as a notebook asks for it."""

from __future__ import annotations

import pytest

from onetool_ipy.faces.notebook.completion import CompletionContext, complete
from tests.conftest import FreshKernel
from tests.faces.notebook.test_extension_magics import write_pack
from tests.harness.kernel import Kernel
from tests.harness.project import Project
from tests.harness.servers import hostile

MODES = '''
from typing import Literal
from onetool_ipy import tool

@tool("shop.order")
def order(item: str, size: Literal["small", "large"], gift: bool = False, count: int = 1) -> str:
    """Order an item."""
    return item
'''


@pytest.fixture
def loaded(kernel: Kernel) -> Kernel:
    (kernel.cwd / ".onetool").mkdir()
    config = kernel.cwd / ".onetool" / "onetool.yaml"
    config.write_text(
        "servers: {ghost: {type: stdio, command: no-such-command}}\n", encoding="utf-8"
    )
    (kernel.cwd / "nothing").mkdir()
    for name in ("notes.txt", "nothing/inside.txt", ".hidden"):
        (kernel.cwd / name).write_text("x", encoding="utf-8")
    kernel.execute("%load_ext onetool_ipy")
    kernel.execute(MODES)
    kernel.execute("%%snippet greet who\nprint('{{ who }}')")
    return kernel


@pytest.mark.parametrize(
    ("code", "offered", "start"),
    [
        ("%tool ti", ["time.", "time.now"], 6),
        ("%ask --se", ["--session"], 5),
        ("%ask --no", ["--no-tools"], 5),
        ("%ask --approve shop.", ["shop.order"], 15),
        ("%tool time.", ["time.now"], 6),
        ("%tool sho", ["shop.", "shop.order"], 6),
        ("x = %tool fs.re", ["fs.read_file"], 10),
        ("%tool order", ["shop.order"], 6),
        ("%tool shop.ordr", ["shop.order"], 6),
        ("%tool li", ["list", "fs.list_dir"], 6),
        ("%tool info shop.", ["shop.order"], 11),
        ("%tool shop.order ", ["item=", "size=", "gift=", "count="], 17),
        ("%tool shop.order item=tea ", ["size=", "gift=", "count="], 26),
        ("%tool shop.order item=tea s", ["size="], 26),
        ("%tool shop.order size=", ["small", "large"], 22),
        ("%tool shop.order size=l", ["large"], 22),
        ("%tool shop.order gift=", ["true", "false"], 22),
        ("%tool shop.order --so", ["--soft"], 17),
        ("%tool shop.order(it", ["item="], 17),
        ("%tool shop.order(item='a', ", ["size=", "gift=", "count="], 27),
        ("%%tool shop.order si", ["size="], 18),
        ("for i in x:\n    y = %tool time.", ["time.now"], 26),
        ("ot.help('shop.o", ["shop.order"], 9),
        ("%tool server te", ["test"], 13),
        ("%tool server test ", ["ghost"], 18),
        ("%tool bundle o", ["on", "off"], 13),
        (
            "%tool stats ",
            ["day", "week", "month", "all", "--tool", "--output", "--view", "--since"],
            12,
        ),
        ("%tool stats --tool shop.", ["shop.order"], 19),
        ("%tool history --", ["--failed", "--since", "--tool"], 14),
        ("%tool install --", ["--lazy", "--always", "--remove"], 14),
        ("%tool fs.read_file path=no", ["notes.txt", "nothing/"], 24),
        ("%tool fs.read_file path=nothing/", ["nothing/inside.txt"], 24),
        ("%snippet gr", ["greet"], 9),
        ("%snippet greet ", ["who="], 15),
        ("ot.tools(info='", ["list", "min", "full"], 15),
        ("ot.tools('x', info='f", ["full"], 20),
        ("ot.stats(period='w", ["week"], 17),
        ("ot.map('shop.", ["shop.order"], 8),
    ],
)
def test_tab_offers_what_can_be_typed_there(
    loaded: Kernel, code: str, offered: list[str], start: int
) -> None:
    """Contract 8: tools, packs, argument names (required first), enum values and flags."""
    found = loaded.complete(code)
    assert list(found.matches) == offered
    assert (found.start, found.end) == (start, len(code))


@pytest.mark.parametrize(
    ("code", "first"),
    [
        ("$", ["greet", "shop.order", "fs.list_dir"]),
        ("shop.order(", ["item=", "size=", "gift=", "count="]),
        ("x = shop.order(item='a, b', ", ["size=", "gift=", "count="]),
        ("shop.order(tea, ", ["size=", "gift=", "count="]),
    ],
)
def test_tab_offers_tools_and_parameters_before_all_else(
    loaded: Kernel, code: str, first: list[str]
) -> None:
    offered = list(loaded.complete(code).matches)
    assert offered[: len(first)] == first
    assert "abs" not in offered


def test_offers_are_typed(loaded: Kernel) -> None:
    assert set(loaded.complete("%tool ti").types) == {"module", "function"}
    assert set(loaded.complete("%tool shop.order ").types) == {"param"}
    assert set(loaded.complete("%tool shop.order size=").types) == {"value"}


@pytest.mark.slow
@pytest.mark.parametrize(
    "code",
    [
        "%tool 'unclosed",
        "%tool shop.order item=[1, 2",
        "x = (\n%tool sh",
        "%tool " + "x" * 5000,
        "$",
        "$$",
        "%tool -",
        "def f(:\n  %tool ti",
    ],
)
def test_broken_cells_break_nothing(loaded: Kernel, code: str) -> None:
    assert loaded.complete(code).reply["status"] == "ok"


@pytest.mark.slow
def test_proxies_complete_tools_and_arguments(loaded: Kernel) -> None:
    assert "order" in [m.rpartition(".")[2] for m in loaded.complete("shop.or").matches]
    assert "item=" in loaded.complete("shop.order(it").matches


@pytest.mark.slow
def test_two_thousand_tools_complete_like_two(kernel: Kernel) -> None:
    """All of a pack's matches come, at once; how fast is measured by `make bench`."""
    names = "\n".join(
        f'def tool_{i}(a: int) -> int:\n    "Do {i}."\n    return a\n' for i in range(1000)
    )
    for file in ("many.py", "more.py"):  # a file has at most a thousand
        write_pack(kernel.cwd, names, file)
    kernel.execute("%load_ext onetool_ipy")
    assert len(kernel.complete("%tool many.tool_1").matches) == 111
    assert len(kernel.complete("%tool more.tool_1").matches) == 111


def test_ot_completes_all_that_it_has(loaded: Kernel) -> None:
    offered = loaded.complete("ot.").matches
    assert {"tools", "map", "run", "replay", "browser", "view", "usage"} <= set(offered)


@pytest.mark.slow
def test_the_very_first_tab_of_a_kernel_gives_the_tools_of_a_pack(
    fresh_kernel: FreshKernel,
) -> None:
    """Without waiting for the analysis of Python code, which the first Tab would have to load."""
    kernel = fresh_kernel()
    kernel.execute("%load_ext onetool_ipy\nfrom onetool_ipy import tool")
    kernel.execute("@tool\ndef show(weight: float) -> float:\n    'Show.'\n    return weight")
    found = kernel.complete("x = nb.")
    assert list(found.matches) == ["show"]
    assert list(found.types) == ["function"]
    assert {"stats", "browser"} <= set(kernel.complete("ot.").matches)
    assert list(kernel.complete("if True:\n    print(nb.sh").matches) == ["show"]
    assert kernel.evaluate("'jedi' in __import__('sys').modules") == "False"
    kernel.execute("class Own:\n    mine = 1\nnb = Own()")
    assert "mine" in kernel.complete("nb.").matches


@pytest.mark.parametrize("code", ["'ot.", "x = 1  # ot.", "x.ot.", "nothing."])
def test_other_dots_are_left_to_python(loaded: Kernel, code: str) -> None:
    assert "stats" not in loaded.complete(code).matches


def test_ones_own_tools_come_before_ot_and_the_commands(kernel: Kernel) -> None:
    kernel.execute("%load_ext onetool_ipy\nfrom onetool_ipy import tool")
    kernel.execute(
        "@tool\ndef bmi(weight: float) -> float:\n    'Body mass index.'\n    return weight"
    )
    found = kernel.complete("%tool ").matches
    places = [found.index(name) for name in ("nb.", "ot.", "nb.bmi", "ot.stats", "browse")]
    assert places == sorted(places)
    kernel.execute("@tool('box.sort')\ndef sort(a: int) -> int:\n    'Sort.'\n    return a")
    kernel.execute("@tool('sums.add')\ndef add(a: int) -> int:\n    'Add.'\n    return a")
    found = kernel.complete("%tool s").matches
    assert found[:3] == ("sums.", "sums.add", "box.sort")
    places = [found.index(name) for name in ("search", "stats", "ot.snippets", "ot.stats")]
    assert places == sorted(places)
    shown = kernel.inspect("nb.bmi", 6)
    assert "nb.bmi(weight: float)" in shown
    assert "Body mass index." in shown
    assert "ToolProxy" not in shown
    assert "*args" not in shown


def test_an_alias_is_offered_with_what_it_leads_to(project: Project) -> None:
    """A tool's parameters come with its alias, a missing tool has none, and a circle is left out."""
    box = project.open(
        "aliases: {read: fs.read_file, gone: no.tool, one: two, two: one, last: read}"
    )
    spec = box.registry.require("fs.read_file")

    assert {row[0]: row[1:] for row in CompletionContext(box, (), {}).shortcuts()} == {
        "read": ("function", spec.parameters),
        "gone": ("function", {}),
        "last": ("function", spec.parameters),
    }


def test_the_arguments_of_a_servers_prompt_are_completed_by_that_server(project: Project) -> None:
    box = project.open({"servers": {"srv": hostile("--offers")}})
    box.servers.start("srv")
    context = CompletionContext(box, (), {})

    def offered(line: str) -> list[str]:
        found = complete(line, context)
        return [] if found is None else [offer.text for offer in found.offers]

    assert offered("%tool srv.greet ci") == ["city="]
    assert [text.removeprefix("city=") for text in offered("%tool srv.greet city=V")] == [
        "Vienna",
        "Venice",
    ]
