"""`%tool server login` and `logout` in a real kernel, at a server on loopback that wants a
sign-in."""

from __future__ import annotations

import io
import re
import sys
from collections.abc import Iterator

import httpx
import pytest

from onetool_ipy.faces.cli import main
from tests.harness.kernel import Execution, Kernel
from tests.harness.oauth import CANARY, OAuthServer
from tests.harness.patience import HANG_S
from tests.harness.project import Project

LOGIN = "%tool server login crm"


@pytest.fixture
def server() -> Iterator[OAuthServer]:
    with OAuthServer() as found:
        yield found


@pytest.fixture
def loaded(kernel: Kernel, server: OAuthServer) -> Kernel:
    kernel.execute("%load_ext onetool_ipy")
    kernel.execute(f"%tool server add crm {server.url}")
    return kernel


def refused(kernel: Kernel, line: str) -> str:
    outcome = kernel.execute(line, allow_errors=True, timeout=HANG_S)
    assert outcome.error is not None, outcome.text
    assert len(outcome.error.text.splitlines()) <= 5
    return outcome.error.text


def shown_link(cell: Execution) -> str:
    """The address that a cell shows, which must be the one that its link leads to."""
    shown = cell.wait_for_output("Sign in to crm: ", HANG_S).displays[0]
    found = re.search(r"Sign in to crm: (\S+)", shown.text)
    assert found is not None
    escaped = found[1].replace("&", "&amp;")
    assert shown.data["text/html"].count(escaped) == 2
    return found[1]


@pytest.mark.slow
def test_login_and_logout(loaded: Kernel, server: OAuthServer) -> None:
    """The cell shows the link and waits; then the link gives way to what came of it."""
    assert LOGIN in refused(loaded, "%tool crm.whoami")
    assert LOGIN in refused(loaded, "%tool list crm")
    assert f"Sign in with: {LOGIN}" in loaded.execute("%tool server test crm", timeout=HANG_S).text
    cell = loaded.start_execute(LOGIN, allow_stdin=True)

    assert httpx.get(server.visit(shown_link(cell))).status_code == 200

    first, last = cell.wait(HANG_S).displays
    assert last.text == "You are signed in to crm. It is connected, 1 tool."
    assert last.is_update
    assert last.display_id == first.display_id
    (client,) = server.clients.values()
    assert CANARY not in cell.outcome.text
    assert (client.client_secret or "-") not in cell.outcome.text
    assert "you" in loaded.execute("%tool crm.whoami").text
    assert "signed out of crm" in loaded.execute("%tool server logout crm", timeout=HANG_S).text
    assert LOGIN in refused(loaded, "%tool crm.whoami")


@pytest.mark.slow
def test_a_cell_is_stopped_and_the_address_given_by_hand(
    loaded: Kernel, server: OAuthServer
) -> None:
    """A browser on another machine cannot bring the answer; the person copies the address."""
    assert "No sign-in to 'crm' is under way" in refused(loaded, f"{LOGIN} --code x")
    cell = loaded.start_execute(LOGIN, allow_stdin=True)
    url = shown_link(cell)
    loaded.interrupt()
    assert cell.wait(HANG_S, allow_errors=True).error is not None
    ended = server.visit(url)
    assert "belongs to another sign-in" in refused(
        loaded, f"{LOGIN} --code {ended.replace('state=', 'state=x')!r}"
    )

    assert (
        "You are signed in to crm"
        in loaded.execute(f"{LOGIN} --code {ended!r}", timeout=HANG_S).text
    )

    assert (
        "You are signed in to 'crm'"
        in loaded.execute(LOGIN, allow_errors=True, allow_stdin=True).text
    )


@pytest.mark.slow
def test_the_answer_is_asked_for_where_nothing_listens(kernel: Kernel, server: OAuthServer) -> None:
    """A client that was registered for an address elsewhere."""
    kernel.execute("%load_ext onetool_ipy")
    auth = {"redirect_uri": "https://elsewhere.example/back"}
    kernel.cwd.joinpath(".onetool").mkdir()
    config = f"version: 1\nservers: {{crm: {{url: '{server.url}', auth: {auth}}}}}\n"
    kernel.cwd.joinpath(".onetool", "onetool.yaml").write_text(config, encoding="utf-8")
    kernel.execute("import os; os.environ['ONETOOL_TRUST'] = os.getcwd()\n%reload_ext onetool_ipy")
    cell = kernel.start_execute(LOGIN, allow_stdin=True)
    ended = server.visit(shown_link(cell))
    assert ended.startswith("https://elsewhere.example/back?")

    kernel.answer_input(ended, HANG_S)

    assert "You are signed in to crm" in cell.wait(HANG_S).text


@pytest.mark.slow
def test_the_secret_of_a_client_is_sent_after_a_yes_alone(
    kernel: Kernel, server: OAuthServer
) -> None:
    """Its definition names no issuer, so only the server says where the secret goes."""
    auth = {
        "client_id": "mine",
        "client_secret": "${CRM_SECRET}",
        "redirect_uri": "http://127.0.0.1:1/callback",
    }
    kernel.cwd.joinpath(".onetool").mkdir()
    config = f"version: 1\nservers: {{crm: {{url: '{server.url}', auth: {auth}}}}}\n"
    kernel.cwd.joinpath(".onetool", "onetool.yaml").write_text(config, encoding="utf-8")
    kernel.execute(
        "import os; os.environ.update(ONETOOL_TRUST=os.getcwd(), CRM_SECRET='a-secret-canary')"
    )
    kernel.execute("%load_ext onetool_ipy")

    cell = kernel.start_execute(LOGIN, allow_stdin=True)
    kernel.answer_input("n", HANG_S)
    assert "You are not signed in to crm." in cell.wait(HANG_S).text

    cell = kernel.start_execute(LOGIN, allow_stdin=True)
    question = kernel.answer_input("y", HANG_S)
    assert f"Send the secret of your client to '{server.origin}" in f"{question}{cell.outcome.text}"
    assert "client_id=mine" in cell.wait_for_output("Sign in to crm: ", HANG_S).text
    kernel.interrupt()
    cell.wait(HANG_S, allow_errors=True)


def test_nobody_is_there(loaded: Kernel, server: OAuthServer) -> None:
    """In papermill nobody can open a link."""
    said = refused(loaded, LOGIN)
    assert "Nobody is here to sign in to 'crm'" in said
    assert "client_credentials" in said
    assert not server.clients


def test_wrong_words(loaded: Kernel) -> None:
    assert "needs one name" in refused(loaded, "%tool server login")
    assert "No server 'crn'. Did you mean 'crm'?" in refused(loaded, "%tool server login crn")


class Terminal(io.StringIO):
    """Standard input as a terminal gives it. A closed one raises, as every stream does."""

    def isatty(self) -> bool:
        return super().isatty() or True


CLOSED = Terminal()
CLOSED.close()


@pytest.mark.parametrize(
    ("stdin", "is_asked"),
    [(None, False), (CLOSED, False), (io.StringIO(), False), (Terminal(), True)],
    ids=["none", "closed", "pipe", "terminal"],
)
def test_a_shell_signs_in_at_a_terminal_alone(
    project: Project,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    stdin: io.StringIO | None,
    is_asked: bool,
) -> None:
    config = project.settings(servers={"crm": {"url": "http://127.0.0.1:1/mcp"}})
    monkeypatch.setattr(sys, "stdin", stdin)

    assert main(["--config", str(config), "server", "login", "crm"]) == 1

    assert ("Nobody is here to sign in" in capsys.readouterr().err) is not is_asked
