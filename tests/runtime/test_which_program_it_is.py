"""A program says its release: the command line, each service, and its metrics."""

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from tessera_runtime.build import add_build_info
from tessera_runtime.metrics import MetricsRegistry
from tessera_schema.version import VERSION

ROOT = Path(__file__).parents[2]
MEMBERS = sorted(ROOT.glob("*/*/pyproject.toml"))
SERVICES = ("agent", "quota", "rebalancer", "scheduler")


@pytest.mark.parametrize("member", MEMBERS, ids=lambda path: path.parent.name)
def test_every_member_is_of_the_same_release(member: Path) -> None:
    assert tomllib.loads(member.read_text())["project"]["version"] == VERSION


@pytest.mark.parametrize(
    ("module", "name"),
    [
        ("tessera_cli", "tessera"),
        *((f"tessera_{service}", f"tessera-{service}") for service in SERVICES),
    ],
)
def test_each_program_says_its_release(module: str, name: str) -> None:
    # Without the environment that a service needs: the question comes first.
    ran = subprocess.run(
        [sys.executable, "-m", module, "--version"], capture_output=True, text=True, check=True,
        env={},
    )  # fmt: skip
    assert ran.stdout == f"{name} {VERSION}\n"


def test_metrics_name_the_release_and_the_commit() -> None:
    metrics = MetricsRegistry("agent")
    add_build_info(metrics, "tessera-agent", "4707fb0")
    (line,) = [one for one in metrics.text().decode().splitlines() if not one.startswith("#")]
    name, _, rest = line.partition("{")
    assert name == "tessera_build_info"
    assert f'version="{VERSION}"' in rest
    assert 'service="tessera-agent"' in rest
    assert 'revision="4707fb0"' in rest
    assert rest.endswith(" 1.0")
