"""The server of the notebook `mcp-servers`: a shop that wants a sign-in, and whose tool asks before
it orders.

Started by the notebook, it prints its address and ends with it. All that it knows is in memory. The
SDK's server checks clients, redirect addresses, PKCE and scopes; here is only who said yes, and who
got which token.
"""

import base64
import html
import secrets
import socket
import sys
import threading
import time
from typing import Annotated, Any, Literal
from urllib.parse import urlencode

import uvicorn
from mcp.server.auth.handlers.token import TokenHandler
from mcp.server.auth.middleware.client_auth import ClientAuthenticator
from mcp.server.auth.provider import AccessToken, AuthorizationCode
from mcp.server.auth.settings import AuthSettings, ClientRegistrationOptions
from mcp.server.elicitation import ElicitationResult
from mcp.server.mcpserver import Elicit, MCPServer, Resolve
from mcp.shared.auth import OAuthToken
from mcp_types import ToolAnnotations
from pydantic import BaseModel, Field
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, RedirectResponse, Response
from starlette.routing import Route

ROBOT = base64.b64encode(f"robot:{sys.argv[1]}".encode()).decode()
"""The client `robot`, which needs no person, and its secret."""


class SignIns:
    """Who may do what: the SDK's provider of an authorization server."""

    def __init__(self, origin: str) -> None:
        self.origin = origin
        self.clients: dict[str, Any] = {}
        self.asked: dict[str, tuple[Any, Any]] = {}
        self.codes: dict[str, AuthorizationCode] = {}
        self.tokens: dict[str, AccessToken] = {}

    async def get_client(self, client_id: str) -> Any:
        return self.clients.get(client_id)

    async def register_client(self, client_info: Any) -> None:
        self.clients[client_info.client_id] = client_info

    async def authorize(self, client: Any, params: Any) -> str:
        key = secrets.token_urlsafe(8)
        self.asked[key] = (client, params)
        return f"{self.origin}/consent?{urlencode({'asked': key})}"

    async def consent(self, request: Request) -> Response:
        """The page where a person says yes or no; then the browser goes back to the notebook."""
        key, said = request.query_params.get("asked", ""), request.query_params.get("said")
        if key not in self.asked:
            return HTMLResponse("<h1>This sign-in is over.</h1>", 404)
        client, params = self.asked[key]
        if said is None:
            link = f"/consent?asked={html.escape(key)}&said="
            name = html.escape(client.client_name or "A program")
            return HTMLResponse(
                '<body style="font: 18px system-ui; margin: 15vh auto; max-width: 30em; text-align: center">'
                f"<p>{name} wants to see your orders, and to order for you.</p>"
                f'<p><a href="{link}yes">Allow</a> &nbsp; <a href="{link}no">Deny</a></p>'
            )
        del self.asked[key]
        answer = {"error": "access_denied"}
        if said == "yes":
            code = secrets.token_urlsafe(16)
            kept = params.model_dump(include={"code_challenge", "redirect_uri", "redirect_uri_provided_explicitly", "resource"})
            self.codes[code] = AuthorizationCode(
                code=code, client_id=client.client_id, scopes=["orders"], expires_at=time.time() + 60, **kept
            )
            answer = {"code": code}
        return RedirectResponse(f"{params.redirect_uri}?{urlencode({**answer, 'state': params.state or ''})}", 302)

    async def load_authorization_code(self, _client: Any, authorization_code: str) -> Any:
        return self.codes.get(authorization_code)

    async def exchange_authorization_code(self, client: Any, authorization_code: Any) -> OAuthToken:
        del self.codes[authorization_code.code]
        return self.grant(client.client_id, authorization_code.resource)

    async def load_refresh_token(self, _client: Any, refresh_token: str) -> None:
        return None

    async def load_access_token(self, token: str) -> Any:
        return self.tokens.get(token)

    async def token(self, request: Request) -> Response:
        """The SDK's handler, and beside it the grant for programs, which it has not."""
        form = await request.form()
        if form.get("grant_type") != "client_credentials":
            return await TokenHandler(self, ClientAuthenticator(self)).handle(request)
        if not secrets.compare_digest(request.headers.get("authorization", ""), f"Basic {ROBOT}"):
            return JSONResponse({"error": "invalid_client"}, 401)
        return JSONResponse(self.grant("robot", form.get("resource")).model_dump(exclude_none=True))

    def grant(self, client_id: str, resource: Any) -> OAuthToken:
        token, lasts_s = secrets.token_urlsafe(24), 3600
        self.tokens[token] = AccessToken(
            token=token, client_id=client_id, scopes=["orders"], expires_at=int(time.time()) + lasts_s, resource=resource
        )
        return OAuthToken(access_token=token, expires_in=lasts_s, scope="orders")


class Order(BaseModel):
    size: Literal["small", "large"] = Field("small", title="Size")
    count: int = Field(1, title="How many", ge=1, le=9)


def which() -> Elicit[Order]:
    return Elicit("Which size, and how many?", Order)


def shop(origin: str) -> Any:
    """The MCP server as a web application."""
    sign_ins = SignIns(origin)
    registration = ClientRegistrationOptions(enabled=True, valid_scopes=["orders"], default_scopes=["orders"])
    auth = AuthSettings(
        issuer_url=origin, resource_server_url=f"{origin}/mcp", required_scopes=["orders"],
        client_registration_options=registration, validate_token_resource=True,
    )
    server = MCPServer("shop", auth_server_provider=sign_ins, auth=auth, log_level="CRITICAL")
    orders = [{"item": "tea", "size": "small", "count": 2}]

    @server.tool(annotations=ToolAnnotations(read_only_hint=True, open_world_hint=False))
    def list_orders() -> list[dict[str, Any]]:
        """What you have ordered."""
        return orders

    @server.tool(annotations=ToolAnnotations(destructive_hint=False, idempotent_hint=False))
    def order(item: str, answer: Annotated[ElicitationResult[Order], Resolve(which)]) -> str:
        """Order something. Asks which size, and how many."""
        if answer.action != "accept":
            return f"No {item} was ordered: the answer was '{answer.action}'."
        orders.append({"item": item, **answer.data.model_dump()})
        return f"{answer.data.count} x {item}, {answer.data.size}"

    server.custom_route("/consent", methods=["GET"])(sign_ins.consent)
    app = server.streamable_http_app()
    app.router.routes.insert(0, Route("/token", sign_ins.token, methods=["POST"]))
    return app


if __name__ == "__main__":
    listening = socket.create_server(("127.0.0.1", 0))
    origin = f"http://127.0.0.1:{listening.getsockname()[1]}"
    running = uvicorn.Server(uvicorn.Config(shop(origin), log_level="critical"))

    def end_with_the_notebook() -> None:
        sys.stdin.read()
        running.should_exit = running.force_exit = True

    threading.Thread(target=end_with_the_notebook, daemon=True).start()
    print(origin, flush=True)
    running.run([listening])
