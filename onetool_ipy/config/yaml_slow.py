"""The pure Python YAML parser with the face of the C one, for a PyYAML that was built without libyaml."""

from __future__ import annotations

from yaml.composer import Composer
from yaml.parser import Parser as EventParser
from yaml.reader import Reader
from yaml.scanner import Scanner

__all__ = ["Parser"]


class Parser(Reader, Scanner, EventParser, Composer):
    """Composes nodes; how scalars are resolved is the subclass's."""

    def __init__(self, stream: str) -> None:
        Reader.__init__(self, stream)
        Scanner.__init__(self)
        EventParser.__init__(self)
        Composer.__init__(self)
