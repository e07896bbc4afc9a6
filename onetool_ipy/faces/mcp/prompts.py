"""What MCP clients see as prompts: tools marked `prompt`, the snippets, and the instructions in prompts.yaml.

A snippet's prompt is its code with the arguments filled in; nothing of it runs. An untrusted project's snippets are
left out, as are those that an allow-list does not name: `$name`, `$*` or `*`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import mcp_types as types

from onetool_ipy.base.errors import UsageProblem
from onetool_ipy.base.printable import printable
from onetool_ipy.core.tool import ToolSpec
from onetool_ipy.faces.line.values import Expected, read_plain
from onetool_ipy.faces.mcp.content import content_blocks
from onetool_ipy.render.media import Blocks
from onetool_ipy.snippets.definition import Bare, Snippet, expand
from onetool_ipy.toolbox import Toolbox

__all__ = ["PromptOffers", "choices_for", "prompt_result", "typed_arguments"]

_MAX_TEXT = 1_000_000


class PromptOffers:
    """The prompts of a toolbox, by the names that clients use."""

    def __init__(self, box: Toolbox, allow: Sequence[str] | None) -> None:
        self._box = box
        self._allow = allow

    def all(self, offered: Mapping[str, ToolSpec]) -> dict[str, ToolSpec | Snippet | str]:
        """Return all prompts; `offered` are the tools that are offered, by wire name. A text is a pack's own."""
        config = self._box.config
        packs = {spec.pack for spec in offered.values()}
        found: dict[str, Any] = {pack: text for pack, text in config.prompts.items() if pack in packs and text}
        for name, snippet in self._box.shortcuts.snippets.items():
            is_known = config.trust.how != "untrusted" or self._box.is_session_snippet(name)
            if is_known and (self._allow is None or {"*", "$*", f"${name}"} & set(self._allow)):
                found[name] = snippet
        return found | {name: spec for name, spec in offered.items() if spec.prompt}

    def describe(self, name: str, prompt: ToolSpec | Snippet | str) -> types.Prompt:
        """Return a prompt as it is listed."""
        if isinstance(prompt, str):
            return types.Prompt(name=name, description=f"How to use the tools of '{name}'.")
        schema = prompt.parameters
        needed = schema.get("required", ())
        arguments = [
            types.PromptArgument(name=key, description=self._text(about.get("description")), required=key in needed)
            for key, about in schema.get("properties", {}).items()
        ]
        title = prompt.name if isinstance(prompt, ToolSpec) else f"${name}"
        said = self._text(prompt.description) or f"The snippet ${name}"
        return types.Prompt(name=name, title=title, description=said, arguments=arguments)

    def text(self, prompt: Snippet | str, args: Mapping[str, str]) -> types.GetPromptResult:
        """Return a snippet with its arguments, or a pack's instructions. Raises UsageProblem."""
        if isinstance(prompt, str) and args:
            raise UsageProblem("This prompt takes no arguments.")
        body = prompt if isinstance(prompt, str) else expand(prompt, {k: Bare(v) for k, v in args.items()})
        return prompt_result(printable(body[:_MAX_TEXT]), self._box.mask)

    def _text(self, text: Any) -> str | None:
        return self._box.mask(printable(str(text))) if text else None


def prompt_result(value: Any, mask: Callable[[str], str]) -> types.GetPromptResult:
    """Return what a prompt gave as messages of the user: one for each part. Raises TooLarge."""
    parts = Blocks(value) if isinstance(value, (list, tuple)) and not hasattr(value, "_fields") else value
    blocks = content_blocks(parts, mask)
    return types.GetPromptResult(messages=[types.PromptMessage(role="user", content=block) for block in blocks])


def typed_arguments(args: Mapping[str, Any], schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return texts as the values that a tool's schema wants."""
    expected = Expected.of(schema)
    return {
        key: read_plain(value, expected.at(key)) if isinstance(value, str) else value for key, value in args.items()
    }


def choices_for(prompt: ToolSpec | Snippet | str, argument: str) -> list[str]:
    """Return the values that an argument is known to take: its choices, true and false, its default."""
    if isinstance(prompt, str):
        return []
    about = prompt.parameters.get("properties", {}).get(argument)
    if about is None:
        return []
    expected = Expected.of(prompt.parameters).at(argument)
    found = [*expected.choices, *(["true", "false"] if expected.kinds == {"boolean"} else [])]
    if isinstance(about, dict) and about.get("default") not in (None, ""):
        found.append(about["default"])
    return list(dict.fromkeys(each if isinstance(each, str) else str(each) for each in found if each is not None))
