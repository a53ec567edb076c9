"""Nothing that blocks may run in the loop."""

from collections.abc import Generator

import pytest
from blockbuster import BlockBuster, blockbuster_ctx


@pytest.fixture(autouse=True)
def nothing_blocks() -> Generator[BlockBuster]:
    with blockbuster_ctx("tessera_kubelet") as blockbuster:
        blockbuster.functions["os.remove"].can_block_in(
            "asyncio/unix_events.py", "create_unix_server"
        )  # asyncio's own way with the socket that a runtime left behind
        for function in blockbuster.functions.values():
            # gRPC ends a thread of its own, at once, wherever its last object happens to go.
            function.can_block_in("threading.py", "join")
        yield blockbuster
