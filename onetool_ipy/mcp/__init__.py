"""MCP servers as packs: each entry of `servers:` in the configuration becomes the tools
`<server>.<tool>`.

`Servers` (`box.servers`) owns them. `definition` is what is configured; `process` and `watchdog`
run a stdio server; `session` is the official SDK's client session; `server` owns one connection
after another; `listing` turns tools into ToolSpecs and caches them; `content` turns results into
values. The SDK is imported on the background loop's thread when the first server starts.
"""
