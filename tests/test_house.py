"""The house rules that a machine can check: who imports whom, how long functions are, what files
name.

What a reviewer must judge is not here. Each test says what to do when it fails.
"""

from __future__ import annotations

import ast
import json
import re
import subprocess
import sys
import textwrap
import tomllib
from functools import cache
from graphlib import TopologicalSorter
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest
from packaging.requirements import Requirement

import onetool_ipy
from tests import mutants
from tests.code_map import source
from tests.harness.surroundings import OUTSIDE, ROOT

MAX_TOOLBOX_METHODS = 25
HEAVY = ("IPython", "pandas", "httpx", "pydantic", "ipywidgets", "mcp")

# Written in two parts, so that this file does not name them itself.
HOSTS = (
    "registry." + "npmjs",
    "registry." + "yarnpkg",
    "pypi." + "org/simple",
    "files.python" + "hosted",
)
MACHINE = (
    "/" + "root/",
    "/" + "work/main",
    "/" + "work/shared",
    "/" + "opt/pypi",
    "/" + "opt/wheels",
)


# Each module that keeps something or compares something, and the tests that attack it: generated
# values against a naive twin, threads that meet, or kills. A new module of this kind is added here,
# with such a test.
ATTACKED = {
    "base/background": "base/test_background.py",
    "base/exits": "base/test_exits.py",
    "base/files": "base/test_files.py faults/test_files_sweep.py",
    "base/foreign_json": "base/test_foreign_json.py",
    "base/masking": "base/test_masking.py",
    "base/printable": "base/test_printable.py",
    "base/tables": "base/test_tables.py",
    "base/values": "base/test_values.py",
    "bundles/builtins": "bundles/test_builtins.py",
    "bundles/environments": "bundles/test_environments.py",
    "bundles/http/address": "bundles/http/test_address.py",
    "bundles/http/runner": "bundles/http/test_runner.py",
    "bundles/store": "faults/bundle_actors.py",
    "config/edit": "config/test_edit.py",
    "config/kept_names": "config/test_kept_names.py",
    "config/load": "config/test_load.py",
    "config/lock": "config/test_lock.py faults/test_kept_files.py",
    "config/trust": "config/test_trust.py",
    "core/difference": "core/test_difference.py",
    "core/drift": "core/test_drift.py",
    "core/executor": "core/test_executor.py",
    "core/labels": "core/test_labels.py",
    "core/lineage": "core/test_lineage.py",
    "core/registry": "core/test_registry.py",
    "core/result": "core/test_result.py",
    "faces/client_files": "faces/test_client_files.py faults/test_kept_files.py",
    "faces/commands/servers": "faults/test_kept_files.py",
    "faces/mcp/http": "faces/mcp/test_http.py",
    "faces/mcp/mock": "faces/mcp/test_mock.py",
    "faces/rest/extension": "faces/rest/test_extension_projects.py",
    "faces/sealing": "faces/test_sealing.py faults/test_kept_files.py",
    "faces/widgets/questions": "faces/widgets/test_questions.py",
    "faces/widgets/requests": "faces/widgets/test_requests.py",
    "llm/ask/approval": "llm/ask/test_approval.py",
    "llm/ask/guard": "llm/ask/test_guard.py",
    "llm/ask/session": "llm/ask/test_session_file.py",
    "llm/programs/journal": "llm/programs/test_journal.py",
    "llm/programs/plan": "llm/programs/test_chosen.py",
    "llm/programs/run": "llm/programs/test_chosen.py",
    "llm/programs/shadows": "llm/programs/test_shadows.py",
    "mcp/auth": "mcp/test_auth.py",
    "mcp/callback": "mcp/test_callback.py",
    "mcp/listing": "mcp/test_listing.py",
    "mcp/server": "mcp/test_server.py",
    "net/hosts": "net/test_hosts.py",
    "net/response": "net/test_response_body.py",
    "packs/ot/map_run": "packs/ot/test_map_run.py",
    "packs/ot/usage": "packs/ot/test_usage_twin.py",
    "schema/check": "schema/test_check.py",
    "schema/sample": "schema/test_sample.py",
    "sources/adopted": "sources/test_adopted.py",
    "sources/outline": "sources/test_outline_reader_hostile.py",
    "sources/pack_code": "sources/test_pack_code.py",
    "sources/pack_saving": "sources/test_pack_saving.py",
    "stores/calls/closing": "stores/calls/test_closing.py",
    "stores/calls/database": "stores/calls/test_closing.py",
    "stores/calls/journal": "stores/calls/test_journal.py faults/test_calls.py",
    "stores/calls/log": "faults/test_calls.py",
    "stores/cassettes": "stores/test_cassettes.py",
    "stores/encoding": "stores/test_encoding.py",
    "stores/map_progress": "stores/test_map_progress.py",
    "stores/replays": "stores/test_replays.py",
    "stores/result_file": "faults/test_results_kill.py",
    "stores/result_search": "stores/test_result_search.py",
    "stores/results": "faults/test_results_kill.py",
    "stores/tasks": "stores/test_tasks.py",
    "stores/tokens": "stores/test_tokens.py",
    "stores/topics": "stores/test_topics.py",
}
_ATTACK = re.compile(
    r"@given\(|random\.Random\(|Barrier\(|Thread\(|ThreadPoolExecutor\(|to_thread\(|SIGKILL"
    r"|\.kill\("
)
# Writes a file whole, or holds the lock of one.
_KEEPS = re.compile(r"\b(write_whole|AtomicFile|a?locked)\(")
_WRITES_ON_REQUEST = {"base/files", "faces/commands/shell"}


def test_each_module_that_writes_a_file_is_attacked() -> None:
    """Add it to the list above, with a test that attacks it."""
    package = ROOT / "onetool_ipy"
    keeping = {
        path.relative_to(package).with_suffix("").as_posix()
        for path in package.rglob("*.py")
        if _KEEPS.search(path.read_text(encoding="utf-8"))
    }

    assert keeping - ATTACKED.keys() - _WRITES_ON_REQUEST == set()


@pytest.mark.parametrize("module", ATTACKED)
def test_what_keeps_or_compares_is_attacked(module: str) -> None:
    assert (ROOT / "onetool_ipy" / f"{module}.py").exists(), "it moved: say where its attack is now"
    files = [ROOT / "tests" / name for name in ATTACKED[module].split()]

    assert [
        file.name for file in files if not _ATTACK.search(file.read_text(encoding="utf-8"))
    ] == []


# Definitions and names for others to import, tested by those who use them. The list may only become
# shorter.
WITHOUT_A_TEST_OF_ITS_NAME = {
    "base/records.py", "config/settings.py", "core/shown.py", "faces/widgets/__init__.py", "host.py",
    "llm/__init__.py", "llm/messages.py", "mcp/definition.py", "packs/ot/errors.py", "packs/ot/pack.py",
    "sdk/__init__.py", "sources/functions.py",
}  # fmt: skip


def test_each_module_has_a_test_of_its_name() -> None:
    """So that its tests are found, and `make mutants` finds them."""
    bare = mutants.without_tests(sorted(mutants.PACKAGE.rglob("*.py")))

    assert {
        path.relative_to(mutants.PACKAGE).as_posix() for path in bare
    } == WITHOUT_A_TEST_OF_ITS_NAME


@pytest.mark.slow
def test_imports_go_down_only() -> None:
    done = _run(str(Path(sys.executable).with_name("lint-imports")), "--no-cache")

    assert done.returncode == 0, done.stdout


KNOW_THE_SYSTEM = {"base/files.py", "base/processes.py", "config/paths.py"}
_SYSTEM = re.compile(r"\bsys\.platform\b|\bos\.name\b|\bplatform\.system\b")
_OF_SYSTEMS = {
    *("_winapi", "fcntl", "grp", "msvcrt", "pty", "pwd", "resource", "termios", "win32job"),
    "winreg",
}


@pytest.mark.slow
def test_one_place_knows_what_differs_between_systems() -> None:
    """Give the difference a name in base/processes.py, base/files.py or config/paths.py."""
    package = ROOT / "onetool_ipy"
    asking = {
        path.relative_to(package).as_posix()
        for path in package.rglob("*.py")
        if _SYSTEM.search(path.read_text(encoding="utf-8"))
        or (_names_a_system(path) and _imported(path) & _OF_SYSTEMS)
    }

    assert asking == KNOW_THE_SYSTEM


@pytest.mark.slow
def test_every_test_file_can_be_read_on_each_system() -> None:
    """Import what a system lacks inside the test that needs it, and mark that test."""
    assert [
        path.name
        for path in sorted((ROOT / "tests").rglob("*.py"))
        if "node_modules" not in path.parts and _names_a_system(path)
        for node in ast.parse(path.read_text(encoding="utf-8")).body
        if isinstance(node, ast.Import | ast.ImportFrom)
        and _OF_SYSTEMS & {*(alias.name for alias in node.names), getattr(node, "module", None)}
    ] == []


def _names_a_system(path: Path) -> bool:
    """Whether a file may import one of these: few do, and parsing all of them takes seconds."""
    text = path.read_text(encoding="utf-8")
    return any(name in text for name in _OF_SYSTEMS)


@pytest.mark.slow
def test_no_two_modules_wait_for_each_other() -> None:
    """Threads may import at the same time, so no imports go in a circle: Python would raise in one
    of the threads.

    A module waits for its packages, and a package for what its `__init__` imports: leave that
    empty, or make it late.
    """
    waits: dict[str, set[str]] = {}
    for module in _package():
        named = {one.module for one in module.imports if not (one.is_late or one.is_for_types)}
        parts = [name.split(".") for name in (module.name, *named)]
        whole = {".".join(part[:count]) for part in parts for count in range(2, len(part) + 1)}
        waits[module.name] = whole - {module.name}

    TopologicalSorter(waits).prepare()  # raises CycleError, which names them


def test_no_modules_know_each_other_in_a_circle() -> None:
    """Imports for annotations count: move the type down to the module that both know, or write a
    protocol."""
    assert source.largest_circle(_package()) == []


def test_the_toolbox_stays_one_thought() -> None:
    """Give a new method to the part that it asks: the registry, the gate, the servers."""
    names = [
        name
        for name, value in vars(onetool_ipy.Toolbox).items()
        if name[0] != "_" and callable(value)
    ]

    assert len(names) <= MAX_TOOLBOX_METHODS


@pytest.mark.slow
def test_threads_import_at_the_same_time() -> None:
    """As the panel's first request does beside the first cell."""
    names = (
        "packs.ot.health",
        "packs.ot.usage",
        "packs.ot.pack",
        "faces.notebook.run",
        "faces.widgets.requests",
    )
    program = f"""
        import sys, threading
        from importlib import import_module
        import onetool_ipy
        sys.setswitchinterval(1e-6)
        together = threading.Barrier({len(names)})
        def load(name):
            together.wait()
            import_module("onetool_ipy." + name)
        threads = [threading.Thread(target=load, args=(name,)) for name in {names}]
        for thread in threads: thread.start()
        for thread in threads: thread.join()
        """

    done = _run(sys.executable, "-c", textwrap.dedent(program))

    assert (done.returncode, done.stdout) == (0, "")


def test_no_function_of_the_package_is_longer_than_it_should_be() -> None:
    assert source.long_functions(_package()) == [], "split the function"


def test_a_public_class_name_means_one_thing() -> None:
    """The list holds the names that are still defined twice. It may only get shorter."""
    known = (
        (ROOT / "tests" / "data" / "class_names_defined_twice.txt")
        .read_text(encoding="utf-8")
        .split()
    )

    found = source.class_names_defined_twice(_package())

    assert {name: places for name, places in found.items() if name not in known} == {}, (
        "choose another name"
    )
    assert [name for name in known if name not in found] == [], (
        "take it off the list: it is defined once now"
    )


@pytest.mark.slow
def test_no_class_is_recognised_by_its_name_in_a_string() -> None:
    """A rename would break it, and no type checker would notice: compare with the class, or give it
    an attribute.

    One module recognises the tools of frameworks that it must not import.
    """
    names = {
        f"{path.relative_to(ROOT)}:{node.lineno}"
        for path in _sources()
        if path.suffix == ".py" and path.name != "adopted.py"
        for node in _nodes(path)
        if isinstance(node, ast.Compare | ast.ListComp | ast.SetComp | ast.GeneratorExp)
        for part in (
            [node.left, *node.comparators] if isinstance(node, ast.Compare) else [node.elt]
        )
        if isinstance(part, ast.Attribute) and part.attr in ("__name__", "__qualname__")
        if "__main__" not in ast.unparse(node)
    }

    assert names == set()


def test_no_tracked_file_names_this_machine_or_a_registry() -> None:
    own = [str(ROOT), OUTSIDE.get("HOME", "") + "/"]
    words = [*HOSTS, *MACHINE, *(place for place in own if len(place) > 5)]
    pattern = re.compile("|".join(re.escape(word) for word in words))

    found = [
        f"{path.relative_to(ROOT)}:{number}: {hit[0]}"
        for path in _tracked()
        for number, line in enumerate(_text(path).splitlines(), start=1)
        if (hit := pattern.search(line))
    ]

    assert found == []


def test_public_names_can_be_imported() -> None:
    missing = [name for name in onetool_ipy.__all__ if not hasattr(onetool_ipy, name)]

    assert missing == []
    assert list(onetool_ipy.__all__) == sorted(set(onetool_ipy.__all__))


def test_import_loads_nothing_heavy() -> None:
    code = "import sys, onetool_ipy; print([name for name in sys.argv[1:] if name in sys.modules])"

    done = _run(sys.executable, "-c", code, *HEAVY)

    assert done.stdout.strip() == "[]", done.stdout


def test_import_touches_no_file_but_code() -> None:
    code = (
        "import sys; opened = []\n"
        "sys.addaudithook(lambda event, args: event == 'open' and opened.append(str(args[0])))\n"
        "import onetool_ipy\n"
        "print([name for name in opened if '.py' not in name])"
    )

    done = _run(sys.executable, "-c", code)

    assert done.stdout.strip() == "[]", done.stdout


@pytest.mark.slow
def test_every_import_is_a_declared_dependency() -> None:
    """The wheel's tests lend it our own environment, so they would not notice a missing one."""
    # This one is installed on Windows alone.
    known = {"win32job": ["pywin32"], **packages_distributions()}
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"]
    offered = [
        line for name, lines in extras.items() if name not in ("test", "bench") for line in lines
    ]
    needed = [*project["dependencies"], *offered]
    declared = {_plain(Requirement(line).name) for line in needed}

    undeclared = {
        f"{path.relative_to(ROOT)}: {name}"
        for path in _sources()
        if path.suffix == ".py"
        for name in _imported(path) - sys.stdlib_module_names - {"onetool_ipy"}
        if not declared.intersection(map(_plain, known.get(name, [name])))
    }

    assert undeclared == set(), "add it to pyproject.toml, or do without"


@pytest.mark.parametrize(
    "path", ["labextension/package.json", "onetool_ipy/labextension/package.json"]
)
def test_panel_has_the_version_of_the_package(path: str) -> None:
    package = json.loads((ROOT / path).read_text(encoding="utf-8"))

    assert package["version"] == onetool_ipy.__version__


def test_panel_knows_the_version_of_the_package() -> None:
    source = (ROOT / "labextension" / "src" / "panel" / "version.ts").read_text(encoding="utf-8")

    assert f"VERSION = '{onetool_ipy.__version__}'" in source


def test_lock_file_names_no_place_to_fetch_from() -> None:
    lock = json.loads((ROOT / "labextension" / "package-lock.json").read_text(encoding="utf-8"))

    fetched = [name for name, entry in lock["packages"].items() if "resolved" in entry]

    assert fetched == [], "npm install --omit-lockfile-registry-resolved"


@cache
def _package() -> list[source.Module]:
    return source.read_package(ROOT / "onetool_ipy")


@cache
def _nodes(path: Path) -> list[ast.AST]:
    return list(ast.walk(ast.parse(path.read_text(encoding="utf-8"))))


def _run(*command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
    )


def _tracked() -> list[Path]:
    """Files that are, or by .gitignore could be, in the repository."""
    listing = _run("git", "ls-files", "--cached", "--others", "--exclude-standard", "-z")
    assert listing.returncode == 0, listing.stdout
    paths = [ROOT / name for name in listing.stdout.split("\0") if name]
    assert paths
    return [path for path in paths if path.is_file()]


def _sources() -> list[Path]:
    """Code of the package, but not what the panel's build wrote."""
    built = ROOT / "onetool_ipy" / "labextension"
    suffixes = {".py", ".js", ".mjs", ".ts", ".css"}
    places = [ROOT / "onetool_ipy", ROOT / "labextension" / "src"]
    return [
        path
        for place in places
        for path in sorted(place.rglob("*"))
        if path.suffix in suffixes and built not in path.parents
    ]


def _imported(path: Path) -> set[str]:
    """Top-level names of the modules a file imports, anywhere in it."""
    names: set[str] = set()
    for node in _nodes(path):
        if isinstance(node, ast.Import):
            names.update(alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and not node.level and node.module:
            names.add(node.module.partition(".")[0])
    return names


def _plain(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def _text(path: Path) -> str:
    """The text of a file; of a binary one what can be read as text."""
    return path.read_bytes().decode("utf-8", errors="ignore")
