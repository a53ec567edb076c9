"""`tessera events`: the cluster is the bus's own, each message is a readable line, and a bus that
does not answer is named."""

from __future__ import annotations

import asyncio
from pathlib import Path

import msgspec
import pytest
from msgspec.structs import replace

from tessera_cli.errors import BadConfigFile, InputUnreadable
from tessera_cli.event_lines import LONGEST, as_line
from tessera_cli.events import follow
from tessera_embedded.ports import reserved_ports
from tessera_runtime.bus.api import Message
from tessera_runtime.bus.outbox import open_outbox
from tessera_runtime.bus.settings import BusSettings
from tessera_runtime.clock import SystemClock
from tessera_schema.messages.device_reports import DeviceState, encode
from tessera_schema.messages.envelope import Envelope
from tessera_schema.messages.event_catalogue import CATALOGUE, DEVICE_STATE, EventType, sample
from tessera_schema.subjects import DEVICES_BUCKET
from tests.bus.buses import QUICK, on_nats, within


def message_of(reported: EventType, **changes: str) -> Message:
    subject = reported.address.format(**sample(reported) | {"cluster": "c1"})
    envelope = Envelope(
        id="1", source="/tessera/x/0", type=reported.type, time="2026-11-23T18:00:01.5Z", epoch=1,
        sequence=1,
    )  # fmt: skip
    data = changes.get("data", "").encode() or msgspec.json.encode(reported.example)
    return Message(subject=subject, envelope=envelope, data=data)


@pytest.mark.parametrize(
    "reported", CATALOGUE, ids=lambda reported: reported.type.removeprefix("dev.tessera.")
)
def test_every_kind_of_message_is_one_short_line(reported: EventType) -> None:
    line = as_line(message_of(reported))
    assert line.startswith("18:00:01  ")
    assert "\n" not in line
    assert "{" not in line
    assert len(line) <= 200


def test_lines_name_the_object_and_its_numbers() -> None:
    lines = {
        reported.type.removeprefix("dev.tessera."): as_line(message_of(reported))
        for reported in CATALOGUE
    }
    assert lines["allocation.granted"] == (
        "18:00:01  allocation granted   team-a/train-0 on gpu-1.example.org: main: card 0, "
        "8192 MiB, 25 %"
    )
    assert lines["usage.measured"] == (
        "18:00:01  usage      gpu-1.example.org (acme): team-a/train-0/main 5120 MiB, 24 %"
    )
    assert lines["device.state"] == "18:00:01  device     gpu-1.example.org (acme): 1 cards"


def test_what_cannot_be_read_and_what_is_long_are_lines_too() -> None:
    reported = CATALOGUE[0]
    assert "not readable: " in as_line(message_of(reported, data="{"))
    many = DeviceState(node="n" * 1000, vendor="v")
    assert len(as_line(message_of(reported, data=encode(many).decode()))) == LONGEST


async def first_subject(settings: BusSettings, cluster: str = "") -> str:
    came: list[Message] = []
    await within(follow(settings, "", came.append, cluster=cluster, most=1))
    return came[0].subject


async def test_subjects_are_those_of_the_cluster_that_the_bus_serves(tmp_path: Path) -> None:
    async with (
        on_nats(tmp_path) as world,
        open_outbox(world.bus, SystemClock(), "test", "0") as outbox,
    ):
        other = BusSettings(url=world.server.url, arrange=False)
        assert other.cluster != QUICK.cluster

        async def publish() -> None:
            while True:
                state = encode(DeviceState(node="n", vendor="v"))
                outbox.publish_state(DEVICES_BUCKET, "n.v", DEVICE_STATE, state)
                await asyncio.sleep(0.05)

        async with asyncio.TaskGroup() as group:
            publishing = group.create_task(publish(), name="telling")
            assert await first_subject(other) == f"tessera.v1.{QUICK.cluster}.device.n.v"
            named = replace(other, cluster=QUICK.cluster)
            assert (await first_subject(named, QUICK.cluster)).split(".")[2] == QUICK.cluster
            with pytest.raises(BadConfigFile, match=f"this bus serves cluster {QUICK.cluster}"):
                await first_subject(other, "default")
            publishing.cancel()


async def test_a_bus_that_does_not_answer_ends_it() -> None:
    with reserved_ports(1) as (port,):
        nowhere = BusSettings(url=f"nats://127.0.0.1:{port}", arrange=False)
        with pytest.raises(InputUnreadable) as said:
            await follow(nowhere, "", lambda _message: None, wait_s=0.2)
    assert f"127.0.0.1:{port}" in str(said.value)
    assert "no answer within 0.2 s: see that NATS runs there, and give --url" in str(said.value)
