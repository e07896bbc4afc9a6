"""Authentication of a request: the headers and query pairs of each kind of auth, and OAuth2 client
credentials.

`Tokens` keeps a token until it expires, by the grant that it was fetched with. The runner sends the
request for a token with the same client and rules as any other.
"""

from __future__ import annotations

import base64
import datetime
import hashlib
from collections.abc import Callable, Iterator, Set
from typing import NamedTuple
from urllib.parse import quote

from onetool_ipy.base.errors import TRANSIENT_STATUSES, ExecutionFailed, InvalidArgs, InvalidOutput
from onetool_ipy.bundles.http.definition import (
    BAD_IN_HEADER,
    ApiKey,
    Auth,
    Basic,
    Bearer,
    NoAuth,
    OAuth2,
)
from onetool_ipy.bundles.http.request import OutgoingRequest, Piece, UrlWriter, bound, encoded
from onetool_ipy.bundles.http.request import text as writing_text
from onetool_ipy.bundles.http.template import HIDDEN, Ref, ValueSource
from onetool_ipy.net.response import HttpResponse

Clock = Callable[[], datetime.datetime]

_EARLY = datetime.timedelta(seconds=30)
"""A token that expires so soon is fetched again."""

_LONGEST_S = 10 * 365 * 86_400
_MAX_TOKENS = 16


class AuthParts(NamedTuple):
    """What auth adds to a request. `secrets` are texts that must be masked."""

    headers: dict[str, str]
    query: list[tuple[str, str]]
    secrets: tuple[str, ...] = ()


NO_AUTH = AuthParts({}, [])


class Grant(NamedTuple):
    """What a token is requested with."""

    url: str
    client: str
    secret: str
    scope: str

    def key(self) -> str:
        """A hash that tells grants apart without keeping their secrets."""
        return hashlib.sha256("\0".join(self).encode("utf-8", "surrogatepass")).hexdigest()

    def request(self, *, in_body: bool) -> OutgoingRequest:
        """The request for a token. The client is named in a header, as RFC 6749 prefers, or in the
        form."""
        form = [
            ("grant_type", "client_credentials"),
            *([("scope", self.scope)] if self.scope else ()),
        ]
        headers = {
            "Content-Type": "application/x-www-form-urlencoded",
            "Accept": "application/json",
        }
        if in_body:
            form += [("client_id", self.client), ("client_secret", self.secret)]
        else:
            headers |= basic(quote(self.client, safe=""), quote(self.secret, safe="")).headers
        return OutgoingRequest("POST", self.url, headers, encoded(form).encode("ascii"))


class PreparedAuth:
    """The auth of one request, prepared once. Raises InvalidTool for a `${name}` without a
    meaning."""

    def __init__(
        self, auth: Bearer | Basic | ApiKey | OAuth2, arguments: Set[str], steps: Set[str]
    ) -> None:
        self._auth = auth
        self._token_url = None
        if isinstance(auth, OAuth2):
            self._token_url = UrlWriter(auth.token_url, {}, arguments, steps)
            texts = [auth.client_id, auth.client_secret, auth.scope or ""]
        else:
            texts = [auth.username, auth.password] if isinstance(auth, Basic) else [auth.value]
        self._texts: list[list[Piece]] = [bound(text, arguments, steps) for text in texts]

    def refs(self) -> Iterator[Ref]:
        """Every reference in it."""
        yield from self._token_url.refs() if self._token_url is not None else ()
        yield from (part for parts in self._texts for part in parts if isinstance(part, Ref))

    def grant(self, scope: ValueSource) -> Grant | None:
        """What its token is requested with; None if it needs no token."""
        if self._token_url is None:
            return None
        return Grant(
            self._token_url.fill(scope),
            *(writing_text(parts, scope, "auth") for parts in self._texts),
        )

    def sign(self, scope: ValueSource) -> AuthParts:
        """Make the parts of a request that is sent; nothing of them for a token, which has to be
        fetched first."""
        if isinstance(self._auth, OAuth2):
            return NO_AUTH
        values = [writing_text(parts, scope, "auth") for parts in self._texts]
        try:
            if isinstance(self._auth, Basic):
                return basic(*values)
            if isinstance(self._auth, Bearer):
                return bearer(values[0])
            if self._auth.where == "query":
                return AuthParts({}, [(self._auth.name, values[0])], (values[0],))
            return _in_header(self._auth.name, values[0], (values[0],))
        except ExecutionFailed as exc:
            argument = next((ref for ref in self.refs() if ref.kind == "argument"), None)
            if argument is None:
                raise
            raise InvalidArgs(
                f"{exc.message} It is made from '{argument}'.", hint="Give it another value."
            ) from None

    def shown(self) -> AuthParts:
        """Make the parts of a request that is shown."""
        if not isinstance(self._auth, ApiKey):
            scheme = "Basic" if isinstance(self._auth, Basic) else "Bearer"
            return AuthParts({"Authorization": f"{scheme} {HIDDEN}"}, [])
        pair = (self._auth.name, HIDDEN)
        return AuthParts({}, [pair]) if self._auth.where == "query" else AuthParts(dict([pair]), [])


def auth_of(auth: Auth | None, arguments: Set[str], steps: Set[str]) -> PreparedAuth | None:
    """The auth of a request, prepared; None if it has none."""
    return (
        None if auth is None or isinstance(auth, NoAuth) else PreparedAuth(auth, arguments, steps)
    )


class Tokens:
    """Valid tokens, by their grant."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._tokens: dict[str, tuple[str, datetime.datetime | None]] = {}

    def get(self, grant: Grant) -> str | None:
        """Return a token that is valid for a while yet, or None."""
        token, ends = self._tokens.get(grant.key(), (None, None))
        return None if ends is not None and ends - _EARLY <= self._clock() else token

    def forget(self, grant: Grant) -> None:
        """Drop a token that was refused."""
        self._tokens.pop(grant.key(), None)

    def take(self, grant: Grant, response: HttpResponse) -> str:
        """Keep and return the token of a response; raises if it has none."""
        place = grant.url.split("?")[0]
        if not 200 <= response.status < 300:
            failure = ExecutionFailed(
                f"The token request to '{place}' was answered with {response.status}.",
                hint="Check the client's id and secret.",
                details={"status": response.status},
            )
            failure.transient = response.status in TRANSIENT_STATUSES
            raise failure
        body = response.json()
        token = body.get("access_token") if isinstance(body, dict) else None
        if (
            not isinstance(token, str)
            or not token
            or not token.isascii()
            or not token.isprintable()
        ):
            raise InvalidOutput(f"The response of '{place}' has no access_token.")
        try:
            lifetime_s = float(str(body.get("expires_in")))
        except ValueError:
            lifetime_s = -1
        is_known = 0 <= lifetime_s <= _LONGEST_S
        ends = self._clock() + datetime.timedelta(seconds=lifetime_s) if is_known else None
        while len(self._tokens) >= _MAX_TOKENS:
            self._tokens.pop(next(iter(self._tokens)), None)
        self._tokens[grant.key()] = (token, ends)
        return token


def bearer(token: str) -> AuthParts:
    """The Authorization header of a token."""
    return _in_header("Authorization", f"Bearer {token}", (token,))


def basic(user: str, password: str) -> AuthParts:
    """The Authorization header of a user name and password."""
    if ":" in user:
        raise ExecutionFailed("A user name for basic auth must not contain ':'.")
    credentials = base64.b64encode(f"{user}:{password}".encode("utf-8", "surrogatepass")).decode(
        "ascii"
    )
    return AuthParts({"Authorization": f"Basic {credentials}"}, [], (credentials,))


def _in_header(name: str, value: str, secrets: tuple[str, ...]) -> AuthParts:
    if not value.isprintable() or BAD_IN_HEADER.search(value):
        raise ExecutionFailed(
            f"The value for the header '{name}' has characters that no header may have."
        )
    return AuthParts({name: value.strip(" ")}, [], secrets)
