"""The API of the quickstart: towns and how many people live there, on this machine alone.

It wants a key, and answers 404 for a town that it does not know. It ends with the notebook.
"""

import functools
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

KEY = "sk-314159"
TOWNS = {"Vienna": 2_028_000, "Graz": 303_000, "Linz": 213_000, "Salzburg": 157_000}


class Api(BaseHTTPRequestHandler):
    def do_GET(self):
        name = parse_qs(urlsplit(self.path).query).get("name", [""])[0]
        if self.headers.get("Authorization") != f"Bearer {KEY}":
            self.answer(401, {"message": "a key is needed"})
        elif name not in TOWNS:
            self.answer(404, {"message": f"no town called {name!r}"})
        else:
            self.answer(200, {"town": name, "people": TOWNS[name]})

    def answer(self, status, value):
        body = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args):
        pass


@functools.cache
def start() -> str:
    """Start it on a free port, and return its address: the same one however often it is called."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), Api)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return f"http://127.0.0.1:{server.server_address[1]}"
