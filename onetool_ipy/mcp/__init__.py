"""MCP servers as packs: `servers:` of the configuration -> tools `<server>.<tool>`. Owned by `Servers` (`box.servers`).

    servers = Servers(definitions, background, cache=folder, surroundings=os.environ, mask=mask, wait_s=30)
    servers["git"]                     its state now (`server.State`); starts nothing (a Mapping)
    servers.reason("git")              why it is not connected
    servers.check()                    {name: state} after starting what was never started and asking the rest
    servers.start/stop/restart("git")  wait; Unavailable says why it does not start
    servers.test("git")                {server, ok, ms, tools, about, protocol} and, if not ok, {reason, stderr}
    servers.logs("git")                the end of what it wrote to stderr
    servers.add(definition)            for this session: read_server(name, checked, where, folder=, timeout_s=), where
                                       checked = config.entries.check_server(name, data, box.config.secrets.get)
    servers.remove("git")              one that was added
    servers.instructions("git"), .pid("git"), .definition("git"), .problems(), .tools(), .close()

The rooms: `definition` (what is configured), `guard` and `child` (the process, and that nothing of it is left), `wire`
and `web` (the SDK's transports), `link` (one life of a server), `server` (one after the other), `servers` (all),
`listing` (tools -> ToolSpec, and their memory on disk), `content` (results -> values).
The official SDK is imported in the loop's thread when the first server starts.
"""

from __future__ import annotations

from onetool_ipy.mcp.definition import ServerDefinition, read_server
from onetool_ipy.mcp.servers import Servers, ServerTools

__all__ = ["ServerDefinition", "ServerTools", "Servers", "read_server"]
