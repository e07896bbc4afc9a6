"""Tests of the call log."""
