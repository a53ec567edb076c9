"""make fuzz: each fuzzer, as long as one likes."""

from __future__ import annotations

import argparse
import sys

from tests.fuzz.all import FUZZERS
from tests.fuzz.fuzzer import Found, fuzz


def main() -> int:
    """0 = nothing found, 1 = something."""
    parser = argparse.ArgumentParser(prog="make fuzz")
    parser.add_argument("--number", type=int, default=0, help="inputs of each; 0: as in make test")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--fuzzer", default="", help="one of them: " + " ".join(FUZZERS))
    parser.add_argument("--at", type=int, default=None, help="the one input of this number")
    asked = parser.parse_args()
    if asked.fuzzer not in {"", *FUZZERS}:
        parser.error(f"FUZZER={asked.fuzzer}: write one of {' '.join(FUZZERS)}")
    found = 0
    for name, made in FUZZERS.items():
        if asked.fuzzer in {"", name}:
            fuzzer = made()
            number = asked.number or fuzzer.few
            sys.stdout.write(f"{name}: {number} inputs, seed {asked.seed}\n")
            try:
                fuzz(fuzzer, number, asked.seed, asked.at)
            except Found as e:
                found = 1
                sys.stdout.write(f"{e}\n")
    return found


if __name__ == "__main__":
    sys.exit(main())
