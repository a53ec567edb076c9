"""Volcano's ConfigMap is read at the start, and nothing depends on it."""

import json

import pytest

from tessera_embedded.apiserver.faults import Cut, InjectedFault
from tessera_runtime.kube.api import Verb
from tessera_scheduler.main import configured
from tessera_scheduler.settings import SchedulerDialectsSettings, SchedulerSettings
from tessera_testing.clock import LoopClock
from tessera_testing.kube import FakeKube, a_store

MAPS = "/api/v1/namespaces/volcano-system/configmaps"
MEMORY, NUMBER = "volcano.sh/gpu-memory", "volcano.sh/gpu-number"
CONF = """
actions: "enqueue, allocate"
tiers:
- plugins:
  - name: deviceshare
    arguments:
      deviceshare.GPUNumberEnable: false
"""


async def a_cluster(conf: str | None = None) -> FakeKube:
    kube = FakeKube(a_store(LoopClock()))
    if conf is not None:
        namespace = {"metadata": {"name": "volcano-system"}}
        await kube.call(Verb.POST, "/api/v1/namespaces", body=json.dumps(namespace).encode())
        body = {
            "metadata": {"name": "volcano-scheduler-configmap"},
            "data": {"volcano-scheduler.conf": conf},
        }
        await kube.call(Verb.POST, MAPS, body=json.dumps(body).encode())
    return kube


async def served(
    kube: FakeKube, settings: SchedulerDialectsSettings | None = None
) -> frozenset[str]:
    """Volcano's resource names."""
    dialects = settings or SchedulerDialectsSettings()
    registry = await configured(kube, SchedulerSettings(dialects=dialects))
    return registry.dialects["volcano"].resources


@pytest.mark.looptime
async def test_its_arguments_are_served() -> None:
    names = await served(await a_cluster(CONF))
    assert MEMORY in names
    assert NUMBER not in names


@pytest.mark.looptime
@pytest.mark.parametrize("conf", [None, "", "tiers: 1", "tiers: [", "- a"])
async def test_without_one_that_can_be_read_everything_is_served(conf: str | None) -> None:
    assert {MEMORY, NUMBER} <= await served(await a_cluster(conf))


@pytest.mark.looptime
async def test_it_is_not_read_where_none_is_named() -> None:
    kube = await a_cluster(CONF)
    assert NUMBER in await served(kube, SchedulerDialectsSettings(volcano_conf=""))


@pytest.mark.looptime
async def test_an_api_server_that_does_not_answer_at_once_is_called_again() -> None:
    kube = await a_cluster(CONF)
    kube.faults.add(InjectedFault("GET", r".*/configmaps/.*", Cut(after=False), times=2))
    assert NUMBER not in await served(kube)


@pytest.mark.looptime
async def test_one_that_does_not_answer_at_all_holds_nothing_up() -> None:
    kube = await a_cluster(CONF)
    kube.faults.add(InjectedFault("GET", r".*/configmaps/.*", Cut(after=False), times=3))
    assert {MEMORY, NUMBER} <= await served(kube)
