"""An integrator with plain nats-py and docs/events.md: nothing of Tessera's code on that side."""

import asyncio
import json
from datetime import datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest
from nats.aio.msg import Msg

from tessera_runtime.bus.outbox import Outbox, open_outbox
from tessera_runtime.clock import SystemClock
from tessera_schema.messages.event_catalogue import CATALOGUE, EventType, sample
from tessera_testing.event_docs import asyncapi, events_page
from tests.bus.buses import QUICK, by_hand, on_nats, within

DOCS = Path(__file__).parents[2] / "docs"
TRACE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
DOCUMENT: dict[str, Any] = json.loads(asyncapi())


def subject(reported: EventType) -> str:
    return reported.address.format(**sample(reported) | {"cluster": QUICK.cluster})


def publish(outbox: Outbox, reported: EventType) -> None:
    data = msgspec.json.encode(reported.example)
    if reported.bucket:
        key = subject(reported).split(".", 4)[4]
        outbox.publish_state(reported.bucket, key, reported.type, data, TRACE)
    else:
        outbox.publish(subject(reported), reported.type, data, TRACE)


async def test_a_plain_subscriber_reads_everything(tmp_path: Path) -> None:
    came: asyncio.Queue[Msg] = asyncio.Queue()
    async with (
        on_nats(tmp_path) as world,
        by_hand(world.server) as client,
        open_outbox(world.bus, SystemClock(), "test", "0") as outbox,
    ):
        await client.subscribe("tessera.v1.>", cb=came.put)
        await client.flush()
        for reported in CATALOGUE:
            publish(outbox, reported)
        messages = {}
        for _ in CATALOGUE:
            message = await within(came.get())
            messages[message.subject] = message
    assert set(messages) == {subject(reported) for reported in CATALOGUE}
    for reported in CATALOGUE:
        message = messages[subject(reported)]
        assert message.headers is not None
        required = DOCUMENT["components"]["schemas"]["Headers"]["required"]
        assert set(required) <= set(message.headers)
        assert message.headers["ce-type"] == reported.type
        assert message.headers["ce-id"] == message.headers["Nats-Msg-Id"]
        assert message.headers["traceparent"] == TRACE
        assert datetime.fromisoformat(message.headers["ce-time"]).tzinfo is not None
        assert json.loads(message.data) == json.loads(msgspec.json.encode(reported.example))


async def test_who_comes_later_finds_the_last_state(tmp_path: Path) -> None:
    async with (
        on_nats(tmp_path) as world,
        by_hand(world.server) as client,
        open_outbox(world.bus, SystemClock(), "test", "0") as outbox,
    ):
        reported = CATALOGUE[0]
        publish(outbox, reported)
        await within(outbox.emptied())
        store = await client.jetstream().key_value(reported.bucket)
        entry = await store.get("gpu-1_example_org.acme")
        assert entry.value == msgspec.json.encode(reported.example)


@pytest.mark.parametrize(
    ("name", "made"), [("events.md", events_page), ("asyncapi.json", asyncapi)]
)
def test_the_documents_are_up_to_date(name: str, made: Any) -> None:
    assert (DOCS / name).read_text(encoding="utf-8") == made(), (
        "run: python -m tessera_testing.event_docs docs"
    )


def _references(value: Any) -> list[str]:
    if isinstance(value, dict):
        here = [value["$ref"]] if isinstance(value.get("$ref"), str) else []
        return here + [ref for part in value.values() for ref in _references(part)]
    if isinstance(value, list):
        return [ref for part in value for ref in _references(part)]
    return []


def test_every_reference_of_the_document_leads_somewhere() -> None:
    references = _references(DOCUMENT)
    assert len(references) > len(CATALOGUE)
    for reference in references:
        place: Any = DOCUMENT
        for step in reference.removeprefix("#/").split("/"):
            place = place[step]
        assert place


def test_every_kind_of_message_has_a_channel() -> None:
    channels = DOCUMENT["channels"].values()
    assert {c["address"] for c in channels} == {reported.address for reported in CATALOGUE}
    for channel in channels:
        for parameter in channel["parameters"]:
            assert f"{{{parameter}}}" in channel["address"]
