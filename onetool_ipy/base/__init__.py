"""Knows nothing of tools: records, values, files, masking, threads and the event loop."""
