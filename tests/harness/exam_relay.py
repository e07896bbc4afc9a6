"""The program that the exam starts as the client under test: `exam_relay.py PORT URL`; see exam.py.

Hands the scenario to the process that listens on PORT, and waits. What comes back is an error: it
goes to stderr, and the exit status is 1.
"""

from __future__ import annotations

import json
import os
import socket
import sys


def main(port: str, url: str) -> int:
    scenario = {
        "name": os.environ["MCP_CONFORMANCE_SCENARIO"],
        "revision": os.environ["MCP_CONFORMANCE_PROTOCOL_VERSION"],
        "url": url,
        "context": json.loads(os.environ.get("MCP_CONFORMANCE_CONTEXT", "{}")),
    }
    with socket.create_connection(("127.0.0.1", int(port))) as line, line.makefile("rwb") as file:
        file.write(json.dumps(scenario).encode("utf-8") + b"\n")
        file.flush()
        said = file.read().decode("utf-8")
    sys.stderr.write(said)
    return 1 if said else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
