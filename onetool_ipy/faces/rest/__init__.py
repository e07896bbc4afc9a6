"""The REST API of contract 9, as an extension of Jupyter Server. It shares files with the kernels, and no state.

`routes` is the one table of what there is; the handlers and the OpenAPI document are made from it.
"""
