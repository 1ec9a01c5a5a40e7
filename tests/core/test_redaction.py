"""A secret is in no text that quotes somebody else."""

from __future__ import annotations

import pytest

from segue.core.errors import SetupFailed
from segue.core.redaction import HIDDEN, redacted
from segue.core.secret import Secret

TOKEN = "123456789:AAfive-hundred-and-twelve_of_them-x"


@pytest.mark.parametrize("sent", [TOKEN, TOKEN.replace(":", "%3A")])
def test_a_server_that_sends_its_address_back_shows_no_token(sent: str):
    Secret(TOKEN, "platforms.telegram.token")
    error = SetupFailed(platform="telegram", reason=f"no such path /bot{sent}/getMe")
    assert f"no such path /bot{HIDDEN}/getMe" in str(error)
    assert sent not in redacted(f"<{sent}>")


def test_what_is_too_short_to_be_a_secret_is_left_alone():
    Secret("k", "OPENAI_API_KEY")
    assert redacted("take the key") == "take the key"
