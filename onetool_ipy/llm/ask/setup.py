"""Nothing configured: find a model on this machine, or the name of a key, and write it into the user's own settings.

Looks at four ports of the loopback address and at the names of known key variables; nothing else is dialled, and no
key is used. Nothing is written without a yes. Where nobody can be asked, the error has the line to write.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from onetool_ipy.base.errors import CallFailure, UsageProblem
from onetool_ipy.config.edit import add_model
from onetool_ipy.config.load import own_settings
from onetool_ipy.config.paths import CONFIG_NAME, FOLDER
from onetool_ipy.config.settings import Models
from onetool_ipy.core.question import NobodyToAsk, Question
from onetool_ipy.llm.ask.context import AskToolbox
from onetool_ipy.net.client import Rules
from onetool_ipy.net.hosts import Hosts

_LOOK_S = 1.0
_OWN_FILE = f"~/{FOLDER}/{CONFIG_NAME}"
_EXAMPLE = 'models: {local: {provider: ollama, base_url: "http://127.0.0.1:11434", model: qwen3}}'
_KEYS = {
    "ANTHROPIC_API_KEY": ("anthropic", "claude-sonnet-4-5"),
    "OPENAI_API_KEY": ("openai", "gpt-5-mini"),
    "GEMINI_API_KEY": ("gemini", "gemini-flash-latest"),
    "GOOGLE_API_KEY": ("gemini", "gemini-flash-latest"),
}
"""Known key variables: the provider, and a model that most accounts have."""


class LocalServer(NamedTuple):
    """A port of the loopback address where a model server may listen, and where it lists its models."""

    port: int
    title: str
    provider: str
    path: str


LOCAL_SERVERS = (
    LocalServer(11434, "Ollama", "ollama", "/api/tags"),
    LocalServer(1234, "LM Studio", "openai", "/v1/models"),
    LocalServer(8080, "llama.cpp", "openai", "/v1/models"),
    LocalServer(8000, "vLLM", "openai", "/v1/models"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelProposal:
    """A model that could be used: where it was found, and its entry in the settings."""

    place: str
    name: str
    entry: Mapping[str, str]

    @property
    def line(self) -> str:
        """The line for the user's settings."""
        return f"models: {{{self.name}: {json.dumps(dict(self.entry))}}}"


class ModelSetup:
    """Finds a model for a user who has configured none. `servers` are the ports to look at."""

    def __init__(self, box: AskToolbox) -> None:
        self.servers: Sequence[LocalServer] = LOCAL_SERVERS
        self._box = box

    def offer(self) -> None:
        """Look for models and write the first into the user's own settings after a yes. Raises UsageProblem."""
        config = self._box.config
        if config.settings.models.named or config.withheld.get("model") or self.own_models().named:
            return
        proposals = [*self._local(), *self._by_key()]
        if not proposals:
            ports = ", ".join(f"{server.port} ({server.title})" for server in self.servers)
            raise UsageProblem(
                f"No model is configured. None answers on the ports {ports} of this machine, and no API key is set.",
                hint=f"Write in {_OWN_FILE}, for example:\n{_EXAMPLE}",
            )
        places = "; ".join(proposal.place for proposal in proposals)
        first = proposals[0]
        by_hand = UsageProblem(f"No model is configured. Found: {places}.", hint=f"Write in {_OWN_FILE}:\n{first.line}")
        text = f"No model is configured. Found: {places}. Use '{first.entry['model']}' from now on?"
        details = (f"written into {_OWN_FILE}:", first.line)
        try:
            reply = self._box.put_question(Question("%ask", text, details=details, yes="Use it"))
        except NobodyToAsk:
            raise by_hand from None
        if reply.action != "accept":
            raise by_hand
        add_model(config.home / FOLDER / CONFIG_NAME, first.name, dict(first.entry))

    def own_models(self) -> Models:
        """Return the models of the user's own settings, which count where a project has none."""
        return own_settings(self._box.config.home).models

    def _local(self) -> Iterator[ModelProposal]:
        """Yield a model of each server that answers on the loopback address."""
        for server in self.servers:
            root = f"http://127.0.0.1:{server.port}"
            names = [name for name in self._listed(server, root) if "embed" not in name.lower()]
            if names:
                base_url = root if server.provider == "ollama" else f"{root}/v1"
                yield ModelProposal(
                    place=f"{server.title} on port {server.port} with {', '.join(names[:3])}"
                    + (f" and {len(names) - 3} more" if len(names) > 3 else ""),
                    name="local",
                    entry={"provider": server.provider, "base_url": base_url, "model": names[0]},
                )

    def _listed(self, server: LocalServer, root: str) -> list[str]:
        rules = Rules(
            hosts=Hosts([f"127.0.0.1:{server.port}"]),
            allow_private=True,
            timeout_s=_LOOK_S,
            tries=1,
            max_redirects=0,
        )
        try:
            response = self._box.http_client.request("GET", root + server.path, rules=rules)
            data: Any = response.json() if response.status == 200 else {}
        except CallFailure:
            return []
        rows = (data.get("models") or data.get("data")) if isinstance(data, dict) else None
        names = [row.get("name") or row.get("id") for row in rows or () if isinstance(row, dict)]
        return [name for name in names if isinstance(name, str) and name.isprintable()]

    def _by_key(self) -> Iterator[ModelProposal]:
        """Yield a model for each known key variable that is set."""
        for name, (provider, model) in _KEYS.items():
            if self._box.config.secrets.get(name):
                yield ModelProposal(
                    place=f"the variable {name}",
                    name=provider,
                    entry={"provider": provider, "model": model, "key": name},
                )
