"""Which parts of a definition cannot work: each is made ready alone, by the same code as the whole. Pure.

Only for what was refused already: a definition that can be called is never looked at here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Set

from onetool_ipy.bundles.http.auth import Credentials, TokenWay
from onetool_ipy.bundles.http.definition import HttpDefinition, OAuth2, Request
from onetool_ipy.bundles.http.request import Prepared
from onetool_ipy.core.errors import InvalidTool

__all__ = ["wrong_parts"]

_ANYWHERE = "http://localhost/"


def wrong_parts(http: HttpDefinition, arguments: Set[str]) -> Iterator[tuple[str, InvalidTool]]:
    """The JSON pointer of each part that cannot work, from the definition on, and why."""
    steps: set[str] = set()
    for number, (name, step) in enumerate(http.plan()):
        place = "/request" if http.request is not None else f"/steps/{number}/request"
        for part, make in _parts(step.request, arguments, frozenset(steps)).items():
            try:
                make()
            except InvalidTool as exc:
                yield f"{place}/{part}", exc
        steps.add(name)


def _parts(request: Request, arguments: Set[str], steps: Set[str]) -> dict[str, Callable[[], object]]:
    bare = request.model_copy(update={"url_template": _ANYWHERE, "query": {}, "headers": {}, "body": None})
    kind = {name: value for name, value in request.headers.items() if name.lower() == "content-type"}
    alone: dict[str, dict[str, object]] = {
        "urlTemplate": {"url_template": request.url_template},
        "query": {"query": request.query},
        "headers": {"headers": request.headers},
        "body": {"body": request.body, "headers": kind},
    }

    def prepared(part: dict[str, object]) -> Callable[[], object]:
        return lambda: Prepared(bare.model_copy(update=part), arguments, steps)

    def signed() -> object:
        auth = request.auth
        return TokenWay(auth, arguments, steps) if isinstance(auth, OAuth2) else Credentials(auth, arguments, steps)

    return {**{name: prepared(part) for name, part in alone.items()}, "auth": signed}
