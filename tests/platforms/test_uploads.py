"""Each platform declares which files it takes, and its adapter keeps to that."""

from __future__ import annotations

import pytest

from segue.core.address import Platform
from segue.platforms import registry
from segue.platforms.spec import PlatformSpec, UploadRules
from segue.web.adapter import WebAdapter

MEGABYTE = 1024 * 1024


def rules(platform: Platform) -> UploadRules:
    found = registry.SPECS[platform].uploads
    assert found is not None
    return found


@pytest.mark.parametrize("spec", registry.BUILT_IN, ids=lambda spec: spec.platform)
def test_an_adapter_takes_what_its_platform_declares(spec: PlatformSpec):
    from importlib import import_module

    able = import_module(f"segue.platforms.{spec.platform}.adapter").CAPABILITIES
    declared = rules(spec.platform)
    assert able.files
    assert able.upload_bytes == declared.most
    assert declared.refusal("notes.txt", declared.most) == ""
    assert "MB can be sent there" in declared.refusal("notes.txt", declared.most + 1)


def test_the_page_takes_no_files():
    assert not WebAdapter.capabilities.files
    assert rules(Platform.WEB).refusal("notes.txt", 1) == "no files can be sent there"


@pytest.mark.parametrize(
    ("name", "size", "reason"),
    [
        ("boat.png", 5 * MEGABYTE, ""),
        ("boat.png", 6 * MEGABYTE, "files of the type image/png can have at most 5 MB there"),
        ("boats.zip", 10, "files of the type application/zip cannot be sent there"),
        ("boat", 10, "files of the type application/octet-stream cannot be sent there"),
        ("boat.py", 10, ""),
        ("boats.csv", 20 * MEGABYTE, ""),
    ],
)
def test_whatsapp_takes_some_types_of_files_up_to_their_size(name: str, size: int, reason: str):
    assert rules(Platform.WHATSAPP).refusal(name, size) == reason
