"""The screens as they are served: one ES module and its style sheet.

The module is built from labextension/src/screens. Nothing here is Python.
"""
