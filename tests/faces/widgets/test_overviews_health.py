"""The problems screen over real toolboxes: what can be done about a problem, and which lines of a
file are shown."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from onetool_ipy import Toolbox, open_toolbox
from onetool_ipy.assemble import open_leniently
from onetool_ipy.base.errors import Unavailable, UsageProblem
from onetool_ipy.config.paths import home_at
from onetool_ipy.faces.widgets.http_requests import HttpToolRequests
from onetool_ipy.faces.widgets.overviews import (
    check_health,
    lines_around,
    problem_rows,
    python_packs,
)
from onetool_ipy.faces.widgets.viewer import ResultViewer

SECRET = "s3cr3t-in-problems"
Project = Callable[..., Toolbox]


@pytest.fixture
def project(tmp_path: Path) -> Project:
    def make(config: str = "version: 1\n", *, mode: int = 0o600, **pack_files: str) -> Toolbox:
        folder = tmp_path / ".onetool"
        (folder / "tools").mkdir(parents=True)
        (folder / "onetool.yaml").write_text(config)
        (folder / "secrets.yaml").write_text(f"KEY: {SECRET}\n")
        (folder / "secrets.yaml").chmod(mode)
        for name, text in pack_files.items():
            (folder / "tools" / f"{name}.py").write_text(text)
        return open_toolbox(tmp_path, env={"ONETOOL_STATE": str(tmp_path / "state")})

    return make


def only(box: Toolbox, word: str) -> dict[str, Any]:
    [found] = [each for each in problem_rows(box) if word in each["message"]]
    return found


def test_a_problem_in_a_file_opens_it_at_its_line_and_shows_masked_lines(
    project: Project, tmp_path: Path
) -> None:
    source = (
        f'pack = "geo"\n# {SECRET}\n__all__ = ["bare"]\ndef bare(x: int) -> int:\n    return x\n'
    )
    with project(geo=source) as box:
        found = only(box, "docstring")
        path = str(tmp_path / ".onetool" / "tools" / "geo.py")
        assert found["action"] == {"kind": "open", "label": "Open", "path": path, "line": 4}
        shown = lines_around(box, found["where"])
        assert (shown["first"], shown["line"]) == (1, 4)
        assert shown["lines"][3] == "def bare(x: int) -> int:"
        assert SECRET not in str(shown)
        with pytest.raises(UsageProblem):
            lines_around(box, f"{tmp_path / '.onetool' / 'onetool.yaml'}:1")


@pytest.mark.posix("modes of files")
def test_a_secrets_file_is_not_shown_and_its_command_is_copied(project: Project) -> None:
    with project(mode=0o644) as box:
        found = only(box, "0600")
        assert found["action"]["kind"] == "copy"
        assert found["action"]["text"].startswith("chmod 600 ")
        assert lines_around(box, found["where"])["lines"] == []


def test_a_secret_that_two_tools_lack_is_one_problem_with_a_field(project: Project) -> None:
    with project() as box:
        bundle = box.bundles.put_bundle(box.bundles.new_id(), slug="shop", display_name="Shop")
        auth = {"type": "bearer", "value": "${SHOP_TOKEN}"}
        for slug in ("get", "list"):
            http = {"request": {"urlTemplate": "https://shop.example/x", "auth": auth}}
            record = {"type": "http", "displayName": slug, "description": slug, "http": http}
            box.bundles.put_tool(bundle.bundle_id, slug, "1", record)

        found = only(box, "SHOP_TOKEN")

        assert found["where"] == "shop.get@1 and 1 more"
        assert found["action"] == {"kind": "secret", "label": "Save", "name": "SHOP_TOKEN"}


def test_a_secret_that_servers_lack_is_one_problem_with_a_field(project: Project) -> None:
    """What is typed there is kept, and the servers are there at once."""
    config = """version: 1
servers:
  docs: {type: http, url: "http://127.0.0.1:9/mcp", headers: {X-Key: "${DOCS_KEY}"}}
  more: {type: http, url: "http://127.0.0.1:8/mcp", headers: {X-Key: "${DOCS_KEY}"}}
"""
    with project(config) as box:
        found = only(box, "DOCS_KEY")
        assert found["where"] == ".onetool/onetool.yaml:3"
        assert found["message"].startswith("servers.docs.headers.X-Key: ${DOCS_KEY} is neither")
        assert found["message"].endswith("It is missing at .onetool/onetool.yaml:4 too.")
        assert found["action"] == {"kind": "secret", "label": "Save", "name": "DOCS_KEY"}
        assert not list(box.servers)

        HttpToolRequests(box, ResultViewer(box)).keep_secret(
            {"name": "DOCS_KEY", "value": "typed-in-health"}
        )

        assert sorted(box.servers) == ["docs", "more"]
        assert not problem_rows(box)


def test_the_packs_of_a_persons_own_python_are_listed_with_their_file(
    project: Project, tmp_path: Path
) -> None:
    source = 'pack = "geo"\ndef here() -> int:\n    "Where."\n    return 1\n'
    with project(geo=source) as box:
        (found,) = python_packs(box)["items"]

    path = str(tmp_path / ".onetool" / "tools" / "geo.py")
    assert (found["name"], found["tools"], found["action"]["path"]) == ("geo", 1, path)


def test_a_server_that_failed_is_restarted(project: Project) -> None:
    with project("version: 1\nservers: {gone: {command: /nowhere/at-all}}\n") as box:
        with pytest.raises(Unavailable):
            box.servers.start("gone")
        found = only(box, "'gone'")
        assert found["action"] == {
            "kind": "server",
            "label": "Restart",
            "server": "gone",
            "action": "restart",
        }


def test_a_project_that_is_not_trusted_is_asked_about(project: Project, tmp_path: Path) -> None:
    project(geo='pack = "geo"\ndef f(): "F."\n').close()
    with open_leniently(
        env={"ONETOOL_STATE": str(tmp_path / "state"), **home_at(tmp_path.parent)}, cwd=tmp_path
    ) as box:
        assert only(box, "not trusted")["action"] == {"kind": "trust", "label": "Trust"}


def test_a_check_lists_what_tools_need_and_is_not_installed(project: Project) -> None:
    needs = """
from onetool_ipy.sdk import requires_cli
pack = "geo"
@requires_cli("no-such-program", install="apt install it")
def plot() -> str:
    "Draw."
    return ""
"""
    with project(geo=needs) as box:
        assert "no-such-program" not in str(problem_rows(box)), "a look checks nothing"
        [found] = check_health(box)["missing"]
        assert found["where"] == "geo.plot"
        assert found["message"] == "needs the cli 'no-such-program'."
        assert found["hint"] == "apt install it"
        assert found["action"] is None
