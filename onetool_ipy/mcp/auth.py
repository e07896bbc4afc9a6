"""Sign in to MCP servers: OAuth 2.1 by the official SDK's provider, with our tokens, our call-back
and our words.

`ServerAuth` signs the requests of a connection. It never asks a person: it renews tokens, under a
lock that all kernels of the user share, and keeps the server's `challenge` if that is not enough.
`SignIn` is what a person does about a challenge: it finds the authorization server, shows a link,
waits for the answer and keeps the tokens.

Imports the SDK, so it is imported on the loop thread. Discovery, registration, PKCE, `iss` and the
choice of scopes are the SDK's. Requests go only to https addresses, or to this machine if the
server is on it.
"""

from __future__ import annotations

import asyncio
import contextvars
import re
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Mapping, Sequence
from contextlib import AsyncExitStack, suppress
from typing import Any, NamedTuple
from urllib.parse import parse_qs, urlsplit

import httpx
import httpx2
from mcp.client.auth import (
    OAuthClientProvider,
    OAuthFlowError,
    OAuthRegistrationError,
    OAuthTokenError,
)
from mcp.client.auth.extensions.client_credentials import (
    ClientCredentialsOAuthProvider,
    PrivateKeyJWTOAuthProvider,
    SignedJWTParameters,
)
from mcp.client.auth.utils import extract_field_from_www_auth, issuers_match, union_scopes
from mcp.shared.auth import (
    AuthorizationCodeResult,
    OAuthClientInformationFull,
    OAuthClientMetadata,
    OAuthMetadata,
    OAuthToken,
    ProtectedResourceMetadata,
)
from pydantic import AnyUrl, ValidationError

from onetool_ipy.base.errors import OneToolError, Unavailable
from onetool_ipy.base.files import Stamp, StoreError, stamp_of
from onetool_ipy.base.printable import printable_line
from onetool_ipy.mcp.callback import (
    CALLBACK_ENV,
    CallbackAnswer,
    Mailbox,
    is_loopback,
    listening_port,
    read_pasted_answer,
)
from onetool_ipy.mcp.definition import SIGN_IN_S, AuthSettings, ServerDefinition, UnconfirmedIssuer
from onetool_ipy.mcp.transport import http_client
from onetool_ipy.net.hosts import origin_of
from onetool_ipy.stores.tokens import Grant, TokenStore

_CLIENT_NAME = "onetool-ipy"
_NO_REDIRECT = "http://127.0.0.1/callback"
_REQUEST_S = 30.0
_LOCK_S = 2 * _REQUEST_S
_EARLY_S = 10.0
_REVOKE_S = 10.0
_MAX_SAID = 200
_REFUSED = (400, 401, 403)
_MODELS: Mapping[str, Any] = {
    "client": OAuthClientInformationFull,
    "authorization": OAuthMetadata,
    "resource": ProtectedResourceMetadata,
    "tokens": OAuthToken,
}
"""What a grant holds, each as the SDK reads and writes it."""


class SignInLink(NamedTuple):
    """The address at which a person signs in. `is_awaited` is false if the answer has to be
    pasted."""

    url: str
    is_awaited: bool


class StoredAuth(OAuthClientProvider):
    """The SDK's provider with the grant that all kernels share. It is its own storage for the
    SDK."""

    def __init__(
        self, definition: ServerDefinition, store: TokenStore, redirect_uri: str = _NO_REDIRECT
    ) -> None:
        settings = definition.auth
        is_alone = settings.grant == "client_credentials"
        metadata = OAuthClientMetadata(
            client_name=_CLIENT_NAME,
            redirect_uris=None if is_alone else [AnyUrl(redirect_uri)],
            grant_types=["client_credentials"]
            if is_alone
            else ["authorization_code", "refresh_token"],
            application_type="native" if is_loopback(redirect_uri) else "web",
            scope=" ".join(settings.scopes) or None,
        )
        super().__init__(
            definition.url, metadata, self, client_metadata_url=settings.client_metadata_url or None
        )
        self._definition, self._settings, self._store = definition, settings, store
        self._path = store.path(definition.url, settings.client)
        self._stamp: Stamp | None = None
        self._issuer = settings.issuer
        self._alone = _credentials(self, settings) if is_alone else None

    @property
    def has_tokens(self) -> bool:
        """Whether the user has signed in, as far as is known here."""
        return self.context.current_tokens is not None

    async def get_tokens(self) -> OAuthToken | None:
        return self.context.current_tokens

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        return self.context.client_info

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        """Mask the secret of a new registration. It is kept with the tokens."""
        if client_info.client_secret:
            self._store.hide(client_info.client_secret)

    async def set_tokens(self, tokens: OAuthToken) -> None:
        """Keep new tokens, with all that is needed to renew them in another process."""
        context = self.context
        models = (
            context.client_info,
            context.oauth_metadata,
            context.protected_resource_metadata,
            tokens,
        )
        dumped = (model and model.model_dump(mode="json", exclude_none=True) for model in models)
        grant: Grant = {
            **dict(zip(_MODELS, dumped, strict=True)),
            "expires_at": context.token_expiry_time,
        }
        await asyncio.to_thread(self._store.write, self._path, grant)
        self._stamp = stamp_of(self._path)

    async def load(self) -> None:
        """Take the grant as it is now, if it has changed."""
        while not self._initialized or stamp_of(self._path) != self._stamp:
            before, stamp = self._stamp, stamp_of(self._path)
            grant = None if stamp is None else await asyncio.to_thread(self._store.read, self._path)
            # If the file has changed, another request has taken or renewed the token meanwhile.
            if self._stamp == before:
                self._stamp, self._initialized = stamp, True
                self._take(grant or {})

    async def _initialize(self) -> None:
        await self.load()

    def _take(self, grant: Grant) -> None:
        context = self.context
        try:
            models = [
                grant.get(key) and kind.model_validate(grant[key]) for key, kind in _MODELS.items()
            ]
        except ValidationError:  # written by hand, or by another version
            grant, models = {}, [None] * len(_MODELS)
        (
            context.client_info,
            context.oauth_metadata,
            context.protected_resource_metadata,
            context.current_tokens,
        ) = models
        context.token_expiry_time = grant.get("expires_at")
        if self._settings.client_id:
            self._issuer = (
                self._issuer or (context.client_info and context.client_info.issuer) or ""
            )
            context.client_info = self._registered()

    def _registered(self) -> OAuthClientInformationFull:
        """The client that the user registered, showing its secret in a way that the authorization
        server takes."""
        settings, metadata = self._settings, self.context.oauth_metadata
        offered = (metadata and metadata.token_endpoint_auth_methods_supported) or [
            "client_secret_basic"
        ]
        method = "client_secret_basic" if "client_secret_basic" in offered else "client_secret_post"
        return OAuthClientInformationFull(
            redirect_uris=self.context.client_metadata.redirect_uris,
            client_id=settings.client_id,
            client_secret=settings.client_secret or None,
            token_endpoint_auth_method=method if settings.client_secret else "none",
            issuer=self._issuer or None,
        )

    def _select_authorization_server(self, advertised: list[str]) -> str:
        return next(
            (url for url in advertised if self._issuer and issuers_match(url, self._issuer)),
            advertised[0],
        )

    def _expected_issuer(self) -> str:
        """A client's secret goes only to the authorization server that it belongs to."""
        issuer = super()._expected_issuer()
        if self._settings.client_id and self._issuer and not issuers_match(issuer, self._issuer):
            raise OAuthFlowError(
                f"The server names '{issuer}' as its authorization server, not '{self._issuer}'"
            )
        return issuer

    async def _perform_authorization(self) -> httpx2.Request:
        if self._settings.client_id:
            issuer = self._expected_issuer()
            if self._settings.client_secret and not self._issuer:
                raise UnconfirmedIssuer(self._definition.name, issuer)
            self._issuer = self._issuer or issuer
            self.context.client_info = self._registered()
        if self._alone is not None:
            return await self._alone._perform_authorization()
        metadata = self.context.oauth_metadata
        # Without PKCE whoever sees the answer of a sign-in can use it, so the protocol tells
        # clients to refuse.
        if metadata is not None and "S256" not in (metadata.code_challenge_methods_supported or ()):
            raise Unavailable(
                "Its authorization server does not offer PKCE with S256, which MCP requires."
            )
        return await super()._perform_authorization()


def _credentials(auth: StoredAuth, settings: AuthSettings) -> OAuthClientProvider:
    """The SDK's provider for the grant `client_credentials`, over the same context."""
    url, client, scope = (
        auth.context.server_url,
        settings.client_id,
        auth.context.client_metadata.scope,
    )
    provider: OAuthClientProvider
    if settings.private_key:
        key, algorithm = settings.private_key, settings.signing_algorithm
        signer = SignedJWTParameters(
            issuer=client, subject=client, signing_key=key, signing_algorithm=algorithm
        )
        sign = signer.create_assertion_provider()
        provider = PrivateKeyJWTOAuthProvider(
            url, auth, client, sign, scope=scope, issuer=settings.issuer
        )
    else:
        secret = settings.client_secret
        provider = ClientCredentialsOAuthProvider(
            url, auth, client, secret, scope=scope, issuer=settings.issuer
        )
    provider.context = auth.context
    return provider


class ServerAuth(StoredAuth):
    """Signs the requests of one connection.

    `challenge` is the response by which the server asks for a sign-in, or for more scopes;
    `refusals` counts them. `fault` says why a client that signs in by itself could not.
    """

    def __init__(self, definition: ServerDefinition, store: TokenStore) -> None:
        super().__init__(definition, store)
        self.challenge: httpx2.Response | None = None
        self.refusals = 0
        self.fault = ""

    @property
    def needs_sign_in(self) -> bool:
        """Whether the server asked for a sign-in, and has accepted nothing since."""
        return self.challenge is not None and self.challenge.status_code == 401

    async def _auth_flow(
        self, request: httpx2.Request
    ) -> AsyncGenerator[httpx2.Request, httpx2.Response]:
        rejected = ""
        while True:
            await self.load()
            if self._is_stale(rejected):
                renewal = asyncio.ensure_future(self._renew(rejected))
                renewal.add_done_callback(lambda done: done.cancelled() or done.exception())
                await asyncio.shield(renewal)
            tokens = self.context.current_tokens
            self._add_auth_header(request)
            response = yield request
            if (
                response.status_code != 401
                or rejected
                or tokens is None
                or not self.context.can_refresh_token()
            ):
                break
            rejected = tokens.access_token
        wants_scope = extract_field_from_www_auth(response, "error") == "insufficient_scope"
        if response.status_code == 401 or (response.status_code == 403 and wants_scope):
            self.challenge = response
            self.refusals += 1
            if self._alone is not None:
                async for outgoing in self._authorize(request, response):
                    self._reply = yield outgoing
        elif response.is_success and self.needs_sign_in:
            self.challenge = None

    def _is_stale(self, rejected: str) -> bool:
        """Whether the tokens have to be renewed: they expire, or the server rejected them."""
        tokens, expires = self.context.current_tokens, self.context.token_expiry_time
        if tokens is None or not self.context.can_refresh_token():
            return False
        return tokens.access_token == rejected or (
            expires is not None and time.time() > expires - _EARLY_S
        )

    async def _renew(self, rejected: str) -> None:
        """Renew the tokens, once for all kernels. Runs in a task of its own: whoever waits for it
        may be cancelled, and a refresh token counts once, so the answer must not be lost."""
        async with self._store.locked(self._path, _LOCK_S):
            # Another kernel may have renewed the tokens meanwhile.
            await self.load()
            if not self._is_stale(rejected):
                return
            tokens = self.context.current_tokens
            request = _safe(await self._refresh_token(), self.context.server_url)
            async with http_client(self._definition) as http:
                response = await http.send(request)
            if not await self._is_replaced(tokens):
                await self._renewed(response)
            await self.load()

    async def _is_replaced(self, tokens: OAuthToken | None) -> bool:
        """Whether the grant has other tokens by now: a sign-in takes no lock."""
        grant = await asyncio.to_thread(self._store.read, self._path) or {}
        kept = grant.get("tokens")
        return (
            isinstance(kept, dict)
            and tokens is not None
            and kept.get("refresh_token") != tokens.refresh_token
        )

    async def _renewed(self, response: httpx2.Response) -> None:
        """Take the renewed tokens. Those that the authorization server no longer knows are
        forgotten."""
        before = self.context.current_tokens
        try:
            if await self._handle_refresh_response(response):
                return
        except StoreError:
            # The disk is full: this kernel has the tokens, the others will ask for a sign-in.
            return
        if response.status_code in _REFUSED:
            await asyncio.to_thread(self._store.remove, self._path)
        else:  # it may be better next time
            self.context.current_tokens = before

    async def _authorize(
        self, request: httpx2.Request, challenge: httpx2.Response
    ) -> AsyncGenerator[httpx2.Request, None]:
        """Run the SDK's flow for a client that needs no person. The response to each request is in
        `_reply`."""
        if challenge.status_code == 401:
            self.context.clear_tokens()
        flow = super()._auth_flow(request)
        try:
            # The first step of the flow is the request itself, which was answered with the
            # challenge.
            await anext(flow)
            outgoing = await flow.asend(_challenge(challenge, self._settings.scopes))
            while True:
                yield outgoing if outgoing is request else _safe(outgoing, self.context.server_url)
                if outgoing is request and self._reply.status_code != 401:
                    self.challenge, self.fault = None, ""
                outgoing = await flow.asend(self._reply)
        except StopAsyncIteration:
            return
        except (OAuthFlowError, OneToolError, httpx2.HTTPError) as exc:
            self.fault = _words(exc)
        finally:
            await flow.aclose()


class _PersonAuth(StoredAuth):
    """The SDK's whole flow, with a person in it: `show` gets the address, `answered` gives the
    answer."""

    def __init__(
        self,
        definition: ServerDefinition,
        store: TokenStore,
        redirect_uri: str,
        show: Callable[[str], Awaitable[None]],
        answered: Callable[[], Awaitable[AuthorizationCodeResult]],
    ) -> None:
        super().__init__(definition, store, redirect_uri)
        self.context.redirect_handler, self.context.callback_handler = show, answered

    def _take(self, grant: Grant) -> None:
        super()._take(grant)
        context, redirect_uris = self.context, self.context.client_metadata.redirect_uris or []
        # Nothing is renewed here; what was granted counts for the next scopes.
        context.token_expiry_time = None
        if context.client_info is not None and not set(redirect_uris) <= set(
            context.client_info.redirect_uris or []
        ):
            # This client was registered for another address.
            context.client_info = None

    async def authorize(self, client: httpx2.AsyncClient, challenge: httpx2.Response) -> None:
        """Answer a challenge: discover, register, let the person sign in, get the tokens."""
        request = httpx2.Request("POST", self.context.server_url)
        flow = self.async_auth_flow(request)
        try:
            await anext(flow)
            outgoing = await flow.asend(challenge)
            while outgoing is not request:
                outgoing = await flow.asend(
                    await client.send(_safe(outgoing, self.context.server_url))
                )
        except OAuthRegistrationError:
            if self.context.oauth_metadata is not None:
                raise
            raise Unavailable(
                "It offers no sign-in. If it wants a token, set its header 'Authorization'."
            ) from None
        finally:
            await flow.aclose()


class SignIn:
    """One sign-in of a person, on the background loop. `link` resolves when there is an address to
    show."""

    def __init__(
        self,
        definition: ServerDefinition,
        store: TokenStore,
        environ: Mapping[str, str],
        challenge: httpx2.Response | None,
        on_success: Callable[[], Awaitable[None]],
    ) -> None:
        loop = asyncio.get_running_loop()
        self.link: asyncio.Future[SignInLink] = loop.create_future()
        self._definition, self._store, self._environ = definition, store, environ
        self._challenge = _challenge(challenge, definition.auth.scopes)
        self._on_success = on_success
        self._pasted: asyncio.Future[CallbackAnswer] = loop.create_future()
        self._state = self._redirect_uri = ""
        self._wait_for: Callable[[str], Coroutine[Any, Any, CallbackAnswer]] | None = None
        self._loop = loop
        self._task = loop.create_task(self._run(), context=contextvars.Context())
        self._task.add_done_callback(self._ended)

    @property
    def is_done(self) -> bool:
        return self._task.done()

    def paste(self, text: str) -> None:
        """Take the answer that a person pasted."""
        answer = read_pasted_answer(text, self._redirect_uri, self._state)
        if not self._pasted.done():
            self._pasted.set_result(answer)

    async def finished(self) -> None:
        """Wait for the end. Raises Unavailable with the reason if the user is not signed in."""
        await asyncio.shield(self._task)

    def drop(self) -> None:
        """End it, from any thread."""
        # If the loop is closed, so is everything on it.
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._task.cancel)

    async def _run(self) -> None:
        name = self._definition.name
        try:
            async with asyncio.timeout(SIGN_IN_S), AsyncExitStack() as stack:
                self._redirect_uri = uri = await self._callback(stack)
                http = await stack.enter_async_context(http_client(self._definition))
                auth = _PersonAuth(self._definition, self._store, uri, self._show, self._answered)
                await auth.authorize(http, self._challenge)
            await self._on_success()
        except TimeoutError:
            message = f"The sign-in to '{name}' took longer than {SIGN_IN_S / 60:g} minutes."
            raise Unavailable(
                message, hint=f"Start again with: %tool server login {name}"
            ) from None
        except UnconfirmedIssuer:
            raise
        except (OAuthFlowError, OneToolError, httpx2.HTTPError, ValidationError) as exc:
            raise Unavailable(f"You are not signed in to '{name}'. {_words(exc)}") from None

    async def _callback(self, stack: AsyncExitStack) -> str:
        """Choose where the browser brings the answer: the configured address, Jupyter Server, a
        port, or nowhere."""
        configured, offered = (
            self._definition.auth.redirect_uri,
            self._environ.get(CALLBACK_ENV, ""),
        )
        if offered and configured in ("", offered):
            self._wait_for = Mailbox(self._store.folder).wait
            return offered
        if configured and not (configured.startswith("http://") and is_loopback(configured)):
            return configured
        # Without a free port the answer has to be pasted.
        with suppress(OSError):
            port = await stack.enter_async_context(
                listening_port(configured, self._last_redirect())
            )
            self._wait_for = port.wait
            return port.redirect_uri
        return configured or _NO_REDIRECT

    def _last_redirect(self) -> str:
        """The address that a known registration is for: a new one is not needed if its port is
        free."""
        grant = (
            self._store.read(self._store.path(self._definition.url, self._definition.auth.client))
            or {}
        )
        addresses = (grant.get("client") or {}).get("redirect_uris") or [""]
        return addresses[0] if isinstance(addresses[0], str) and is_loopback(addresses[0]) else ""

    async def _show(self, url: str) -> None:
        """Show the address. Called by the SDK."""
        if not _is_safe(url, self._definition.url):
            raise Unavailable(
                f"The server wants you to sign in at an address that is not safe: {_short(url)}"
            )
        self._state = parse_qs(urlsplit(url).query).get("state", [""])[0]
        self.link.set_result(SignInLink(url, self._wait_for is not None))

    async def _answered(self) -> AuthorizationCodeResult:
        """Wait for the answer. Called by the SDK, which checks `state` and `iss`."""
        waiting = (
            None if self._wait_for is None else asyncio.create_task(self._wait_for(self._state))
        )
        try:
            ways = {self._pasted} if waiting is None else {self._pasted, waiting}
            (done, *_), _ = await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
            answer = done.result()
        finally:
            if waiting is not None:
                waiting.cancel()
        if answer.error:
            raise Unavailable(f"It was refused: {_short(answer.error)}.")
        self._store.hide(answer.code)
        return AuthorizationCodeResult(code=answer.code, state=answer.state, iss=answer.iss)

    def _ended(self, task: asyncio.Task[None]) -> None:
        failure = None if task.cancelled() else task.exception()
        if not self.link.done():
            self.link.set_exception(failure or Unavailable("The sign-in was ended."))
            # Nobody may be waiting for this exception, and asyncio would print it.
            self.link.exception()


async def revoke(definition: ServerDefinition, store: TokenStore) -> None:
    """Tell the authorization server that the tokens are no longer used, if it wants to know. Never
    raises."""
    auth = StoredAuth(definition, store)
    await auth.load()
    context = auth.context
    tokens, client, endpoint = (
        context.current_tokens,
        context.client_info,
        getattr(context.oauth_metadata, "revocation_endpoint", None),
    )
    if tokens is None or client is None or endpoint is None:
        return
    with suppress(OAuthFlowError, OneToolError, httpx2.HTTPError, TimeoutError):
        async with asyncio.timeout(_REVOKE_S), http_client(definition) as http:
            for token in filter(None, (tokens.refresh_token, tokens.access_token)):
                data, headers = context.prepare_token_auth(
                    {"token": token, "client_id": client.client_id}, {}
                )
                request = httpx2.Request("POST", str(endpoint), data=data, headers=headers)
                await http.send(_safe(request, context.server_url))


def _challenge(response: httpx2.Response | None, scopes: Sequence[str]) -> httpx2.Response:
    """The challenge as the SDK should see it: with the configured scopes, in place of those of the
    server."""
    if response is None:
        return httpx2.Response(
            401,
            headers={"WWW-Authenticate": f'Bearer scope="{" ".join(scopes)}"'} if scopes else {},
        )
    if not scopes:
        return response
    fields = {
        name: extract_field_from_www_auth(response, name)
        for name in ("resource_metadata", "error", "scope")
    }
    is_more = response.status_code == 403
    fields["scope"] = union_scopes(" ".join(scopes), fields["scope"] if is_more else None)
    text = ", ".join(f'{name}="{value}"' for name, value in fields.items() if value)
    return httpx2.Response(response.status_code, headers={"WWW-Authenticate": f"Bearer {text}"})


def _safe(request: httpx2.Request, server_url: str) -> httpx2.Request:
    """Let a request to a safe address pass, with a time limit."""
    url = str(request.url)
    if not _is_safe(url, server_url):
        raise Unavailable(
            f"The server names an address for its sign-in that is not safe: {_short(url)}"
        )
    request.extensions.setdefault("timeout", httpx2.Timeout(_REQUEST_S).as_dict())
    return request


def _is_safe(url: str, server_url: str) -> bool:
    """Whether an address is on https, or on this machine as its server is.

    It must have no user name, and a host that every program reads alike.
    """
    try:
        origin = origin_of(httpx.URL(url))
    except (OneToolError, httpx.InvalidURL):
        return False
    return is_loopback(server_url) if is_loopback(url) else origin.scheme == "https"


def _short(text: str) -> str:
    return printable_line(text if len(text) <= _MAX_SAID else f"{text[:_MAX_SAID]}...")


def _words(exc: Exception) -> str:
    """Say what went wrong. A body of the authorization server is not shown: it may hold what we
    sent."""
    if isinstance(exc, OneToolError):
        return exc.message
    if isinstance(exc, OAuthRegistrationError):
        return (
            "Its authorization server registers no new clients. Register one there and set"
            " 'auth.client_id'."
        )
    if isinstance(exc, OAuthTokenError):
        code = re.search(r'"error"\s*:\s*"([\w.-]{1,60})"', str(exc))
        return f"Its authorization server gave no token: {code[1] if code else 'no reason given'}."
    if isinstance(exc, httpx2.HTTPError):
        return f"Its authorization server cannot be reached: {type(exc).__name__}."
    if isinstance(exc, ValidationError):
        return "Its authorization server sent an invalid answer."
    return _short(str(exc).rstrip(".") + ".")
