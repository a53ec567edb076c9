"""Each fuzzer for a moment; `make fuzz` runs them for longer."""

from __future__ import annotations

import pytest

from tests.fuzz.all import FUZZERS
from tests.fuzz.fuzzer import fuzz


@pytest.mark.parametrize("name", FUZZERS)
def test_a_fuzzer_finds_nothing(name: str) -> None:
    fuzzer = FUZZERS[name]()
    fuzz(fuzzer, fuzzer.few, seed=1)
