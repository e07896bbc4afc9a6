"""Environments of bundles: named sets of a base URL, auth and variables, in
`.onetool/environments.json`.

Switching makes a set the bundle's own, so a call reads the bundle; of this file it reads only the
base URLs of the other environments, which it must not send to. Auth and variables name their
secrets; no value of a secret is in the file. An entry that cannot be read costs itself and stays as
it is, and so does a key that this version does not know. A file that cannot be read is never
written. Importing this module loads no pydantic.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from onetool_ipy.base.errors import InvalidArgs
from onetool_ipy.base.files import (
    Stamp,
    StoreError,
    is_young,
    locked,
    make_folder,
    read_object,
    stamp_of,
    write_whole,
)
from onetool_ipy.base.values import Json
from onetool_ipy.bundles.http.address import below, owner
from onetool_ipy.config.paths import Owners
from onetool_ipy.core.tool import Problem

FILE = "environments.json"
_FIX = "Correct it, or delete it; the others are not touched."


class OtherEnvironment(InvalidArgs, reason="other_environment"):
    """A request to an address of another environment than the one that its bundle uses."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Environment:
    """Where the tools of a bundle send to, how they sign in, and the texts for `${name}` in their
    requests."""

    base_url: str
    auth: Json | None = None
    variables: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, entry: object) -> Environment:
        """Read an entry of the file; raises ValueError, in words, for one that is not an
        environment."""
        if not isinstance(entry, dict):
            raise ValueError("it is not an object")
        base_url, auth, variables = (
            entry.get("base_url"),
            entry.get("auth"),
            entry.get("variables", {}),
        )
        if not isinstance(base_url, str):
            raise ValueError("its base_url is not text")
        if auth is not None and not isinstance(auth, dict):
            raise ValueError("its auth is not an object")
        if not isinstance(variables, dict) or not all(
            isinstance(text, str) for text in variables.values()
        ):
            raise ValueError("its variables are not an object of texts")
        return cls(base_url=base_url.rstrip("/"), auth=auth, variables=variables)

    def to_dict(self) -> Json:
        """The entry as the file holds it."""
        auth = {} if self.auth is None else {"auth": self.auth}
        return {"base_url": self.base_url, **auth, "variables": dict(self.variables)}


class _Content(NamedTuple):
    """What the file held at a stamp: its JSON, or why it cannot be read."""

    stamp: Stamp | None
    data: Json
    error: StoreError | None = None


class EnvironmentFile:
    """The environments of all bundles of a project. Threads and processes may share it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._content = _Content(None, {})

    def of(self, slug: str) -> dict[str, Environment]:
        """The environments of a bundle by name, in the order of the file; none if it cannot be
        read."""
        environments = {}
        for name, entry in self._entries(slug).items():
            try:
                environments[name] = Environment.of(entry)
            except ValueError:
                continue
        return environments

    def base_urls(self, slug: str) -> dict[str, str]:
        """The base URL of each environment, also of an entry that cannot be used. Raises
        StoreError."""
        error = self._now().error
        if error is not None:
            raise error
        entries = self._entries(slug).items()
        urls = {name: entry.get("base_url") for name, entry in entries if isinstance(entry, dict)}
        return {name: url for name, url in urls.items() if isinstance(url, str)}

    def save(self, slug: str, environments: Mapping[str, Environment]) -> None:
        """Keep environments under their names, and all else in the file. Raises StoreError if it
        cannot be read."""
        make_folder(self.path.parent)
        with locked(self.path):
            data = _read(self.path)
            entries = data.setdefault(slug, {})
            if not isinstance(entries, dict):
                raise StoreError(
                    self.path, f"its entry '{slug}' is not an object", doing="change", hint=_FIX
                )
            for name, environment in environments.items():
                former = entries.get(name)
                unknown = {} if not isinstance(former, dict) else former
                own = {
                    key: value
                    for key, value in unknown.items()
                    if key not in ("base_url", "auth", "variables")
                }
                entries[name] = {**environment.to_dict(), **own}
            write_whole(self.path, json.dumps(data, indent=1).encode("ascii"))

    def fence(self, slug: str, name: str, base_url: str, tool: str) -> Callable[[str], None]:
        """What refuses the addresses that belong to other environments of a bundle, which uses this
        one now.

        An address belongs to the environment with the longest base URL that it lies below. As long
        as the file cannot be read, only addresses below the bundle's own base URL pass.
        """
        try:
            others, error = self.base_urls(slug), ""
        except StoreError as exc:
            others, error = {}, exc.message
        base_urls = {
            name: base_url,
            **{other: url for other, url in others.items() if other != name},
        }

        def require_own(url: str) -> None:
            place = url.partition("?")[0]
            if error and below(url, base_url) is None:
                raise OtherEnvironment(
                    f"'{tool}' was not sent to '{place}': {error} So it is not known which"
                    " environment that is.",
                    hint=f"Correct '{self.path}', then try again.",
                )
            other = owner(url, base_urls)
            if other is not None and other != name:
                raise OtherEnvironment(
                    f"'{tool}' was not sent: '{place}' belongs to the environment '{other}', "
                    f"and the bundle '{slug}' uses '{name}'.",
                    hint=(
                        f"Switch with: %tool bundle env {slug} {other}    or give the tool an"
                        f" address of '{name}'."
                    ),
                )

        return require_own

    def problems(self) -> list[Problem]:
        """What in the file cannot be used, and why."""
        content = self._now()
        if content.error is not None:
            return [
                Problem(
                    str(self.path), f"cannot be read: {content.error.reason}.", content.error.hint
                )
            ]
        problems = []
        for slug, entries in content.data.items():
            if not isinstance(entries, dict):
                problems.append(
                    Problem(str(self.path), f"'{slug}': it is not an object of environments.", _FIX)
                )
                continue
            for name, entry in entries.items():
                try:
                    Environment.of(entry)
                except ValueError as exc:
                    problems.append(Problem(str(self.path), f"'{name}' of '{slug}': {exc}.", _FIX))
        return problems

    def _entries(self, slug: str) -> dict[str, Any]:
        entries = self._now().data.get(slug)
        return entries if isinstance(entries, dict) else {}

    def _now(self) -> _Content:
        stamp = stamp_of(self.path)
        content = self._content
        if stamp is None or stamp != content.stamp:
            try:
                content = _Content(stamp, _read(self.path))
            except StoreError as exc:
                content = _Content(stamp, {}, exc)
            # A young file may change without a change of its stamp, so the next look reads it
            # again.
            self._content = (
                content if stamp and not is_young(stamp) else content._replace(stamp=None)
            )
        return content


def _read(path: Path) -> Json:
    """The JSON of the file; raises StoreError if it cannot be read, or does not count."""
    data = read_object(path)
    try:
        fault = Owners().fault(os.stat(path), str(path))
    except FileNotFoundError:
        return data
    if fault is not None:
        raise StoreError(path, f"it {fault.message}".rstrip("."), doing="read", hint=fault.hint)
    return data
