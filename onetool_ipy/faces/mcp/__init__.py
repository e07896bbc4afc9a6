"""The toolbox as an MCP server: the same registry, calls and allow-lists for any MCP client, on
stdio or HTTP.

`server` translates between the protocol and the toolbox; `http` carries it. Both import the SDK, so
they are imported only when something is served.
"""
