"""Bundles of tools: kept in flat files, called over HTTP, made from an OpenAPI document or a curl command."""
