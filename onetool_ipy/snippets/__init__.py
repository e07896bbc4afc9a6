"""Aliases and snippets: definition, scanner, expansion."""
