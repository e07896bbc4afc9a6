"""The notebook face: magics that parse, call and display."""
