"""One framework-free ES module: search, list, form, result viewer, usage. Nothing here is Python."""
