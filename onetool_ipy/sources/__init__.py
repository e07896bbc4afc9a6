"""Where tools come from. Each source hands over ToolSpec values; nothing downstream asks where they
came from."""
