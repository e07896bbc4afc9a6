"""Nothing configured: find a model on this machine, or the name of a key, try it, and write it into
the user's own settings or the project's.

Looks at four ports of the loopback address and at the names of known key variables; nothing else is
dialled, and no key is used, before a yes. Then the provider of a key is asked for its models. Where
nobody can be asked, the error has the line to write. In a project that the user does not trust
nothing is dialled at all.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, cast
from urllib.parse import urlsplit

from onetool_ipy.base import values
from onetool_ipy.base.background import Background
from onetool_ipy.base.errors import TRUST_IT, CallFailure, UsageProblem
from onetool_ipy.base.printable import printable
from onetool_ipy.config.edit import add_model
from onetool_ipy.config.load import Config, own_settings
from onetool_ipy.config.paths import CONFIG_NAME, FOLDER
from onetool_ipy.config.settings import Model, Models, Provider
from onetool_ipy.core.question import NobodyToAsk, Question, Reply
from onetool_ipy.llm.client import (
    default_url,
    listed_models,
    model_names,
    open_model,
    require_address,
)
from onetool_ipy.llm.messages import OfferedTool, User
from onetool_ipy.net.client import HttpClient, Rules
from onetool_ipy.net.hosts import Hosts

_LOOK_S = 1.0
_TEST_S = 120.0
"""A local server may have to load the model first."""
_TEST_TOKENS = 64
_MAX_SAID = 100
_TEST_TOOL = OfferedTool("time_now", "The time.", {"type": "object", "properties": {}}, "time.now")
"""Some models take no tools, and %ask sends some."""
_LOOPBACK = ("127.0.0.1", "localhost", "::1")
_IN_THE_PANEL = "Choose one in JupyterLab's Tools panel, on the tab Ask."
OWN_FILE = f"~/{FOLDER}/{CONFIG_NAME}"
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
    """A model that could be used: where it was found, its entry in the settings, and what other
    models are there."""

    place: str
    name: str
    entry: Mapping[str, str]
    models: Sequence[str] = ()

    @property
    def line(self) -> str:
        """The line for the user's settings."""
        return f"models: {{{self.name}: {json.dumps(dict(self.entry))}}}"


class ModelSetup:
    """Finds a model for a user who has configured none, tries it, and writes it down. `servers` are
    the ports to look at."""

    def __init__(
        self,
        *,
        config: Callable[[], Config],
        http_client: Callable[[], HttpClient],
        background: Background,
        put_question: Callable[[Question], Reply],
        note: Callable[[str], None],
    ) -> None:
        self.servers: Sequence[LocalServer] = LOCAL_SERVERS
        self.base_urls: Mapping[str, str] = {
            provider: default_url(provider) for provider in _FAMILIES
        }
        self._config, self._http_client, self._background = config, http_client, background
        self._put_question, self._note = put_question, note

    def offer(self) -> None:
        """Look for models and write the first into the user's own settings after a yes. Raises
        UsageProblem."""
        config = self._config()
        if config.settings.models.named or config.withheld.get("model") or self.own_models().named:
            return
        proposals = self.found()
        if not proposals:
            raise UsageProblem(
                f"No model is configured. {self.nothing_found}",
                hint=f"{_IN_THE_PANEL}\nOr write in {OWN_FILE}, for example:\n{_EXAMPLE}",
            )
        places = "; ".join(proposal.place for proposal in proposals)
        first = proposals[0]
        key, entry = first.entry.get("key"), dict(first.entry)
        line = f"Or write in {OWN_FILE}" + (
            f", with a model of your account for {_MODEL}" if key else ""
        )
        by_hand = UsageProblem(
            f"No model is configured. Found: {places}.",
            hint=f"{_IN_THE_PANEL}\n{line}:\n{first.line}",
        )
        host = urlsplit(self.base_urls.get(entry["provider"], "")).hostname
        ask = (
            f"Ask {host} for the models of this key, and use one"
            if key
            else f"Use '{entry['model']}'"
        )
        text = f"No model is configured. Found: {places}. {ask} from now on?"
        details = (f"written into {OWN_FILE}:", first.line)
        try:
            reply = self._put_question(Question("%ask", text, details=details, yes="Use it"))
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
            self._note(f"The model is '{models[0]}' from now on; change it in {OWN_FILE}.{others}")
        self.save(entry, in_project=False)

    @property
    def nothing_found(self) -> str:
        """Where was looked in vain, in words."""
        ports = ", ".join(f"{server.port} ({server.title})" for server in self.servers)
        return f"None answers on the ports {ports} of this machine, and no API key is set."

    def found(self) -> list[ModelProposal]:
        """Look at the ports of this machine and at the names of known keys; nothing else is
        dialled. Raises UsageProblem in a project that the user does not trust."""
        self.require_trust()
        return [*self._local(), *self._by_key()]

    def require_trust(self) -> None:
        """Raise UsageProblem in a project that the user does not trust: nothing is dialled
        there."""
        trust = self._config().trust
        if not trust.is_given and trust.how != "no project":
            raise UsageProblem(
                "This project is not trusted, so no model is looked for or asked in it.",
                hint=TRUST_IT,
            )

    def own_models(self) -> Models:
        """Return the models of the user's own settings, which count where a project has none."""
        return own_settings(self._config().home).models

    def key_names(self) -> list[str]:
        """Return the names of the secrets that may be keys: the known variables that are set, those
        of the project, and the user's own."""
        secrets = self._config().secrets
        variables = (name for name in _KEYS if secrets.get(name))
        return list(dict.fromkeys([*variables, *secrets.names(), *secrets.own_names()]))

    def names_of(self, entry: Mapping[str, str]) -> list[str]:
        """Ask the server of an entry, which a person named, for its models. Raises CallFailure."""
        self.require_trust()
        provider = entry["provider"]
        secret = self._config().secrets.key_of_model(entry.get("key") or "")
        base_url = entry.get("base_url") or self.base_urls.get(provider, "")
        key = (secret or "").strip() or None
        names = listed_models(provider, key, self._http_client(), base_url)
        family = "" if "base_url" in entry else _FAMILIES.get(provider, "")
        return [name for name in names if name.startswith(family) and not _OTHER_USES.search(name)]

    def test(self, entry: Mapping[str, str]) -> str:
        """Send one tiny request with a tool, as %ask sends some, and say what came back. Raises
        CallFailure."""
        self.require_trust()
        model = Model(
            name=entry["model"],
            provider=cast(Provider, entry["provider"]),
            model=entry["model"],
            base_url=entry.get("base_url"),
            key=entry.get("key"),
            where="not saved yet",
        )
        client = open_model(
            model.name,
            Models(named={model.name: model}),
            secrets=self._config().secrets,
            http_client=self._http_client(),
            background=self._background,
        )
        began = time.monotonic()
        turn = client.complete(
            *([User("Say hello in one word.")], [_TEST_TOOL]),
            deadline_s=_TEST_S,
            max_tokens=_TEST_TOKENS,
        )
        text = " ".join(self._config().secrets.mask(printable(turn.text)).split())
        reply = f": {values.cut(text, _MAX_SAID)}" if text else " (without a text)"
        return f"{model.model} answered in {time.monotonic() - began:.1f} s{reply}"

    def save(self, entry: Mapping[str, str], *, in_project: bool) -> str:
        """Write a model into the project's settings or the user's own. Returns its name there.
        Raises UsageProblem.

        What a server called its model is no template: `${NAME}` in it stays as it is.
        """
        config = self._config()
        for text in entry.values():
            if not text.isprintable():
                raise UsageProblem(f"{values.safe_repr(text, 80)} has characters that do not show.")
        if address := entry.get("base_url"):
            require_address(address)
        is_here = urlsplit(entry.get("base_url", "")).hostname in _LOOPBACK
        stem = "local" if is_here else entry["provider"]
        data = {name: text.replace("${", "$${") for name, text in entry.items()}
        own = None if in_project else config.home / FOLDER / CONFIG_NAME
        return add_model(config.paths, stem, data, file=own)

    def _local(self) -> Iterator[ModelProposal]:
        """Yield the models of each server that answers on the loopback address."""
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
                    models=names,
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
            response = self._http_client().request("GET", root + server.path, rules=rules)
        except CallFailure:
            return []
        return model_names(response)

    def _by_key(self) -> Iterator[ModelProposal]:
        """Yield an entry for each known key variable that is set. Which models the key has is not
        known yet."""
        for name, provider in _KEYS.items():
            if self._config().secrets.get(name):
                entry = {"provider": provider, "model": _MODEL, "key": name}
                yield ModelProposal(place=f"the variable {name}", name=provider, entry=entry)

    def _of_key(self, provider: str, key: str) -> list[str]:
        """Return the models for conversations that a provider lists for a key, as it lists them."""
        try:
            return self.names_of({"provider": provider, "key": key})
        except CallFailure:
            return []
