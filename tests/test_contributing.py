"""What a contributor relies on: commands of the docs exist, workflows and hooks are valid, versions
are pinned.

The workflows cannot run here. `check-jsonschema` holds them against GitHub's schema, and `zizmor`
looks for unsafe steps, both without network.
"""

from __future__ import annotations

import itertools
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml
from check_jsonschema import main as check_jsonschema
from click.testing import CliRunner, Result
from packaging.requirements import Requirement

from tests.harness.surroundings import ROOT

GITHUB = ROOT / ".github"
FILES = {
    "vendor.github-workflows": (
        "workflows/site.yml",
        "workflows/test.yml",
        "workflows/release.yml",
    ),
    "vendor.dependabot": ("dependabot.yml",),
    "vendor.github-issue-forms": ("ISSUE_TEMPLATE/bug.yml", "ISSUE_TEMPLATE/feature.yml"),
    "vendor.github-issue-config": ("ISSUE_TEMPLATE/config.yml",),
}
"""What is checked, by the schema that it has to fit."""
PYTHONS = ("3.11", "3.12", "3.13", "3.14")
PLATFORMS = (("linux", "x86_64"), ("linux", "aarch64"), ("darwin", "arm64"), ("win32", "AMD64"))
UNSAFE = """\
name: greet
on: issues
permissions: {}
jobs:
  greet:
    runs-on: ubuntu-24.04
    steps:
      - run: echo "${{ github.event.issue.title }}"
"""


# --- workflows and templates ----------------------------------------------------------------------


@pytest.mark.parametrize("schema", FILES)
def test_files_fit_their_schema(schema: str) -> None:
    done = _schema_check(schema, *(GITHUB / name for name in FILES[schema]))

    assert done.exit_code == 0, done.output


def test_every_file_for_github_is_checked() -> None:
    found = {str(path.relative_to(GITHUB)) for path in GITHUB.rglob("*.yml")}

    assert found == {*itertools.chain(*FILES.values()), "zizmor.yml"}


def test_workflow_without_a_machine_does_not_fit_the_schema(tmp_path: Path) -> None:
    file = tmp_path / "broken.yml"
    file.write_text(UNSAFE.replace("    runs-on: ubuntu-24.04\n", ""), encoding="utf-8")

    assert _schema_check("vendor.github-workflows", file).exit_code == 1


def test_workflows_have_no_unsafe_step() -> None:
    done = _run(_program("zizmor"), "--offline", "--no-progress", str(GITHUB))

    assert done.returncode == 0, done.stdout


def test_workflow_that_runs_the_title_of_an_issue_is_unsafe(tmp_path: Path) -> None:
    file = tmp_path / "unsafe.yml"
    file.write_text(UNSAFE, encoding="utf-8")

    done = _run(_program("zizmor"), "--offline", "--no-progress", str(file))

    assert done.returncode != 0
    assert "template-injection" in done.stdout


def test_workflow_tries_every_system_and_python() -> None:
    jobs = _yaml(GITHUB / "workflows" / "test.yml")["jobs"]
    matrices = [job["strategy"]["matrix"] for job in jobs.values() if "strategy" in job]

    tried = {
        pair for matrix in matrices for pair in itertools.product(matrix["os"], matrix["python"])
    }

    systems = ("ubuntu-24.04", "ubuntu-24.04-arm", "macos-15", "windows-2025")
    assert set(itertools.product(systems, PYTHONS)) == tried


def test_release_has_no_token_and_uploads_what_another_machine_has_tried() -> None:
    """What is installed to try the wheel runs neither beside `dist/` nor where the upload is
    signed."""
    text = (GITHUB / "workflows" / "release.yml").read_text(encoding="utf-8")
    workflow = _yaml(GITHUB / "workflows" / "release.yml")
    build, attempt, publish = (workflow["jobs"][name] for name in ("build", "try", "publish"))
    scripts = {
        name: "\n".join(step.get("run", "") for step in job["steps"])
        for name, job in workflow["jobs"].items()
    }

    assert (attempt["needs"], publish["needs"]) == ("build", ["build", "try"])
    assert workflow["permissions"] == {"contents": "read"}
    assert ("permissions" in build, "permissions" in attempt) == (False, False)
    assert publish["permissions"] == {"id-token": "write"}
    assert {name for name, script in scripts.items() if ".whl" in script} == {"try"}
    assert "pip install --constraint constraints.txt dist/*.whl" in scripts["try"]
    assert all("upload-artifact" not in step.get("uses", "") for step in attempt["steps"])
    assert "secrets." not in text


# --- commands -------------------------------------------------------------------------------------


@pytest.mark.parametrize("file", ["CONTRIBUTING.md", "README.md", ".github/workflows/test.yml"])
def test_make_help_names_every_make_command(file: str) -> None:
    text = (ROOT / file).read_text(encoding="utf-8")

    named = set(re.findall(r"(?:`|\$ |run: |^    )make ([a-z][a-z-]*)", text, re.MULTILINE))

    assert named
    assert named <= set(re.findall(r"^make ([a-z-]+) ", _run("make", "help").stdout, re.MULTILINE))


def test_links_of_contributing_lead_somewhere() -> None:
    links = re.findall(r"\]\(([^)#]+)\)", (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8"))

    assert links
    assert [link for link in links if not (ROOT / link).exists()] == []


# --- hooks ----------------------------------------------------------------------------------------


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A small repository with our hooks, our settings of ruff and our environment."""
    shutil.copy(ROOT / ".pre-commit-config.yaml", tmp_path)
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    (tmp_path / ".venv").symlink_to(Path(sys.prefix))
    (tmp_path / ".gitignore").write_text(".venv\n", encoding="utf-8")
    _run("git", "init", "--quiet", cwd=tmp_path)
    return tmp_path


def test_hooks_are_valid_and_their_programs_are_installed() -> None:
    done = _run(_program("pre-commit"), "validate-config", str(ROOT / ".pre-commit-config.yaml"))
    hooks = [
        hook for repo in _yaml(ROOT / ".pre-commit-config.yaml")["repos"] for hook in repo["hooks"]
    ]

    assert done.returncode == 0, done.stdout
    programs = {hook["entry"].split()[0] for hook in hooks}
    assert all(program.startswith(".venv/bin/") for program in programs)
    assert [
        program for program in programs if not Path(sys.prefix, "bin", Path(program).name).exists()
    ] == []


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ('"""Good."""\n\nNUMBER = 1\n', 0),
        ('"""Bad."""\n\nNUMBER = [1,2]\n', 1),
        ('"""Bad."""\n\nprint(missing)\n', 1),
    ],
    ids=["good", "format", "lint"],
)
def test_commit_is_stopped_by_what_ruff_finds(checkout: Path, text: str, code: int) -> None:
    (checkout / "module.py").write_text(text, encoding="utf-8")
    _run("git", "add", ".", cwd=checkout)

    done = _run(_program("pre-commit"), "run", "--all-files", cwd=checkout)

    assert done.returncode == code, done.stdout


# --- versions -------------------------------------------------------------------------------------


@pytest.mark.parametrize(("system", "machine"), PLATFORMS)
@pytest.mark.parametrize("python", PYTHONS)
def test_every_requirement_is_pinned_to_a_version_that_fits(
    python: str, system: str, machine: str
) -> None:
    """`make lock` after a change in pyproject.toml."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    needed = [
        Requirement(line)
        for line in (*project["dependencies"], *project["optional-dependencies"]["test"])
    ]
    surroundings = _surroundings(python, system, machine)
    pins = _pins(ROOT / "constraints.txt", surroundings)

    unfit = [
        str(one)
        for one in needed
        if (one.marker is None or one.marker.evaluate(surroundings))
        and not one.specifier.contains(pins.get(_plain(one.name), "0"), prereleases=True)
    ]

    assert unfit == []


@pytest.mark.parametrize("environment", ["servers", "clients"])
def test_programs_of_others_are_pinned(environment: str) -> None:
    lines = (ROOT / "tests" / f"{environment}.txt").read_text(encoding="utf-8").splitlines()
    needed = [Requirement(line) for line in lines if line and not line.startswith("#")]

    surroundings = _surroundings("3.11", "linux", "x86_64")
    pins = _pins(ROOT / "tests" / f"constraints-{environment}.txt", surroundings)

    assert {str(one) for one in needed} <= {f"{name}=={version}" for name, version in pins.items()}
    assert len(pins) > 10 * len(needed)


def _surroundings(python: str, system: str, machine: str) -> dict[str, str]:
    """What a marker is judged by."""
    return {
        "python_version": python,
        "python_full_version": f"{python}.9",
        "sys_platform": system,
        "platform_machine": machine,
        "os_name": "nt" if system == "win32" else "posix",
        "platform_python_implementation": "CPython",
        "implementation_name": "cpython",
    }


def _pins(file: Path, surroundings: dict[str, str]) -> dict[str, str]:
    """The versions that a file pins on one platform; each package once."""
    lines = [
        line for line in file.read_text(encoding="utf-8").splitlines() if not line.startswith("#")
    ]
    found = [
        one
        for one in map(Requirement, lines)
        if one.marker is None or one.marker.evaluate(surroundings)
    ]
    pins = {_plain(one.name): str(one.specifier).removeprefix("==") for one in found}
    assert len(pins) == len(found)
    return pins


def _schema_check(schema: str, *files: Path) -> Result:
    """What check-jsonschema says, in this process: its imports take seconds."""
    return CliRunner().invoke(check_jsonschema, ["--builtin-schema", schema, *map(str, files)])


def _program(name: str) -> str:
    """A program of this environment."""
    return str(Path(sys.prefix, "bin", name))


def _run(*command: str, cwd: Path = ROOT) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command, cwd=cwd, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
    )


def _yaml(path: Path) -> Any:
    return yaml.safe_load(path.read_text(encoding="utf-8"))


def _plain(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()
