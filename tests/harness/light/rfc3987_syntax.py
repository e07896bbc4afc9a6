"""Stands before a library that every Jupyter process imports, for formats of JSON Schema that none
of them checks.

Its import compiles a grammar, which takes 1.6 s of CPU: three quarters of the start of a Jupyter
Server. jsonschema does without it where it is not installed.
"""

raise ImportError("rfc3987_syntax is left out in tests")
