"""Secrets are removed from text that quotes other programs."""

from __future__ import annotations

import pytest

from segue.core.errors import PlatformError
from segue.core.secret import HIDDEN, Secret, redacted

TOKEN = "123456789:AAfive-hundred-and-twelve_of_them-x"


@pytest.mark.parametrize("sent", [TOKEN, TOKEN.replace(":", "%3A")])
def test_a_token_in_a_url_is_redacted(sent: str):
    Secret(TOKEN, "platforms.telegram.token")
    error = PlatformError(f"no such path /bot{sent}/getMe")
    assert f"no such path /bot{HIDDEN}/getMe" in str(error)
    assert sent not in redacted(f"<{sent}>")


def test_a_short_value_is_not_redacted():
    Secret("k", "OPENAI_API_KEY")
    assert redacted("take the key") == "take the key"
