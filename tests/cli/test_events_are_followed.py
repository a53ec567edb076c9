"""`tessera events`: what is given to log in with makes sense, or is refused at once."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from msgspec.structs import replace

from tessera_cli.__main__ import run
from tessera_cli.event_lines import as_line
from tessera_cli.events import as_json
from tessera_runtime.bus.api import Message
from tessera_schema.messages.envelope import Envelope
from tessera_schema.plans import PlanDone, PlanKind, PodOfPlan, encode_plan, plan_subject


def complaint(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert run(["events", *arguments]) == 1
    said = capsys.readouterr()
    assert said.out == ""
    return said.err


@pytest.mark.parametrize("given", ["--user=viewer", "--password-file=words"])
def test_user_and_password_go_together(given: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert complaint(capsys, given) == (
        "tessera: error: --user: give it with --password-file, or neither\n"
    )


def test_two_kinds_of_credentials_are_one_too_many(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = tmp_path / "words"
    words.write_text("p")
    said = complaint(capsys, "--user=viewer", f"--password-file={words}", f"--creds={words}")
    assert said == "tessera: error: --user and --creds: set one of them, not both\n"


def test_a_file_that_is_not_there_is_not_waited_for(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    said = complaint(capsys, "--user=viewer", f"--password-file={tmp_path}/none")
    assert said == (
        f"tessera: error: {tmp_path}/none: No such file or directory: "
        "give a file that you may read\n"
    )


def test_an_address_that_is_none_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert "--url: 'http://x': write nats://" in complaint(capsys, "--url=http://x")


POD = PodOfPlan(namespace="team-a", name="a-0", uid="u")
WAITS = PodOfPlan(namespace="team-b", name="b-0", uid="v")
DONE = PlanDone(
    plan="preempt-1", kind=PlanKind.PREEMPT, pods=(POD,), for_pod=WAITS, cost=62.4, message="m"
)


@pytest.mark.parametrize(("event", "line"), [
    (DONE, "Preempt preempt-1 (pods team-a/a-0, for team-b/b-0, costs 62 card-s): m"),
    (
        replace(DONE, kind=PlanKind.DISSOLVE, for_pod=None, for_gang="volcano/team-b/g", cost=0),
        "Dissolve preempt-1 (pods team-a/a-0, for gang team-b/g): m",
    ),
    (PlanDone(plan="move-1", kind=PlanKind.MOVE, gain=90), "Move move-1"),
])  # fmt: skip
def test_a_plan_names_who_goes_and_what_for(event: PlanDone, line: str) -> None:
    envelope = Envelope(
        id="1", source="s", type="t", time="2026-11-28T10:00:00Z", epoch=1, sequence=1
    )
    message = Message(subject=plan_subject("c", event), envelope=envelope, data=encode_plan(event))
    assert as_line(message) == f"10:00:00  plan       done      {line}"


@pytest.mark.parametrize("data", [b'{"node":"\xff"}', b"[" * 100_000, b"", b"7"])
@pytest.mark.parametrize("what", ["device", "usage", "plan"])
def test_what_anybody_may_publish_can_be_displayed(what: str, data: bytes) -> None:
    envelope = Envelope(id="1", source="s", type="t", time="t", epoch=1, sequence=1)
    message = Message(subject=f"tessera.v1.c.{what}.n.v", envelope=envelope, data=data)
    assert len(as_line(message)) < 1000
    assert msgspec.json.decode(as_json(message))["subject"] == message.subject
