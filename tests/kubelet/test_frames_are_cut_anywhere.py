"""Sockets split and join bytes as they like; what was sent comes out all the same."""

from collections.abc import Sequence
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tessera_kubelet.errors import LinkGarbled, Oversized
from tessera_kubelet.nri.mux import FIRST_PAYLOAD, LONGEST_PAYLOAD, Frames, frames
from tessera_kubelet.nri.ttrpc import (
    LONGEST_MESSAGE,
    Messages,
    TtrpcMessage,
    TtrpcMessageKind,
    message,
)

u32 = st.integers(0, 2**32 - 1)
payloads = st.one_of(
    st.binary(max_size=50),
    st.sampled_from([FIRST_PAYLOAD - 1, FIRST_PAYLOAD, FIRST_PAYLOAD + 1, 20_000]).map(bytes),
)


def pieces(stream: bytes, cuts: Sequence[float]) -> list[bytes]:
    ends = sorted({round(cut * len(stream)) for cut in cuts} | {0, len(stream)})
    return [stream[a:b] for a, b in pairwise(ends)]


cuts = st.lists(st.floats(0, 1), max_size=20)


@given(st.lists(st.tuples(u32, payloads), max_size=6), cuts)
def test_frames_join_to_what_was_sent_on_each_connection(
    sent: list[tuple[int, bytes]], cuts: list[float]
) -> None:
    stream = b"".join(frames(connection, data) for connection, data in sent)
    reader = Frames()
    came: dict[int, bytes] = {}
    for piece in pieces(stream, cuts):
        for connection, payload in reader.feed(piece):
            came[connection] = came.get(connection, b"") + payload
    wanted: dict[int, bytes] = {}
    for connection, data in sent:
        wanted[connection] = wanted.get(connection, b"") + data
    assert came == wanted
    assert not reader.halfway


@given(st.lists(st.tuples(u32, st.sampled_from(TtrpcMessageKind), payloads), max_size=6), cuts)
def test_messages_come_out_as_they_went_in(
    sent: list[tuple[int, TtrpcMessageKind, bytes]], cuts: list[float]
) -> None:
    stream = b"".join(message(*one) for one in sent)
    reader = Messages()
    came = [one for piece in pieces(stream, cuts) for one in reader.feed(piece)]
    assert came == [TtrpcMessage(stream_id, kind, 0, data) for stream_id, kind, data in sent]


@given(st.binary(max_size=200), cuts)
def test_any_bytes_give_the_same_frames_however_they_are_split(
    stream: bytes, cuts: list[float]
) -> None:
    def outcome(split: list[bytes]) -> tuple[list[tuple[int, bytes]], str]:
        reader = Frames()
        came: list[tuple[int, bytes]] = []
        try:
            for piece in split:
                came += reader.feed(piece)
        except LinkGarbled as e:
            return came, str(e)
        return came, ""

    assert outcome(pieces(stream, cuts)) == outcome([stream])
    assert outcome([bytes([b]) for b in stream]) == outcome([stream])


def test_a_long_message_begins_with_a_frame_that_every_reader_can_take() -> None:
    cut = list(Frames().feed(frames(1, bytes(100_000))))
    assert [len(payload) for _, payload in cut] == [FIRST_PAYLOAD, 100_000 - FIRST_PAYLOAD]


def test_the_longest_message_passes() -> None:
    sent = message(1, TtrpcMessageKind.REQUEST, bytes(LONGEST_MESSAGE))
    joined = b"".join(payload for _, payload in Frames().feed(frames(1, sent)))
    assert [len(m.payload) for m in Messages().feed(joined)] == [LONGEST_MESSAGE]


def test_a_longer_one_is_not_sent() -> None:
    with pytest.raises(Oversized, match="4194305 bytes; at most 4194304"):
        message(1, TtrpcMessageKind.REQUEST, bytes(LONGEST_MESSAGE + 1))


def test_a_longer_one_is_not_read() -> None:
    with pytest.raises(LinkGarbled, match="a message of 4194305 bytes came in"):
        list(Messages().feed((LONGEST_MESSAGE + 1).to_bytes(4) + bytes(6)))
    with pytest.raises(LinkGarbled, match=f"a frame of {LONGEST_PAYLOAD + 1} bytes came in"):
        list(Frames().feed(bytes(4) + (LONGEST_PAYLOAD + 1).to_bytes(4)))
