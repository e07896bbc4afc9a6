"""The section `ask` of onetool.yaml: defaults, every key, and what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from onetool_ipy import InvalidConfig, open_toolbox
from onetool_ipy.config.settings import AskSettings


def _settings(tmp_path: Path, text: str) -> AskSettings:
    (tmp_path / ".onetool").mkdir(exist_ok=True)
    (tmp_path / ".onetool" / "onetool.yaml").write_text(f"version: 1\nask: {text}\n", encoding="utf-8")
    with open_toolbox(tmp_path, env={"ONETOOL_STATE": str(tmp_path / "state"), "HOME": str(tmp_path)}) as box:
        return box.config.settings.ask


def test_defaults(tmp_path: Path) -> None:
    found = _settings(tmp_path, "{}")

    assert (found.with_tools, found.tool_allow, found.max_steps, found.approve) == (True, None, 5, ())
    assert (found.max_calls, found.max_tokens, found.max_seconds) == (50, 200_000, 300)
    assert (found.context_tokens, found.stream) == (100_000, True)


def test_every_key_is_read(tmp_path: Path) -> None:
    found = _settings(
        tmp_path,
        "{with_tools: false, tool_allow: [time.*], max_steps: 9, approve: [a.b], max_calls: 3, max_tokens: 4,"
        " max_seconds: 0.5, context_tokens: 6, stream: false}",
    )

    assert found == AskSettings(
        with_tools=False,
        tool_allow=("time.*",),
        max_steps=9,
        approve=("a.b",),
        max_calls=3,
        max_tokens=4,
        max_seconds=0.5,
        context_tokens=6,
        stream=False,
    )


@pytest.mark.parametrize(
    "text",
    [
        "{max_calls: 0}",
        "{max_tokens: many}",
        "{max_seconds: 0}",
        "{context_tokens: -1}",
        "{stream: 7}",
        "{max_call: 3}",
    ],
)
def test_a_wrong_value_is_an_error_that_names_the_key(tmp_path: Path, text: str) -> None:
    with pytest.raises(InvalidConfig, match=text[1:].partition(":")[0]):
        _settings(tmp_path, text)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ("{messages: []}", "'messages' is set by %ask itself and cannot be an option."),
        ("{stream: true}", "'stream' is set by %ask itself"),
        ("{limit: .nan}", "is not a number that JSON can hold"),
        ("[temperature]", "is not 'key: value' lines"),
        ("7", "is not 'key: value' lines"),
    ],
)
def test_a_models_option_that_cannot_be_sent_is_told_with_its_place(tmp_path: Path, options: str, said: str) -> None:
    (tmp_path / ".onetool").mkdir()
    model = f"m: {{provider: openai, model: x, options: {options}}}"
    (tmp_path / ".onetool" / "onetool.yaml").write_text(f"version: 1\nmodels:\n  {model}\n", encoding="utf-8")

    with pytest.raises(InvalidConfig) as caught:
        open_toolbox(tmp_path, env={"ONETOOL_STATE": str(tmp_path / "state")})

    assert str(caught.value).startswith(".onetool/onetool.yaml:3: models.m.options")
    assert str(caught.value).count("onetool.yaml") == 1
    assert said in str(caught.value)
