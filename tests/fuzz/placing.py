"""`tessera place` on manifests that somebody spoilt: an answer or a sentence, exit status 0, 1 or
2, never a traceback."""

from __future__ import annotations

import contextlib
import io
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random
from typing import Final

from tessera_cli.__main__ import run
from tests.fuzz.fuzzer import Fuzzer, mutated

ROOT: Final = Path(__file__).parents[2]
SAMPLES: Final = tuple(
    path.read_bytes()
    for folder in ("examples", "examples/refused", "tests/cli", "tests/contract")
    for path in sorted((ROOT / folder).glob("*.yaml"))
)
PIECES: Final = (
    b"\n", b"  ", b"- ", b": ", b"---\n", b"#", b"&a ", b"*a", b"!!python/object:os.system ",
    b"|\n",
    b"null", b"~", b"[]", b"{}", b"[[[[", b"'", b'"', b"\0", b"\t", b"\xff", b"9" * 40, b"-1",
    b"1e999",
    b".nan", b"kind: List\n", b"apiVersion: v1\n", b"metadata: 3\n", b"spec: []\n", b"items: x\n",
    b"nvidia.com/gpu: 1Gi\n", b"nvidia.com/gpumem: -5\n", b"volcano.sh/gpu-number: true\n",
    b"limits: {nvidia.com/gpu: {}}\n", b"containers: null\n", b"annotations: [1]\n", b"<<: *a\n",
    b"hami.io/node-nvidia-register: '[{}]'\n", b"replicas: 99999999999\n", b"\xef\xbb\xbf",
)  # fmt: skip
Run = Callable[[Sequence[str]], int]


def make(random: Random) -> bytes:
    """A manifest, two, or parts of some."""
    data = random.choice(SAMPLES)
    if random.random() < 0.2:
        data += b"\n---\n" + random.choice(SAMPLES)
    if random.random() < 0.3:
        lines = data.splitlines(keepends=True)
        at = random.randrange(len(lines))
        del lines[at : at + random.choice((1, 2, 10))]
        data = b"".join(lines)
    return mutated(random, data, PIECES)


def check(of: Run, data: bytes) -> None:
    """One call of the command."""
    out, err = io.StringIO(), io.StringIO()
    with (
        tempfile.NamedTemporaryFile(suffix=".yaml") as file,
        contextlib.redirect_stdout(out), contextlib.redirect_stderr(err),
    ):  # fmt: skip
        file.write(data)
        file.flush()
        status = of(["place", "-f", file.name])
    said = err.getvalue()
    assert status in {0, 1, 2}, f"exit status {status}"
    assert "Traceback" not in said, said[-2000:]
    assert "internal error" not in said, said[-2000:]
    assert out.getvalue() or said, "nothing was said"


def placing(of: Run = run) -> Fuzzer:
    """With the command that is tested."""
    return Fuzzer("placing", make, lambda data: check(of, data), 60)
