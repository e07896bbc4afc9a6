"""The requests of the screen Ask: which models there are, and what was asked and answered.

Looking at it dials nothing: a person presses what looks for a model, asks its server for names,
tries it, or writes it down. The questions themselves are asked in cells. What a model wrote leaves
as Markdown without HTML and pictures, and as the text that it is.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable
from typing import Any, cast

from onetool_ipy.base import values
from onetool_ipy.base.errors import CallFailure, UsageProblem
from onetool_ipy.base.values import Json
from onetool_ipy.config.settings import Models
from onetool_ipy.faces.widgets import text_in
from onetool_ipy.llm.ask.setup import OWN_FILE
from onetool_ipy.llm.client import default_url
from onetool_ipy.llm.formats import PROVIDERS
from onetool_ipy.render import markdown
from onetool_ipy.render.views import local_time
from onetool_ipy.toolbox import Toolbox

_MAX_EXCHANGES = 100
_MAX_NAMES = 200
_FIELDS = ("provider", "base_url", "model", "key")


class AskRequests:
    """Answers the screen Ask of one toolbox. `send` sends an event to the page."""

    def __init__(self, box: Toolbox, send: Callable[[Json], None]) -> None:
        self._box = box
        self._send = send
        self._stop: Callable[[], None] | None = None

    def models(self, _payload: Json) -> Json:
        """The models in force, and what the form for another one needs. Nothing is dialled."""
        config, setup = self._box.config, self._box.ask.setup
        in_project = bool(config.settings.models.named or config.withheld.get("model"))
        models: Models = config.settings.models if in_project else setup.own_models()
        withheld = config.withheld.get("model", {})
        items = [
            {"name": each.name, "model": each.model, "provider": each.provider}
            for each in models.named.values()
        ]
        return {
            "models": [*items, *({"name": name, "isWithheld": True} for name in withheld)],
            "default": models.default or "",
            "keys": setup.key_names(),
            "addresses": {provider: default_url(provider) for provider in PROVIDERS},
            "inProject": in_project,
            "ownFile": OWN_FILE,
        }

    def find(self, _payload: Json) -> Json:
        """Look for models on this machine and for the names of known keys."""
        setup = self._box.ask.setup
        proposals = setup.found()
        items = [
            {
                "place": each.place,
                "entry": dict(each.entry),
                "models": list(each.models[:_MAX_NAMES]),
            }
            for each in proposals
        ]
        text = "" if proposals else setup.nothing_found
        return self._masked({"items": items, "said": text})

    def names(self, payload: Json) -> Json:
        """The models of the server that a person named."""
        names = self._box.ask.setup.names_of(_entry(payload, needs_model=False))
        if not names:
            raise UsageProblem("It lists no model for conversations.", hint="Type its name.")
        return self._masked({"models": names[:_MAX_NAMES]})

    def test(self, payload: Json) -> Json:
        """Send one tiny request; says what came back, or what failed."""
        try:
            return {"isOk": True, "said": self._box.ask.setup.test(_entry(payload))}
        except CallFailure as exc:
            return self._masked({"isOk": False, "said": f"{exc.message} {exc.hint}".strip()})

    def save(self, payload: Json) -> Json:
        """Write a model into the settings of the project, or into the user's own."""
        box, entry = self._box, _entry(payload)
        is_own = not payload.get("inProject")
        if is_own and self.models({})["inProject"]:
            raise UsageProblem(
                "The project names models of its own, and then yours do not count.",
                hint="Save it in the project.",
            )
        if is_own:
            name = box.ask.setup.save(entry, in_project=False)
        else:
            box.ask.setup.require_trust()
            with box.gate.saving():
                name = box.ask.setup.save(entry, in_project=True)
            # A yes covers the entry as it is in the file now.
            with box.gate.saving(f"model {name}"):
                box.reload()
            box.host.reloaded()
        file = OWN_FILE if is_own else "the project's onetool.yaml"
        return {"name": name, "said": f"Saved as '{name}' in {file}."}

    def sessions(self, _payload: Json) -> Json:
        """The names of all conversations of the project."""
        return self._masked({"items": self._box.ask.session_names()})

    def conversation(self, payload: Json) -> Json:
        """What was asked and answered in a session, the newest last. From then on its asks are sent
        while they run."""
        if self._stop is None:
            self._stop = self._box.ask.follow(self._on_ask)
        rows = self._box.ask.exchanges(text_in(payload, "session"))
        tokens = sum(_number(row.get("tokens")) for row in rows)
        costs = [_number(row["cost"]) for row in rows if row.get("cost") is not None]
        return {
            "items": [_shown(row) for row in rows[-_MAX_EXCHANGES:]],
            "earlier": max(len(rows) - _MAX_EXCHANGES, 0),
            "tokens": tokens,
            "cost": sum(costs) if costs else None,
        }

    def forget(self, payload: Json) -> Json:
        """Forget a session, also on disk."""
        name = text_in(payload, "session")
        self._box.ask.session(name).clear()
        return {"said": f"The conversation '{self._box.mask(name)}' is forgotten."}

    def close(self) -> None:
        """Send nothing more; may be called twice."""
        if self._stop is not None:
            self._stop()
            self._stop = None

    def _on_ask(self, session: str, exchange: Json) -> None:
        self._send(
            {"event": "ask", "session": self._box.mask(session), "exchange": _shown(exchange)}
        )

    def _masked(self, value: Json) -> Json:
        return cast(Json, values.map_text(values.to_json(value), self._box.mask))


def _shown(exchange: Json) -> Json:
    """An exchange as the page gets it: a local time, and the model's text as safe Markdown."""
    parts = exchange.get("parts")
    return {
        **exchange,
        "when": _when(exchange.get("at")),
        "parts": [
            {**part, "markdown": markdown.safe(str(part["text"]))} if "text" in part else part
            for part in (parts if isinstance(parts, list) else [])
            if isinstance(part, dict)
        ],
    }


def _when(moment: object) -> str:
    try:
        return local_time(datetime.datetime.fromisoformat(str(moment)))
    except (ValueError, TypeError):
        return ""


def _number(value: object) -> float:
    return value if isinstance(value, (int, float)) and not isinstance(value, bool) else 0


def _entry(payload: Json, *, needs_model: bool = True) -> dict[str, str]:
    """The entry of a model that a person filled in. Raises UsageProblem."""
    data: dict[str, Any] = payload.get("entry") or {}
    entry = {name: str(data.get(name) or "").strip() for name in _FIELDS}
    entry = {name: text for name, text in entry.items() if text}
    if entry.get("provider") not in PROVIDERS:
        raise UsageProblem("Choose the kind of the server.")
    if needs_model and "model" not in entry:
        raise UsageProblem("Type the name of the model, or choose one.")
    if not entry.get("base_url", "http://").startswith(("http://", "https://")):
        raise UsageProblem("The address begins with http:// or https://.")
    if entry["provider"] != "ollama" and not {"base_url", "key"} & entry.keys():
        raise UsageProblem("Choose the key, or type the address of a server that needs none.")
    return entry
