"""The grammar of a call as text, used by magics, export, widgets and completion."""
