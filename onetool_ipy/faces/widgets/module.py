"""The files of `ui/src` as one ES module, for a widget that can only be given one.

Each file becomes a function that gives what it exports; an import takes it from there. So nothing has to be built, and
names of one file do not meet those of another. The files keep to what is read here: one import or export a line.
"""

from __future__ import annotations

import re
from importlib.resources import files

__all__ = ["linked", "style"]

_IMPORT = re.compile(r"^import \{([^}]+)\} from '\./(\w+)\.js';\n", re.MULTILINE)
_EXPORTED = re.compile(r"^export (?=(?:async )?(?:function|class|const) (\w+))", re.MULTILINE)
_LISTED = re.compile(r"^export \{([^}]+)\};\n", re.MULTILINE)
_DEFAULT = re.compile(r"^export default ([^;]+);\n", re.MULTILINE)


def linked(entry: str = "index") -> str:
    """The module `entry` with all that it imports, as one."""
    done: dict[str, str] = {}
    _link(entry, done)
    wrapped = "\n".join(done.values())
    return f"const modules = {{}};\n{wrapped}\nexport default modules.{entry}.default;\n"


def style() -> str:
    """The style sheet that goes with it."""
    return (files("onetool_ipy.ui") / "style.css").read_text(encoding="utf-8")


def _link(name: str, done: dict[str, str]) -> None:
    if name in done:
        return
    text = (files("onetool_ipy.ui") / "src" / f"{name}.js").read_text(encoding="utf-8")
    for found in _IMPORT.finditer(text):
        _link(found[2], done)
    exported = _EXPORTED.findall(text)
    exported += [part.strip() for found in _LISTED.finditer(text) for part in found[1].split(",")]
    exported += [f"default: {found[1]}" for found in _DEFAULT.finditer(text)]
    body = _IMPORT.sub(lambda found: f"const {{{found[1]}}} = modules.{found[2]};\n", text)
    body = _DEFAULT.sub("", _LISTED.sub("", _EXPORTED.sub("", body)))
    done[name] = f"modules.{name} = (() => {{\n{body}return {{ {', '.join(exported)} }};\n}})();"
