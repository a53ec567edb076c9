"""Objects of Tessera's own kinds that cannot be read: one sentence, and what would do."""

from __future__ import annotations

import msgspec
import pytest
from msgspec import Struct

from tessera_cli.api_objects import list_all
from tessera_cli.errors import CommandError
from tessera_runtime.errors import ApiNotFound
from tessera_schema.json_codec import decoder
from tessera_testing.clock import LoopClock
from tessera_testing.kube import FakeKube, a_store

MAPS = "/api/v1/namespaces/default/configmaps"


class Amount(Struct):
    memory: str


class Stored(Struct):
    data: Amount


class NoMaps(CommandError):
    pass


def a_server(*maps: object) -> FakeKube:
    kube = FakeKube(a_store(LoopClock()))
    for i, data in enumerate(maps):
        answer = kube.store.handle("POST", MAPS, {}, a_body(f"m{i}", data=data))
        assert answer.code == 201, answer.body
    return kube


def a_body(name: str, **more: object) -> bytes:
    return msgspec.json.encode({"metadata": {"name": name}, **more})


async def read(kube: FakeKube, path: str = MAPS) -> list[Stored]:
    return await list_all(
        kube, path, decoder(Stored), kind="Map", part="a map's data", error=NoMaps
    )


async def test_all_that_can_be_read_come() -> None:
    found = await read(a_server({"memory": "1Gi"}, {"memory": "2Gi"}))
    assert [one.data.memory for one in found] == ["1Gi", "2Gi"]


async def test_one_of_another_form_is_reported_by_its_field() -> None:
    with pytest.raises(
        NoMaps, match=r"^a map's data is not of this release's form: .*`memory`.*`\$.data`"
    ):
        await read(a_server({"memory": "1Gi"}, {"mem": "2Gi"}))


async def test_a_kind_that_is_not_installed_is_reported_with_what_would_do() -> None:
    with pytest.raises(
        NoMaps, match=r"definition of Map is not installed.*apply it first"
    ) as reported:
        await read(a_server(), "/apis/tessera.dev/v1/maps")
    assert isinstance(reported.value.__cause__, ApiNotFound)
