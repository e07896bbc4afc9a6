"""What an installation pulls in: every declared dependency is imported by the package."""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from importlib.metadata import packages_distributions

import pytest

from tests.harness.surroundings import ROOT

_LOADED_BY_JUPYTER = {"jupyterlab", "ipywidgets"}
"""Used by their files and front ends, not by an import: the panel and the widget manager."""


def _declared() -> set[str]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return {_normal(re.match(r"[\w.-]+", line)[0]) for line in project["dependencies"]}  # type: ignore[index]


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def _imported() -> set[str]:
    found: set[str] = set()
    for file in (ROOT / "onetool_ipy").rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                found |= {alias.name.partition(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                found.add(node.module.partition(".")[0])
    return found - sys.stdlib_module_names - {"onetool_ipy", "__future__"}


@pytest.mark.slow
def test_every_declared_dependency_is_used() -> None:
    # A module of another system's package is not installed here.
    owners = {"win32job": ["pywin32"], **packages_distributions()}
    used = {_normal(owner) for module in _imported() for owner in owners.get(module, ())}
    assert _declared() - used - _LOADED_BY_JUPYTER == set()
