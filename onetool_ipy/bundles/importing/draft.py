"""What an import is asked for and what it makes: the choice of operations, the server, the draft of
a bundle. Pure.

`OfferedOperations` names every operation of a document before it chooses, so that a tool has the
same name whatever else is imported with it.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from fnmatch import fnmatchcase
from urllib.parse import urljoin, urlsplit

from onetool_ipy.base.errors import InvalidRequest
from onetool_ipy.base.search import did_you_mean
from onetool_ipy.base.values import Json
from onetool_ipy.bundles.importing.document import ImportNotes
from onetool_ipy.bundles.importing.labels import UniqueNames
from onetool_ipy.net.hosts import pattern_of

_READING = ("GET", "HEAD")
_MAX_TOOLS = 20_000
_MAX_NAMED = 8


class MissingServer(InvalidRequest):
    """The document does not say where its server is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OperationChoice:
    """Which operations become tools. Patterns match a name, a path or `GET /path`; `names` are
    exact names."""

    tags: tuple[str, ...] = ()
    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    names: tuple[str, ...] | None = None
    read_only: bool = False

    def takes(self, name: str, method: str, path: str, tags: Collection[str]) -> bool:
        """Whether an operation is chosen."""
        if self.read_only and method not in _READING:
            return False
        if self.names is not None and name not in self.names:
            return False
        if self.tags and not {tag.casefold() for tag in self.tags} & {
            tag.casefold() for tag in tags
        }:
            return False
        forms = [text.casefold() for text in (name, path, f"{method} {path}")]

        def is_meant(patterns: Collection[str]) -> bool:
            return any(
                fnmatchcase(form, pattern.casefold()) for pattern in patterns for form in forms
            )

        return (not self.include or is_meant(self.include)) and not is_meant(self.exclude)


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportRequest:
    """How to import a document: the bundle's name, where it came from, the server to call, and what
    to take of it.

    `secrets` are the names of existing secrets: an argument of such a name is renamed.
    """

    slug: str | None = None
    base_url: str | None = None
    server: str | None = None
    secrets: Collection[str] = ()
    choice: OperationChoice = OperationChoice()

    def own_server(self) -> str | None:
        """The server that was asked for, as a URL. Raises MissingServer if it is not one."""
        if self.server is None:
            return None
        own = self.server if "://" in self.server else f"https://{self.server}"
        if host_of(own) is None or any(sign in own for sign in "{}$@?#\\ "):
            raise MissingServer(
                f"'{own[:80]}' is not the URL of a server.", hint="Write https://api.example.com."
            )
        return own

    def url_of(self, url: str) -> str:
        """The server to call where the document says `url`, which may be relative. Raises
        MissingServer."""
        own = self.own_server()
        if own is not None:
            is_relative = "://" not in url and urlsplit(own).path in ("", "/")
            return urljoin(own, url) if is_relative else own
        if url.lower().startswith(("http://", "https://")):
            return url
        if self.base_url is None:
            raise MissingServer(
                f"The document has only a relative server URL ('{url[:80]}').",
                hint="Name its server: --server https://api.example.com",
            )
        return urljoin(self.base_url, url)


@dataclass(frozen=True, slots=True, kw_only=True)
class BundleDraft:
    """The result of an import: a bundle, its tools, the secrets and hosts they need, and what was
    not imported.

    `kind` is the document's format in words; `offered` is how many operations it has. `base_url` is
    the server that most tools have; empty if the document names none.
    """

    kind: str
    bundle: Json
    tools: list[Json]
    secrets: list[dict[str, str]]
    hosts: list[str]
    notes: list[str]
    offered: int
    base_url: str = ""

    def rows(self) -> list[Json]:
        """What would be imported, one row for each tool."""
        return [
            {
                "name": tool["slug"],
                "method": tool["http"]["request"]["method"],
                "url": tool["http"]["request"]["urlTemplate"],
                "tags": tool["tags"],
                "description": tool["displayName"],
            }
            for tool in self.tools
        ]


class OfferedOperations:
    """The operations of one document: each is named, counted, and chosen or not."""

    def __init__(self, choice: OperationChoice) -> None:
        self._choice = choice
        self._names = UniqueNames()
        self._tags: dict[str, None] = {}
        self._taken = 0
        self.count = 0

    def take(self, proposal: str, method: str, path: str, tags: Collection[str]) -> str | None:
        """Return the name of an operation, `proposal` or the nearest free one; None if it is not
        chosen."""
        self.count += 1
        name = self._names.take(proposal)
        self._tags.update(dict.fromkeys(tags))
        if not self._choice.takes(name, method, path, tags):
            return None
        self._taken += 1
        if self._taken > _MAX_TOOLS:
            raise InvalidRequest(
                f"The document has more than {_MAX_TOOLS:,} operations.",
                hint="Choose some with --tag or --include.",
            )
        return name

    def require_some(self, tools: Collection[Json], notes: ImportNotes) -> None:
        """Raise InvalidRequest if nothing was taken, and say why."""
        if tools:
            return
        if not self.count or self._taken:
            raise InvalidRequest(
                "The document has no operation that can be a tool.",
                hint="; ".join(notes.list()[:3]) or "Its 'paths' are empty.",
            )
        tags = sorted(self._tags)
        wrong = [
            tag
            for tag in self._choice.tags
            if tag.casefold() not in {each.casefold() for each in tags}
        ]
        more = f" and {len(tags) - _MAX_NAMED} more" if len(tags) > _MAX_NAMED else ""
        listed = f"Its tags: {', '.join(tags[:_MAX_NAMED])}{more}. " if tags else "It has no tags. "
        message = f"No tag '{wrong[0][:60]}'. {did_you_mean(wrong[0], tags)}" if wrong else ""
        raise InvalidRequest(
            (message or f"None of the {self.count:,} operations is chosen.").strip(),
            hint=f"{listed}See all operations with --dry.",
        )


def host_of(url: str) -> str | None:
    """The host of a server as a pattern of `http.allowed_hosts`, or None if it is not a URL."""
    try:
        parts = urlsplit(url)
        host, port = (parts.hostname or "").lower(), parts.port
    except ValueError:
        return None
    if not host or not url.isprintable() or parts.scheme.lower() not in ("http", "https"):
        return None
    return pattern_of(parts.scheme.lower(), host, port)
