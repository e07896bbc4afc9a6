"""The sandbox: what a program sees, its limits, its errors, and what it cannot reach."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from onetool_ipy.base.background import StepThread
from onetool_ipy.base.errors import (
    ProgramError,
    ProgramFailed,
    ProgramLimit,
    ProgramSyntax,
    ProgramTypes,
)
from onetool_ipy.llm.programs.sandbox import (
    Finished,
    HostCall,
    HostModule,
    Raised,
    Sandbox,
    StandIn,
    World,
)
from tests.harness.programs import python

_STUB = """
from typing import Any, TypedDict
class Row(TypedDict, total=False):
    id: int
    name: str
def rows(region: str = ...) -> list[Row]: ...
def get(x: Any = ...) -> Any: ...
"""
_MODULES = {"crm": HostModule(functions=("rows", "get"), stub=_STUB)}


def _run(code: str, *answers: object, **variables: Any) -> tuple[Any, str]:
    """Run a program, answering its calls in order; return its value and what it printed."""
    world = World(variables=variables, clock=datetime(2026, 5, 1, tzinfo=UTC), seed=7)
    with Sandbox(code, _MODULES, world) as sandbox:
        event = sandbox.start()
        for answer in answers:
            assert isinstance(event, HostCall), event
            event = sandbox.resume(answer)
        assert isinstance(event, Finished), event
        return event.value, sandbox.printed


def test_rule_1_a_program_sees_modules_and_variables() -> None:
    """It calls a host function, reads a variable, prints, and its last expression is its value."""
    value, printed = _run(
        "import crm\nprint(len(df))\ncrm.rows()[0]['name']", [{"id": 1, "name": "a"}], df=[1, 2]
    )
    assert (value, printed) == ("a", "2\n")


def test_rule_1_clock_and_seed_are_fixed() -> None:
    code = (
        "import datetime, random, time\n(str(datetime.datetime.now()), time.time(),"
        " random.random())"
    )
    assert _run(code) == _run(code)
    assert _run(code)[0][0].startswith("2026-05-01")


@pytest.mark.parametrize(
    ("code", "words"),
    [
        ("import crm\ncrm.rows()[0]['nam']", 'Unknown key "nam"'),
        ("import crm\ncrm.rows(regin='eu')", "regin"),
        ("import crm\ncrm.rows(region=1)", "str"),
        ("import crm\ncrm.nothing()", "nothing"),
        ("import shop\nshop.x()", "shop"),
        ("unknown_name + 1", "unknown_name"),
    ],
)
def test_rule_2_a_wrong_program_is_refused_before_it_runs(code: str, words: str) -> None:
    """The error names the line, and no call was made: the program never started."""
    with pytest.raises(ProgramTypes) as info:
        _run(f"print('ran')\n{code}")
    assert words in info.value.message
    assert info.value.message.startswith("Line ")
    assert info.value.reason == "program_types"


@pytest.mark.parametrize(
    "code",
    [
        "x = 1 +",
        "class A(dict): pass",
        "def f():\n    yield 1",
        "x = 1\ndel x",
        "(" * 5000 + ")" * 5000,
    ],
    ids=["half", "inheritance", "yield", "del", "deep"],
)
def test_a_program_that_cannot_be_read_says_where(code: str) -> None:
    with pytest.raises(ProgramSyntax) as info:
        _run(code)
    assert "monty" not in info.value.message
    assert info.value.reason == "program_syntax"


def test_a_failing_program_names_line_source_and_words() -> None:
    with pytest.raises(ProgramFailed) as info:
        _run("def f(x):\n    return 1 / x\n\nf(0)")
    assert info.value.details == {
        "line": 2,
        "source": "    return 1 / x",
        "error": "ZeroDivisionError: division by zero",
    }


@pytest.mark.slow
@pytest.mark.parametrize(
    ("code", "words"),
    [
        ("while True: pass", "5 s"),
        ("while True:\n    try:\n        while True: pass\n    except BaseException: pass", "5 s"),
        ("x = [0] * 10**9", "256 MB"),
        ("x = []\nwhile True:\n    x.append('y' * 100000)", "256 MB"),
        ("list(range(10**8))", "MB"),
        ("def f(): return f()\nf()", "200 deep"),
        ("while True: print('x' * 1000)", "100 kB"),
        (
            "while True:\n    try:\n        print('x' * 1000)\n    except BaseException: pass",
            "100 kB",
        ),
        ("# " + "x" * 1_000_000, "20,000"),
    ],
    ids=[
        "loop",
        "catching",
        "items",
        "growing",
        "range",
        "recursion",
        "prints",
        "caught prints",
        "1 MB",
    ],
)
def test_a_program_ends_at_its_limit(code: str, words: str) -> None:
    with pytest.raises(ProgramLimit) as info:
        _run(code)
    assert words in info.value.message


def test_exceptions_and_stand_ins_reach_the_program() -> None:
    code = (
        "import crm\ntry:\n    crm.get()\nexcept PermissionError as e:\n    x = str(e)\ny ="
        " crm.get()\nx"
    )
    assert _run(code, Raised("PermissionError", "no"), StandIn())[0] == "no"


def test_what_the_sandbox_has_passes_the_check() -> None:
    code = "[list(map(str, [1])), list(filter(None, [0, 2])), format(1.5, '.2f')]"
    assert _run(code)[0] == [["1"], [2], "1.50"]


@pytest.mark.parametrize(
    "use", ["x['a']", "x.a", "x + 1", "len(x)", "list(x)", "int(x)", "x()", "hash(x)", "x.real"]
)
def test_every_use_of_a_stand_in_raises_in_the_program(use: str) -> None:
    """The result of a write that has not run is opaque."""
    with pytest.raises(ProgramFailed):
        _run(f"import crm\nx = crm.get()\n{use}", StandIn())


def test_values_stay_python_values() -> None:
    code = (
        "import datetime\n{1: (1, 2), 'd': datetime.date(2026, 1, 2), 's': {3}, 'f': len, 'b':"
        " b'x', 'i': 10**30}"
    )
    value, _ = _run(code)
    assert value[1] == (1, 2)
    assert value["s"] == {3}
    assert value["i"] == 10**30
    assert isinstance(value["f"], str)


@pytest.mark.linux("/proc")
def test_rule_10_stop_ends_a_busy_program() -> None:
    """Stop in the middle of an endless loop kills the worker process, and no thread is left
    behind."""

    class Stopping(StepThread):
        def run(self, step: Callable[[], object]) -> Any:
            begun = threading.Event()

            def stop() -> None:
                begun.wait(30)
                os.kill(os.getpid(), signal.SIGINT)

            threading.Thread(target=stop).start()
            return super().run(lambda: (begun.set(), step()))

    with Sandbox("import crm\ncrm.get()\nwhile True: pass", _MODULES, World()) as sandbox:
        sandbox.start()
        pid = sandbox._session.worker_pid
        with Stopping() as sandbox._thread, pytest.raises(KeyboardInterrupt):
            sandbox.resume(None)
    for thread in [each for each in threading.enumerate() if each.name == "onetool-steps"]:
        thread.join(30)
        assert not thread.is_alive()
    assert (
        not Path(f"/proc/{pid}/cmdline").exists() or not Path(f"/proc/{pid}/cmdline").read_bytes()
    )


def test_without_the_extra_the_message_has_the_line_to_type() -> None:
    code = (
        "import sys; sys.modules['pydantic_monty'] = None\n"
        "from onetool_ipy.llm.programs.sandbox import *\n"
        "try: Sandbox('1', {}, World()).start()\n"
        "except Exception as exc: print(exc)"
    )
    run = python(code, timeout=60)
    assert run.stdout.strip() == "Programs need: pip install 'onetool-ipy[programs]'"


_MODULE_NAMES = [
    "os",
    "subprocess",
    "socket",
    "ctypes",
    "sys",
    "shutil",
    "pathlib",
    "io",
    "builtins",
    "importlib",
    "inspect",
    "gc",
    "threading",
    "multiprocessing",
    "signal",
    "pickle",
    "marshal",
    "code",
    "codeop",
    "tempfile",
    "glob",
    "urllib",
    "http",
    "ssl",
    "ftplib",
    "smtplib",
    "sqlite3",
    "asyncio",
    "select",
    "mmap",
    "resource",
    "pty",
    "fcntl",
    "platform",
    "getpass",
    "webbrowser",
    "runpy",
    "zipfile",
    "tarfile",
    "site",
    "sysconfig",
    "traceback",
    "types",
    "weakref",
    "atexit",
    "faulthandler",
]
_TRIES = (
    "open('/etc/passwd').read()",
    "open('/tmp/onetool-escape', 'w').write('x')",
    "__import__('os').system('id')",
    "eval(\"__import__('os').system('id')\")",
    "exec('import os; os.system(\"id\")')",
    "compile('1', 'x', 'eval')",
    "globals()['__builtins__']['open']('/etc/passwd')",
    "().__class__.__bases__[0].__subclasses__()",
    "''.__class__.__mro__[1].__subclasses__()",
    "(lambda: 0).__globals__",
    "(lambda: 0).__code__",
    "[].append.__self__.__class__.__base__",
    "type('X', (), {})().__class__.__init__.__globals__",
    "getattr((), '__cla' + 'ss__').__base__.__subclasses__()",
    "'{0.__class__.__init__.__globals__}'.format(lambda: 0)",
    "import crm\ncrm.__dict__['os']",
    "import crm\ncrm.get.__globals__",
    "import crm\ncrm.get.__closure__",
    "import crm\ncrm.get.__self__",
    "import crm\ncrm.__loader__.load_module('os')",
    "import crm\ncrm.__spec__.loader",
    "import crm.os",
    "from crm import __builtins__ as b\nb",
    "import os\nos.environ['HOME']",
    "import os\nos.environ.get('PATH')",
    "import os\nos.getenv('HOME')",
    "import os\nos.listdir('/')",
    "import os\nos.getpid()",
    "import os\nos.fork()",
    "import os\nos.kill(1, 9)",
    "import os\nos.execv('/bin/sh', ['sh'])",
    "import os\nos.open('/etc/passwd', 0)",
    "import os\nos.stat('/etc/passwd')",
    "import os\nos.remove('/tmp/onetool-escape')",
    "import os\nos.symlink('/etc/passwd', '/tmp/onetool-escape')",
    "import os\nos.urandom(8)",
    "from pathlib import Path\nPath('/etc/passwd').read_text()",
    "from pathlib import Path\nPath('/etc/passwd').exists()",
    "from pathlib import Path\nlist(Path('/').iterdir())",
    "from pathlib import Path\nPath('/tmp/onetool-escape').write_text('x')",
    "from pathlib import Path\nPath.home()",
    "from pathlib import Path\nPath('~').expanduser()",
    "import sys\nsys.modules['os']",
    "import sys\nsys._getframe()",
    "import sys\nsys.exit()",
    "input()",
    "breakpoint()",
    "help()",
    "exit()",
    "quit()",
    "raise SystemExit",
    "raise KeyboardInterrupt",
    "import time\ntime.sleep(10**9)\nopen('/etc/passwd')",
    "memoryview(b'x').obj",
    "vars()['__builtins__']",
    "print.__self__",
    "print.__module__.__class__.__base__.__subclasses__()",
    "import json\njson.decoder.scanner.sys",
    "import re\nre.sys",
    "import math\nmath.__loader__",
    "try:\n    1 / 0\nexcept Exception as e:\n    e.__traceback__.tb_frame.f_globals",
    "async def f():\n    pass\nf().cr_frame.f_globals",
)
_ESCAPES = [f"import {name}\n{name}.__file__" for name in _MODULE_NAMES] + list(_TRIES)


@pytest.mark.parametrize("code", _ESCAPES)
def test_rule_1_no_way_out(code: str, tmp_path: Path) -> None:
    """100 attempts to reach a file, the environment, a process or the host's objects: each one is
    an error."""
    # Files that each system has stand where the attempts name those of Linux.
    secret = "what this file says"
    (tmp_path / "passwd").write_text(secret, encoding="utf-8")
    code = code.replace("/etc/passwd", (tmp_path / "passwd").as_posix())
    code = code.replace("/tmp/onetool-escape", (tmp_path / "escape").as_posix())
    value: object = None
    try:
        value, text = _run(code)
    except ProgramError as exc:
        text = exc.message
    # Some of these give a harmless text of the sandbox, such as its virtual home; none gives
    # something of the host.
    assert isinstance(value, (str, int, bool, type(None)))
    assert secret not in f"{value}{text}"
    assert str(Path.home()) not in str(value) or str(Path.home()) == "/"
    assert not (tmp_path / "escape").exists()


def test_rule_1_there_are_a_hundred_attempts() -> None:
    assert len(set(_ESCAPES)) >= 100
