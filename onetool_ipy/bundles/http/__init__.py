"""HTTP tools: `definition` is what a record holds, `runner.compile_http` makes it callable.

`template` reads `${name}` placeholders, `request` fills them in, `auth` signs. Everything is sent by `net.client`.
"""
