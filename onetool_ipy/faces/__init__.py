"""Where people and programs enter: notebook, widgets, REST, MCP, command line."""
