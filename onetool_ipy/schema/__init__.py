"""JSON Schema, once: read, describe, check, sample."""
