"""Calls over a connection: each gets its own answer, or an error that says what is known."""

import asyncio

import pytest

from tessera_kubelet.background import open_tasks
from tessera_kubelet.errors import (
    CallFailed,
    CallTimedOut,
    GrpcCode,
    LinkLost,
    LinkStuck,
    Oversized,
)
from tessera_kubelet.nri.mux import Frames, Trunk, frames
from tessera_kubelet.nri.ttrpc import (
    LONGEST_MESSAGE,
    Client,
    Messages,
    Server,
    TtrpcMessage,
    TtrpcMessageKind,
    message,
)
from tessera_kubelet.proto.ttrpc_pb2 import Request, Response
from tests.kubelet.ends import Ends, open_ends

HERE, THERE = 1, 2


class Peer:
    """The far end of a connection, by hand: nothing is answered unless a test does."""

    def __init__(self, trunk: Trunk) -> None:
        self._channel = trunk.open(HERE, self)
        self._messages = Messages()
        self.came: asyncio.Queue[TtrpcMessage] = asyncio.Queue()

    def receive(self, data: bytes) -> None:
        for one in self._messages.feed(data):
            self.came.put_nowait(one)

    def lost(self, error: LinkLost) -> None:
        pass

    def answer(self, stream: int, payload: bytes) -> None:
        out = Response(payload=payload).SerializeToString()
        self._channel.send(message(stream, TtrpcMessageKind.RESPONSE, out))


def refuse(payload: bytes) -> bytes:
    raise CallFailed(GrpcCode.FAILED_PRECONDITION, f"not {payload.decode()}")


def break_down(_: bytes) -> bytes:
    raise RuntimeError("a bug")


HANDLERS = {
    "Echo": lambda payload: payload,
    "Refuse": refuse,
    "BreakDown": break_down,
    "TooMuch": lambda _: bytes(LONGEST_MESSAGE),
}


async def test_both_ends_call_and_answer_over_one_socket() -> None:
    big = bytes(range(256)) * 4_000
    async with open_ends() as ends:
        near, far = Client(ends.near, HERE), Client(ends.far, THERE)
        Server(ends.far, HERE, "svc", HANDLERS)
        Server(ends.near, THERE, "svc", HANDLERS)
        async with ends.reading(), open_tasks() as tasks:
            calls = [
                tasks.create_task(
                    client.call("svc", "Echo", bytes([i]) + big, within_s=20), name=f"call {i}"
                )
                for i, client in enumerate([near, far] * 10)
            ]
            answers = [await call for call in calls]
    assert answers == [bytes([i]) + big for i in range(20)]


@pytest.mark.parametrize(
    ("service", "method", "code", "why"),
    [
        ("svc", "Refuse", GrpcCode.FAILED_PRECONDITION, "not a card"),
        ("svc", "BreakDown", GrpcCode.INTERNAL, "RuntimeError: a bug"),
        ("svc", "TooMuch", GrpcCode.RESOURCE_EXHAUSTED, "at most 4194304 are allowed"),
        ("svc", "Nothing", GrpcCode.UNIMPLEMENTED, "svc/Nothing is not served here"),
        ("other", "Echo", GrpcCode.UNIMPLEMENTED, "other/Echo is not served here"),
    ],
)
async def test_a_failed_call_says_why_and_the_next_one_goes_well(
    service: str, method: str, code: GrpcCode, why: str
) -> None:
    async with open_ends() as ends:
        client = Client(ends.near, HERE)
        Server(ends.far, HERE, "svc", HANDLERS)
        async with ends.reading():
            with pytest.raises(CallFailed, match=why) as failed:
                await client.call(service, method, b"a card", within_s=20)
            assert failed.value.code == code
            assert await client.call("svc", "Echo", b"well", within_s=20) == b"well"


@pytest.mark.looptime
async def test_a_call_that_nobody_answers_ends_in_time_and_its_late_answer_is_dropped() -> None:
    async with open_ends() as ends:
        client, peer = Client(ends.near, HERE), Peer(ends.far)
        async with ends.reading():
            with pytest.raises(CallTimedOut, match=r"Echo was not answered within 2.0 s"):
                await client.call("svc", "Echo", b"first", within_s=2.0)
            async with open_tasks() as tasks:
                second = tasks.create_task(
                    client.call("svc", "Echo", b"second", within_s=2.0), name="second"
                )
                late, asked = await peer.came.get(), await peer.came.get()
                peer.answer(late.stream, b"too late")
                peer.answer(asked.stream, b"in time")
                assert await second == b"in time"


async def test_the_callee_learns_how_long_the_caller_waits() -> None:
    async with open_ends() as ends:
        client, peer = Client(ends.near, HERE), Peer(ends.far)
        async with ends.reading(), open_tasks() as tasks:
            tasks.create_task(client.call("svc", "Echo", b"x", within_s=1.5), name="call")
            asked = Request.FromString((await peer.came.get()).payload)
    assert asked == Request(service="svc", method="Echo", payload=b"x", timeout_nano=1_500_000_000)


async def test_a_cancelled_call_leaves_the_others_alone() -> None:
    async with open_ends() as ends:
        client, peer = Client(ends.near, HERE), Peer(ends.far)
        async with ends.reading(), open_tasks() as tasks:
            given_up = tasks.create_task(
                client.call("svc", "Echo", b"", within_s=20), name="given up"
            )
            kept = tasks.create_task(client.call("svc", "Echo", b"", within_s=20), name="kept")
            streams = [(await peer.came.get()).stream for _ in range(2)]
            given_up.cancel()
            for stream in streams:
                peer.answer(stream, b"answer")
            assert await kept == b"answer"
            assert given_up.cancelled()


async def test_a_caller_that_waits_when_the_connection_ends_gets_the_error() -> None:
    async def cut_short(client: Client, peer: Peer, ends: Ends) -> None:
        async with ends.near.reading("near"), open_tasks() as tasks:
            tasks.create_task(client.call("svc", "Echo", b"", within_s=20), name="call")
            async with ends.far.reading("far"):
                await peer.came.get()
            await asyncio.Event().wait()

    async with open_ends() as ends:
        client, peer = Client(ends.near, HERE), Peer(ends.far)
        with pytest.raises(LinkLost, match="the peer closed the connection"):
            await cut_short(client, peer, ends)
        with pytest.raises(LinkLost, match="the peer closed the connection"):
            await client.call("svc", "Echo", b"", within_s=20)


async def test_what_else_fails_as_the_connection_ends_does_not_hide_its_end() -> None:
    async def fail_with_it(ends: Ends) -> None:
        async with ends.near.reading("near"):
            ends.far_writer.transport.abort()
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                raise CallTimedOut("nothing came") from None

    async with open_ends() as ends:
        with pytest.raises(LinkLost, match="the peer closed the connection"):
            await fail_with_it(ends)


async def test_a_call_that_is_too_long_is_not_sent_and_the_next_one_goes_well() -> None:
    async with open_ends() as ends:
        client = Client(ends.near, HERE)
        Server(ends.far, HERE, "svc", HANDLERS)
        async with ends.reading():
            with pytest.raises(Oversized):
                await client.call("svc", "Echo", bytes(LONGEST_MESSAGE), within_s=20)
            assert await client.call("svc", "Echo", b"well", within_s=20) == b"well"


@pytest.mark.looptime
async def test_a_peer_that_never_reads_its_answers_is_cut_off() -> None:
    call = Request(service="svc", method="Flood").SerializeToString()

    async def flood(ends: Ends) -> None:
        async with ends.near.reading("near"):
            for stream in range(1, 61, 2):
                ends.far_writer.write(frames(HERE, message(stream, TtrpcMessageKind.REQUEST, call)))
            await asyncio.Event().wait()

    async with open_ends() as ends:
        Server(ends.near, HERE, "svc", {"Flood": lambda _: bytes(1 << 20)})
        with pytest.raises(LinkStuck, match=r"the peer did not read for 3.0 s"):
            await flood(ends)


async def test_what_a_connection_does_not_serve_is_answered_on_its_stream() -> None:
    call = Request(service="svc", method="Echo").SerializeToString()
    odd = message(3, TtrpcMessageKind.REQUEST, call)
    sent = [
        odd,
        message(4, TtrpcMessageKind.REQUEST, call),  # even
        message(3, TtrpcMessageKind.REQUEST, call),  # used before
        message(5, TtrpcMessageKind.DATA, b""),
        message(7, TtrpcMessageKind.REQUEST, b"\xff"),
        odd[:9] + b"\x09" + odd[10:],  # unknown flags of an old stream
        message(9, TtrpcMessageKind(2), b""),  # an answer, which nobody waits for
        message(11, TtrpcMessageKind.REQUEST, call),
    ]
    async with open_ends() as ends:
        Server(ends.far, HERE, "svc", HANDLERS)
        peer = Peer(ends.near)
        channel = ends.near.open(HERE, peer)
        async with ends.reading():
            for one in sent:
                channel.send(one)
            answers = [await peer.came.get() for _ in range(7)]
    codes = [(a.stream, Response.FromString(a.payload).status.code) for a in answers]
    assert codes == [
        (3, 0),
        (4, GrpcCode.INVALID_ARGUMENT),
        (3, GrpcCode.INVALID_ARGUMENT),
        (5, GrpcCode.UNIMPLEMENTED),
        (7, GrpcCode.INVALID_ARGUMENT),
        (3, GrpcCode.INVALID_ARGUMENT),
        (11, 0),
    ]


def test_frames_of_unknown_connections_say_nothing() -> None:
    assert list(Frames().feed(frames(77, b"later"))) == [(77, b"later")]
