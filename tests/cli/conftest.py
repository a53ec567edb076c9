"""Runs the command in this process, as its entry point does."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from msgspec import Struct

from tessera_cli.__main__ import run


class Ran(Struct, frozen=True):
    """What a run of the command left."""

    status: int
    out: str
    err: str

    @property
    def pods(self) -> list[dict[str, Any]]:
        """The pods of the JSON answer."""
        answer: dict[str, list[dict[str, Any]]] = json.loads(self.out)
        keys = [key for key in answer if key not in ("gangs", "queues", "reserved")]
        assert keys in (["pods"], ["pods", "nodes", "warnings"])
        return answer["pods"]

    @property
    def gangs(self) -> dict[str, dict[str, Any]]:
        """Gang's id -> its answer."""
        return {gang["id"]: gang for gang in json.loads(self.out).get("gangs", [])}

    @property
    def verdicts(self) -> dict[str, str]:
        """Pod -> verdict."""
        return {pod["name"]: pod["verdict"] for pod in self.pods}

    @property
    def queues(self) -> list[dict[str, Any]]:
        """The queues, the next one first."""
        found: list[dict[str, Any]] = json.loads(self.out).get("queues", [])
        return found


Tessera = Callable[..., Ran]
Write = Callable[..., str]


@pytest.fixture
def tessera(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Tessera:
    """`tessera(*arguments, stdin=...)`, as in a pipe: pytest's workers set a width."""
    monkeypatch.delenv("COLUMNS", raising=False)

    def call(*arguments: str, stdin: str | bytes = b"") -> Ran:
        data = stdin.encode() if isinstance(stdin, str) else stdin
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))
        try:
            status = run(arguments)
        except SystemExit as e:
            status = e.code if isinstance(e.code, int) else 1
        captured = capfd.readouterr()
        assert "Traceback" not in captured.err
        return Ran(status, captured.out, captured.err)

    return call


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """`write(text, name="x.yaml")` puts a manifest into a folder of the test's own."""

    def put(text: str | bytes, name: str = "manifest.yaml") -> str:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return str(path)

    return put
