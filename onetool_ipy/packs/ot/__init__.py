"""`ot`, the pack about the toolbox itself (spec 001): catalog, help, state, usage; `pack` lists its
tools.

Each function returns a plain value that prints as YAML flow text. Where spec 001 wants an error
text returned, `ot.*` in Python returns it; see `errors`.
"""
