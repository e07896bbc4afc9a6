"""Aliases and snippets: definition, expansion."""
