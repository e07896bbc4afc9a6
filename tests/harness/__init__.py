"""What tests drive: a real kernel, a real JupyterLab in a real browser, the list of scenarios.

Nothing here patches our own modules; everything that is started is stopped by its owner.
"""
