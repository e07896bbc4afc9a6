"""Values -> text, HTML, SVG, YAML flow text. The only room that escapes; it reads no file and knows
no tool."""
