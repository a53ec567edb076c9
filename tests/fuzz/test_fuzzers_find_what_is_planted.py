"""A fuzzer that is given something broken says so: it can fail."""

from __future__ import annotations

import contextlib
import io
import re
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
from msgspec.structs import replace

from tessera_cli.__main__ import run
from tessera_core.kube.quantity import BadQuantity
from tessera_core.usage.smoother import Smoother
from tessera_runtime.http.fast_request import UNKNOWN, FastRequest
from tessera_schema.cards import Card
from tessera_schema.messages.device_reports import NodeUsage
from tests.fuzz import decoding, gangs, limitsreader, placing, pods, requests, usages
from tests.fuzz.fuzzer import Found, Fuzzer, fuzz


def finds(fuzzer: Fuzzer) -> str:
    with pytest.raises(Found) as found:
        fuzz(fuzzer, fuzzer.few, seed=1)
    return str(found.value)


def without_the_grammar(buffer: bytearray) -> FastRequest | None:
    """A reader that looks for the length, and at nothing else."""
    head, end, _ = bytes(buffer).partition(b"\r\n\r\n")
    length = re.search(rb"content-length *:[ \t]*([0-9]+)\r", head + b"\r", re.IGNORECASE)
    if not end:
        return None
    if not head.startswith(b"POST /filter ") or length is None:
        return UNKNOWN
    return FastRequest(b"/filter", len(head) + 4, int(length[1]))


def too_early(buffer: bytearray) -> FastRequest | None:
    """A reader that decides before the headers are over."""
    if buffer.startswith(b"POST /filter") and b"Content-Length: 7" in buffer:
        return FastRequest(b"/filter", len(buffer), 7)
    return None


def forgetful(pieces: tuple[bytes, ...]) -> tuple[bytes, bytes]:
    """A connection that loses a piece of one byte."""
    return requests.outcome(tuple(piece for piece in pieces if len(piece) > 1))


def test_a_reader_without_the_grammar_is_found() -> None:
    assert "plain here" in finds(requests.requests(without_the_grammar))


def test_a_reader_that_decides_too_early_is_found() -> None:
    assert "in pieces" in finds(requests.requests(too_early))


def test_a_connection_that_loses_a_piece_is_found() -> None:
    assert "make fuzz FUZZER=pieces SEED=1 AT=" in finds(requests.pieces(forgetful))


def test_a_decoder_that_raises_what_it_does_not_declare_is_found() -> None:
    def breaks(data: bytes, _: tuple[int, ...]) -> None:
        data.decode()

    planted = {"text": decoding.Decoder((b"a text",), breaks, (BadQuantity,))}
    assert "UnicodeDecodeError" in finds(decoding.decoding(planted))


def test_a_stream_that_is_read_otherwise_in_pieces_is_found() -> None:
    def reads(data: bytes, cuts: tuple[int, ...]) -> None:
        assert not any(data[:cut].endswith(b"x") for cut in cuts), "lost where it was cut"

    planted = {"stream": decoding.Decoder((b"xyz" * 9,), reads)}
    assert "lost where it was cut" in finds(decoding.decoding(planted))


def test_a_ledger_that_gives_more_than_there_is_is_found() -> None:
    class Generous(pods.PodFuzzTarget):
        def publish(self, node: str, cards: tuple[Card, ...]) -> None:
            most = [replace(card, memory_bytes=4 * card.memory_bytes) for card in cards]
            self.ledger.put_node(node, most)

    assert "memory of" in finds(pods.pods(Generous))


def test_a_filter_that_fails_on_some_pod_is_found() -> None:
    class Failing(pods.PodFuzzTarget):
        def place(self, body: bytes, now: float) -> bytes:
            if b"initContainers" in body:
                raise KeyError("init")
            return super().place(body, now)

    assert "KeyError" in finds(pods.pods(Failing))


def test_a_command_that_breaks_on_some_manifest_is_found() -> None:
    def breaks(arguments: Sequence[str]) -> int:
        if b"---" in Path(arguments[-1]).read_bytes():
            raise IndexError("documents")
        return run(arguments)

    assert "IndexError" in finds(placing.placing(breaks))


def test_a_command_that_ends_otherwise_is_found() -> None:
    assert "exit status 3" in finds(placing.placing(lambda _: 3))


def test_a_command_that_places_half_a_gang_is_found() -> None:
    def halves(arguments: Sequence[str]) -> int:
        with contextlib.redirect_stdout(io.TextIOWrapper(io.BytesIO(), "utf-8")) as out:
            status = run(arguments)
        out.seek(0)
        sys.stdout.write(out.read().replace('"placed":2', '"placed":0'))
        return status

    assert "is placed, and default/" in finds(gangs.gangs(halves))


def test_a_smoother_that_breaks_on_some_usage_is_found() -> None:
    class Breaking(Smoother):
        def take(self, usage: NodeUsage, now: float) -> bool:
            return 1 / len(usage.containers) > 0 and super().take(usage, now)

    assert "ZeroDivisionError" in finds(usages.usages(Breaking))


def test_a_reader_that_takes_whatever_there_is_is_found() -> None:
    def credulous(files: list[bytes]) -> list[bool]:
        return [True] * len(files)

    assert "AssertionError" in finds(limitsreader.limitsreader(credulous))


def test_a_reader_that_ends_is_found() -> None:
    def ending(files: list[bytes]) -> list[bool]:
        return limitsreader.read(files)[: len(files) // 2]

    assert "ended early" in finds(limitsreader.limitsreader(ending))
