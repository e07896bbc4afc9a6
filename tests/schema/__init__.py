"""Tests that mirror the room of the same name."""
