"""The contract suite that every adapter must pass, for pytest with anyio's plugin.

A platform plugs in with a `Rig`, which acts as a user and as the platform:

    class TestMyPlatform(RemoteContract):
        @pytest.fixture
        async def rig(self) -> AsyncGenerator[MyRig]:
            async with my_platform() as rig:
                yield rig

`suite` has the contracts, `rig` the base class of rigs, `fake` the rig for fakes that are built on
`segue.testing.peers`, and `malformed` the malformed updates. `docs/adapters.md` explains it step by
step.
"""

from __future__ import annotations

import pytest

pytest.register_assert_rewrite(
    *(
        f"{__name__}.{name}"
        for name in ("threads", "inbound", "outbound", "connection", "failures", "history")
    )
)
