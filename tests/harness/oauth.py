"""An MCP server on loopback that wants a sign-in: the official SDK's server with its own
authorization server.

The SDK checks clients, redirect addresses, PKCE and scopes. What is kept here is who was granted
what. A refresh token is good for one use: whoever presents one twice is refused, as strict
authorization servers do it.
"""

from __future__ import annotations

import asyncio
import secrets
import socket
import threading
import time
from typing import Any, Self
from urllib.parse import urlencode

import httpx
import uvicorn
from mcp.server.auth.provider import (
    AccessToken,
    AuthorizationCode,
    AuthorizationParams,
    RefreshToken,
)
from mcp.server.auth.settings import AuthSettings, ClientRegistrationOptions, RevocationOptions
from mcp.server.mcpserver import MCPServer
from mcp.shared.auth import OAuthClientInformationFull, OAuthToken
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from tests.harness.patience import HANG_S, until

__all__ = ["CANARY", "OAuthServer"]

CANARY = "canary-token"
"""Every token begins with it."""

_LIFETIME_S = 3600


class OAuthServer:
    """`with OAuthServer() as server`: `server.url` is the MCP server, with the tool `whoami`."""

    def __init__(self) -> None:
        self.extra_answer: dict[str, str] = {}
        """Parameters that each answer to a sign-in carries too."""
        self.tokens_elsewhere = ""
        """Where requests for tokens are redirected, if anywhere."""
        self.clients: dict[str, OAuthClientInformationFull] = {}
        self.codes: dict[str, AuthorizationCode] = {}
        self.access: dict[str, AccessToken] = {}
        self.refresh: dict[str, RefreshToken] = {}
        self.refreshes = 0
        self.tokens_asked: list[str] = []
        """What became of each request for renewed tokens: `renewed`, `refused`, `lost` (its client
        was gone)."""
        self.may_answer = threading.Event()
        """Cleared, a refresh token is taken, and the answer waits."""
        self.may_answer.set()
        self.revoked: list[str] = []
        self._asked: dict[str, tuple[OAuthClientInformationFull, AuthorizationParams]] = {}
        self._socket = socket.socket()
        self._socket.bind(("127.0.0.1", 0))
        self.origin = f"http://127.0.0.1:{self._socket.getsockname()[1]}"
        self.url = f"{self.origin}/mcp"
        config = uvicorn.Config(self._app(), log_level="critical", timeout_graceful_shutdown=1)
        self._uvicorn = uvicorn.Server(config)
        self._thread = threading.Thread(
            target=lambda: self._uvicorn.run([self._socket]), daemon=True
        )

    def __enter__(self) -> Self:
        self._thread.start()
        assert until(lambda: self._uvicorn.started)
        return self

    def __exit__(self, *_exc: object) -> None:
        # Also with a client that listens; from Python 3.12 on after the second of grace.
        self._uvicorn.should_exit = self._uvicorn.force_exit = True
        self._thread.join()
        self._socket.close()

    def _app(self) -> Any:
        options = ClientRegistrationOptions(
            enabled=True, valid_scopes=["read"], default_scopes=["read"]
        )
        server: Any = MCPServer(
            "oauth",
            auth_server_provider=self,  # type: ignore[arg-type]  # it has no identity assertions
            auth=AuthSettings(
                issuer_url=self.origin,  # type: ignore[arg-type]  # pydantic takes text
                resource_server_url=self.url,  # type: ignore[arg-type]
                client_registration_options=options,
                revocation_options=RevocationOptions(enabled=True),
                required_scopes=["read"],
                validate_token_resource=True,
            ),
        )

        @server.tool()  # type: ignore[untyped-decorator]  # the SDK's types change from version to version
        def whoami() -> str:
            return "you"

        server.custom_route("/consent", methods=["GET"])(self._consent)
        app = server.streamable_http_app(json_response=True, stateless_http=True)

        async def redirecting(scope: Any, receive: Any, send: Any) -> None:
            is_sent_on = self.tokens_elsewhere and scope.get("path") == "/token"
            await (RedirectResponse(self.tokens_elsewhere, 307) if is_sent_on else app)(
                scope, receive, send
            )

        return redirecting

    async def _consent(self, request: Request) -> Response:
        """The page where a person says yes or no."""
        asked, said = request.query_params["asked"], request.query_params.get("said")
        if said is None:
            link = f"/consent?asked={asked}&said="
            return HTMLResponse(
                f'<h1>May onetool-ipy read?</h1><a href="{link}yes">Allow</a> <a'
                f' href="{link}no">Deny</a>'
            )
        return RedirectResponse(self.answer(asked, allowed=said == "yes"), 302)

    def visit(self, url: str, *, allowed: bool = True) -> str:
        """Do what a browser does with a link: go to the page, say yes or no; returns where the
        browser is sent."""
        page = httpx.get(url, follow_redirects=True)
        return httpx.get(f"{page.url}&said={'yes' if allowed else 'no'}").headers["location"]

    def answer(self, asked: str, *, allowed: bool = True) -> str:
        """The address to which the browser is sent when the person has said yes or no."""
        client, params = self._asked[asked]
        given: dict[str, str] = {"state": params.state or "", **self.extra_answer}
        if allowed:
            code = secrets.token_urlsafe(16)
            self.codes[code] = AuthorizationCode(
                code=code,
                scopes=params.scopes or ["read"],
                expires_at=time.time() + 60,
                client_id=client.client_id,
                **params.model_dump(
                    include={"code_challenge", "redirect_uri", "redirect_uri_provided_explicitly"}
                ),
                resource=params.resource,
            )
            given = {"code": code, **given}
        else:
            given = {"error": "access_denied", **given}
        return f"{params.redirect_uri}?{urlencode(given)}"

    async def get_client(self, client_id: str) -> OAuthClientInformationFull | None:
        return self.clients.get(client_id)

    async def register_client(self, client_info: OAuthClientInformationFull) -> None:
        self.clients[client_info.client_id] = client_info

    async def authorize(
        self, client: OAuthClientInformationFull, params: AuthorizationParams
    ) -> str:
        asked = secrets.token_urlsafe(8)
        self._asked[asked] = (client, params)
        return f"{self.origin}/consent?asked={asked}"

    async def load_authorization_code(
        self, _client: OAuthClientInformationFull, authorization_code: str
    ) -> AuthorizationCode | None:
        return self.codes.get(authorization_code)

    async def exchange_authorization_code(
        self, client: OAuthClientInformationFull, authorization_code: AuthorizationCode
    ) -> OAuthToken:
        del self.codes[authorization_code.code]
        return self._grant(client, authorization_code.scopes, authorization_code.resource)

    async def load_refresh_token(
        self, _client: OAuthClientInformationFull, refresh_token: str
    ) -> RefreshToken | None:
        found = self.refresh.get(refresh_token)
        if found is None:
            self.tokens_asked.append("refused")
        return found

    async def exchange_refresh_token(
        self, client: OAuthClientInformationFull, refresh_token: RefreshToken, scopes: list[str]
    ) -> OAuthToken:
        self.refreshes += 1
        del self.refresh[refresh_token.token]
        self.tokens_asked.append("lost")
        await asyncio.to_thread(self.may_answer.wait, HANG_S)
        self.tokens_asked[self.tokens_asked.index("lost")] = "renewed"
        return self._grant(client, scopes, refresh_token.resource)

    async def load_access_token(self, token: str) -> AccessToken | None:
        return self.access.get(token)

    async def revoke_token(self, token: AccessToken | RefreshToken) -> None:
        self.revoked.append(token.token)
        self.access.pop(token.token, None)
        self.refresh.pop(token.token, None)

    def _grant(
        self, client: OAuthClientInformationFull, scopes: list[str], resource: str | None
    ) -> OAuthToken:
        access, refresh = (
            f"{CANARY}-{kind}-{secrets.token_urlsafe(16)}" for kind in ("access", "refresh")
        )
        about: dict[str, Any] = {
            "client_id": client.client_id,
            "scopes": scopes,
            "resource": resource,
        }
        self.access[access] = AccessToken(
            token=access, expires_at=int(time.time()) + _LIFETIME_S, **about
        )
        self.refresh[refresh] = RefreshToken(token=refresh, **about)
        return OAuthToken(
            access_token=access,
            refresh_token=refresh,
            expires_in=_LIFETIME_S,
            scope=" ".join(scopes),
        )
