"""The definition of an HTTP tool as a record holds it, checked as far as possible without its
argSchema.

JSON in camelCase; unknown keys are refused. Scheme, host and port are fixed: they hold no
`${name}`, no user name and no fragment. A URL that begins with `/` or `?` is relative to the base
URL of the tool's bundle. `plan()` returns one request or several steps in one shape; `wire()`
returns the definition as written; `within()` adds what the bundle shares, and `below()` takes its
base URL away.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from ipaddress import IPv6Address
from typing import Annotated, Any, Literal, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Discriminator,
    Field,
    PrivateAttr,
    Tag,
    ValidationInfo,
    field_validator,
    model_validator,
)
from pydantic.alias_generators import to_camel

from onetool_ipy.base import values
from onetool_ipy.base.credentials import is_secret_name
from onetool_ipy.bundles.http.address import INSIDE, PLACE, URL, below, is_relative, joined, origin
from onetool_ipy.bundles.http.template import (
    SECRET_NAME,
    Select,
    compile_selector,
    placeholders,
    placeholders_in,
    secrets_of,
)

BodyType = Literal["json", "form", "text", "multipart", "binary"]
"""How a body is encoded. By default Content-Type decides; without one it is JSON, unless it is a
text that is not JSON.

In `multipart` and `binary` a file is `{base64, filename?, mime?}`.
"""

Encoding = Literal["auto", "json", "text", "binary"]
"""How a response's body is decoded; `auto` follows its Content-Type."""

MAX_STEPS = 20
_MAX_URL = 8192
_MAX_TEXT = 1 << 20
_MAX_PAIRS = 200
_MAX_TIMEOUT_MS = 600_000

_HOST = re.compile(r"[^\s\x00-\x20\x7f$@{}|\\^`<>\"%]+")
_BAD_IN_URL = re.compile(r"[\x00-\x20\x7f\\]")
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
BAD_IN_HEADER = re.compile(r"[^\x20-\x7e\xa0-\xff]")
"""Characters that no header may have: controls, and those outside Latin-1."""

HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_STEP_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}")
_CODES = re.compile(r"[1-5]xx")
OWN_HEADERS = frozenset(
    (
        "host",
        "content-length",
        "transfer-encoding",
        "connection",
        "expect",
        "te",
        "trailer",
        "upgrade",
    )
)
"""Headers that belong to the connection. A tool cannot set them."""

_SCALARS = (str, int, float, bool)


class _Record(BaseModel):
    model_config = ConfigDict(
        alias_generator=to_camel,
        populate_by_name=True,
        defer_build=True,
        extra="forbid",
        frozen=True,
        strict=True,
        allow_inf_nan=False,
    )


Text = Annotated[str, Field(max_length=_MAX_TEXT)]


def _checked_by(check: Callable[[str], str]) -> BeforeValidator:
    """Check a text before pydantic does; what is no text is left to pydantic's own words."""
    return BeforeValidator(lambda value: check(value) if isinstance(value, str) else value)


def _template(text: str) -> str:
    placeholders(text)
    return text


def _url(text: str) -> str:
    """A URL whose scheme, host and port are fixed."""
    match = URL.fullmatch(text)
    if match is None:
        wrong = f"'{values.cut(text, 80)}' " if text else ""
        raise ValueError(f"{wrong}must start with http:// or https://")
    host = match["host"]
    if "$" in host:
        raise ValueError(f"'{host}': a ${{name}} may not be in the scheme, host or port")
    if "@" in host:
        raise ValueError("a URL may not hold a user name or password; use auth")
    place = PLACE.fullmatch(host)
    is_host = (
        place is not None
        and _HOST.fullmatch(host)
        and int((place["port"] or "1")[:9]) in range(1, 65536)
    )
    # The HTTP client checks names again before it sends.
    if place is None or not is_host or not _is_name(place["name"]):
        raise ValueError(f"'{host}' is not a host" if host else "it has no host behind ://")
    _path(match["rest"])
    return _template(text)


def _path(text: str) -> str:
    """The part of a URL behind the host."""
    if "#" in text:
        raise ValueError("a URL that is sent has no '#'; write %23 for the sign")
    if match := _BAD_IN_URL.search(INSIDE.sub("", text)):
        raise ValueError(
            f"the character {match[0]!r} may not be in a URL; write it percent-encoded"
        )
    return _template(text)


def _base_url(text: str) -> str:
    if "${" in text or "?" in text:
        raise ValueError("a base URL has no ${name} and no query")
    return _url(text.strip()).rstrip("/")


def _is_name(name: str) -> bool:
    """Whether this can be the name or the address of a host."""
    if not name.startswith("["):
        return "" not in name.removesuffix(".").split(".")
    try:
        IPv6Address(name[1:-1])
    except ValueError:
        return False
    return True


def _header(name: str, value: str) -> str:
    """The value of a header, if a request can have both."""
    if not HEADER_NAME.fullmatch(name):
        raise ValueError(f"'{name}' is not a valid header name")
    if name.lower() in OWN_HEADERS:
        raise ValueError(f"the header '{name}' is set by the connection itself")
    if match := BAD_IN_HEADER.search(INSIDE.sub("", value)):
        raise ValueError(f"the header '{name}' holds {match[0]!r}, which cannot be sent")
    return value


def _headers(headers: dict[str, str]) -> dict[str, str]:
    for name, value in headers.items():
        _header(name, value)
    if len({name.lower() for name in headers}) < len(headers):
        raise ValueError("a header is named twice")
    return headers


def _query(query: dict[str, object]) -> dict[str, object]:
    for name, value in query.items():
        parts = value if isinstance(value, list) else [value]
        if value is not None and not all(isinstance(part, _SCALARS) for part in parts):
            raise ValueError(f"'{name}' is neither text, number, true, false nor a list of those")
    if not values.is_json(query):
        raise ValueError("a query holds plain JSON")
    list(placeholders_in(query))
    return query


def _codes(codes: list[int | str]) -> list[int | str]:
    for code in codes:
        if not (100 <= code <= 599 if isinstance(code, int) else _CODES.fullmatch(code.lower())):
            raise ValueError(f"'{code}' is not a status; write 200 or '2xx'")
    return codes


def _variables(variables: dict[str, str]) -> dict[str, str]:
    for name, text in variables.items():
        if not SECRET_NAME.fullmatch(name):
            raise ValueError(
                f"'{name}' is not a name of a variable; use letters, digits and underscores"
            )
        if not all(SECRET_NAME.fullmatch(each.name) for each in placeholders(text)):
            raise ValueError(f"the variable '{name}' may hold only names of secrets as ${{NAME}}")
        if _CONTROL.search(text):
            raise ValueError(f"the variable '{name}' has a control character")
    return variables


Template = Annotated[Text, _checked_by(_template)]
UrlTemplate = Annotated[str, Field(max_length=_MAX_URL), _checked_by(_url)]
RequestUrl = Annotated[
    str,
    Field(max_length=_MAX_URL),
    _checked_by(lambda text: _path(text) if is_relative(text) else _url(text)),
]
"""A whole URL, or one relative to the base URL of the bundle."""
BaseUrl = Annotated[str, Field(max_length=_MAX_URL), _checked_by(_base_url)]
Method = Annotated[
    Literal["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"], _checked_by(str.upper)
]


class Bearer(_Record):
    """`Authorization: Bearer ...`."""

    type: Literal["bearer"]
    value: Annotated[Template, AfterValidator(lambda value: _header("Authorization", value))]


class Basic(_Record):
    """`Authorization: Basic ...`."""

    type: Literal["basic"]
    username: Template
    password: Template = ""

    @field_validator("username")
    @classmethod
    def _check(cls, username: str) -> str:
        if ":" in INSIDE.sub("", username):
            raise ValueError("a user name for basic auth must not contain ':'")
        return username


class ApiKey(_Record):
    """A key in a header or in the query."""

    type: Literal["apiKey"]
    where: Literal["header", "query"] = Field(alias="in")
    name: Annotated[str, Field(min_length=1, max_length=200)]
    value: Template

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.where == "header":
            _header(self.name, self.value)
        elif placeholders(self.name):
            raise ValueError(f"'{self.name}' is a key, and a key cannot be a ${{name}}")
        return self


class OAuth2(_Record):
    """A token for the client itself (client credentials), fetched when needed."""

    type: Literal["oauth2"]
    token_url: UrlTemplate
    client_id: Template
    client_secret: Template
    scope: Template | None = None


class NoAuth(_Record):
    """No credentials, also not those of the bundle."""

    type: Literal["none"]


Auth = Annotated[Bearer | Basic | ApiKey | OAuth2 | NoAuth, Field(discriminator="type")]


def is_sendable(kind: type[ApiKey | OAuth2], auth: Mapping[str, object]) -> bool:
    """Whether an auth that somebody else wrote can be sent: a header of this name, an address like
    this."""
    try:
        kind.model_validate(auth)
    except ValueError:
        return False
    return True


class RequestTemplate(_Record):
    """One request, with placeholders."""

    method: Method = "GET"
    url_template: RequestUrl
    query: Annotated[dict[str, Any], Field(max_length=_MAX_PAIRS), AfterValidator(_query)] = Field(
        default_factory=dict
    )
    headers: Annotated[
        dict[str, Template], Field(max_length=_MAX_PAIRS), AfterValidator(_headers)
    ] = Field(default_factory=dict)
    body_type: BodyType | None = None
    body: Any = None
    auth: Auth | None = None
    timeout_ms: Annotated[int, Field(ge=1, le=_MAX_TIMEOUT_MS)] | None = None

    @field_validator("body")
    @classmethod
    def _check_body(cls, body: object, info: ValidationInfo) -> object:
        kind = info.data.get("body_type")
        if body is not None and info.data.get("method") == "HEAD":
            raise ValueError("a HEAD request has no body")
        if kind == "form" and not isinstance(body, (dict, str, type(None))):
            raise ValueError("a form's body is an object of its fields")
        if kind == "multipart" and not isinstance(body, (dict, type(None))):
            raise ValueError("a multipart body is an object of its fields")
        if kind in ("text", "binary") and not isinstance(body, (str, type(None))):
            raise ValueError(f"a {kind} body is text, or one ${{name}}")
        if not values.is_json(body):
            raise ValueError("a body is plain JSON of at most 200 levels")
        list(placeholders_in(body))
        return body

    def within(self, base_url: str, auth: Auth | None) -> Self:
        """The request with the base URL of its bundle, and with the bundle's auth if it goes to the
        same origin."""
        changed: dict[str, Any] = {}
        url = joined(base_url, self.url_template)
        if url != self.url_template:
            changed["url_template"] = url
        if (
            auth is not None
            and self.auth is None
            and self.is_at(base_url)
            and not self._signs_itself(auth)
        ):
            changed["auth"] = auth
        return self.model_copy(update=changed) if changed else self

    def whole(self, base_url: str) -> Self:
        """The request with its whole address."""
        url = joined(base_url, self.url_template)
        return self if url == self.url_template else self.model_copy(update={"url_template": url})

    def below(self, base_url: str) -> Self:
        """The request as a bundle with this base URL stores it: an address below the base URL is
        its path."""
        path = None if is_relative(self.url_template) else below(self.url_template, base_url)
        # A path that begins with `//` would read as another host, so that address stays whole.
        is_path = path is not None and is_relative(path)
        return self.model_copy(update={"url_template": path}) if is_path else self

    def is_at(self, base_url: str) -> bool:
        """Whether it goes to the origin of a base URL."""
        return origin(joined(base_url, self.url_template)) == origin(base_url)

    def unsigned_for(self, base_url: str) -> Self:
        """The request with `none` as its auth, if it has no auth and would get that of the
        bundle."""
        if self.auth is not None or not self.is_at(base_url):
            return self
        return self.model_copy(update={"auth": NoAuth(type="none")})

    def without_auth(self, base_url: str, auth: Auth) -> Self:
        """The request without its auth, if the bundle gives it the same one."""
        if self.auth != auth or not self.is_at(base_url) or self._signs_itself(auth):
            return self
        whole = self.model_copy(update={"auth": None})
        whole.__pydantic_fields_set__.discard("auth")
        return whole

    def _signs_itself(self, auth: Auth) -> bool:
        """Whether the request has a header or query pair where the auth would put its own."""
        if isinstance(auth, ApiKey) and auth.where == "query":
            return auth.name in self.query
        name = auth.name if isinstance(auth, ApiKey) else "Authorization"
        return name.lower() in {header.lower() for header in self.headers}


class Selector(_Record):
    """The part of a response to return: by JMESPath of its data, or by an RE2 pattern of its text.

    A pattern returns its first match, with `all` every match as a list: the text of its one group,
    an object of its named groups, a list of its groups, or the whole match.
    """

    type: Literal["jmespath", "regex"] = "jmespath"
    expr: Annotated[str, Field(min_length=1, max_length=10_000)]
    all: bool = False

    @model_validator(mode="after")
    def _check(self) -> Self:
        self.compiled()
        return self

    def compiled(self) -> Select:
        """The selector as a function; raises ValueError for an invalid expression."""
        return compile_selector(self.type, self.expr, every=self.all)


_TextOrSelector = Annotated[
    Annotated[str, Tag("text")] | Annotated[Selector, Tag("object")],
    Discriminator(lambda value: "text" if isinstance(value, str) else "object"),
]


class ResponseOptions(_Record):
    """How to read a response. Without `successCodes` 200 to 299 are a success."""

    success_codes: (
        Annotated[list[int | str], Field(min_length=1, max_length=100), AfterValidator(_codes)]
        | None
    ) = None
    error_mode: Literal["fail", "empty"] = "fail"
    encoding: Encoding = "auto"
    selector: _TextOrSelector | None = None
    """A plain text is JMESPath."""

    @field_validator("selector")
    @classmethod
    def _check(cls, selector: str | Selector | None) -> str | Selector | None:
        if isinstance(selector, str):
            Selector(expr=selector)
        return selector

    def chosen(self) -> Selector | None:
        """The selector as an object."""
        return Selector(expr=self.selector) if isinstance(self.selector, str) else self.selector


class HttpStep(_Record):
    """One request of several. A later step refers to its response as `${name.path}`."""

    name: str | None = None
    request: RequestTemplate
    response: ResponseOptions = Field(default_factory=ResponseOptions)

    @field_validator("name")
    @classmethod
    def _check(cls, name: str | None) -> str | None:
        if name is not None and not _STEP_NAME.fullmatch(name):
            raise ValueError(
                f"'{name}' is not a valid step name; use letters, digits and underscores"
            )
        return name


class ActiveEnvironment(_Record):
    """The environment that a bundle uses: its name, and variables for `${name}`. Their texts may
    name secrets."""

    name: Annotated[str, Field(min_length=1, max_length=64, pattern=r"^[^\x00-\x1f\x7f]+$")]
    variables: Annotated[
        dict[str, Template], Field(max_length=_MAX_PAIRS), AfterValidator(_variables)
    ] = Field(default_factory=dict)


class HttpDefinition(_Record):
    """An HTTP tool: one request and its response, or several steps."""

    _environment: ActiveEnvironment | None = PrivateAttr(default=None)
    _place: tuple[str, str] = PrivateAttr(default=("", ""))

    request: RequestTemplate | None = None
    response: ResponseOptions | None = None
    steps: Annotated[list[HttpStep], Field(min_length=1, max_length=MAX_STEPS)] | None = None

    @model_validator(mode="after")
    def _check(self) -> Self:
        if (self.request is None) == (self.steps is None):
            raise ValueError("give either 'request' (with 'response') or 'steps'")
        if self.steps is not None and self.response is not None:
            raise ValueError("with 'steps' each step has its own 'response'")
        names = [name for name, _ in self.plan()]
        if twice := [name for name in names if names.count(name) > 1]:
            raise ValueError(f"two steps are named '{twice[0]}'")
        return self

    def plan(self) -> list[tuple[str, HttpStep]]:
        """The steps by name, in order. A single request is one step."""
        if self.request is not None:
            return [
                (
                    "step1",
                    HttpStep(request=self.request, response=self.response or ResponseOptions()),
                )
            ]
        return [
            (step.name or f"step{number}", step)
            for number, step in enumerate(self.steps or (), start=1)
        ]

    @property
    def environment(self) -> ActiveEnvironment | None:
        """The environment that `within` added."""
        return self._environment

    @property
    def place(self) -> tuple[str, str]:
        """The slug and the base URL of the bundle that `within` named, if it uses an
        environment."""
        return self._place

    def within(
        self,
        base_url: str,
        auth: Auth | None,
        environment: ActiveEnvironment | None = None,
        bundle: str = "",
    ) -> Self:
        """The definition with what its bundle shares with all its tools."""
        whole = self._each(lambda request: request.within(base_url, auth))
        if environment is None:
            return whole
        whole = self.model_copy() if whole is self else whole
        whole._environment, whole._place = environment, (bundle, base_url)
        return whole

    def below(self, base_url: str) -> Self:
        """The definition with a path in the place of each address below this base URL."""
        return self._each(lambda request: request.below(base_url))

    def whole(self, base_url: str) -> Self:
        """The definition with whole addresses."""
        return self._each(lambda request: request.whole(base_url))

    def unsigned_for(self, base_url: str) -> Self:
        """The definition with `none` as the auth of each request to this base URL that has none."""
        return self._each(lambda request: request.unsigned_for(base_url))

    def without_auth(self, base_url: str, auth: Auth) -> Self:
        """The definition without the auth that a bundle with this base URL gives it."""
        return self._each(lambda request: request.without_auth(base_url, auth))

    def text_names(self) -> frozenset[str]:
        """The names that stand only where all is text: in an address, a query, a header or auth,
        not in a body."""
        requests = [step.request for _, step in self.plan()]
        texts = [[request.url_template, request.query, request.headers] for request in requests]
        auths = [
            each.model_dump(by_alias=True)
            for request in requests
            if (each := request.auth) is not None
        ]
        heads = [
            {re.split(r"[.\[]", placeholder.name)[0] for placeholder in placeholders_in(part)}
            for part in ([texts, auths], [request.body for request in requests])
        ]
        return frozenset(heads[0] - heads[1])

    def origins(self) -> tuple[str, ...]:
        """The origin of each of its requests."""
        return tuple(dict.fromkeys(origin(step.request.url_template) for _, step in self.plan()))

    def has_credentials(self, arguments: Iterable[str]) -> bool:
        """Whether a request signs itself: by auth, by a secret, or by a header or query pair that
        is named like a credential."""
        plan = self.plan()
        plain = {*arguments, *(name for name, _ in plan)}
        variables = self._environment.variables if self._environment else {}
        for request in (step.request for _, step in plan):
            texts = [request.url_template, request.query, request.headers, request.body]
            names = {re.split(r"[.\[]", each.name)[0] for each in placeholders_in(texts)}
            if (
                (request.auth is not None and not isinstance(request.auth, NoAuth))
                or any(map(is_secret_name, (*request.headers, *request.query)))
                or any(secrets_of(name, variables) for name in names - plain)
            ):
                return True
        return False

    def own_hosts(self) -> list[str]:
        """The origins of its requests that are not relative to the base URL of the bundle."""
        urls = (step.request.url_template for _, step in self.plan())
        return list(dict.fromkeys(origin(url) for url in urls if not is_relative(url)))

    def _each(self, change: Callable[[RequestTemplate], RequestTemplate]) -> Self:
        """The definition with each request changed; the same object if none is."""
        changed: dict[str, Any] = {}
        if self.request is not None and (request := change(self.request)) is not self.request:
            changed["request"] = request
        steps = [(step, change(step.request)) for step in self.steps or ()]
        if any(step.request is not request for step, request in steps):
            changed["steps"] = [
                step.model_copy(update={"request": request}) for step, request in steps
            ]
        return self.model_copy(update=changed) if changed else self

    def wire(self) -> dict[str, Any]:
        """The definition as it was written."""
        return self.model_dump(mode="json", by_alias=True, exclude_unset=True)


class ToolLimits(_Record):
    """The limits of one tool. Response bytes are counted after decompression; the limit of the
    settings holds too."""

    max_calls_per_minute: Annotated[int, Field(ge=1, le=100_000)] | None = None
    max_request_bytes: Annotated[int, Field(ge=1)] | None = None
    max_response_bytes: Annotated[int, Field(ge=1)] | None = None
