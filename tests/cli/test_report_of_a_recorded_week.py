"""`tessera report --from` on a made-up week, as people and programs call it."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from benchmarks.report_week import week
from tessera_core.utilization.recording import (
    HolderPod,
    RecordingHeader,
    RecordingLine,
    UseDigest,
    encode_line,
)
from tessera_schema.plans import PlanSpec
from tests.cli.conftest import Ran, Tessera, Write

PRICES = "currency: EUR\ncards: {A100: 1.90}\n"


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("week") / "week.jsonl"
    path.write_bytes(b"".join(encode_line(line) for line in week(20, 1)))
    return path


def as_json(ran: Ran) -> dict[str, Any]:
    assert ran.status == 0, ran.err
    answer: dict[str, Any] = json.loads(ran.out)
    return answer


def test_the_table_says_who_holds_what(tessera: Tessera, recorded: Path, write: Write) -> None:
    prices = write(PRICES, "prices.yaml")
    ran = tessera("report", "--from", str(recorded), "--prices", prices)
    assert ran.status == 0, ran.err
    (row,) = (line for line in ran.out.splitlines() if line.startswith(" ml "))
    # 12 pods hold half a card of 80 GiB for 168 hours, at 1.90 an hour.
    assert "12    1008.0" in row
    assert "1,915.20 EUR" in row
    assert (
        "ml/deployment/serve, container main: 12 pods hold 480 GiB and peaked at 61: "
        "frees 388.5 GiB" in ran.out
    )
    assert "limit nvidia.com/gpumem: 40960 -> 7808" in ran.out
    assert "container main: no size: what was measured may not be all of it: no-hook" in ran.out
    assert "made up by benchmarks/report_week.py: nobody's cluster" in ran.out


def test_json_has_all_of_it(tessera: Tessera, recorded: Path) -> None:
    answer = as_json(tessera("report", "--from", str(recorded), "-o", "json"))
    assert (answer["from"], answer["to"]) == ("2026-09-21T14:13:20Z", "2026-09-28T14:13:20Z")
    assert len(answer["owners"]) == 21
    for owner in answer["owners"]:
        assert owner["granted_hours"] > 0
        assert owner["idle_hours"] + owner["unmeasured_hours"] <= owner["granted_hours"] + 1e-6
    serve = answer["sizes"][0]
    assert serve["owner"] == "serve"
    (container,) = serve["patch"]["spec"]["template"]["spec"]["containers"]
    assert container["resources"]["limits"] == {"nvidia.com/gpumem": "7808"}
    assert {one["why"] for one in answer["without_size"]} == {
        "it was measured for 14.0 hours, which is less than 24",
        "what was measured may not be all of it: no-hook",
    }


def test_csv_has_a_row_for_each_owner(tessera: Tessera, recorded: Path, write: Write) -> None:
    prices = write(PRICES, "prices.yaml")
    ran = tessera("report", "--from", str(recorded), "--prices", prices, "-o", "csv")
    rows = list(csv.DictReader(io.StringIO(ran.out)))
    assert len(rows) == 21
    (serve,) = (row for row in rows if row["owner"] == "serve")
    assert float(serve["cost"]) == pytest.approx(1008 * 1.9)
    assert serve["currency"] == "EUR"


def test_patches_are_commands(tessera: Tessera, recorded: Path) -> None:
    ran = tessera("report", "--from", str(recorded), "-o", "patches")
    lines = ran.out.splitlines()
    assert lines[0].startswith("kubectl -n ml patch deployment/serve -p '{")
    names = {name for line in lines for name in ("nvidia.com/gpumem", "volcano.sh/vgpu-memory",
             "koordinator.sh/gpu-memory", "tencent.com/vcuda-memory") if name in line}  # fmt: skip
    assert len(names) == 4  # each in its own dialect


def test_plans_are_objects_of_the_cluster(tessera: Tessera, recorded: Path) -> None:
    ran = tessera("report", "--from", str(recorded), "-o", "plans", "-n", "ml")
    (plan,) = yaml.safe_load_all(ran.out)
    assert (plan["apiVersion"], plan["kind"]) == ("tessera.dev/v1alpha1", "RebalancePlan")
    spec = plan["spec"]
    assert spec["kind"] == "Resize"
    assert len(spec["steps"]) == 12
    assert {step["memory"] for step in spec["steps"]} == {"7808Mi"}
    assert set(spec) == {"kind", "reason", "steps"}
    assert msgspec.convert(spec, PlanSpec).steps[0].pod.name == "serve-0"
    assert {key for step in spec["steps"] for key in step} == {"pod", "container", "card", "memory"}


def test_the_last_days_alone(tessera: Tessera, recorded: Path) -> None:
    answer = as_json(
        tessera("report", "--from", str(recorded), "--days", "1", "-n", "ml", "-o", "json")
    )
    (serve,) = answer["owners"]
    assert serve["granted_hours"] == 12 * 24 / 2
    assert (answer["from"], answer["to"]) == ("2026-09-27T14:13:20Z", "2026-09-28T14:13:20Z")


def test_an_empty_history_says_so(tessera: Tessera, write: Write) -> None:
    file = write(encode_line(RecordingHeader()), "empty.jsonl")
    ran = tessera("report", "--from", file)
    assert ran.status == 0
    assert "no container held a share in this time" in ran.out


def test_names_from_elsewhere_reach_no_terminal(tessera: Tessera, write: Write) -> None:
    odd = "p\x1b[2J"
    lines: list[RecordingLine] = [
        RecordingHeader(), HolderPod(namespace="n", name=odd),
        UseDigest(until=10, period_s=10, namespace="n", pod=odd, container="c", card="x", part=1,
                  granted_bytes=1 << 40, held_s=10, measured_s=10),
    ]  # fmt: skip
    file = write(b"".join(map(encode_line, lines)), "odd.jsonl")
    assert "\x1b" not in tessera("report", "--from", file, "--least-hours", "0").out


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((), "one of the arguments --prometheus --from --record is required"),
        (("--from", "x", "--record", "y"), "not allowed with argument"),
        (("--from", "x", "--days", "soon"), "'soon': write a number from"),
        (("--from", "x", "--headroom", "-1"), "'-1': write a number from 0 to 1000"),
        (("--from", "/not/there"), "/not/there: No such file or directory: name a file"),
        (("--prometheus", "nonsense"), "--prometheus: nonsense: "),
        (("--record", "x", "--nats-user", "viewer"), "--nats-user: give it with --nats-password"),
        (("--record", "x", "--period", "0"), "'0': write a number from 1 to 86400"),
    ],
)
def test_bad_arguments_are_refused(arguments: tuple[str, ...], said: str, tessera: Tessera) -> None:
    ran = tessera("report", *arguments)
    assert ran.status == 1
    assert said in ran.err
    assert ran.out == ""


@pytest.mark.parametrize(("period", "notes"), [("10", 1), ("60", 0)])
def test_periods_of_which_agents_publish_too_little_are_named(
    period: str, notes: int, tessera: Tessera
) -> None:
    ran = tessera("report", "--record", "x", "--period", period, "--nats-user", "viewer")
    said = f"--period {period}: agents publish every 10 seconds, so parts of periods below a minute"
    assert ran.err.count(said) == notes


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[]", "prices.yaml: file: '[]': write a mapping"),
        ("", "prices.yaml: currency: 'None': write a code of three letters"),
        ("currency: [", "prices.yaml: line "),
        ("currency: EUR\ncards: {A100: free}", "prices.yaml: cards[A100]: 'free': write the price"),
    ],
)
def test_bad_prices_are_refused(
    text: str, said: str, tessera: Tessera, recorded: Path, write: Write
) -> None:
    ran = tessera("report", "--from", str(recorded), "--prices", write(text, "prices.yaml"))
    assert ran.status == 1
    assert said in ran.err


def test_a_file_that_is_no_recording_is_refused(tessera: Tessera, write: Write) -> None:
    ran = tessera("report", "--from", write("time_s,pod\n", "x.csv"))
    assert ran.status == 1
    assert "x.csv: line 1: 'time_s,pod': " in ran.err
    assert "give a file that `tessera report --record` wrote" in ran.err
