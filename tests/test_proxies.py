"""What people are shown of packs and tools has no secrets: repr, docstrings, `help()`, `?`, and the
lists of `ot`."""

from __future__ import annotations

import inspect
import pydoc
from collections.abc import Callable
from typing import Any

import pytest

from onetool_ipy.base.errors import UsageProblem
from onetool_ipy.core.result import ToolCallError
from onetool_ipy.proxies import OtProxy, PackProxy
from tests.harness.project import Project

SECRET = "s3cr3t-in-a-docstring"
_PACK = f'''\
def find(city: str = "{SECRET}") -> str:
    """Find with {SECRET}.

    Args:
        city: Where {SECRET} is.

    Returns:
        What {SECRET} gives.

    Example:
        geo.find(city="{SECRET}")
    """
    return city
'''
LOOKS: dict[str, Callable[[PackProxy, OtProxy], Any]] = {
    "repr": lambda geo, _ot: repr(geo.find),
    "doc": lambda geo, _ot: geo.find.__doc__,
    "signature": lambda geo, _ot: str(inspect.signature(geo.find)),
    "help": lambda geo, _ot: pydoc.plain(pydoc.render_doc(geo.find)),
    "pack?": lambda geo, _ot: geo.getdoc(),
    "ot.help, a tool": lambda _geo, ot: ot.help("geo.find"),
    "ot.help, a tool, full": lambda _geo, ot: ot.help("geo.find", info="full"),
    "ot.help, a tool, as HTML": lambda _geo, ot: ot.help("geo.find")._repr_html_(),
    "ot.help, a pack": lambda _geo, ot: ot.help("geo"),
    "ot.help, a pack, as HTML": lambda _geo, ot: ot.help("geo")._repr_html_(),
    "ot.help, a snippet": lambda _geo, ot: ot.help("$leak"),
    "ot.help, a search": lambda _geo, ot: ot.help("find in town", info="full"),
    "ot.help, a search, as HTML": lambda _geo, ot: ot.help(
        "find in town", info="full"
    )._repr_html_(),
    "ot.tools": lambda _geo, ot: ot.tools(pattern="geo"),
    "ot.tools, full": lambda _geo, ot: ot.tools(pattern="geo", info="full"),
    "ot.packs, full": lambda _geo, ot: ot.packs(pattern="geo", info="full"),
    "ot.snippets": lambda _geo, ot: ot.snippets(),
    "ot.snippets, full": lambda _geo, ot: ot.snippets(info="full"),
}


@pytest.mark.parametrize("look", LOOKS.values(), ids=list(LOOKS))
def test_what_is_shown_of_a_tool_has_no_secrets(
    project: Project, look: Callable[[PackProxy, OtProxy], Any]
) -> None:
    project.write("tools/geo.py", _PACK)
    project.write("secrets.yaml", f"KEY: {SECRET}\n", mode=0o600)
    project.write("prompts.yaml", f"packs: {{geo: Use {SECRET}.}}\n")
    box = project.open(
        f"snippets: {{leak: {{description: 'With {SECRET}', body: '\"{SECRET}\"'}}}}"
    )
    geo = box.pack("geo")
    assert geo is not None

    shown = str(look(geo, box.ot))

    assert "***" in shown
    assert SECRET not in shown
    assert geo.find() == SECRET, "a call is not altered"


def test_an_argument_with_humps_has_a_name_as_python_spells_it(project: Project) -> None:
    (project.root / "a.txt").write_text("12345678", encoding="utf-8")
    fs = project.open().pack("fs")
    assert fs is not None

    assert fs.read_file(str(project.root / "a.txt"), max_bytes=8) == "12345678"
    with pytest.raises(ToolCallError, match="more than maxBytes 4"):
        fs.read_file(str(project.root / "a.txt"), max_bytes=4)
    with pytest.raises(UsageProblem, match="'maxBytes' was given twice"):
        fs.read_file(str(project.root / "a.txt"), max_bytes=4, maxBytes=4)


@pytest.mark.parametrize("name", ["adopt", "replay", "run", "sql", "view"])
def test_a_function_of_ot_is_named_in_a_type_error_as_people_call_it(
    project: Project, name: str
) -> None:
    function = getattr(project.open().ot, name)
    with pytest.raises(TypeError, match=rf"^ot\.{name}\(\) missing 1 required"):
        function()
