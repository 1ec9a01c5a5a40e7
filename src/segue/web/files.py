"""The page's static files, and the security headers of every response."""

from __future__ import annotations

from http import HTTPStatus
from importlib import resources

from websockets.datastructures import Headers
from websockets.http11 import Response

_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
    ".webmanifest": "application/manifest+json",
}
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:;"
    " manifest-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_SAFE = {
    "Connection": "close",
    "Cache-Control": "no-store",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), microphone=(), geolocation=()",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}


def load() -> dict[str, tuple[str, bytes]]:
    """All files by path, with their content types."""
    found: dict[str, tuple[str, bytes]] = {}
    for file in (resources.files("segue.web") / "assets").iterdir():
        suffix = file.name[file.name.rfind(".") :]
        if suffix in _TYPES:
            found[f"/{file.name}"] = (_TYPES[suffix], file.read_bytes())
    found["/"] = found["/index.html"]
    return found


def response(
    status: HTTPStatus, host: str, body: bytes = b"", kind: str = "text/plain", **more: str
) -> Response:
    """`host` is the name under which the page may open its WebSocket; empty for responses that are
    not the page. `more` headers have one-word names."""
    sources = f"'self' ws://{host}" if host else "'none'"
    headers = Headers(
        {
            "Content-Type": kind,
            "Content-Length": str(len(body)),
            "Content-Security-Policy": f"{_POLICY}; connect-src {sources}",
            **_SAFE,
            **more,
        }
    )
    return Response(status.value, status.phrase, headers, body)


def refusal(status: HTTPStatus, **more: str) -> Response:
    """A response that reveals nothing but the status."""
    return response(status, "", f"{status.phrase}\n".encode(), **more)
