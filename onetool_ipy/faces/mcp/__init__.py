"""The toolbox as an MCP server: the same registry, calls and allow-lists for any MCP client, on stdio or HTTP.

`server` translates between the protocol and the toolbox, `stdio` and `http` carry it. The `mcp` SDK is imported by
these modules when something is served, and not before.
"""
