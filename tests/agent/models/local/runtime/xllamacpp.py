"""A fake of the real package for the server's process.

It has the same few names and is as strict about them. It runs an HTTP server without a model: the
last message of a request determines the answer.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

_KNOWN = {
    "n_ctx": 0,
    "n_parallel": -1,
    "cache_ram_mib": 8192,
    "hostnames": ["0.0.0.0"],
    "port": 8080,
    "api_keys": [],
    "offline": False,
    "ui": True,
    "cors_origins": "*",
    "endpoint_slots": True,
    "verbosity": 3,
}


class _Model:
    __slots__ = ("path",)


class _Threads:
    __slots__ = ("n_threads",)


class CommonParams:
    __slots__ = (*_KNOWN, "cpuparams", "model")

    def __init__(self) -> None:
        self.model = _Model()
        self.cpuparams = _Threads()
        for name, value in _KNOWN.items():
            setattr(self, name, value)


class Server:
    def __init__(self, params: Any) -> None:
        weights = Path(params.model.path)
        kind = weights.read_bytes()[:4]
        if kind == b"junk":
            raise RuntimeError("Failed to init server, please check the input params.")
        while kind == b"slow" and not (weights.parent / "go on").exists():
            time.sleep(0.05)
        (host,) = params.hostnames
        handler = type(
            "Handler", (_Handler,), {"key": params.api_keys[0], "folder": weights.parent}
        )
        self._http = ThreadingHTTPServer((host, params.port), handler)
        self.listening_address = f"http://{host}:{self._http.server_port}"
        threading.Thread(target=self._http.serve_forever, daemon=True).start()


class _Handler(BaseHTTPRequestHandler):
    key: str
    folder: Path

    def do_GET(self) -> None:
        self.send_response(200 if self.path == "/health" else 404)
        self.end_headers()

    def do_POST(self) -> None:
        if self.headers["Authorization"] != f"Bearer {self.key}":
            self.send_response(401)
            self.end_headers()
            return
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        said = request["messages"][-1]["content"]
        if said == "die" or (said == "die once" and self._first_time()):
            os._exit(9)
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.end_headers()
        if said == "die in the middle":
            self._say("I was ab")
            os._exit(9)
        if said == "go on":
            self._go_on()
        if said == "shout":
            print("x" * 3_000_000, file=sys.stderr, flush=True)
        self._say(self._answer(said, request))
        self._send({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]})
        self.wfile.write(b"data: [DONE]\n\n")

    def _answer(self, said: str, request: dict[str, Any]) -> str:
        match said:
            case "environment":
                return subprocess.run(["env"], capture_output=True, text=True, check=True).stdout
            case "request":
                return json.dumps({k: v for k, v in request.items() if k != "messages"})
            case _:
                return f"{os.getpid()}: {said}"

    def _go_on(self) -> None:
        try:
            while True:
                self._say("and ")
                time.sleep(0.01)
        except ConnectionError:
            (self.folder / "left").touch()

    def _first_time(self) -> bool:
        try:
            (self.folder / "died").touch(exist_ok=False)
        except FileExistsError:
            return False
        return True

    def _say(self, text: str) -> None:
        self._send({"choices": [{"index": 0, "delta": {"content": text}}]})

    def _send(self, chunk: dict[str, Any]) -> None:
        self.wfile.write(f"data: {json.dumps(chunk)}\n\n".encode())

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002, the base's name
        pass
