"""A long life: two kernels on a project, restart, `%reset`, fork, `%autoreload`, load and unload
without end."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from onetool_ipy.base.files import is_young, stamp_of
from onetool_ipy.config.paths import home_at
from tests.conftest import FreshKernel
from tests.faces.notebook.waiting import TOOLS
from tests.harness import surroundings
from tests.harness.kernel import Kernel
from tests.harness.patience import HANG_S, until

SHOP = '''
"""A shop."""
pack = "shop"


def price(item: str) -> float:
    """Give the price of an item.

    Args:
        item: What to price.
    """
    return 1.0
'''


MAX_LOAD = (24, 0)
"""Modules of ours that a load of a known project imports, and patterns of ours that it compiles."""

MAX_OPENING = (76, 26)
"""The same for a load that has to open the project, since something changed."""


def write_pack(folder: Path, text: str = SHOP) -> Path:
    tools = folder / ".onetool" / "tools"
    tools.mkdir(parents=True, exist_ok=True)
    (folder / ".onetool" / "onetool.yaml").write_text("version: 1\n", encoding="utf-8")
    (tools / "shop.py").write_text(textwrap.dedent(text), encoding="utf-8")
    return tools / "shop.py"


LOAD = """
import os, re._compiler, sys
from IPython.core.interactiveshell import InteractiveShell
shell = InteractiveShell.instance()
before, compiled, patterns = set(sys.modules), re._compiler.compile, []
def compile(pattern, flags=0):
    caller = sys._getframe(1)
    while "/re/" in caller.f_code.co_filename.replace(os.sep, "/"):
        caller = caller.f_back
    if "onetool_ipy" in caller.f_code.co_filename:
        patterns.append(pattern)
    return compiled(pattern, flags)
re._compiler.compile = compile
shell.run_line_magic("load_ext", "onetool_ipy")
loaded = set(sys.modules) - before
ours = [name for name in loaded if name.startswith("onetool_ipy")]
print(len(ours), len(patterns), sorted(loaded & {"yaml", "jsonschema_rs"}))
"""


@pytest.mark.slow
def test_a_load_of_what_was_loaded_before_imports_little(tmp_path: Path) -> None:
    """Counts, since milliseconds are the machine's: modules of ours, patterns compiled, and neither
    the YAML parser nor the validator."""
    project = tmp_path / "project"
    write_pack(project)
    (project / ".onetool" / "secrets.yaml").write_text('TOKEN: "abcdef123"\n', encoding="utf-8")
    (project / ".onetool" / "secrets.yaml").chmod(0o600)
    env = {
        **os.environ,
        **home_at(tmp_path / "home"),
        "ONETOOL_STATE": str(tmp_path / "state"),
        "ONETOOL_TRUST": str(project),
    }
    command = [sys.executable, "-c", LOAD]

    def load() -> tuple[tuple[int, int], str]:
        loaded = subprocess.run(
            command, cwd=project, env=env, capture_output=True, text=True, check=True
        )
        modules, patterns, libraries = loaded.stdout.split(maxsplit=2)
        return (int(modules), int(patterns)), libraries.strip()

    cold, warm = load(), load()
    os.utime(project / ".onetool" / "secrets.yaml")
    changed = load()

    assert cold[1] == "['jsonschema_rs', 'yaml']"
    assert warm[1] == changed[1] == "[]"
    assert all(count <= most for count, most in zip(warm[0], MAX_LOAD, strict=True)), warm
    assert all(count <= most for count, most in zip(changed[0], MAX_OPENING, strict=True)), changed


@pytest.mark.slow
def test_two_kernels_share_a_project(fresh_kernel: FreshKernel, tmp_path: Path) -> None:
    """Calls add up, results and edits are seen by both, and one that is killed harms the other not
    at all."""
    project = tmp_path / "project"
    project.mkdir()
    file = write_pack(project)
    env = {"ONETOOL_STATE": str(tmp_path / "state")}
    one, two = fresh_kernel(cwd=project, env=env), fresh_kernel(cwd=project, env=env)
    for kernel in (one, two):
        kernel.execute("%load_ext onetool_ipy")
        kernel.execute("from onetool_ipy.core import current; box = current.toolbox()")
    both = [
        kernel.start_execute("for n in range(500): shop.price(item=str(n))")
        for kernel in (one, two)
    ]
    for execution in both:
        execution.wait()
    handle = one.execute("h = box.results.put('kept by one'); print(h)").stdout.strip()
    file.write_text(SHOP.replace("1.0", "2.0"), encoding="utf-8")

    assert two.execute("shop.price(item='x')").result_text == "2.0"
    assert "kept by one" in two.execute(f"ot.result(handle='{handle}')").result_text
    one.kill()
    two.execute("for n in range(10): shop.price(item='y')")
    assert two.execute("ot.stats(tool='shop.price')['total_calls']").result_text == "1011"
    assert two.execute("ot.health()['problems']").result_text == "[]"

    two.restart()
    two.execute("%load_ext onetool_ipy")
    assert (
        two.execute("ot.stats(tool='shop.price')['total_calls'], shop.price(item='z')").result_text
        == "(1011, 2.0)"
    )
    assert "kept by one" in two.execute(f"ot.result(handle='{handle}')").result_text


def test_reset_takes_nothing_of_ours(kernel: Kernel) -> None:
    write_pack(kernel.cwd)
    kernel.execute("%load_ext onetool_ipy")
    started = kernel.start_execute(
        TOOLS + "\nmine = 5\njob = %tool nb.nap s=3 --bg", allow_stdin=True
    )
    # From here on it needs no name of the notebook.
    started.wait_for_output("begun", even_after_end=True)
    started.wait()
    kernel.execute("%reset -f")

    assert kernel.execute("shop.price(item='x'), nb.count(n=0)").result_text == "(1.0, 0)"
    assert "running" in kernel.execute("%tool jobs").result_text
    assert kernel.execute("mine", allow_errors=True).error is not None
    assert kernel.execute("%who").stdout == "Interactive namespace is empty.\n"


FORK = """
import os, sys, threading
from onetool_ipy.core import current
box = current.toolbox()

def in_child(work):
    told, tell = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.write(tell, repr(work()).encode())
        except BaseException as exc:
            os.write(tell, repr(exc).encode())
        os._exit(0)
    os.close(tell)
    import select
    found = os.read(told, 65536).decode() if select.select([told], [], [], 60)[0] else "no answer"
    os.kill(child, 9)
    os.waitpid(child, 0)
    os.close(told)
    return found
"""
WAYS = {
    "sync": "nb.count(n=0)",
    "async": "nb.anap(s=0)",
    "limit": "box.call('nb.count', {'n': 0}, timeout=60).data",
    "job": "box.start('nb.count', {'n': 0}).result(60).data",
    "batch": "nb.batch(s=0)[:5]",
    "stored": "box.results.query(box.results.put('text'))['lines']",
    "listed": "len(ot.tools()) > 5",
    "missed": "box.call('no.such').error.code",
    "reloaded": "box.reload() or nb.count(n=0)",
}


@pytest.mark.slow
def test_a_forked_child_can_do_all_its_parent_can(kernel: Kernel) -> None:
    """Threads do not come with a fork: the child starts its own, and the parent's go on."""
    write_pack(kernel.cwd)
    kernel.execute("%load_ext onetool_ipy")
    kernel.execute(TOOLS + FORK)
    here = {name: kernel.evaluate(f"({code})") for name, code in WAYS.items()}
    kernel.execute("job = box.start('nb.nap', {'s': 1})")
    there = {
        name: kernel.execute(f"print(in_child(lambda: {code}))").stdout.splitlines()[-1]
        for name, code in WAYS.items()
    }

    assert there == here
    assert {name: kernel.evaluate(f"({code})") for name, code in WAYS.items()} == here
    assert kernel.evaluate("job.result(60).data") == "'rested'"
    assert kernel.execute("ot.health()['problems']").result_text == "[]"


@pytest.mark.slow
def test_a_fork_while_others_build_does_not_hang_the_child(kernel: Kernel) -> None:
    """Whatever lock another thread holds at the fork (registry, parts, pack files, client), the
    child's is free."""
    file = write_pack(kernel.cwd)
    kernel.execute("%load_ext onetool_ipy")
    kernel.execute(TOOLS + FORK)
    code = f"""
stop = threading.Event()
def busy():
    n = 0
    while not stop.is_set():
        n += 1
        open({str(file)!r}, "a").write(f"\\n# {{n}}\\n")
        box.registry.refresh(); box.registry.rebuild(); box.call("shop.price", {{"item": "x"}}); box.http_client
        box.reload() if n % 5 == 0 else None
# Python leaves a child without the lock of a module that another thread imports at the fork: so import first.
box.reload(); box.call("no.such"); box.call("shop.price", {{"item": "x"}}); box.http_client
threads = [threading.Thread(target=busy, daemon=True) for _ in range(3)]
for thread in threads: thread.start()
found = [in_child(lambda: (box.call("no.such").error.code, box.call("shop.price", {{"item": "x"}}).data, box.reload()))
         for _ in range(12)]
stop.set()
for thread in threads: thread.join(20)
print(set(found))
"""
    assert (
        kernel.execute(code, timeout=280).stdout.strip() == """{"('tool_not_found', 1.0, None)"}"""
    )
    assert kernel.execute("shop.price(item='x')").result_text == "1.0"


@pytest.mark.slow
@pytest.mark.posix("fork")
def test_multiprocessing_by_fork_works_and_harms_nothing(kernel: Kernel) -> None:
    write_pack(kernel.cwd)
    kernel.execute("%load_ext onetool_ipy")
    kernel.execute("import multiprocessing\ndef work(n): return shop.price(item=str(n)) + n")
    kernel.execute("shop.price(item='first')")
    code = """
with multiprocessing.get_context("fork").Pool(3) as pool:
    print(pool.map(work, range(30)) == [n + 1.0 for n in range(30)])
"""

    assert kernel.execute(code, timeout=HANG_S).stdout == "True\n"
    assert kernel.execute("ot.stats(tool='shop.price')['total_calls']").result_text == "31"


@pytest.mark.slow
def test_autoreload_of_a_pack_module(kernel: Kernel) -> None:
    """`%autoreload 2` reloads modules before each cell; an edited pack is used once, whoever
    reloads it."""
    file = write_pack(kernel.cwd)
    kernel.execute("%load_ext autoreload\n%autoreload 2\n%load_ext onetool_ipy")
    assert kernel.execute("shop.price(item='x')").result_text == "1.0"
    for n in range(2, 5):
        file.write_text(
            SHOP.replace("1.0", f"{n}.0").replace("item: str)", f"item: str, extra{n}: int = 0)")
        )
        outcome = kernel.execute(f"shop.price(item='x', extra{n}=1)")
        assert (outcome.result_text, outcome.stderr) == (f"{n}.0", "")
    file.write_text(SHOP.replace("return 1.0", "return ("), encoding="utf-8")
    assert kernel.execute("shop.price(item='x')", allow_errors=True).error is not None
    file.write_text(SHOP, encoding="utf-8")
    assert kernel.execute("shop.price(item='x')").result_text == "1.0"


CYCLES = """
import gc, os, sys, threading, tracemalloc
shell = get_ipython()

def counted():
    for _ in range(4): gc.collect()
    return {
        "ours": sum(str(type(each).__module__).startswith("onetool_ipy") for each in gc.get_objects()),
        "threads": threading.active_count(),
        "files": len(os.listdir("/proc/self/fd")),
        "transformers": len(shell.input_transformer_manager.token_transformers),
        "matchers": len(shell.Completer.custom_matchers),
        "events": sum(map(len, shell.events.callbacks.values())),
        "magics": sum(map(len, shell.magics_manager.magics.values())),
        "configurables": len(shell.configurables),
        "printers": sum(len(f.deferred_printers) + len(f.type_printers)
                        for f in (shell.display_formatter.mimebundle_formatter,
                                  shell.display_formatter.ipython_display_formatter)),
        "names": len(set(shell.user_ns_hidden) & {"ot", "shop", "nb"}),
    }

def cycle():
    shell.run_line_magic("load_ext", "onetool_ipy")
    shell.run_line_magic("tool", "tools.echo message=hi --timeout 60")
    job = shell.run_line_magic("tool", "time.now --bg")
    job.result(60)
    shell.run_line_magic("unload_ext", "onetool_ipy")
"""


RACE = """
import sys, threading
from onetool_ipy import tool
sys.setswitchinterval(1e-5)
shell, lost = get_ipython(), []

def race(turn):
    shell.run_line_magic("load_ext", "onetool_ipy")
    extension = shell.magics_manager.registry["onetool_ipy"]
    together = threading.Barrier(2)
    panel = threading.Thread(target=lambda: (together.wait(), extension.box))
    panel.start()
    together.wait()
    for _ in range(turn * 40):
        pass
    @tool
    def mine() -> int:
        "Tell the turn."
        return turn
    panel.join()
    if extension.box.registry.get("nb.mine") is None or shell.user_ns["nb"].mine() != turn:
        lost.append(turn)
    shell.run_line_magic("unload_ext", "onetool_ipy")
"""


@pytest.mark.slow
def test_a_tool_of_a_cell_is_not_lost_while_a_panel_opens_the_toolbox(kernel: Kernel) -> None:
    kernel.execute(RACE + "for turn in range(60): race(turn)")

    assert kernel.evaluate("lost") == "[]"


@pytest.mark.slow
@pytest.mark.parametrize("cycles", [40, pytest.param(1000, marks=pytest.mark.soak)])
def test_load_and_unload_leave_nothing(kernel: Kernel, cycles: int) -> None:
    """Nothing of ours is left: objects, threads, files, and all that was registered with
    IPython."""
    write_pack(kernel.cwd)
    kernel.execute(CYCLES + "\nfor _ in range(10): cycle()\nbefore = counted()", timeout=HANG_S)
    kernel.execute(f"for _ in range({cycles}): cycle()", timeout=600)

    grown = (
        "{k: (before[k], n) for k, n in counted().items() if n > before[k] + (30 if k == 'ours'"
        " else 0)}"
    )
    # ipykernel lets go of the sockets of threads that have ended every 10 s
    assert until(lambda: kernel.evaluate(grown) == "{}"), kernel.evaluate(grown)


@pytest.mark.linux("/proc")
def test_an_idle_kernel_uses_no_time(kernel: Kernel) -> None:
    """Row 13: after all kinds of calls, no tick is left: our thread is not woken any more."""
    kernel.execute("%load_ext onetool_ipy")
    kernel.execute(TOOLS)
    kernel.execute("nb.count(n=8); await nb.anap.aio(s=0.1)", allow_stdin=True)
    kernel.execute("%tool nb.count n=2 --bg\n%tool nb.nap s=0 --timeout 60\nnb.batch(s=0)")
    ours = "[t for t in threading.enumerate() if t.name == 'onetool-worker']"
    assert until(lambda: kernel.evaluate(ours) == "[]"), kernel.evaluate(ours)
    code = """
loop = next(t for t in threading.enumerate() if t.name == 'onetool-loop')
def woken(): return re.findall(r"voluntary_ctxt_switches.*", open(f"/proc/self/task/{loop.native_id}/status").read())[0]
before = woken(); time.sleep(1.0); after = woken()
before == after"""
    kernel.execute("import re")
    # What the cells above began may end a moment later; a tick of any kind would wake the thread
    # for ever.
    assert until(lambda: kernel.execute(code).result_text == "True")


def test_a_tool_marked_before_the_extension_loads_counts_when_it_does(kernel: Kernel) -> None:
    """Imports and functions first, `%load_ext` after them: as most notebooks are written."""
    kernel.execute(
        "from onetool_ipy import tool\n"
        "@tool\n"
        "def bmi(weight: float, height: float) -> float:\n"
        "    'Body mass index.'\n"
        "    return 0.0\n"
    )
    kernel.execute(
        "@tool(pack='body')\n"
        "def pulse(age: int) -> int:\n"
        "    'Highest pulse.'\n"
        "    return 220 - age\n"
        "@tool\n"
        "def bmi(weight: float, height: float) -> float:\n"
        "    'Body mass index.'\n"
        "    return round(weight / height**2, 1)\n"
        "@tool\n"
        "def odd(a, /, **more): 'Not a tool.'\n"
    )
    loaded = kernel.execute("%load_ext onetool_ipy")

    assert loaded.stdout.count("\n") <= 1, (
        "loading goes on, with one line at most for what is no tool"
    )
    assert (
        kernel.execute("nb.bmi(weight=80, height=2), body.pulse(age=40)").result_text
        == "(20.0, 180)"
    )
    assert kernel.execute("%tool nb.bmi weight=80 height=2").result_text == "20.0"
    kernel.execute("%unload_ext onetool_ipy")
    cell = kernel.evaluate("__import__('onetool_ipy.core.current').core.current.cell()")
    assert cell == "''", "a call without the extension belongs to no cell"
    kernel.execute("%load_ext onetool_ipy")
    gone = kernel.execute("%tool nb.bmi weight=80 height=2", allow_errors=True)
    assert gone.error is not None, "what was registered once is not registered again by itself"


@pytest.mark.slow
def test_a_handle_that_a_cell_shows_works_in_other_kernels_and_after_a_restart(
    fresh_kernel: FreshKernel, tmp_path: Path
) -> None:
    """Of a list, and of a table that pandas cuts; nothing but the cell has touched them."""
    project = tmp_path / "project"
    project.mkdir()
    env = {"ONETOOL_STATE": str(tmp_path / "state")}
    one, two = fresh_kernel(cwd=project, env=env), fresh_kernel(cwd=project, env=env)
    for kernel in (one, two):
        kernel.execute("%load_ext onetool_ipy")
    one.execute("import pandas as pd\nfrom onetool_ipy import tool")
    one.execute(
        "@tool\ndef big(kind: str = '') -> object:\n    'Many rows.'\n    rows = [{'n': n} for n in"
        " range(5000)]\n    return pd.DataFrame(rows) if kind else rows"
    )
    shown = [one.execute(code).text for code in ("%tool nb.big", "%tool nb.big kind=frame")]
    handles = [text.partition("ot.view('")[2][:12] for text in shown]

    for handle in handles:
        found = two.execute(f"ot.result(handle='{handle}', offset=5000)['lines']")
        assert "4999" in found.result_text
    one.restart()
    one.execute("%load_ext onetool_ipy")
    for handle in handles:
        assert (
            "4999" in one.execute(f"ot.result(handle='{handle}', offset=5000)['lines']").result_text
        )


ORIGINS = "[(row.cell, row.notebook) for row in box.log.history()][::-1]"


@pytest.mark.slow
def test_a_call_is_recorded_with_its_notebook_and_cell(fresh_kernel: FreshKernel) -> None:
    """By the number that the person sees beside it, also where JupyterLab gives it an id; a job
    keeps the cell that started it."""
    kernel = fresh_kernel(env={"JPY_SESSION_NAME": "/home/eve/plan.ipynb"})
    first = kernel.execute("%load_ext onetool_ipy\n%tool time.now", cell_id="c1").execution_count
    kernel.execute("from onetool_ipy.core import current; box = current.toolbox()")
    kernel.execute(
        "from onetool_ipy import tool\n@tool('nb.wait')\ndef wait():\n  input_ready.wait(60)"
    )
    job = kernel.execute(
        "import threading; input_ready = threading.Event()\njob = box.start('nb.wait')",
        cell_id="c2",
    ).execution_count
    count = kernel.execute("%tool time.now").execution_count
    kernel.execute("input_ready.set(); _ = job.result()", cell_id="c3")

    rows = ast.literal_eval(kernel.evaluate(ORIGINS))

    notebook = "/home/eve/plan.ipynb"
    assert rows == [(str(cell), notebook) for cell in (first, count, job)]


def test_vs_code_tells_the_notebook_by_a_variable(kernel: Kernel) -> None:
    kernel.execute("%load_ext onetool_ipy\n__vsc_ipynb_file__ = '/home/eve/code.ipynb'")
    kernel.execute(
        "from onetool_ipy.core import current; box = current.toolbox(); _ = box.call('time.now')"
    )

    assert kernel.evaluate("box.log.history()[0].notebook") == "'/home/eve/code.ipynb'"


@pytest.mark.slow
def test_a_call_after_a_reload_in_the_same_cell_has_its_notebook(fresh_kernel: FreshKernel) -> None:
    kernel = fresh_kernel(env={"JPY_SESSION_NAME": "/home/eve/plan.ipynb"})
    kernel.execute(
        "%load_ext onetool_ipy\nfrom onetool_ipy.core import current; box = current.toolbox()"
    )
    kernel.execute("box.reload(); _ = box.call('time.now')")

    assert kernel.evaluate("box.log.history()[0].notebook") == "'/home/eve/plan.ipynb'"


@pytest.mark.slow
def test_a_folder_without_a_project_has_one_toolbox_in_a_kernel(loaded: Kernel) -> None:
    """The first call of a tool by the code of a cell opens the one that `%tool` uses."""
    code = "from onetool_ipy.sdk import call_tool; call_tool('tools.echo', message='hi')"

    assert loaded.execute(code).result_text == "'hi'"
    loaded.execute("%tool tools.echo message=two")
    count = "from onetool_ipy import Toolbox; import gc; sum(type(o) is Toolbox for o in gc.get_objects())"
    assert loaded.execute(count).result_text == "1"


@pytest.mark.slow
def test_loading_in_a_project_offers_packs_and_builds_neither_registry_nor_stores(
    fresh_kernel: FreshKernel, tmp_path: Path
) -> None:
    """The first use of a tool builds them: most of the time of a start is in what they import."""
    project = tmp_path / "project"
    write_pack(project)
    kernel = fresh_kernel(cwd=project)
    kernel.execute("%load_ext onetool_ipy")
    kernel.execute("import sys")
    late = "onetool_ipy.part_builder", "onetool_ipy.stores.calls.log"

    assert (
        kernel.evaluate(f"type(shop).__name__, {{*{late}}} & {{*sys.modules}}")
        == "('PackProxy', set())"
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    ("use", "answer"),
    [
        ("shop['price']('x')", "1.0"),
        (
            "dir(shop), shop._ipython_key_completions_(), shop",
            "(['price'], ['price'], <pack shop: price>)",
        ),
        ("os.chdir('/') or shop.price('x')", "1.0"),
        ("path.write_text(path.read_text().replace('1.0', '2.0')) and shop.price('x')", "2.0"),
    ],
)
def test_a_known_project_is_opened_by_the_first_use_of_a_pack(
    fresh_kernel: FreshKernel, tmp_path: Path, use: str, answer: str
) -> None:
    """Its names are offered at once. The folder is that of the load, also after `os.chdir`."""
    project = tmp_path / "project"
    path = write_pack(project)
    until(lambda: (stamp := stamp_of(path)) is not None and not is_young(stamp))
    env = surroundings.private(tmp_path / "home")
    fresh_kernel(cwd=project, env=env).execute("%load_ext onetool_ipy")
    kernel = fresh_kernel(cwd=project, env=env)
    kernel.execute(f"import os, pathlib, sys\npath = pathlib.Path({str(path)!r})")
    kernel.execute("%load_ext onetool_ipy")

    assert kernel.evaluate("type(shop).__name__, 'onetool_ipy.toolbox' in sys.modules") == (
        "('LazyObject', False)"
    )
    assert kernel.evaluate(use) == answer
    kernel.execute("pass")
    assert kernel.evaluate("type(shop).__name__") == "'PackProxy'"


@pytest.mark.slow
def test_a_project_that_changes_before_its_first_use_is_offered_as_it_is_then(
    fresh_kernel: FreshKernel, tmp_path: Path
) -> None:
    project = tmp_path / "project"
    path = write_pack(project)
    until(lambda: (stamp := stamp_of(path)) is not None and not is_young(stamp))
    env = surroundings.private(tmp_path / "home")
    fresh_kernel(cwd=project, env=env).execute("%load_ext onetool_ipy")
    kernel = fresh_kernel(cwd=project, env=env)
    kernel.execute("%load_ext onetool_ipy")

    path.write_text(path.read_text().replace('pack = "shop"', 'pack = "market"'))
    kernel.execute("x = market.price('x')")

    assert kernel.evaluate("'shop' in globals(), x") == "(False, 1.0)"


@pytest.mark.slow
def test_the_first_call_of_a_tool_without_arguments_loads_no_pydantic(
    fresh_kernel: FreshKernel,
) -> None:
    """The import takes 70 ms, and neither the commands nor such a call need it."""
    kernel = fresh_kernel()
    kernel.execute("%load_ext onetool_ipy\nx = %tool time.now")

    assert kernel.evaluate("x.ok, 'pydantic' in __import__('sys').modules") == "(True, False)"
