"""Keys are made once, published before they sign, and known to every replica."""

from __future__ import annotations

import asyncio
import base64
from typing import Any

import msgspec
import pytest

from tessera_core.trust.grants import Signer, Verifier
from tessera_embedded.apiserver import Cut, InjectedFault, Store
from tessera_runtime.errors import BadSettings
from tessera_runtime.kube.api import Verb
from tessera_runtime.kube.create_or_update import UnexpectedContent
from tessera_scheduler.keys.signing_keys import SigningKeys, SigningKeySettings, open_keys
from tessera_testing.clock import LoopClock
from tessera_testing.kube import FakeKube, a_store

pytestmark = pytest.mark.looptime

HOME = "tessera-system"
SETTINGS = SigningKeySettings(rotate_after_s=3600, publish_s=300, refresh_s=60)
SECRET = f"/api/v1/namespaces/{HOME}/secrets/tessera-grant-signing"
PUBLIC = f"/api/v1/namespaces/{HOME}/configmaps/tessera-grant-keys"


def a_cluster() -> Store:
    store = a_store(LoopClock())
    body = msgspec.json.encode({"metadata": {"name": HOME}})
    assert store.handle("POST", "/api/v1/namespaces", body=body).code == 201
    return store


def read(store: Store, path: str) -> dict[str, Any]:
    found: dict[str, Any] = msgspec.json.decode(store.handle("GET", path).body)
    return found


def published(store: Store) -> dict[str, str]:
    data: dict[str, str] = read(store, PUBLIC).get("data", {})
    return data


async def test_a_key_is_made_published_and_signs() -> None:
    store = a_cluster()
    async with open_keys(FakeKube(store), HOME, SETTINGS, LoopClock()) as keys:
        text = keys.signer.sign('{"version":1}')
        assert keys.verifier.problem(text) == ""
        assert Verifier(published(store)).problem(text) == ""
        assert list(published(store)) == [keys.signer.id]


async def test_a_restart_signs_with_the_same_key() -> None:
    store = a_cluster()
    ids = set()
    for _ in range(2):
        async with open_keys(FakeKube(store), HOME, SETTINGS, LoopClock()) as keys:
            ids.add(keys.signer.id)
    assert len(ids) == 1


@pytest.mark.parametrize("ahead_s", [0, 0.0005, 0.001, 0.002, 0.005])
async def test_two_replicas_that_start_together_agree(ahead_s: float) -> None:
    store = a_cluster()
    made: list[SigningKeys] = []

    async def replica(wait_s: float) -> None:
        await asyncio.sleep(wait_s)
        async with open_keys(FakeKube(store), HOME, SETTINGS, LoopClock()) as keys:
            made.append(keys)
            await asyncio.sleep(1)

    async with asyncio.TaskGroup() as group:
        group.create_task(replica(0), name="first")
        group.create_task(replica(ahead_s), name="second")
    one, other = made
    assert one.signer.id == other.signer.id
    assert list(published(store)) == [one.signer.id]


async def test_a_new_key_signs_when_it_has_been_published_for_a_while() -> None:
    store, clock = a_cluster(), LoopClock()
    async with (
        open_keys(FakeKube(store), HOME, SETTINGS, clock) as keys,
        open_keys(FakeKube(store), HOME, SETTINGS, clock) as other,
    ):
        first = keys.signer.id
        old = keys.signer.sign('{"version":1}')
        await asyncio.sleep(SETTINGS.rotate_after_s + SETTINGS.refresh_s + 1)
        assert keys.signer.id == other.signer.id == first
        assert len(published(store)) == 2
        await asyncio.sleep(SETTINGS.publish_s + SETTINGS.refresh_s + 1)
        second = keys.signer.id
        assert second == other.signer.id != first
        for text in (old, keys.signer.sign('{"version":1}')):
            for verifier in (keys.verifier, other.verifier, Verifier(published(store))):
                assert verifier.problem(text) == ""


async def test_former_public_keys_stay_for_ever() -> None:
    store, clock = a_cluster(), LoopClock()
    async with open_keys(FakeKube(store), HOME, SETTINGS, clock) as keys:
        old = keys.signer.sign('{"version":1}')
        await asyncio.sleep(5 * SETTINGS.rotate_after_s)
        assert len(published(store)) >= 5
        assert keys.verifier.problem(old) == ""
        private = base64.b64decode(read(store, SECRET)["data"]["keys.json"])
        assert len(msgspec.json.decode(private)) == 2


async def test_a_secret_that_was_deleted_does_not_bring_an_unknown_key() -> None:
    store, clock = a_cluster(), LoopClock()
    async with open_keys(FakeKube(store), HOME, SETTINGS, clock) as keys:
        first = keys.signer.id
        store.handle("DELETE", SECRET)
        await asyncio.sleep(SETTINGS.refresh_s + 1)
        assert len(published(store)) == 2
        assert keys.signer.id == first
        await asyncio.sleep(SETTINGS.publish_s + SETTINGS.refresh_s)
        assert keys.signer.id != first


async def test_a_published_key_that_was_removed_comes_back() -> None:
    store = a_cluster()
    async with open_keys(FakeKube(store), HOME, SETTINGS, LoopClock()) as keys:
        store.handle("DELETE", PUBLIC)
        await asyncio.sleep(SETTINGS.refresh_s + 1)
        assert list(published(store)) == [keys.signer.id]


async def test_others_entries_neither_count_nor_go() -> None:
    store = a_cluster()
    async with open_keys(FakeKube(store), HOME, SETTINGS, LoopClock()) as keys:
        body = b'{"data":{"garbage":"?"}}'
        store.handle("PATCH", PUBLIC, body=body, content_type="application/merge-patch+json")
        await asyncio.sleep(SETTINGS.refresh_s + 1)
        assert published(store).keys() == {"garbage", keys.signer.id}
        assert keys.verifier.problem(keys.signer.sign('{"version":1}')) == ""
        assert keys.verifier.problem(Signer(bytes(32)).sign('{"version":1}'))


@pytest.mark.parametrize("after", [True, False], ids=["after it was done", "before"])
async def test_a_lost_answer_leaves_one_key(*, after: bool) -> None:
    store = a_cluster()
    kube = FakeKube(store)
    kube.faults.add(InjectedFault(Verb.POST, r".*secrets.*", Cut(after=after)))
    async with open_keys(kube, HOME, SETTINGS, LoopClock()) as keys:
        assert list(published(store)) == [keys.signer.id]


async def test_a_secret_that_cannot_be_read_is_named() -> None:
    store = a_cluster()
    data = {"keys.json": base64.b64encode(b"garbage").decode()}
    body = msgspec.json.encode({"metadata": {"name": "tessera-grant-signing"}, "data": data})
    store.handle("POST", f"/api/v1/namespaces/{HOME}/secrets", body=body)
    with pytest.raises(UnexpectedContent) as caught:
        async with open_keys(FakeKube(store), HOME, SETTINGS, LoopClock()):
            pass
    assert f"Secret {HOME}/tessera-grant-signing: data[keys.json]: " in str(caught.value)
    assert "delete the Secret" in str(caught.value)


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"publish_s": 60.0}, "keys.publish_s: 60: "),
        ({"rotate_after_s": 10.0}, "keys.rotate_after_s: 10: "),
    ],
)  # fmt: skip
def test_numbers_that_contradict_each_other_are_refused(
    changes: dict[str, float], field: str
) -> None:
    with pytest.raises(BadSettings) as caught:
        SigningKeySettings(**changes).check()
    assert str(caught.value).startswith(field)
