"""`onetool-ipy mcp`: serve the toolbox to an MCP client, on stdio or HTTP."""

from __future__ import annotations

import argparse
import os
import sys
from typing import Any

from onetool_ipy.assemble import open_leniently
from onetool_ipy.core.errors import UsageProblem
from onetool_ipy.faces.cli.say import OK, names_of, say
from onetool_ipy.toolbox import Toolbox

__all__ = ["add"]

_TOKEN = "ONETOOL_MCP_TOKEN"


def add(commands: Any) -> None:
    """Add the command to the parser's."""
    mcp = commands.add_parser(
        "mcp",
        help="serve the tools to an MCP client",
        description="Serve the tools to an MCP client: on stdio, or with --http on a port of this machine.",
    )
    mcp.add_argument("--http", action="store_true", help="streamable HTTP instead of stdio")
    mcp.add_argument("--host", default="127.0.0.1")
    mcp.add_argument("--port", type=int, default=0, help="by default a free one")
    mcp.add_argument(
        "--tool-allow",
        metavar="CSV",
        help="offer exactly these: names, pack.* or *, separated by commas; by default the tools that only read",
    )
    mcp.add_argument(
        "--no-token", action="store_true", help=f"ask for no token; else it is the secret {_TOKEN}, or a new one"
    )
    mcp.set_defaults(run=_serve)


def _serve(options: argparse.Namespace) -> int:
    with open_leniently(options.config) as box:
        for problem in box.config.problems:
            say(box.mask(str(problem)))
        allow = names_of(options.tool_allow)
        if options.http:
            return _serve_http(box, options, allow)
        if sys.stdin.isatty():
            say("Waiting for an MCP client on standard input. Give this command to your client, or use --http.")
        from onetool_ipy.faces.mcp.stdio import serve_stdio

        serve_stdio(box, allow=allow, say=say)
    return OK


def _serve_http(box: Toolbox, options: argparse.Namespace, allow: list[str] | None) -> int:
    from onetool_ipy.faces.mcp.http import serve_http

    is_theirs = box.config.trust.how == "untrusted"  # then its secrets.yaml must not say who may come in
    known = os.environ.get(_TOKEN) if is_theirs else box.config.secrets.get(_TOKEN)
    if known is not None and len(known) < 16:
        raise UsageProblem(f"The secret '{_TOKEN}' is shorter than 16 characters.", hint="Choose a longer one.")
    serving = serve_http(box, host=options.host, port=options.port, allow=allow, token=known, is_open=options.no_token)
    try:
        say(f"Serving on {serving.url}")
        if known is None and serving.token is not None:
            say(f"Authorization: Bearer {serving.token}")
        say(serving.offer("--tool-allow"))
        serving.wait()
    finally:
        serving.stop()
    return OK
