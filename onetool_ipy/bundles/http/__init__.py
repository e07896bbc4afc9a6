"""HTTP tools: `definition` is what a record holds, `runner.HttpRunner` makes it callable.

`template` reads `${name}` placeholders, `request` fills them in, `auth` signs. Everything is sent
by `net.client`.
"""
