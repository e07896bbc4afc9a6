"""Clients for language models: one HTTP client, and one wire format for each provider."""
