"""Rows -> text, HTML, SVG, YAML flow. The only place that escapes.

Takes plain values and gives text; reads no file and knows no tool.
"""
