"""Tests of onetool_ipy; the folders mirror the package, `harness` drives the real things."""
