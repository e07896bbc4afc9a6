"""`onetool-ipy mcp` on stdio: serves one client until it closes its end."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import anyio
from mcp.server.stdio import stdio_server

from onetool_ipy.faces.mcp.server import Face
from onetool_ipy.toolbox import Toolbox

__all__ = ["serve_stdio"]


def serve_stdio(
    box: Toolbox, *, allow: Sequence[str] | None = None, say: Callable[[str], None] = lambda _text: None
) -> None:
    """Serve the client at our standard input; what tools print goes to standard error. `say` hears what is offered."""

    async def serve() -> None:
        face = Face(box, allow=allow)
        say(face.offer("--tool-allow"))
        try:
            async with stdio_server() as (incoming, outgoing):
                await face.server.run(incoming, outgoing, face.options())
        finally:
            face.close()

    anyio.run(serve)
