"""The definition of one MCP server as a value, and the part of our environment that its process may
see.

Made from an entry of `servers:` that `config` has checked, with every `${NAME}` filled in. It holds
secrets, so its repr shows only name and type.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from onetool_ipy.base import values
from onetool_ipy.base.errors import Unavailable
from onetool_ipy.base.printable import printable_line
from onetool_ipy.base.processes import INHERITED

SIGN_IN_S = 600.0
"""How long a sign-in may take a person."""

FailureState = Literal["failed", "unreachable", "wrong address", "refused", "signed out"]
"""`failed` did not start, `unreachable` does not answer, a `wrong address` answers without being an
MCP server, `refused` answered 403, `signed out` 401."""

State = (
    FailureState
    | Literal[
        "connected", "not started", "starting", "disconnected", "stopped", "untrusted", "disabled"
    ]
)
"""`disconnected` was connected and died, `stopped` was stopped by a person; `FailureState` did not
connect."""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class AuthSettings:
    """How to sign in to a server. Without a client of the user, one is registered at the first
    sign-in."""

    grant: Literal["authorization_code", "client_credentials"] = "authorization_code"
    client_id: str = ""
    client_secret: str = ""
    private_key: str = ""
    signing_algorithm: str = "RS256"
    client_metadata_url: str = ""
    issuer: str = ""
    redirect_uri: str = ""
    scopes: tuple[str, ...] = ()

    @property
    def client(self) -> str:
        """The client whose tokens these are."""
        return self.client_id or self.client_metadata_url

    def __repr__(self) -> str:
        return f"AuthSettings({self.grant})"


class UnconfirmedIssuer(Unavailable):
    """The secret of the user's client would go to an authorization server that only the MCP server
    names."""

    def __init__(self, server: str, issuer: str) -> None:
        address = printable_line(values.cut(issuer, 200))
        super().__init__(
            f"The server '{server}' names '{address}' as its authorization server. "
            "The secret of your client would go there.",
            hint=(
                f"Is your client registered there? Then sign in with: %tool server login {server}\n"
                f"or write into its 'auth': issuer: {address}"
            ),
        )
        self.issuer = issuer


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class ServerDefinition:
    """One server. `timeout_s` limits a call and a start, `idle_s` how long a call may be silent.

    `protocol` is "auto", "legacy" (with a handshake) or a revision without one. `roots` are the
    folders that we tell it of when it asks; without any it cannot ask. With `sampling` it may ask
    for a reply of the user's model. `log_level` is the least important log messages that it should
    send.

    A server that the user's trust does not cover (`is_allowed`) is never started.
    """

    name: str
    where: str
    type: Literal["stdio", "http", "sse"]
    command: str = ""
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    cwd: str = ""
    inherit: tuple[str, ...] = ()
    url: str = ""
    headers: Mapping[str, str] = field(default_factory=dict)
    auth: AuthSettings = AuthSettings()
    enabled: bool = True
    trusted: bool = False
    timeout_s: float = 30
    idle_s: float | None = None
    protocol: str = "auto"
    sampling: bool = False
    log_level: str = "info"
    roots: tuple[str, ...] = ()
    is_allowed: bool = True

    @property
    def signs_in(self) -> bool:
        """Whether a person or a client can sign in to it; not if the definition has its
        credentials."""
        has_credentials = any(name.lower() == "authorization" for name in self.headers)
        return self.type == "http" and (not has_credentials or self.auth != AuthSettings())

    def fingerprint(self, mask: Callable[[str], str]) -> str:
        """Return a hash of the definition without secrets: the key of everything cached for the
        server."""
        parts = [self.type, self.command, self.args, sorted(self.env.items()), self.cwd, self.url]
        parts += [sorted(self.headers.items()), self.auth.client]
        parts += [self.protocol] if self.protocol != "auto" else []
        return hashlib.sha256(
            mask(json.dumps([self.name, *parts])).encode("utf-8", "replace")
        ).hexdigest()[:32]

    def identity(self, mask: Callable[[str], str]) -> str:
        """Return what a yes to one of its tools covers of the server itself, without secrets."""
        return " ".join((self.fingerprint(mask), *sorted(self.inherit)))

    def runs_like(self, other: ServerDefinition) -> bool:
        """Whether a running server with the other definition can stay for this one."""
        return replace(self, where="") == replace(other, where="")

    def environment(self, environ: Mapping[str, str]) -> dict[str, str]:
        """Return the environment of the server's process: the safe variables, those in `inherit`,
        and `env`."""
        names = dict.fromkeys((*INHERITED, *self.inherit))
        inherited = {name: environ[name] for name in names if name in environ}
        # A value that starts with `()` is an exported shell function.
        safe = {name: value for name, value in inherited.items() if not value.startswith("()")}
        return {**safe, **self.env}

    def __repr__(self) -> str:
        return f"ServerDefinition({self.name!r}, {self.type})"


def read_server(
    name: str, data: Mapping[str, Any], where: str, *, folder: Path, timeout_s: float
) -> ServerDefinition:
    """Read a checked entry. Relative folders start at `folder`; `timeout_s` is the default
    limit."""
    # The schema of the configuration allows no keys but those that are fields here.
    fields: dict[str, Any] = {key: value for key, value in data.items() if value not in (None, "")}
    fields |= {key: tuple(fields.get(key, ())) for key in ("args", "inherit")}
    fields["auth"] = AuthSettings(**fields.get("auth", {}))
    fields["cwd"] = str(folder / Path(fields.get("cwd", ".")).expanduser())
    fields["roots"] = tuple(
        os.path.abspath(folder / Path(root).expanduser()) for root in fields.get("roots", ())
    )
    return ServerDefinition(**{"timeout_s": timeout_s, **fields, "name": name, "where": where})
