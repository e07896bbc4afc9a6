"""Tools we ship: the five built-ins (`system`, `fs`) and `ot`, the pack about the toolbox
itself."""
