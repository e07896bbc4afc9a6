"""Signing in to a server on loopback that wants it, by way of the toolbox: link, answer, tokens,
renewal, the end."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

import httpx
import httpx2
import pytest
from mcp.shared.auth import OAuthClientInformationFull, OAuthToken
from pydantic import AnyUrl

from onetool_ipy import Toolbox, ToolCallError, UsageProblem, open_toolbox
from onetool_ipy.base.errors import Unavailable, Untrusted
from onetool_ipy.config.paths import home_at
from onetool_ipy.mcp.auth import ServerAuth, SignIn
from onetool_ipy.mcp.definition import ServerDefinition, UnconfirmedIssuer
from onetool_ipy.stores.tokens import Grant, TokenStore
from tests.harness.oauth import CANARY, OAuthServer
from tests.harness.patience import HANG_S, until
from tests.harness.servers import write_project
from tests.harness.stub import Asked, Stub
from tests.harness.systems import has_mode

Open = Callable[..., Toolbox]
LOGIN = "%tool server login crm"
CALL = (
    "from onetool_ipy import open_toolbox\nwith open_toolbox('.') as box:"
    " print(box.call('crm.whoami').unwrap())"
)


@pytest.fixture
def server() -> Iterator[OAuthServer]:
    with OAuthServer() as found:
        yield found


@pytest.fixture
def state(tmp_path: Path) -> Path:
    return tmp_path / "state"


@pytest.fixture
def box(opened: Open, server: OAuthServer, state: Path) -> Toolbox:
    return opened({"crm": {"url": server.url}}, env={**os.environ, "ONETOOL_STATE": str(state)})


def sign_in(box: Toolbox, server: OAuthServer) -> None:
    link = box.servers.sign_in("crm")
    assert httpx.get(server.visit(link.url)).status_code == 200
    assert box.servers.await_sign_in("crm") == "connected"


def grant_file(state: Path) -> Path:
    (found,) = (state / "tokens").glob("*.json")
    return found


def test_from_the_first_call_to_the_first_result(box: Toolbox, server: OAuthServer) -> None:
    """A call says what to type; the link leads to the tokens; the call works; the other kernels
    know."""
    failed = box.call("crm.whoami").error
    assert failed is not None
    assert (failed.message, failed.hint) == (
        "No tool 'crm.whoami'. The server 'crm' wants you to sign in.",
        f"Sign in with: {LOGIN}",
    )
    assert box.servers["crm"] == "signed out"

    sign_in(box, server)

    assert box.call("crm.whoami").unwrap() == "you"
    with pytest.raises(UsageProblem, match="You are signed in to 'crm'"):
        box.servers.sign_in("crm")
    (client,) = server.clients.values()
    assert client.client_name == "onetool-ipy"


def test_all_kernels_share_the_tokens_and_a_sign_out_ends_them_everywhere(
    box: Toolbox, server: OAuthServer, state: Path, tmp_path: Path
) -> None:
    sign_in(box, server)
    with open_toolbox(tmp_path, env={**os.environ, "ONETOOL_STATE": str(state)}) as other:
        assert other.call("crm.whoami").unwrap() == "you"

        box.servers.sign_out("crm")

        assert len(server.revoked) == 2
        assert not list((state / "tokens").glob("*.json"))
        failed = other.call("crm.whoami").error
        assert failed is not None
        assert (failed.message, failed.hint) == (
            "The server 'crm' wants you to sign in.",
            f"Sign in with: {LOGIN}",
        )
        assert other.servers["crm"] == "signed out"
    sign_in(box, server)
    assert box.call("crm.whoami").ok


@pytest.mark.slow
def test_two_kernels_do_not_spend_one_refresh_token_twice(
    box: Toolbox, server: OAuthServer, state: Path, tmp_path: Path
) -> None:
    """The server takes a refresh token once. Both start with tokens that are over; one renews
    them."""
    sign_in(box, server)
    box.close()
    file = grant_file(state)
    file.write_text(json.dumps({**json.loads(file.read_text()), "expires_at": 1.0}))
    env = {**os.environ, "ONETOOL_STATE": str(state), "PYTHONPATH": os.getcwd()}

    kernels = [
        subprocess.Popen(
            [sys.executable, "-c", CALL], cwd=tmp_path, env=env, stdout=subprocess.PIPE, text=True
        )
        for _ in range(2)
    ]

    said = [kernel.communicate(timeout=HANG_S)[0].strip() for kernel in kernels]
    assert (said, server.refreshes, server.tokens_asked) == (["you", "you"], 1, ["renewed"])


class SlowStore(TokenStore):
    """Reads a grant at once, and hands it over when it may."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, lambda _: None)
        self.has_read, self.may_answer = threading.Event(), threading.Event()

    def read(self, path: Path) -> Grant | None:
        found = super().read(path)
        self.has_read.set()
        self.may_answer.wait(HANG_S)
        return found


async def test_a_slow_look_at_the_tokens_does_not_bring_spent_ones_back(tmp_path: Path) -> None:
    """One request reads the file while another renews the tokens: the renewed ones count."""
    store = SlowStore(tmp_path)
    definition = ServerDefinition(
        name="crm", where="here", type="http", url="http://127.0.0.1:1/mcp"
    )
    store.write(
        store.path(definition.url, ""), {"tokens": {"access_token": "a", "refresh_token": "spent"}}
    )
    auth = ServerAuth(definition, store)
    looking = asyncio.create_task(auth.load())
    await asyncio.to_thread(store.has_read.wait, HANG_S)

    auth.context.current_tokens = OAuthToken(access_token="b", refresh_token="new")
    await auth.set_tokens(auth.context.current_tokens)
    store.may_answer.set()
    await looking

    assert auth.context.current_tokens is not None
    assert auth.context.current_tokens.refresh_token == "new"


@pytest.mark.parametrize(
    ("status", "said"),
    [
        (400, {"error": "invalid_grant"}),
        (200, {"access_token": "less", "refresh_token": "r", "token_type": "Bearer"}),
    ],
    ids=["refused", "renewed"],
)
async def test_a_renewal_does_not_undo_a_new_sign_in(
    tmp_path: Path, status: int, said: dict[str, str]
) -> None:
    """The user signs in elsewhere while this kernel tries to renew the tokens from before."""

    def grant(name: str, expires_at: float) -> Grant:
        tokens = {"access_token": name, "refresh_token": f"{name}-refresh", "token_type": "Bearer"}
        client = {"client_id": "x", "redirect_uris": ["http://127.0.0.1/callback"]}
        return {"client": client, "tokens": tokens, "expires_at": expires_at}

    def answer(asked: Asked) -> tuple[int, Any]:
        if asked.path == "/mcp":
            return 200 if asked.headers.get("authorization") == "Bearer new" else 401, None
        store.write(path, grant("new", time.time() + 3600))
        return status, said

    store = TokenStore(tmp_path, lambda _: None)
    with Stub(answer) as stub:
        definition = ServerDefinition(name="crm", where="here", type="http", url=stub.url("/mcp"))
        path = store.path(definition.url, "")
        store.write(path, grant("old", 1.0))
        async with httpx2.AsyncClient(auth=ServerAuth(definition, store)) as client:
            response = await client.post(definition.url)

    assert response.status_code == 200
    assert (store.read(path) or {})["tokens"]["access_token"] == "new"


@pytest.mark.parametrize(
    ("status", "words", "is_challenge"),
    [
        (401, "", True),
        (403, "", False),
        (403, 'Bearer error="insufficient_scope"', True),
        (404, "", False),
    ],
)
async def test_only_a_request_to_sign_in_is_a_challenge(
    tmp_path: Path, status: int, words: str, is_challenge: bool
) -> None:
    auth = ServerAuth(
        ServerDefinition(name="crm", where="here", type="http", url="http://crm.test/mcp"),
        TokenStore(tmp_path, lambda _: None),
    )
    response = httpx2.Response(status, headers={"www-authenticate": words} if words else {})
    async with httpx2.AsyncClient(
        auth=auth, transport=httpx2.MockTransport(lambda _: response)
    ) as client:
        await client.post("http://crm.test/mcp")

    assert (auth.challenge is not None, auth.refusals) == (is_challenge, int(is_challenge))


def test_a_cancelled_call_does_not_lose_the_renewed_tokens(
    box: Toolbox, server: OAuthServer
) -> None:
    """The call is stopped after the server took the refresh token and before it answered."""
    sign_in(box, server)
    server.access.clear()
    server.may_answer.clear()
    job = box.start("crm.whoami")
    assert until(lambda: server.refreshes == 1)
    job.cancel()
    assert job.result(HANG_S).error is not None
    server.may_answer.set()

    assert box.call("crm.whoami").unwrap() == "you"
    assert server.refreshes == 1


def test_tokens_that_the_server_dropped_are_renewed(box: Toolbox, server: OAuthServer) -> None:
    sign_in(box, server)
    server.access.clear()

    assert box.call("crm.whoami").unwrap() == "you"

    assert server.refreshes == 1


def test_a_refresh_token_that_is_over_asks_for_a_new_sign_in(
    box: Toolbox, server: OAuthServer, state: Path
) -> None:
    sign_in(box, server)
    server.access.clear()
    server.refresh.clear()

    failed = box.call("crm.whoami").error

    assert failed is not None
    assert failed.hint == f"Sign in with: {LOGIN}"
    assert not list((state / "tokens").glob("*.json"))
    sign_in(box, server)
    assert box.call("crm.whoami").ok


def test_a_person_says_no(box: Toolbox, server: OAuthServer, state: Path) -> None:
    link = box.servers.sign_in("crm")
    assert httpx.get(server.visit(link.url, allowed=False)).status_code == 200

    with pytest.raises(
        Unavailable, match=r"You are not signed in to 'crm'. It was refused: access_denied."
    ):
        box.servers.await_sign_in("crm")

    assert not list((state / "tokens").glob("*.json"))
    sign_in(box, server)


def test_an_answer_counts_once_and_only_with_its_state(box: Toolbox, server: OAuthServer) -> None:
    link = box.servers.sign_in("crm")
    good = server.visit(link.url)
    port, query = good.split("?")
    foreign = {**{key: each[0] for key, each in parse_qs(query).items()}, "state": "foreign"}

    assert httpx.get(f"{port}?{urlencode(foreign)}").status_code == 400
    assert httpx.get(f"{port}?{query}&state=foreign").status_code == 400
    assert httpx.get(f"{port}/../secrets?{query}").status_code == 404
    assert httpx.post(good).status_code == 404
    assert httpx.get(good).status_code == 200
    with pytest.raises(httpx.HTTPError):  # the port closes itself
        assert until(lambda: httpx.get(good) is None)
    assert box.servers.await_sign_in("crm") == "connected"


def test_an_answer_is_pasted(box: Toolbox, server: OAuthServer) -> None:
    """A browser on another machine ends at an address that it cannot reach."""
    ended = server.visit(box.servers.sign_in("crm").url)
    other = ended.replace("state=", "state=x")
    for wrong in ("", "https://evil.example/callback?" + urlsplit(ended).query, other, "?state=1"):
        with pytest.raises(UsageProblem):
            box.servers.await_sign_in("crm", wrong or " ")

    assert box.servers.await_sign_in("crm", f" {ended}\n") == "connected"
    with pytest.raises(UsageProblem, match="No sign-in to 'crm' is under way"):
        box.servers.await_sign_in("crm", ended)


def test_an_answer_of_a_foreign_issuer_is_refused(
    box: Toolbox, server: OAuthServer, state: Path
) -> None:
    server.extra_answer = {"iss": "https://evil.example"}
    link = box.servers.sign_in("crm")
    httpx.get(server.visit(link.url))

    with pytest.raises(Unavailable, match="iss mismatch"):
        box.servers.await_sign_in("crm")

    assert not server.access
    assert not list((state / "tokens").glob("*.json"))


def test_a_code_that_is_over_gives_no_token(box: Toolbox, server: OAuthServer) -> None:
    link = box.servers.sign_in("crm")
    ended = server.visit(link.url)
    server.codes.clear()

    with pytest.raises(Unavailable, match="gave no token: invalid_grant"):
        box.servers.await_sign_in("crm", ended)


@pytest.mark.parametrize(
    ("key", "value", "said"),
    [
        (
            "authorization_endpoint",
            "http://login.example/authorize",
            "sign in at an address that is not safe",
        ),
        (
            "authorization_endpoint",
            "https://bank.example@login.example/a",
            "sign in at an address that is not safe",
        ),
        (
            "registration_endpoint",
            "http://login.example/register",
            "not safe: http://login.example/register",
        ),
        (
            "registration_endpoint",
            "https://you@login.example/register",
            "not safe: https://you@login.example/register",
        ),
        ("code_challenge_methods_supported", ["plain"], "does not offer PKCE with S256"),
        ("code_challenge_methods_supported", None, "does not offer PKCE with S256"),
    ],
)
def test_a_server_that_leads_to_an_unsafe_sign_in(
    opened: Open, key: str, value: Any, said: str
) -> None:
    def answer(asked: Asked) -> tuple[int, Any]:
        url = stub.url("")
        if asked.path == "/mcp":
            return 401, None
        if "oauth-protected-resource" in asked.path:
            return 200, {"resource": f"{url}/mcp", "authorization_servers": [url]}
        if asked.path == "/register":
            return 201, {"client_id": "x", "redirect_uris": []}
        known = {"issuer": url, "authorization_endpoint": f"{url}/a", "token_endpoint": f"{url}/t"}
        known |= {
            "registration_endpoint": f"{url}/register",
            "code_challenge_methods_supported": ["S256"],
            key: value,
        }
        return 200, {"response_types_supported": ["code"], **known}

    with Stub(answer) as stub:
        box = opened({"crm": {"url": stub.url("/mcp")}})
        with pytest.raises(Unavailable, match=said):
            box.servers.sign_in("crm")


@pytest.mark.parametrize(
    "host",
    [
        "127.0.0.1",
        "localhost",
        "[::1]",
        "[::ffff:127.0.0.1]",
        "0x7f000001",
        "2130706433",
        "127.1",
        "0.0.0.0",
        "[::]",
    ],
)
@pytest.mark.parametrize("scheme", ["http", "https"])
async def test_a_server_elsewhere_cannot_make_us_dial_this_machine(
    tmp_path: Path, scheme: str, host: str
) -> None:
    with Stub(lambda _asked: (200, {})) as stub:
        port = urlsplit(stub.url("")).port
        headers = {
            "WWW-Authenticate": f'Bearer resource_metadata="{scheme}://{host}:{port}/metadata"'
        }
        definition = ServerDefinition(
            name="crm", where="onetool.yaml", type="http", url="https://crm.example/mcp"
        )

        async def connect() -> None:
            raise AssertionError("Nobody signed in.")

        sign_in = SignIn(
            definition,
            TokenStore(tmp_path, lambda _: None),
            {},
            httpx2.Response(401, headers=headers),
            connect,
        )
        with pytest.raises(Unavailable, match="an address for its sign-in that is not safe"):
            await sign_in.finished()

    assert not stub.asked


def test_the_secret_of_a_client_goes_to_no_issuer_that_only_the_server_names(
    opened: Open, server: OAuthServer
) -> None:
    redirect_uri = "http://127.0.0.1:1/callback"
    auth = {"client_id": "mine", "client_secret": "${CRM}", "redirect_uri": redirect_uri}
    server.clients["mine"] = OAuthClientInformationFull(
        client_id="mine",
        client_secret="a-secret-canary",
        redirect_uris=[AnyUrl(redirect_uri)],
        scope="read",
        token_endpoint_auth_method="client_secret_basic",
    )
    box = opened(
        {"crm": {"url": server.url, "auth": auth}}, env={**os.environ, "CRM": "a-secret-canary"}
    )

    with pytest.raises(UnconfirmedIssuer, match="as its authorization server") as refused:
        box.servers.sign_in("crm")

    assert f"issuer: {refused.value.issuer}" in refused.value.hint
    link = box.servers.sign_in("crm", issuer=refused.value.issuer)
    assert box.servers.await_sign_in("crm", server.visit(link.url)) == "connected"
    assert box.call("crm.whoami").unwrap() == "you"


def test_a_redirect_to_a_foreign_host_gets_no_code(box: Toolbox, server: OAuthServer) -> None:
    with Stub(lambda _asked: (200, {"access_token": "planted", "token_type": "Bearer"})) as foreign:
        server.tokens_elsewhere = foreign.url("/token")
        ended = server.visit(box.servers.sign_in("crm").url)
        with pytest.raises(Unavailable, match="gave no token"):
            box.servers.await_sign_in("crm", ended)
    assert not foreign.asked
    assert box.servers["crm"] == "signed out"


def test_a_client_that_signs_in_by_itself_says_why_it_cannot(opened: Open) -> None:
    """The authorization server's body is not shown: this one echoes the secret."""

    def answer(asked: Asked) -> tuple[int, Any]:
        url = stub.url("")
        if asked.path == "/mcp":
            return 401, None
        if asked.path == "/t":
            return 400, {
                "error": "invalid_client",
                "echo": asked.headers["authorization"],
                "secret": secret,
            }
        if "oauth-protected-resource" in asked.path:
            return 200, {"resource": f"{url}/mcp", "authorization_servers": [url]}
        known = {"issuer": url, "authorization_endpoint": f"{url}/a", "token_endpoint": f"{url}/t"}
        return 200, {"response_types_supported": ["code"], **known}

    secret = "a-secret-canary"
    with Stub(answer) as stub:
        auth = {
            "grant": "client_credentials",
            "client_id": "x",
            "client_secret": "${CI}",
            "issuer": stub.url(""),
        }
        box = opened(
            {"crm": {"url": stub.url("/mcp"), "auth": auth}}, env={**os.environ, "CI": secret}
        )
        failed = box.call("crm.whoami").error
        assert failed is not None
        assert failed.hint == "Are 'auth.client_id' and its secret right?"
        assert (
            box.servers.reason("crm") == "Its authorization server gave no token: invalid_client."
        )
        with pytest.raises(UsageProblem, match="needs no sign-in"):
            box.servers.sign_in("crm")
        assert "canary" not in f"{failed!r}{box.ot.health()}{box.servers.test('crm')}"


def test_a_sign_in_ends_with_its_toolbox(opened: Open, server: OAuthServer) -> None:
    """Nothing listens any more for an answer."""
    box = opened({"crm": {"url": server.url}})
    ended = server.visit(box.servers.sign_in("crm").url)

    box.close()

    with pytest.raises(httpx.HTTPError):
        httpx.get(ended)


def test_a_server_without_a_sign_in_says_so(opened: Open) -> None:
    with Stub(lambda asked: (401 if asked.path == "/mcp" else 404, None)) as stub:
        box = opened({"crm": {"url": stub.url("/mcp")}})
        with pytest.raises(
            Unavailable, match=r"It offers no sign-in. If it wants a token, set its header"
        ):
            box.servers.sign_in("crm")


def test_a_token_is_seen_nowhere(
    box: Toolbox, server: OAuthServer, state: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Neither in logs, nor in the call log, nor in what is shown, also after a reload."""
    caplog.set_level(logging.DEBUG)
    sign_in(box, server)
    box.reload()
    (access,) = server.access
    (refresh,) = server.refresh

    assert box.mask(f"Bearer {access} {refresh}") == "Bearer *** ***"
    result = box.call("crm.whoami")
    shown = (
        f"{result!r} {box.servers!r} {box.servers.definition('crm')!r} {box.ot.health()}"
        f" {box.ot.stats()}"
    )
    server.access.clear()
    server.refresh.clear()
    with pytest.raises(ToolCallError) as raised:
        box.call("crm.whoami").unwrap()
    assert CANARY not in shown + "".join(traceback.format_exception(raised.value)) + caplog.text
    written = [path for path in state.rglob("*") if path.is_file() and path.parent.name != "tokens"]
    assert not [path for path in written if CANARY.encode() in path.read_bytes()]


@pytest.mark.posix("modes of files")
def test_a_file_of_tokens_that_others_may_read_is_not_used(
    box: Toolbox, server: OAuthServer, state: Path, tmp_path: Path
) -> None:
    sign_in(box, server)
    path = grant_file(state)
    assert has_mode(path, 0o600)
    path.chmod(0o666)
    with open_toolbox(tmp_path, env={**os.environ, "ONETOOL_STATE": str(state)}) as other:
        assert not other.call("crm.whoami").ok
        assert (
            other.servers.reason("crm")
            == f"The file with its tokens is open to others, so it is not used: {path}"
        )
        sign_in(other, server)
    assert has_mode(grant_file(state), 0o600)


def test_an_untrusted_project_dials_nobody(
    server: OAuthServer, tmp_path: Path, state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A project that was found, not named: its server is not asked for a sign-in."""
    write_project(tmp_path / "project", {"crm": {"url": server.url}})
    env = {"ONETOOL_STATE": str(state), **home_at(tmp_path)}
    monkeypatch.chdir(tmp_path / "project")
    with open_toolbox(env=env) as box:
        with pytest.raises(Untrusted):
            box.servers.sign_in("crm")
        box.servers.sign_out("crm")
    assert not server.clients
    assert not server.revoked


def test_servers_that_nobody_signs_in_to(opened: Open, server: OAuthServer) -> None:
    stdio = {"command": sys.executable, "args": ["-c", "0"]}
    header = {"url": server.url, "headers": {"Authorization": "Bearer none"}}
    box = opened({"local": stdio, "header": header})
    for name in ("local", "header"):
        with pytest.raises(UsageProblem, match=f"The server '{name}' has no sign-in"):
            box.servers.sign_in(name)
    assert not box.call("header.whoami").ok
    assert "wants other credentials" in box.call("header.whoami").error.message  # type: ignore[union-attr]
