"""Tests through the installed wheel, a real JupyterLab and a real browser."""
