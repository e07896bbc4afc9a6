"""A pack of another distribution."""
