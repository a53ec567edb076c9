"""The user that listens, on the server and with the configuration that are deployed."""

from __future__ import annotations

import asyncio
import json
import re
from pathlib import Path
from typing import Final

import pytest

from tessera_runtime.bus.client import NatsBus
from tessera_runtime.errors import BusAway
from tessera_schema.subjects import usage
from tests.deploy.test_nats_lets_each_do_its_own import CLUSTER, everybody

CHANGES: Final = (
    "CONSUMER.DELETE.TESSERA_USAGE.mine",
    "CONSUMER.INFO.TESSERA_USAGE.mine",
    "CONSUMER.NAMES.TESSERA_USAGE",
    "CONSUMER.LIST.TESSERA_USAGE",
    "CONSUMER.PAUSE.TESSERA_USAGE.mine",
    "CONSUMER.DURABLE.CREATE.TESSERA_USAGE.mine",
    "STREAM.PURGE.TESSERA_USAGE",
    "STREAM.DELETE.TESSERA_USAGE",
    "STREAM.UPDATE.TESSERA_USAGE",
    "STREAM.MSG.DELETE.TESSERA_USAGE",
)


async def test_the_viewer_reads_and_takes_nothing_away(tmp_path: Path) -> None:
    """A consumer is anybody's who may delete it: NATS keeps no owner of one."""
    async with everybody(tmp_path, "viewer") as buses:
        link = await buses["hasty viewer"].linked()
        filter_ = usage(CLUSTER, "*")
        config = {"name": "mine", "filter_subject": filter_, "ack_policy": "none"}
        made = await link.request(
            f"$JS.API.CONSUMER.CREATE.TESSERA_USAGE.mine.{filter_}",
            json.dumps({"stream_name": "TESSERA_USAGE", "config": config}).encode(),
        )
        assert "error" not in json.loads(made.data)
        async with asyncio.TaskGroup() as group:
            for subject in CHANGES:
                group.create_task(refused(buses["hasty viewer"], subject), name=subject)


async def refused(bus: NatsBus, subject: str) -> None:
    link = await bus.linked()
    with pytest.raises(BusAway):  # NATS does not answer what is not allowed
        await link.request(f"$JS.API.{subject}", b"{}")


async def test_names_of_consumers_cannot_be_guessed_from_what_others_see(tmp_path: Path) -> None:
    """A subscriber of a message sees the subject that its answer goes to."""
    async with everybody(tmp_path) as buses:
        for bus in buses.values():
            link = await bus.linked()
            names = [link.inbox_subject().rpartition(".")[2], *(link.fresh_name() for _ in "1234")]
            assert len({name[:8] for name in names}) == len(names)
            assert all(re.fullmatch("[0-9a-f]{32}", name) for name in names)
