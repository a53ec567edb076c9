"""The fuzzers, each with what it tests."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from tests.fuzz import decoding, gangs, limitsreader, placing, pods, requests, usages
from tests.fuzz.fuzzer import Fuzzer

FUZZERS: Final[dict[str, Callable[[], Fuzzer]]] = {
    "requests": requests.requests,
    "pieces": requests.pieces,
    "decoding": decoding.decoding,
    "pods": pods.pods,
    "placing": placing.placing,
    "gangs": gangs.gangs,
    "usages": usages.usages,
    "limitsreader": limitsreader.limitsreader,
}
