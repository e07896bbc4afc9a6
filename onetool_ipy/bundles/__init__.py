"""Bundles: tools kept as files, called over HTTP or as local functions, imported from OpenAPI or
curl."""
