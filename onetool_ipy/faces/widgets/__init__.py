"""Widgets around the `ui` module: the tool browser, the result viewer, the usage view.

`desk` answers what the module asks, `widget` carries the messages, `picture` makes what a saved notebook shows.
ipywidgets and anywidget are imported by `widget` alone, when one is made.
"""
