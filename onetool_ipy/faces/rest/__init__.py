"""The REST API as an extension of Jupyter Server. It shares files with the kernels, but no state.

`routes` is the one table of routes; the handlers and the OpenAPI document are made from it.
"""
