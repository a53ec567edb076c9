"""The child process that the demo and the tests use."""

import os
from pathlib import Path

import pytest

from tessera_embedded.nats_server import NatsServerFailed, open_nats
from tests.bus.buses import by_hand


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


async def test_it_ends_with_its_owner(tmp_path: Path) -> None:
    async with open_nats(tmp_path) as server:
        pid = server.pid
        assert alive(pid)
    assert not alive(pid)
    assert server.pid == 0


async def test_a_restart_keeps_its_port_and_what_it_had(tmp_path: Path) -> None:
    async with open_nats(tmp_path) as server:
        pid, url = server.pid, server.url
        async with by_hand(server) as client:
            await client.jetstream().add_stream(name="ORDERS", subjects=["orders.>"])
            await client.jetstream().publish("orders.new", b"1")
        await server.restart()
        assert (server.pid != pid, server.url) == (True, url)
        async with by_hand(server) as client:
            assert (await client.jetstream().stream_info("ORDERS")).state.messages == 1
        await server.restart(forget=True)
        async with by_hand(server) as client:
            assert await client.jetstream().streams_info() == []


async def test_two_may_run_side_by_side(tmp_path: Path) -> None:
    async with open_nats(tmp_path / "a") as one, open_nats(tmp_path / "b") as other:
        assert one.port != other.port


async def test_why_it_does_not_start_is_reported(tmp_path: Path) -> None:
    async with open_nats(tmp_path / "a") as server:
        with pytest.raises(NatsServerFailed, match="address already in use"):
            async with open_nats(tmp_path / "b", port=server.port):
                pass


async def test_its_passwords_are_nobody_elses(tmp_path: Path) -> None:
    async with open_nats(tmp_path, users={"agent": 'with "quotes"'}):
        mode = (tmp_path / "nats.conf").stat().st_mode
        assert mode & 0o077 == 0
