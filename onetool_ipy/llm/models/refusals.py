"""What a model's server said no with: HTTP statuses and errors inside a reply, in our words. Pure."""

from __future__ import annotations

import json
from typing import Any

from onetool_ipy.config.settings import Model
from onetool_ipy.core import values
from onetool_ipy.core.errors import CallFailure, ExecutionFailed, RateLimited, TooLarge
from onetool_ipy.net import Reply
from onetool_ipy.net.retry import is_passing

__all__ = ["may_pass", "refused", "words_of"]

_MAX_WORDS = 300
_ALSO_PASSING = (500, 529)


def may_pass(status: int) -> bool:
    """Whether another try may do better."""
    return is_passing(status) or status in _ALSO_PASSING


def refused(model: Model, reply: Reply, attempts: int) -> CallFailure:
    """The failure of a request that was answered with something else than a reply."""
    status = reply.status
    said = words_of(_json(reply))
    kind: type[CallFailure] = {429: RateLimited, 413: TooLarge}.get(status, ExecutionFailed)
    return kind(
        f"The model '{model.name}' answered {status}" + (f": {said}" if said else "."),
        hint=_hint(model, reply),
        details={"status": status, "attempts": attempts},
    )


def words_of(data: Any) -> str:
    """What an error says, on one line; "" where there is none."""
    found = data.get("error") if isinstance(data, dict) else data
    if isinstance(found, dict):
        found = found.get("message") or found.get("type") or found
    if found is None or found == "":
        return ""
    text = found if isinstance(found, str) else json.dumps(found, default=str)
    return values.cut(" ".join(text.split()), _MAX_WORDS)


def _json(reply: Reply) -> Any:
    if not reply.is_json:
        return reply.text if reply.mime == "text/plain" else None
    try:
        found = reply.json()
    except CallFailure:
        return reply.text
    return found[0] if isinstance(found, list) and found else found  # Gemini's streams answer with a list


def _hint(model: Model, reply: Reply) -> str:
    status = reply.status
    if status in (401, 403):
        where = f"the secret '{model.key}'" if model.key else "that the model has a 'key: SECRET_NAME'"
        return f"Check {where} in the configuration."
    if status == 404:
        return f"Check 'model: {model.model}' and its base_url in onetool.yaml."
    if status == 429 and (wait := reply.headers.get("retry-after")):
        return f"It says: try again in {wait}" + (" s." if wait.isdigit() else ".")
    if 300 <= status < 400:
        return "It is elsewhere: write its real address as base_url."
    return "Try again later." if status >= 500 or status == 429 else ""
