"""The package itself: what it offers, and what it does not."""

from __future__ import annotations

import pytest

import onetool_ipy


def test_the_package_names_what_it_offers() -> None:
    assert dir(onetool_ipy) == sorted(onetool_ipy.__all__)
    assert all(getattr(onetool_ipy, name) is not None for name in dir(onetool_ipy))
    with pytest.raises(AttributeError, match="nothing"):
        onetool_ipy.nothing  # noqa: B018
