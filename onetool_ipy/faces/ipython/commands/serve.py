"""`%tool serve`: give the tools of this notebook to any MCP client, from the live kernel.

The token is written to a file that only its owner reads, never into the notebook.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, ClassVar

from onetool_ipy.core.errors import UsageProblem
from onetool_ipy.faces.ipython import parse
from onetool_ipy.faces.ipython.commands.group import Bench, Command, page
from onetool_ipy.faces.ipython.display import Page
from onetool_ipy.faces.ipython.flags import OptionKind
from onetool_ipy.stores.files import write_whole

if TYPE_CHECKING:
    from onetool_ipy.faces.mcp.http import Serving

__all__ = ["Serve"]

_OPTIONS: dict[str, OptionKind] = {"--port": "text", "--host": "text", "--allow": "text", "--no-token": "switch"}


class Serve:
    """Serving, and what is being served now."""

    HELP: ClassVar[tuple[str, ...]] = (
        "%tool serve [--port N]         give what only reads to other MCP clients; --allow CSV; %tool serve stop",
    )

    def __init__(self, bench: Bench) -> None:
        self._box = bench.box
        self._serving: Serving | None = None

    def table(self) -> dict[str, Command]:
        return {"serve": self._serve}

    def _serve(self, rest: str) -> Serving | Page:
        asked = parse.read_options(rest, _OPTIONS)
        if asked.words == ["stop"]:
            return self._stop()
        if asked.words not in ([], ["status"]):
            raise UsageProblem(f"%tool serve does not know '{asked.words[0]}'.", hint="It knows: status, stop.")
        if asked.words == ["status"]:
            return self._status()
        if self._is_up():
            raise UsageProblem("The tools are being served already.", hint="End that with: %tool serve stop")
        self._start(asked.given)
        return self._status()

    def _start(self, given: dict[str, Any]) -> None:
        from onetool_ipy.faces.mcp.http import serve_http

        allow = given.get("--allow")
        serving = serve_http(
            self._box,
            host=given.get("--host", "127.0.0.1"),
            port=_port(given.get("--port", "0")),
            allow=None if allow is None else [name.strip() for name in allow.split(",") if name.strip()],
            is_open="--no-token" in given,
        )
        self._box.at_close.append(serving.stop)
        self._serving = serving
        port = serving.url.rpartition(":")[2].partition("/")[0]
        file = serving.file = self._box.config.paths.state / "serving" / f"{port}.json"
        serving.at_stop(lambda: file.unlink(missing_ok=True))
        write_whole(file, json.dumps(serving.client(), indent=2).encode())

    def _stop(self) -> Page:
        if not self._is_up() or self._serving is None:
            raise UsageProblem("Nothing is being served.", hint="Begin with: %tool serve")
        serving, self._serving = self._serving, None
        self._box.at_close.remove(serving.stop)
        serving.stop()
        return page(self._box, [f"No longer serving on {serving.url}"])

    def _status(self) -> Serving | Page:
        if not self._is_up() or self._serving is None:
            return page(self._box, ["Nothing is being served. Begin with: %tool serve"])
        return self._serving

    def _is_up(self) -> bool:
        return self._serving is not None and self._serving.is_up()


def _port(text: str) -> int:
    if not (text.isascii() and text.isdecimal() and int(text[:6]) < 65536):
        raise UsageProblem(f"'{text[:20]}' is no port.", hint="0 takes a free one.")
    return int(text)
