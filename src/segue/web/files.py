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
    not the page."""
    headers = Headers()
    headers["Content-Type"] = kind
    headers["Content-Length"] = str(len(body))
    headers["Connection"] = "close"
    headers["Cache-Control"] = "no-store"
    headers["Content-Security-Policy"] = _policy(host)
    headers["Cross-Origin-Opener-Policy"] = "same-origin"
    headers["Cross-Origin-Resource-Policy"] = "same-origin"
    headers["Permissions-Policy"] = "camera=(), microphone=(), geolocation=()"
    headers["Referrer-Policy"] = "no-referrer"
    headers["X-Content-Type-Options"] = "nosniff"
    headers["X-Frame-Options"] = "DENY"
    for name, value in more.items():
        headers[name.replace("_", "-")] = value
    return Response(status.value, status.phrase, headers, body)


def refusal(status: HTTPStatus, **more: str) -> Response:
    """A response that reveals nothing but the status."""
    return response(status, "", f"{status.phrase}\n".encode(), **more)


def _policy(host: str) -> str:
    return "; ".join(
        (
            "default-src 'none'",
            "script-src 'self'",
            "style-src 'self'",
            "img-src 'self' data: blob:",
            "manifest-src 'self'",
            f"connect-src 'self' ws://{host}" if host else "connect-src 'none'",
            "base-uri 'none'",
            "form-action 'none'",
            "frame-ancestors 'none'",
        )
    )
