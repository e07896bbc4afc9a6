"""Thin ends of the same trip: notebook, command line, later widgets, REST and MCP."""
