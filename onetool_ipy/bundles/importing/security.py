"""The security schemes of an OpenAPI document -> the auth of a request. Holds names of secrets, never values.

Of several alternatives the first that we support is used.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from onetool_ipy.bundles.importing.document import OpenApiDocument, as_dict, as_list, as_text
from onetool_ipy.bundles.importing.labels import UniqueNames, literal, secret

__all__ = ["RequiredAuth", "SecuritySchemes"]


class RequiredAuth(NamedTuple):
    """The auth of a request: one scheme, and keys in headers and query."""

    auth: dict[str, Any] | None
    headers: dict[str, str]
    query: dict[str, str]


_NOTHING = RequiredAuth(None, {}, {})


class SecuritySchemes:
    """The security schemes of one document. `secrets` are those used so far, by name."""

    def __init__(self, api: OpenApiDocument, prefix: str) -> None:
        self._api = api
        self._prefix = prefix
        self._auths: dict[str, dict[str, Any] | None] = {}
        self._named: dict[tuple[str, ...], str] = {}
        self._unique = UniqueNames(mark="_", longest=120)
        self.secrets: dict[str, str] = {}

    def of(self, operation: dict[str, Any], place: str) -> RequiredAuth:
        """The auth of an operation: its own security, else that of the document."""
        listed = operation.get("security", self._api.root.get("security"))
        ways = [as_dict(way) for way in as_list(listed)]
        if not ways:
            return _NOTHING
        if any(not way for way in ways):
            self._api.notes.add(f"{place}: auth is optional, and is left out")
            return _NOTHING
        for way in ways:
            auths = [self._auth(name, [str(scope) for scope in as_list(scopes)]) for name, scopes in way.items()]
            if all(auth is not None for auth in auths):
                return self._together([auth for auth in auths if auth is not None], place)
        self._api.notes.add(f"{place}: none of its kinds of auth can be imported: {', '.join(map(str, ways[0]))}")
        return _NOTHING

    def _together(self, auths: list[dict[str, Any]], place: str) -> RequiredAuth:
        """Combine schemes that are required together. Only API keys can be combined with another scheme."""
        keys = [auth for auth in auths if auth["type"] == "apiKey"]
        others = [auth for auth in auths if auth["type"] != "apiKey"]
        if len(others) > 1:
            self._api.notes.add(f"{place}: of several kinds of auth at once only the first is imported")
        first = others[0] if others else keys.pop(0)
        headers = {key["name"]: key["value"] for key in keys if key["in"] == "header"}
        query = {literal(key["name"]): key["value"] for key in keys if key["in"] == "query"}
        return RequiredAuth(first, headers, query)

    def _auth(self, name: str, scopes: list[str]) -> dict[str, Any] | None:
        key = "\0".join((name, *scopes))
        if key not in self._auths:
            scheme = self._api.follow(as_dict(self._api.part("components").get("securitySchemes")).get(name))
            self._auths[key] = self._made(name, scheme, scopes)
        return self._auths[key]

    def _made(self, name: str, scheme: dict[str, Any], scopes: list[str]) -> dict[str, Any] | None:
        kind, about = as_text(scheme.get("type")), as_text(scheme.get("description"))
        if kind == "http":
            return self._http(name, as_text(scheme.get("scheme")).lower(), about)
        if kind == "apiKey":
            return self._key(name, scheme, about)
        if kind in ("oauth2", "openIdConnect"):
            return self._oauth2(name, scheme, scopes, about)
        self._api.notes.add(f"the security scheme '{name}' is {f'of type {kind!r}' if kind else 'not there'}")
        return None

    def _http(self, name: str, scheme: str, about: str) -> dict[str, Any] | None:
        if scheme == "bearer":
            return {"type": "bearer", "value": self._secret(about or "A bearer token.", name)}
        if scheme == "basic":
            user = self._secret(about or "The user name.", name, "USERNAME")
            return {"type": "basic", "username": user, "password": self._secret("The password.", name, "PASSWORD")}
        self._api.notes.add(f"the security scheme '{name}' uses HTTP {scheme!r}, which is not imported")
        return None

    def _key(self, name: str, scheme: dict[str, Any], about: str) -> dict[str, Any] | None:
        place, label = scheme.get("in"), as_text(scheme.get("name"))
        if place not in ("header", "query") or not label:
            self._api.notes.add(f"the security scheme '{name}' has its key in a {place}, which is not imported")
            return None
        if place == "header" and label.lower() == "authorization":
            words = about or "The whole value of the header Authorization, such as 'Bearer ...' or 'Token ...'."
            return {"type": "apiKey", "in": "header", "name": label, "value": self._secret(words, name)}
        return {"type": "apiKey", "in": place, "name": label, "value": self._secret(about or "An API key.", name)}

    def _oauth2(self, name: str, scheme: dict[str, Any], scopes: list[str], about: str) -> dict[str, Any]:
        flow = as_dict(as_dict(scheme.get("flows")).get("clientCredentials"))
        url = as_text(flow.get("tokenUrl"))
        if url.startswith(("http://", "https://")) and "{" not in url:
            auth = {
                "type": "oauth2",
                "tokenUrl": url,
                "clientId": self._secret(about or "The client's id.", name, "CLIENT_ID"),
                "clientSecret": self._secret("The client's secret.", name, "CLIENT_SECRET"),
            }
            return {**auth, "scope": literal(" ".join(scopes))} if scopes else auth
        self._api.notes.add(
            f"the security scheme '{name}' needs a person to log in: put an access token into its secret"
        )
        return {"type": "bearer", "value": self._secret(about or "An access token.", name, "TOKEN")}

    def _secret(self, about: str, *names: str) -> str:
        if names not in self._named:
            self._named[names] = self._unique.take(secret(self._prefix, *names))
            self.secrets[self._named[names]] = " ".join(about.split())[:300]
        return f"${{{self._named[names]}}}"
