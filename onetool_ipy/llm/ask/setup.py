"""Nothing configured: find a model on this machine, or the name of a key, and write it into the
user's own settings.

Looks at four ports of the loopback address and at the names of known key variables; nothing else is
dialled, and no key is used, before a yes. Then the provider of a key is asked for its models. Where
nobody can be asked, the error has the line to write.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple
from urllib.parse import urlsplit

from onetool_ipy.base.errors import CallFailure, UsageProblem
from onetool_ipy.config.edit import add_model
from onetool_ipy.config.load import own_settings
from onetool_ipy.config.paths import CONFIG_NAME, FOLDER
from onetool_ipy.config.settings import Models
from onetool_ipy.core.question import NobodyToAsk, Question
from onetool_ipy.llm.ask.context import AskToolbox
from onetool_ipy.llm.client import default_url, listed_models, model_names
from onetool_ipy.net.client import Rules
from onetool_ipy.net.hosts import Hosts

_LOOK_S = 1.0
_OWN_FILE = f"~/{FOLDER}/{CONFIG_NAME}"
_EXAMPLE = 'models: {local: {provider: ollama, base_url: "http://127.0.0.1:11434", model: qwen3}}'
_KEYS = {
    "ANTHROPIC_API_KEY": "anthropic",
    "OPENAI_API_KEY": "openai",
    "GEMINI_API_KEY": "gemini",
    "GOOGLE_API_KEY": "gemini",
}
"""Known key variables, and their providers."""
_FAMILIES = {"anthropic": "claude", "openai": "gpt-", "gemini": "gemini-"}
"""How the names of the models begin that a provider has for conversations."""
_OTHER_USES = re.compile(
    r"audio|codex|dall|embed|image|instruct|live|realtime|search|transcribe|tts", re.IGNORECASE
)
_MODEL = "NAME"
"""Stands for a model in a line that a person completes."""


class LocalServer(NamedTuple):
    """A port of the loopback address where a model server may listen, and where it lists its
    models."""

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
        self.base_urls: Mapping[str, str] = {
            provider: default_url(provider) for provider in _FAMILIES
        }
        self._box = box

    def offer(self) -> None:
        """Look for models and write the first into the user's own settings after a yes. Raises
        UsageProblem."""
        config = self._box.config
        if config.settings.models.named or config.withheld.get("model") or self.own_models().named:
            return
        proposals = [*self._local(), *self._by_key()]
        if not proposals:
            ports = ", ".join(f"{server.port} ({server.title})" for server in self.servers)
            raise UsageProblem(
                f"No model is configured. None answers on the ports {ports} of this machine, and no"
                " API key is set.",
                hint=f"Write in {_OWN_FILE}, for example:\n{_EXAMPLE}",
            )
        places = "; ".join(proposal.place for proposal in proposals)
        first = proposals[0]
        key, entry = first.entry.get("key"), dict(first.entry)
        line = f"Write in {_OWN_FILE}" + (
            f", with a model of your account for {_MODEL}" if key else ""
        )
        by_hand = UsageProblem(
            f"No model is configured. Found: {places}.", hint=f"{line}:\n{first.line}"
        )
        host = urlsplit(self.base_urls.get(entry["provider"], "")).hostname
        ask = (
            f"Ask {host} for the models of this key, and use one"
            if key
            else f"Use '{entry['model']}'"
        )
        text = f"No model is configured. Found: {places}. {ask} from now on?"
        details = (f"written into {_OWN_FILE}:", first.line)
        try:
            reply = self._box.put_question(Question("%ask", text, details=details, yes="Use it"))
        except NobodyToAsk:
            raise by_hand from None
        if reply.action != "accept":
            raise by_hand
        if key:
            models = self._of_key(entry["provider"], key)
            if not models:
                raise UsageProblem(
                    f"{host} lists no model for the key '{key}'. Nothing was written.",
                    hint=by_hand.hint,
                )
            entry["model"] = models[0]
            others = f" Others of this key: {', '.join(models[1:6])}." if len(models) > 1 else ""
            self._box.host.note(
                f"The model is '{models[0]}' from now on; change it in {_OWN_FILE}.{others}"
            )
        add_model(config.home / FOLDER / CONFIG_NAME, first.name, entry)

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
        except CallFailure:
            return []
        return model_names(response)

    def _by_key(self) -> Iterator[ModelProposal]:
        """Yield an entry for each known key variable that is set. Which models the key has is not
        known yet."""
        for name, provider in _KEYS.items():
            if self._box.config.secrets.get(name):
                entry = {"provider": provider, "model": _MODEL, "key": name}
                yield ModelProposal(place=f"the variable {name}", name=provider, entry=entry)

    def _of_key(self, provider: str, key: str) -> list[str]:
        """Return the models for conversations that a provider lists for a key, as it lists them."""
        secret, base_url = self._box.config.secrets.get(key) or "", self.base_urls[provider]
        try:
            names = listed_models(provider, secret.strip(), self._box.http_client, base_url)
        except CallFailure:
            return []
        return [
            name
            for name in names
            if name.startswith(_FAMILIES[provider]) and not _OTHER_USES.search(name)
        ]
