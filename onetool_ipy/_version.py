"""The version of the package: its one home.

Read by hatchling when the wheel is built and by everything that shows a version. It imports
nothing, so every room may read it.
"""

__all__ = ["__version__"]

__version__ = "0.1.0"
