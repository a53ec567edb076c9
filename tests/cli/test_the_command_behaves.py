"""Arguments, streams and exit status, as a shell sees them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tessera_cli.place import place
from tests.cli.cluster import node, pod, text
from tests.cli.conftest import Tessera, Write


def shell(*arguments: str, stdin: str = "", **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "tessera_cli", *arguments],
        input=stdin, capture_output=True, text=True, timeout=60, check=False,
        env={**os.environ, **environment},  # noqa: TID251  (the program needs its path)
    )  # fmt: skip


def test_it_runs_as_a_program() -> None:
    done = shell("place", "-f", "-", stdin=text(node(), pod("a"), pod("b", {"nvidia.com/gpu": 3})))
    assert done.returncode == 2
    assert done.stderr == ""
    assert "default/a  placed" in done.stdout
    assert done.stdout.endswith("1 placed, 1 waiting (--why says why)\n")


def test_a_closed_pipe_is_no_error() -> None:
    pods = [pod(f"pod-{i:04}", {"cpu": 1}) for i in range(3000)]
    manifest = text(node(), *pods)
    for form in ("json", "table"):
        with subprocess.Popen(
            [sys.executable, "-m", "tessera_cli", "place", "-f", "-", "-o", form],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        ) as process:  # fmt: skip
            assert process.stdin is not None
            assert process.stdout is not None
            assert process.stderr is not None
            process.stdin.write(manifest)
            process.stdin.close()
            process.stdout.readline()
            process.stdout.close()
            assert process.stderr.read() == ""
            assert process.wait(60) in (0, 141)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="a device of Linux")
def test_a_full_disk_is_one_sentence() -> None:
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(
            [sys.executable, "-m", "tessera_cli", "place", "-f", "-"],
            input=text(node(), pod()).encode(), stdout=full, stderr=subprocess.PIPE,
            timeout=60, check=False,
        )  # fmt: skip
    assert done.returncode == 1
    assert done.stderr.startswith(b"tessera: error: the answer cannot be written: No space left")
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.parametrize(
    "arguments",
    [
        pytest.param([], id="nothing"),
        pytest.param(["place"], id="no-files"),
        pytest.param(["fly"], id="no-such-command"),
        pytest.param(["place", "-f", "x", "-o", "xml"], id="no-such-form"),
        pytest.param(["place", "-f"], id="half-an-option"),
        pytest.param(["place", "x.yaml"], id="a-file-without-f"),
    ],
)
def test_a_wrong_call_is_bad_input(tessera: Tessera, arguments: list[str]) -> None:
    ran = tessera(*arguments)
    assert (ran.status, ran.out) == (1, "")
    assert "usage: tessera" in ran.err
    assert "error: " in ran.err


def test_help_is_no_error(tessera: Tessera) -> None:
    ran = tessera("place", "--help")
    assert ran.status == 0
    assert "kubectl get nodes,pods -A -o json | tessera place -f - -f mine.yaml" in ran.out


def test_the_answer_survives_a_terminal_without_unicode() -> None:
    done = shell("place", "-f", "-", stdin=text(node(), pod()), PYTHONIOENCODING="ascii")
    assert done.returncode == 0
    assert "#" in done.stdout


def test_what_nobody_foresaw_is_one_sentence(
    tessera: Tessera, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Broken:
        def __init__(self, *_: object) -> None:
            raise LookupError("the unforeseen")

    monkeypatch.setattr(place, "Planner", Broken)
    ran = tessera("place", "-f", "-", stdin=text(node(), pod()))
    assert (ran.status, ran.out) == (1, "")
    assert ran.err == (
        "tessera: error: internal error, please report it: LookupError: the unforeseen "
        "(TESSERA_DEBUG=1 shows where)\n"
    )


def test_deep_json_is_reported(tessera: Tessera) -> None:
    deep = '{"apiVersion":"v1","kind":"Pod","metadata":{"name":"p"},"spec":{"affinity":%s%s}}'
    for depth in (400, 5000):
        ran = tessera("place", "-f", "-", stdin=deep % ('{"a":' * depth + "1", "}" * depth))
        assert ran.status == 1
        assert "nested too deep" in ran.err or "at least one container" in ran.err


CONFIG = """
dialects:
  hami: {memory: example.com/gpumem, count: example.com/gpu}
  volcano: {enabled: false}
"""


def test_dialects_are_configured_and_switched_off(tessera: Tessera, write: Write) -> None:
    manifest = text(
        node(),
        pod("a", {"example.com/gpu": 1, "example.com/gpumem": 100}),
        pod("b", {"volcano.sh/gpu-memory": 100}),
    )
    config = write(CONFIG, "config.yaml")
    ran = tessera("place", "-f", "-", "-o", "json", "--config", config, stdin=manifest)
    assert ran.verdicts == {"a": "placed", "b": "ignored"}
    empty = write("", "empty.yaml")
    ran = tessera("place", "-f", "-", "-o", "json", "--config", empty, stdin=manifest)
    assert ran.verdicts["a"] == "ignored"


@pytest.mark.parametrize(
    ("config", "reported"),
    [
        pytest.param("dialects: {hamy: {}}", "dialects.hamy: no such dialect", id="dialect"),
        pytest.param("dialects: {hami: {ram: x}}", "dialects.hami: ", id="option"),
        pytest.param("dialects: {hami: 5}", "dialects.hami: 5: write a mapping", id="a-number"),
        pytest.param("dialects: []", "dialects: a list of 0: write a mapping", id="a-list"),
        pytest.param("dialect: {}", "dialect: unknown key: write dialects", id="key"),
        pytest.param("[1]", "a list of 1: write a mapping", id="no-mapping"),
        pytest.param("a: [", "line 2", id="no-yaml"),
        pytest.param(
            "dialects: {volcano: {gpu_memory_factor: -1}}", "dialects.volcano: ", id="a-value"
        ),
    ],
)
def test_a_wrong_configuration_is_named(
    tessera: Tessera, write: Write, config: str, reported: str
) -> None:
    path = write(config, "config.yaml")
    ran = tessera("place", "-f", "-", "--config", path, stdin=text(node(), pod()))
    assert (ran.status, ran.out) == (1, "")
    assert f"error: {path}: " in ran.err
    assert reported in ran.err


def test_a_configuration_that_is_not_there_is_named(tessera: Tessera, tmp_path: Path) -> None:
    ran = tessera("place", "-f", "-", "--config", str(tmp_path / "no.yaml"), stdin=text(node()))
    assert ran.status == 1
    assert "no.yaml" in ran.err
