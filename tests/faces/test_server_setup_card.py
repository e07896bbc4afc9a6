"""Registry cards: the command or address that a card stands for, and what is asked for it."""

from __future__ import annotations

from typing import Any

import pytest

from onetool_ipy.base.errors import UsageProblem
from onetool_ipy.faces.server_setup import CardInput, card_name, is_card, server_of


def card(**more: Any) -> dict[str, Any]:
    return {
        "name": "io.github.someone/weather",
        "description": "Weather.",
        "version": "1.2.0",
        **more,
    }


def made(document: dict[str, Any], **answers: str) -> tuple[dict[str, Any], list[CardInput]]:
    """The entry of a card, and what was asked for it."""
    asked: list[CardInput] = []

    def answer(wanted: CardInput) -> str:
        asked.append(wanted)
        return answers[wanted.name]

    return server_of(document, "weather", answer).data, asked


NPM = {
    "registryType": "npm",
    "identifier": "@someone/weather-mcp",
    "version": "1.2.0",
    "transport": {"type": "stdio"},
    "packageArguments": [
        {"type": "positional", "valueHint": "folder", "isRequired": True, "description": "Where"},
        {"type": "named", "name": "--units", "default": "metric"},
        {"type": "named", "name": "--verbose"},
        {"type": "named", "name": "--limit", "valueHint": "n"},
    ],
    "environmentVariables": [
        {"name": "WEATHER_KEY", "isRequired": True, "isSecret": True, "description": "Your key"},
        {"name": "LANG_CODE", "default": "en"},
        {"name": "OPTIONAL", "description": "Not needed"},
        {"name": "MODE", "value": "fast-{speed}", "variables": {"speed": {"default": "9"}}},
    ],
}


def test_only_what_is_missing_is_asked_for() -> None:
    data, asked = made(card(packages=[NPM]), folder="/data", WEATHER_KEY="${WEATHER_WEATHER_KEY}")

    assert data == {
        "type": "stdio",
        "command": "npx",
        "args": ["-y", "@someone/weather-mcp@1.2.0", "/data", "--units", "metric", "--verbose"],
        "env": {"WEATHER_KEY": "${WEATHER_WEATHER_KEY}", "LANG_CODE": "en", "MODE": "fast-9"},
    }
    assert asked == [
        CardInput("WEATHER_KEY", "Your key", True),
        CardInput("folder", "Where", False),
    ]


def test_packages_of_pypi_and_images() -> None:
    pypi = {
        "registryType": "pypi",
        "identifier": "weather-mcp",
        "version": "2.0",
        "runtimeHint": "uvx",
    }
    image = {
        "registryType": "oci",
        "identifier": "ghcr.io/someone/weather",
        "version": "3",
        "runtimeArguments": [{"type": "named", "name": "--network", "value": "none"}],
        "environmentVariables": [{"name": "KEY", "value": "x"}],
    }
    pinned = {"registryType": "oci", "identifier": "docker.io/someone/weather:1.0"}

    assert made(card(packages=[pypi]))[0] == {
        "type": "stdio",
        "command": "uvx",
        "args": ["weather-mcp@2.0"],
    }
    assert made(card(packages=[image]))[0] == {
        "type": "stdio",
        "command": "docker",
        "args": [
            "run",
            "-i",
            "--rm",
            "-e",
            "KEY",
            "--network",
            "none",
            "ghcr.io/someone/weather:3",
        ],
        "env": {"KEY": "x"},
    }
    assert made(card(packages=[pinned]))[0]["args"][-1] == "docker.io/someone/weather:1.0"


def test_a_remote_is_an_address_with_headers() -> None:
    remote = {
        "type": "streamable-http",
        "url": "https://{tenant}.example.com/mcp",
        "variables": {"tenant": {"description": "Your tenant", "isRequired": True}},
        "headers": [
            {
                "name": "Authorization",
                "value": "Bearer {key}",
                "variables": {"key": {"isSecret": True}},
            },
            {"name": "X-Optional"},
        ],
    }

    data, asked = made(
        card(remotes=[{"type": "sse", "url": "x"}, remote]), tenant="acme", key="${WEATHER_KEY}"
    )

    assert data == {
        "type": "http",
        "url": "https://acme.example.com/mcp",
        "headers": {"Authorization": "Bearer ${WEATHER_KEY}"},
    }
    assert [(wanted.name, wanted.is_secret) for wanted in asked] == [
        ("key", True),
        ("tenant", False),
    ]


@pytest.mark.parametrize(
    "package",
    [
        {**NPM, "identifier": "--package=evil"},
        {**NPM, "identifier": "a; rm -rf ~"},
        {**NPM, "identifier": ""},
        {**NPM, "version": "1 --yes"},
        {**NPM, "environmentVariables": [{"name": "A=B"}]},
        {**NPM, "environmentVariables": [{}]},
        {"registryType": "nuget", "identifier": "x"},
        {"registryType": "mcpb", "identifier": "https://example.com/x.mcpb"},
        {**NPM, "transport": {"type": "sse", "url": "http://127.0.0.1"}},
        7,
    ],
)
def test_what_cannot_be_used_is_refused(package: Any) -> None:
    with pytest.raises(UsageProblem):
        made(card(packages=[package]), folder="/data", WEATHER_KEY="k")


def test_a_program_of_the_cards_choice_is_not_run() -> None:
    data, _ = made(
        card(packages=[{"registryType": "npm", "identifier": "x", "runtimeHint": "/tmp/evil"}])
    )

    assert data["command"] == "npx"


def test_what_is_a_card() -> None:
    assert is_card(card(packages=[]))
    assert not any(
        is_card(other)
        for other in ([], {}, {"mcpServers": {}}, {"name": "x"}, {"name": 1, "packages": []})
    )
    assert card_name(card()) == "weather"
    assert card_name({"name": "a/b c\x1b;d"}) == "b-c-d"
    assert card_name({"name": "/"}) == "server"
