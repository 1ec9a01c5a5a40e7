"""Whether more can read a chat than before."""

from __future__ import annotations

import pytest

from segue.core.audience import Audience, growth, listed

PRIVATE = listed(["anna", "bob"], has_owner=True, is_public=False)
COUNTED = Audience(readers=3)


@pytest.mark.parametrize(
    ("before", "now", "found"),
    [
        (PRIVATE, PRIVATE, ""),
        (PRIVATE, listed(["anna"], has_owner=True, is_public=False), ""),
        (PRIVATE, listed(["anna", "eve"], has_owner=True, is_public=False), "1 new reader"),
        (PRIVATE, listed(["anna"], has_owner=True, is_public=True), "it is public now"),
        (COUNTED, COUNTED, ""),
        (COUNTED, Audience(readers=2), ""),
        (COUNTED, Audience(readers=5), "5 readers instead of 3"),
        (COUNTED, Audience(is_public=True, readers=3), "it is public now"),
        (Audience(), PRIVATE, ""),
        (Audience(is_public=True, readers=3), Audience(is_public=True, readers=900), ""),
    ],
)
def test_what_grew_is_named(before: Audience, now: Audience, found: str):
    assert growth(before, now) == found


def test_a_long_list_is_kept_as_a_number():
    many = listed(map(str, range(501)), has_owner=True, is_public=False)
    more = listed(map(str, range(502)), has_owner=True, is_public=False)
    assert many.names == ()
    assert growth(many, more) == "502 readers instead of 501"
