"""The arguments and secrets that a pasted command gives: what they are called, and what stands for them in the tool."""

from __future__ import annotations

import re
from typing import Any

from onetool_ipy.bundles.importing import labels, shell

__all__ = ["Names", "is_secret"]

_SECRET = re.compile(
    r"(?:^|[^a-z])(?:api|app|access|auth|secret|private|session|client|x|csrf|xsrf|bearer|refresh|id|jwt)?[-_.]?"
    r"(?:key|token|secret|password|passwd|pwd|apikey|appid|credential|credentials|signature|cookie|authorization|auth)"
    r"(?:$|[^a-z])",
)
_FILE = {
    "type": "object",
    "properties": {name: {"type": "string"} for name in ("base64", "filename", "mime")},
    "required": ["base64"],
}


def is_secret(name: str) -> bool:
    """Whether what is called so is likely to be a credential: `X-Api-Key`, `access_token`, `$GITHUB_TOKEN`."""
    split = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()
    return _SECRET.search(split) is not None and split not in ("token_type", "key_type", "sort_key")


class Names:
    """Gathers arguments and secrets; each method gives the text that stands for one in the tool."""

    def __init__(self, prefix: str) -> None:
        self._prefix = prefix
        self._arguments = labels.Unique(mark="_", longest=120)
        self._unique = labels.Unique(mark="_", longest=120)
        self._properties: dict[str, Any] = {}
        self._required: list[str] = []
        self._holes: dict[str, str] = {}
        self._mentioned: dict[str, None] = {}
        self.secrets: dict[str, str] = {}

    def schema(self) -> dict[str, Any]:
        """The schema of the arguments."""
        out: dict[str, Any] = {"type": "object", "properties": self._properties}
        if self._required:
            out["required"] = self._required
        return {**out, "additionalProperties": False}

    def missing(self) -> list[str]:
        """Secrets that the command only mentioned, without a value."""
        return [name for name in self._mentioned if name not in self.secrets]

    def argument(self, name: str, default: Any, *, typed: bool) -> str:
        """An argument with a default; `typed` says that its type is that of the default, else its text tells."""
        taken = self._arguments.take(labels.argument(name))
        value = default if typed else _guessed(default)
        kind = _kind(value)
        self._properties[taken] = {**({"type": kind} if kind else {}), "default": value}
        return f"${{{taken}}}"

    def required(self, name: str) -> str:
        """An argument that must be given; the same name is the same argument."""
        if name not in self._holes:
            taken = self._arguments.take(labels.argument(name))
            self._properties[taken] = {"type": "string"}
            self._required.append(taken)
            self._holes[name] = f"${{{taken}}}"
        return self._holes[name]

    def file(self, name: str) -> str:
        """An argument that is a file."""
        taken = self._arguments.take(labels.argument(name))
        self._properties[taken] = {"anyOf": [{"type": "string"}, _FILE]}
        self._required.append(taken)
        return f"${{{taken}}}"

    def secret(self, name: str, value: str) -> str:
        """A secret; one that is a variable keeps the variable's name, and has no value here."""
        whole = shell.MARKED.fullmatch(value)
        if whole is not None:
            return self.mentioned(whole[1])
        if marks := shell.marks(value):
            parts = shell.MARKED.split(value)
            written = (self.mentioned(part) if i % 2 else part.replace("${", "$${") for i, part in enumerate(parts))
            return "".join(written) if marks else value
        taken = self._unique.take(labels.secret(self._prefix, re.sub(r"(?i)^x-", "", name)))
        if value:
            self.secrets[taken] = value
        else:
            self._mentioned[taken] = None
        return f"${{{taken}}}"

    def mentioned(self, name: str) -> str:
        """A secret by the name of a variable."""
        self._mentioned[name] = None
        return f"${{{name}}}"


def _guessed(text: Any) -> Any:
    """What a text in a URL means: a number or a truth value where it is written like one."""
    if not isinstance(text, str):
        return text
    if text in ("true", "false"):
        return text == "true"
    return int(text) if re.fullmatch(r"-?(?:0|[1-9]\d{0,14})", text) else text


def _kind(value: Any) -> str | None:
    kinds = ((bool, "boolean"), (int, "integer"), (float, "number"), (str, "string"), (list, "array"), (dict, "object"))
    return next((word for kind, word in kinds if isinstance(value, kind)), None)
