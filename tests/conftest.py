"""What every test lives with."""

import asyncio
import inspect
from collections.abc import Generator, Iterator

import pytest
from blockbuster import blockbuster_ctx
from hypothesis import settings

from tests.cluster.plane import Plane, all_programs, real_plane
from tests.contract.session_fixtures import open_for_session, or_skip
from tests.longest import ByPart, begin_with_the_longest

# With warnings as errors, a suite that mixes plain and asynchronous tests would else fail on the
# loop that pytest-asyncio leaves behind (3.11), or on its absence (3.12 and later).
asyncio.set_event_loop(None)

# How long an example takes says what else the machine does, and nothing about us.
settings.register_profile("tessera", deadline=None)
settings.load_profile("tessera")

NEVER_BLOCK = (
    "tessera_runtime", "tessera_kubelet", "tessera_scheduler", "tessera_agent", "tessera_quota",
    "tessera_rebalancer", "tessera_console",
)  # fmt: skip


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    begin_with_the_longest(items)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> ByPart | None:
    """Unless --dist says otherwise."""
    return ByPart(config, log) if config.getoption("dist") == "load" else None


@pytest.fixture(scope="session")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Plane]:
    """The real control plane that all tests of a cluster or a whole node share: each leaves it as
    it found it."""
    with or_skip():
        all_programs()
    with open_for_session(real_plane(tmp_path_factory.mktemp("plane"))) as plane:
        yield plane


@pytest.fixture(autouse=True)
def nothing_blocks_the_loop(request: pytest.FixtureRequest) -> Generator[None]:
    """Files, sockets and sleeps that block fail inside a loop, where it is our services' doing."""
    if not inspect.iscoroutinefunction(getattr(request, "function", None)):
        yield
        return
    with blockbuster_ctx(list(NEVER_BLOCK)) as found:
        for function in found.functions.values():
            # It has a loop, but in a thread of its own.
            function.can_block_in("tessera_runtime/kube/credentials.py", "_load")
            # A container's files must be there before the runtime is answered, and not go then.
            function.can_block_in(
                "tessera_agent/containers/hook_files.py", {"make", "adopt", "remove"}
            )
            # asyncio takes over the socket of a process that was killed.
            function.can_block_in("asyncio/unix_events.py", "create_unix_server")
            # gRPC ends a thread of its own, at once, wherever its last object happens to go.
            function.can_block_in("threading.py", "join")
        yield
