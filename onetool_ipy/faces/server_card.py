"""Registry cards: a `server.json` of the MCP registry as an entry of ours, with a question for each missing value.

A card comes from outside. The program is one of a few that install packages, a package's name can be no option, and
the whole command is shown before a person says yes. Secrets are named here, and kept by whoever asked for them.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from onetool_ipy.base import values
from onetool_ipy.base.errors import UsageProblem
from onetool_ipy.faces.client_files import FoundServer

__all__ = ["CardInput", "card_name", "is_card", "server_of"]

_PROGRAMS: Mapping[str, tuple[str, ...]] = {"npm": ("npx",), "pypi": ("uvx",), "oci": ("docker", "podman")}
_PACKAGE = re.compile(r"(?:@[\w.-]+/)?\w[\w./:@-]*", re.ASCII)
_VERSION = re.compile(r"\w[\w.+!-]*", re.ASCII)
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_HEADER = re.compile(r"[A-Za-z0-9-]+")
_PLACEHOLDER = re.compile(r"\{([\w-]+)\}")
_MAX_INPUTS = 100


class CardInput(NamedTuple):
    """A value that a card needs: its name, what it is for, and whether it is a secret."""

    name: str
    description: str
    is_secret: bool
    choices: tuple[str, ...] = ()


Answer = Callable[[CardInput], str]
"""Gives the value of an input: what was given before, or what a person says; for a secret its `${NAME}`."""


def is_card(document: Any) -> bool:
    """Whether a document is a registry card."""
    named = isinstance(document, dict) and isinstance(document.get("name"), str)
    return named and any(isinstance(document.get(key), list) for key in ("packages", "remotes"))


def card_name(card: Mapping[str, Any]) -> str:
    """A short name for the server of a card: `weather` for `io.github.someone/weather`."""
    return re.sub(r"[^\w-]+", "-", str(card["name"]).rpartition("/")[2]).strip("-")[:40] or "server"


def server_of(card: Mapping[str, Any], name: str, answer: Answer) -> FoundServer:
    """The server of a card. Raises UsageProblem if it has none that can be used here."""
    packages = [one for one in card.get("packages") or [] if isinstance(one, dict) and _is_startable(one)]
    there = [one for one in packages if shutil.which(_program(one))]
    remotes = [one for one in card.get("remotes") or [] if _is_http(one)]
    if there or (packages and not remotes):
        return FoundServer(name, _from_package((there or packages)[0], answer))
    if remotes:
        return FoundServer(name, _from_remote(remotes[0], answer))
    kinds = ", ".join(
        sorted({str(one.get("registryType")) for one in card.get("packages") or [] if isinstance(one, dict)})
    )
    raise UsageProblem(
        f"The card '{values.cut(str(card['name']), 80)}' has no server that can be used here.",
        hint=f"It has: {values.cut(kinds, 80) or 'nothing'}. Known are npm, pypi, oci, and remotes over HTTP.",
    )


def _is_startable(package: Mapping[str, Any]) -> bool:
    transport = package.get("transport")
    kind = transport.get("type") if isinstance(transport, dict) else "stdio"
    return package.get("registryType") in _PROGRAMS and kind == "stdio"


def _is_http(remote: Any) -> bool:
    return isinstance(remote, dict) and remote.get("type") == "streamable-http" and isinstance(remote.get("url"), str)


def _program(package: Mapping[str, Any]) -> str:
    known = _PROGRAMS[package["registryType"]]
    return package["runtimeHint"] if package.get("runtimeHint") in known else known[0]


def _from_package(package: Mapping[str, Any], answer: Answer) -> dict[str, Any]:
    kind, program = package["registryType"], _program(package)
    identifier, version = str(package.get("identifier") or ""), str(package.get("version") or "")
    if not _PACKAGE.fullmatch(identifier) or (version and not _VERSION.fullmatch(version)):
        raise UsageProblem(f"The card names no package: {values.safe_repr(identifier, 60)} {values.cut(version, 40)}")
    env = _values(package.get("environmentVariables"), answer, _NAME, "variable")
    before = _arguments(package.get("runtimeArguments"), answer)
    after = _arguments(package.get("packageArguments"), answer)
    if kind == "oci":
        passed = [word for variable in env for word in ("-e", variable)]
        tag = f"{identifier}:{version}" if version and ":" not in identifier.rpartition("/")[2] else identifier
        args = ["run", "-i", "--rm", *passed, *before, tag, *after]
    else:
        args = [
            *(before or (["-y"] if kind == "npm" else [])),
            f"{identifier}@{version}" if version else identifier,
            *after,
        ]
    return {"type": "stdio", "command": program, "args": args, **({"env": env} if env else {})}


def _from_remote(remote: Mapping[str, Any], answer: Answer) -> dict[str, Any]:
    headers = _values(remote.get("headers"), answer, _HEADER, "header")
    url = _substituted(remote["url"], remote.get("variables"), answer)
    return {"type": "http", "url": url, **({"headers": headers} if headers else {})}


def _values(listed: Any, answer: Answer, form: re.Pattern[str], what: str) -> dict[str, str]:
    """The values of variables or headers, by name."""
    found: dict[str, str] = {}
    for one in listed[:_MAX_INPUTS] if isinstance(listed, list) else ():
        name = one.get("name") if isinstance(one, dict) else None
        if not isinstance(name, str) or not form.fullmatch(name):
            raise UsageProblem(f"The card has a {what} without a usable name: {values.safe_repr(name, 60)}")
        value = _value(one, name, answer)
        if value is not None:
            found[name] = value
    return found


def _arguments(listed: Any, answer: Answer) -> list[str]:
    """The words of arguments, named and positional."""
    found: list[str] = []
    for one in listed[:_MAX_INPUTS] if isinstance(listed, list) else ():
        if not isinstance(one, dict):
            continue
        name = str(one.get("name") or "")
        is_flag = name and not ({"value", "default", "valueHint", "format"} & one.keys()) and not one.get("isRequired")
        if is_flag:
            found.append(name)
            continue
        value = _value(one, name.lstrip("-") or str(one.get("valueHint") or "argument"), answer)
        if value is not None:
            found += [name, value] if name else [value]
    return found


def _value(one: Mapping[str, Any], name: str, answer: Answer) -> str | None:
    """A value as the card gives it, its default, or what is answered if it is required; None if it is not needed."""
    if isinstance(one.get("value"), str) and one["value"]:
        return _substituted(one["value"], one.get("variables"), answer)
    if isinstance(one.get("default"), str | int | float) and not one.get("isSecret"):
        return str(one["default"])
    return answer(_input(one, name)) if one.get("isRequired") is True else None


def _substituted(text: str, variables: Any, answer: Answer) -> str:
    known = variables if isinstance(variables, dict) else {}

    def value(hit: re.Match[str]) -> str:
        one = known.get(hit[1])
        found = _value({"isRequired": True, **one}, hit[1], answer) if isinstance(one, dict) else None
        return hit[0] if found is None else found

    return _PLACEHOLDER.sub(value, text)


def _input(one: Mapping[str, Any], name: str) -> CardInput:
    choices = one.get("choices")
    said = values.cut(str(one.get("description") or ""), 300)
    listed = tuple(map(str, choices[:50])) if isinstance(choices, list) else ()
    return CardInput(values.cut(name, 60), said, one.get("isSecret") is True, listed)
