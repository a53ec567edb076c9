"""Whatever comes in, nothing crashes or hangs, and the connection ends with a reason."""

import asyncio
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tessera_embedded.runtime.runtime import open_runtime
from tessera_kubelet.errors import LinkGarbled, LinkLost
from tessera_kubelet.nri import protobuf
from tessera_kubelet.nri.mux import frames
from tessera_kubelet.nri.plugin import Connected, Disconnected
from tessera_kubelet.nri.settings import NriPluginSettings, RuntimeSettings
from tessera_kubelet.nri.ttrpc import Client, Server, TtrpcMessageKind, message
from tessera_kubelet.nri.types import Adjustment
from tessera_kubelet.proto.ttrpc_pb2 import Request
from tests.kubelet.agents import CONTAINER, POD, FakeAgent, dialled, listening, running
from tests.kubelet.ends import open_ends

TOO_LONG = (5 << 20).to_bytes(4)
GARBAGE = [
    (b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", "a frame of 790644820 bytes came in"),
    (bytes(4) + TOO_LONG, "a frame of 5242880 bytes came in"),
    (frames(1, TOO_LONG + bytes(6)), "a message of 5242880 bytes came in"),
    (frames(2, TOO_LONG + bytes(6)), "a message of 5242880 bytes came in"),
    (frames(2, message(1, TtrpcMessageKind.RESPONSE, b"\xff")), "an answer is not a Response"),
    (
        frames(2, message(1, TtrpcMessageKind.DATA, b"")),
        "a message of type 3 came in place of an answer",
    ),
    (b"\0\0\0\1\0\0", "the peer closed the connection, within a frame"),
    (b"", "the peer closed the connection"),
]
"""Connection 1 is served, on connection 2 a call waits on stream 1."""


@pytest.mark.parametrize(("garbage", "why"), GARBAGE)
async def test_a_caller_that_waits_gets_the_reason(garbage: bytes, why: str) -> None:
    async with open_ends() as ends:
        Server(ends.near, 1, "svc", {})
        client = Client(ends.near, 2)
        ends.far_writer.write(garbage)
        ends.far_writer.write_eof()
        with pytest.raises(LinkLost, match=why) as lost:
            async with ends.near.reading("near"):
                await client.call("svc", "Anything", b"", within_s=20)
        assert isinstance(lost.value, LinkGarbled) == ("came in" in why or "answer" in why)


@pytest.mark.parametrize(("garbage", "why"), GARBAGE)
async def test_an_agent_leaves_a_runtime_that_talks_garbage_and_finds_the_next_one(
    tmp_path: Path, garbage: bytes, why: str
) -> None:
    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(garbage)
        writer.write_eof()
        await reader.read()

    socket, given = tmp_path / "nri.sock", Adjustment(env={"CARDS": "GPU-1"})
    quick = NriPluginSettings(retry_first_s=0.001, retry_longest_s=0.001)
    async with running(FakeAgent(given), socket, quick) as observed:
        await observed.until(Disconnected)
        async with listening(socket, talk):
            await observed.until(Disconnected, 2)
        async with open_runtime(socket, RuntimeSettings()) as runtime:
            await observed.until(Connected)
            assert await runtime.create_container(POD, CONTAINER) == given
    reasons = [one.why for one in observed.seen if isinstance(one, Disconnected)]
    assert any(why in reason for reason in reasons)


junk = st.one_of(
    st.binary(max_size=300),
    st.binary(max_size=300).map(lambda b: frames(protobuf.PLUGIN_CONNECTION, b)),
    st.binary(max_size=300).map(lambda b: frames(protobuf.RUNTIME_CONNECTION, b)),
    st.builds(
        lambda stream, kind, service, method, payload: frames(
            protobuf.RUNTIME_CONNECTION,
            message(
                stream,
                kind,
                Request(service=service, method=method, payload=payload).SerializeToString(),
            ),
        ),
        st.integers(0, 9),
        st.sampled_from(TtrpcMessageKind),
        st.sampled_from([protobuf.RUNTIME_SERVICE, "other"]),
        st.sampled_from(["RegisterPlugin", "UpdateContainers", "Other"]),
        st.binary(max_size=50),
    ),
)


@settings(
    max_examples=60,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(st.lists(junk, max_size=5))
def test_a_runtime_outlives_any_plugin(tmp_path: Path, said: list[bytes]) -> None:
    async def live() -> None:
        socket = tmp_path / "nri.sock"
        given = Adjustment(env={"CARDS": "GPU-1"})
        async with open_runtime(socket, RuntimeSettings(register_s=5)) as runtime:
            async with dialled(socket) as (reader, writer):
                for one in said:
                    writer.write(one)
                if writer.can_write_eof():
                    writer.write_eof()
                await reader.read()
            async with running(FakeAgent(given), socket):
                await runtime.until("10-tessera")
                assert await runtime.create_container(POD, CONTAINER) == given

    asyncio.run(live())
