"""`tessera report --record`: messages of agents become digests, of the pods that the API server
has."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from tessera_cli.errors import CommandError
from tessera_cli.report.holders import ClusterHolders, read_holders
from tessera_cli.report.recorder import UsageRecorder
from tessera_cli.report.recording_files import open_recording
from tessera_core.reports.doubts import Doubt
from tessera_core.utilization.history import UseHistory
from tessera_core.utilization.recording import RecordingHeader, UseDigest, encode_line, read_lines
from tessera_runtime.kube.api import Kube, Verb
from tessera_schema.cards import MIB
from tests.rebalancer.cluster import REGISTRY, Cluster, a_use

HEADER = RecordingHeader(cluster="default")


class Recorded:
    """A recorder of a cluster in memory, and what it wrote."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.lines = [encode_line(HEADER)]
        self.recorder = UsageRecorder(REGISTRY, "default", self.lines.append, cluster.clock.time())
        self._passed = 0

    async def update(self) -> ClusterHolders:
        holders = await read_holders(self.cluster.kube, REGISTRY)
        self.recorder.update(holders, self.cluster.clock.time())
        return holders

    def receive(self) -> None:
        messages = self.cluster.bus.said("tessera.v1.*.usage.*")
        for message in messages[self._passed :]:
            self.recorder.receive(message)
        self._passed = len(messages)

    def history(self) -> UseHistory:
        history = UseHistory()
        history.add_all(read_lines(self.lines))
        return history

    @property
    def digests(self) -> dict[str, UseDigest]:
        """The newest of each pod."""
        found = (line for line in read_lines(self.lines) if isinstance(line, UseDigest))
        return {digest.pod: digest for digest in found}


def owned(kind: str, name: str, uid: str) -> list[dict[str, Any]]:
    return [{"apiVersion": "v1", "kind": kind, "name": name, "uid": uid, "controller": True}]


class WithReplicaSet:
    """The API server with a ReplicaSet of a Deployment, a kind that the one in memory has not."""

    def __init__(self, kube: Kube) -> None:
        self._kube = kube
        self.stream = kube.stream

    async def call(self, verb: Verb, path: str, **more: Any) -> bytes:
        if path != "/apis/apps/v1/replicasets":
            return await self._kube.call(verb, path, **more)
        meta = {
            "name": "serve-5d",
            "uid": "r",
            "ownerReferences": owned("Deployment", "serve", "d"),
        }
        return msgspec.json.encode({"metadata": {}, "items": [{"metadata": meta}]})


async def test_what_agents_publish_is_written_down() -> None:
    cluster = Cluster()
    busy = cluster.bound("serve-5d-x", ownerReferences=owned("ReplicaSet", "serve-5d", "r"))
    cluster.bound("silent")
    recorded = Recorded(cluster)
    holders = await read_holders(WithReplicaSet(cluster.kube), REGISTRY)
    assert holders.problems == ()
    recorded.recorder.update(holders, cluster.clock.time())
    use = a_use(30, memory_bytes=1000 * MIB, throttled_percent=10)
    await cluster.agents.measure(20, (busy, use))
    recorded.receive()
    recorded.recorder.cut(cluster.clock.time())
    found = recorded.digests["serve-5d-x"]
    assert found.measured_s == 20
    assert found.gpu_s == pytest.approx(6)
    assert found.throttled_s == pytest.approx(2)
    assert (found.peak_bytes, found.part, found.model) == (1000 * MIB, 0.5, "NVIDIA A100")
    assert recorded.digests["silent"].measured_s == 0
    assert recorded.digests["silent"].held_s > 0
    owners = {one.owner: one for one in recorded.history().owners()}
    assert owners["serve"].owner_kind == "Deployment"
    assert owners["silent"].unmeasured_hours == owners["silent"].granted_hours


async def test_a_replica_set_that_cannot_be_read_stays_the_owner() -> None:
    cluster = Cluster()
    cluster.bound("serve-5d-x", ownerReferences=owned("ReplicaSet", "serve-5d", "r"))
    holders = await read_holders(cluster.kube, REGISTRY)
    (pod,) = holders.pods.values()
    assert (pod.holder.owner_kind, pod.holder.owner) == ("ReplicaSet", "serve-5d")
    (problem,) = holders.problems
    assert problem.startswith("owners of ReplicaSets are not known: ")


async def test_a_message_that_nobody_signed_does_not_count() -> None:
    cluster = Cluster()
    uid = cluster.bound("p")
    recorded = Recorded(cluster)
    await recorded.update()
    await cluster.agents.publish((uid, a_use(30)))
    (message,) = cluster.bus.said("tessera.v1.*.usage.*")
    forged = replace(message, envelope=replace(message.envelope, signature=""))
    recorded.recorder.receive(forged)
    recorded.recorder.receive(replace(message, data=b"{"))
    assert recorded.recorder.messages == 0
    assert recorded.recorder.doubts == {Doubt.UNSIGNED: 1, Doubt.UNREADABLE: 1}
    recorded.recorder.receive(message)
    recorded.recorder.receive(message)
    assert recorded.recorder.messages == 1  # a repeat changes nothing


async def test_a_pod_that_ends_is_written_to_its_end() -> None:
    cluster = Cluster()
    uid = cluster.bound("p")
    recorded = Recorded(cluster)
    await recorded.update()
    await cluster.agents.measure(10, (uid, a_use(100)))
    recorded.receive()
    cluster.end("p")
    await recorded.update()
    recorded.recorder.cut(cluster.clock.time())
    assert recorded.digests["p"].gpu_s == pytest.approx(10)
    recorded.recorder.cut(cluster.clock.time() + 10)
    assert recorded.recorder.digests == 1


async def test_a_pod_is_written_once_until_it_changes() -> None:
    cluster = Cluster()
    cluster.bound("p")
    recorded = Recorded(cluster)
    await recorded.update()
    await recorded.update()
    assert len(recorded.lines) == 2


async def test_nothing_of_the_environment_is_recorded() -> None:
    cluster = Cluster()
    cluster.bound("p", annotations={"team.example/password": "secret"})
    recorded = Recorded(cluster)
    await recorded.update()
    assert b"secret" not in b"".join(recorded.lines)


def test_a_recording_is_gone_on_with(tmp_path: Path) -> None:
    path = str(tmp_path / "week.jsonl")
    digest = encode_line(UseDigest(
        until=1, period_s=1, namespace="n", pod="p", container="c", card="x", part=1,
        granted_bytes=1, held_s=1,
    ))  # fmt: skip
    with open_recording(path, HEADER) as file:
        file.write(digest + digest[:10])  # killed within a line
    with open_recording(path, HEADER) as file:
        file.write(digest)
    assert (tmp_path / "week.jsonl").read_bytes() == encode_line(HEADER) + digest + digest


@pytest.mark.parametrize("text", ["something else", "a,b\n1,2\n"])
def test_no_other_file_is_written_to(text: str, tmp_path: Path) -> None:
    path = tmp_path / "precious"
    path.write_text(text)
    with pytest.raises(CommandError) as error, open_recording(str(path), HEADER):
        pass
    assert "recording" in str(error.value) or "--record" in str(error.value)
    assert path.read_text() == text


def test_a_folder_that_is_not_there_is_named(tmp_path: Path) -> None:
    path = str(tmp_path / "none" / "week.jsonl")
    said = "name a file that you may write"
    with pytest.raises(CommandError, match=said), open_recording(path, HEADER):
        pass
