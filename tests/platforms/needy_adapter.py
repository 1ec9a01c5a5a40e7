"""The adapter of `needy`."""

from importlib import import_module

from tests.platforms.specs import make as make

import_module("segue_tiny_platform")
