"""`await brave.search.aio(...)` and `box.acall`: many at once, each in its own context."""

from __future__ import annotations

import textwrap

import pytest

from tests.harness.kernel import Kernel
from tests.harness.patience import HANG_S

ONE = '''
"""One pack."""
import asyncio
from onetool_ipy.core import current
from onetool_ipy.sdk import call_tool, get_config, get_pack, get_secret

pack = "one"


async def look(n: int, deep: bool = True) -> list:
    """Look around, before and after others had their turn."""
    before = _seen(n)
    await asyncio.sleep(0.05 * (n % 3) if n >= 0 else 60)
    inner = await get_pack("two").look.aio(n=n) if deep else None
    await asyncio.sleep(0)
    assert _seen(n) == before
    return [*before, inner]


def still(n: int) -> list:
    """Look around, in a thread."""
    return [*_seen(n), call_tool("two.look", n=n)]


def _seen(n: int) -> list:
    scope = current.scope()
    return [n, scope.call.args["n"], scope.spec.pack, scope.depth, get_config().get("mark"), get_secret("KEY")]
'''
TWO = ONE.replace('pack = "one"', 'pack = "two"').replace("deep: bool = True", "deep: bool = False")
CONFIG = "version: 1\npacks: {one: {mark: first}, two: {mark: second}}\n"


@pytest.fixture(scope="module")
def ready(_shared_kernel: Kernel, tmp_path_factory: pytest.TempPathFactory) -> Kernel:
    folder = tmp_path_factory.mktemp("async")
    tools = folder / "work" / ".onetool" / "tools"
    tools.mkdir(parents=True)
    (tools.parent / "onetool.yaml").write_text(CONFIG, encoding="utf-8")
    (tools.parent / "secrets.yaml").write_text("KEY: hunter2hunter2\n", encoding="utf-8")
    (tools.parent / "secrets.yaml").chmod(0o600)
    (tools / "one.py").write_text(textwrap.dedent(ONE), encoding="utf-8")
    (tools / "two.py").write_text(textwrap.dedent(TWO), encoding="utf-8")
    _shared_kernel.reset(folder / "work", folder / "state")
    _shared_kernel.execute("%load_ext onetool_ipy")
    _shared_kernel.execute(
        "import asyncio\nfrom onetool_ipy.core import current\nbox = current.toolbox()"
    )
    return _shared_kernel


def expected(n: int) -> str:
    secret = "'hunter2hunter2'"
    inner = f"[{n}, {n}, 'two', 2, 'second', {secret}, None]"
    return f"[{n}, {n}, 'one', 1, 'first', {secret}, {inner}]"


@pytest.mark.parametrize(
    "code",
    [
        "await one.look.aio(n=7)",
        "await one.look.aio(7)",
        "(await box.acall('one.look', {'n': 7})).data",
    ],
)
def test_await_gives_the_value(ready: Kernel, code: str) -> None:
    assert ready.execute(f"print({code})").stdout.strip() == expected(7)


@pytest.mark.slow
@pytest.mark.parametrize(
    "call",
    ["one.look.aio(n=n)", "box.acall('one.look', {'n': n})", "box.pack('one').look.aio(n=n)"],
)
def test_a_thousand_at_once_each_sees_its_own(ready: Kernel, call: str) -> None:
    """Arguments, pack, depth, settings and secrets, also in the tools that the tools call."""
    ready.execute(f"found = await asyncio.gather(*({call} for n in range(1000)))", timeout=120)
    ready.execute("found = [getattr(each, 'data', each) for each in found]")

    assert (
        ready.evaluate("len(found), found[0][:6] == [0, 0, 'one', 1, 'first', 'hunter2hunter2']")
        == "(1000, True)"
    )
    check = (
        "all(f == [n, n, 'one', 1, 'first', s, [n, n, 'two', 2, 'second', s, None]] "
        "for s in ['hunter2hunter2'] for n, f in enumerate(found))"
    )
    assert ready.evaluate(check) == "True"


def test_sync_tools_at_once_do_not_block_the_loop(ready: Kernel) -> None:
    """One of them waits for what only the loop can do meanwhile."""
    code = f"""
import threading
from onetool_ipy import tool
turned = threading.Event()
@tool
def hold() -> bool:
    'Wait for a turn of the loop.'
    return turned.wait({HANG_S})
async def turn():
    turned.set()
held, _, *found = await asyncio.gather(nb.hold.aio(), turn(), *(one.still.aio(n=n) for n in range(200)))
"""
    ready.execute(code, timeout=2 * HANG_S)

    assert ready.evaluate(
        "held, all(f[:2] == [n, n] and f[6][:2] == [n, n] for n, f in enumerate(found))"
    ) == ("(True, True)")


def test_one_that_fails_stops_no_other(ready: Kernel) -> None:
    code = (
        "await asyncio.gather(*(one.look.aio(n=n if n % 2 else 'x') for n in range(10)),"
        " return_exceptions=True)"
    )
    kinds = ready.execute(f"print(*(type(each).__name__ for each in {code}))").stdout.split()

    assert kinds == ["ToolCallError", "list"] * 5


def test_what_is_cancelled_is_logged_and_the_rest_goes_on(ready: Kernel) -> None:
    code = """
slow = asyncio.ensure_future(one.look.aio(n=-1)); fast = asyncio.ensure_future(one.look.aio(n=0))
await asyncio.sleep(0.01); slow.cancel()
await asyncio.wait({slow, fast})
slow.cancelled(), fast.result()[0], sorted({(row.ok, row.reason) for row in box.log.history(limit=3)}, key=str)
"""
    assert ready.execute(code).result_text == "(True, 0, [(False, 'cancelled'), (True, None)])"
