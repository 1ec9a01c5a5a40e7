"""The whole suite, for the two kinds of adapters.

A fixture `shape` with `params` repeats the tests in several kinds of chat. The adapter's
`capabilities`, and the features that the platform of the rig `lacks`, decide which tests apply.
"""

from __future__ import annotations

from segue.testing.contract.connection import ConnectionContract
from segue.testing.contract.failures import FailureContract
from segue.testing.contract.history import HistoryContract
from segue.testing.contract.inbound import InboundContract
from segue.testing.contract.outbound import OutboundContract
from segue.testing.contract.threads import ReadersContract, ThreadContract


class AdapterContract(ThreadContract, InboundContract, OutboundContract, ConnectionContract):
    """The rules for all adapters."""


class RemoteContract(AdapterContract, FailureContract, HistoryContract, ReadersContract):
    """The rules for adapters of a platform on a remote server, which can be unreachable, slow or
    busy, or can refuse calls. That is every platform except those that Segue serves itself."""
