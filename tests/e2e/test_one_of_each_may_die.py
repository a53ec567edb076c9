"""The components `ha` and `nats-tls` on a real node: two schedulers, three servers of the bus, and
nothing plain between them. Whichever of them dies, and while an installation becomes one of these,
pods are placed and messages are published."""

import asyncio
import json
import ssl
import time
from contextlib import suppress
from pathlib import Path

import pytest
import yaml

from tessera_runtime.bus.streams import StreamLayout
from tests.contract.certificates import Authority
from tests.contract.client import Json
from tests.e2e import bus_messages
from tests.e2e.cluster import HOME, OVERLAY, Cluster, a_kustomization
from tests.e2e.conftest import OpenCluster, SetStage
from tests.e2e.crowd import PODS
from tests.e2e.stage import Stage, report, timed
from tests.e2e.takeover import leads, two

COMPONENTS = OVERLAY.parents[1] / "components"
TLS = COMPONENTS / "nats-tls"
SCHEDULER = "deployment/tessera-scheduler"
CLUSTER_OF_THREE = "tessera-nats-cluster"
SERVERS = tuple(f"{CLUSTER_OF_THREE}-{i}" for i in range(3))
STREAMS = [stream.name for stream in StreamLayout("default").streams]
DOWN_S = 3.0
HA = """\
apiVersion: kustomize.config.k8s.io/v1beta1
kind: Kustomization
resources: [{overlay}]
components: [{ha}, {tls}]
secretGenerator:
  - name: tessera-nats-tls
    namespace: tessera-system
    files: [ca.crt, tls.crt, tls.key]
    options: {{disableNameSuffixHash: true}}
patches:
  - patch: |
      $patch: delete
      apiVersion: cert-manager.io/v1
      kind: Certificate
      metadata: {{name: tessera-nats, namespace: tessera-system}}
  - target: {{kind: StatefulSet, name: tessera-nats-cluster}}
    patch: |
      - {{op: remove, path: /spec/volumeClaimTemplates}}
      - {{op: add, path: /spec/template/spec/volumes/-, value: {{name: data, emptyDir: {{}}}}}}
  - patch: |
      apiVersion: apps/v1
      kind: Deployment
      metadata: {{name: tessera-scheduler, namespace: tessera-system}}
      spec:
        template:
          spec:
            initContainers:
              - {{name: scheduler, resources: {{requests: {{cpu: 50m}}}}}}
            containers:
              - {{name: kube-scheduler, resources: {{requests: {{cpu: 50m}}}}}}
"""
"""Nobody manages certificates here, or gives disks. The node has two processors, of which three
schedulers would ask for more during a rollout."""


@pytest.mark.faults
async def test_one_of_each_may_die(open_installed: OpenCluster, set_stage: SetStage) -> None:
    async with open_installed() as cluster:
        stage = await set_stage(cluster, long=True)
        for step in (
            there_are_more_of_them, nothing_is_sent_in_plain_text, each_server_of_the_bus_is_killed,
            the_leader_is_killed, a_release_follows_another_unnoticed,
        ):  # fmt: skip
            await timed(step, stage)


async def there_are_more_of_them(stage: Stage) -> None:
    """While pods come and go."""
    cluster = stage.cluster
    async with stage.crowd.moving():
        overlay, cluster.bus_tls = await asyncio.to_thread(_overlay, cluster.folder / "ha")
        # It has no server yet, and disks that nobody gives here: a StatefulSet's cannot be changed.
        await cluster.kubectl("delete", "-n", HOME, "statefulset", CLUSTER_OF_THREE)
        await cluster.kubectl("apply", "-k", str(overlay))
        await _rolled_out(cluster)
    await cluster.until(lambda: two(stage), "one leads and one stands by")
    await cluster.until(lambda: _all_copied(cluster), "each stream has three copies")
    await stage.checker.in_the_end("there are more of them")
    await stage.crowd.renew()  # What the first server knew has gone with it: it had no disk.
    await stage.checker.in_the_end("other pods are there")
    await _all_messages_came(stage)


async def nothing_is_sent_in_plain_text(stage: Stage) -> None:
    """Services are configured for TLS; the servers among themselves do so at once, and with nobody
    who shows no certificate."""
    trusting = stage.cluster.bus_tls
    for pod in await _servers(stage.cluster):
        name, address = pod["metadata"]["name"], pod["status"]["podIP"]
        reader, writer = await asyncio.open_connection(address, 4222)
        said = json.loads((await reader.readline()).removeprefix(b"INFO "))
        assert (said["server_name"], said["tls_required"]) == (name, True), said
        writer.close()
        reader, writer = await asyncio.open_connection(
            address, 6222, ssl=trusting, server_hostname=f"{name}.tessera-nats-members"
        )
        with suppress(ssl.SSLError, ConnectionError):
            assert not await reader.read()
        writer.close()


async def each_server_of_the_bus_is_killed(stage: Stage) -> None:
    """And comes back with nothing, as its disk is gone with it here."""
    for server in SERVERS:
        async with stage.crowd.moving():
            await stage.cluster.kubectl(
                "delete", "pod", server, "-n", HOME, "--grace-period=0", "--force", "--wait=false"
            )
            await asyncio.sleep(DOWN_S)
        await stage.cluster.all_ready()
        await stage.cluster.until(lambda: _all_copied(stage.cluster), "each has three copies again")
        await _all_messages_came(stage)
        await stage.checker.in_the_end(f"{server} killed")


async def the_leader_is_killed(stage: Stage) -> None:
    """By a machine that fails: nobody gives the Lease back."""
    leader, other = await stage.cluster.until(lambda: two(stage), "one leads and one stands by")
    async with stage.crowd.moving():
        began = time.monotonic()
        await stage.signal(leader["metadata"]["name"], "scheduler", "KILL")
        await stage.cluster.until(lambda: leads(other), "the other leads")
        report(f"the other led {time.monotonic() - began:.1f} s later")
    await stage.cluster.all_ready()
    await stage.checker.in_the_end("the leader was killed")
    await _all_messages_came(stage)


async def a_release_follows_another_unnoticed(stage: Stage) -> None:
    """Nobody is refused: there is always one who admits pods."""
    admin, refused = stage.cluster.admin, list[Json]()

    async def create() -> None:
        while True:
            answer = await admin.post(PODS, ASKING, dryRun="All")
            if answer.status != 201:
                refused.append(answer.body)
            await asyncio.sleep(0.1)

    async with stage.crowd.moving(), asyncio.TaskGroup() as group:
        asking = group.create_task(create(), name="pods are created")
        await stage.cluster.kubectl("rollout", "restart", SCHEDULER, "-n", HOME)
        await _rolled_out(stage.cluster)
        asking.cancel()
    assert not refused, refused[:3]
    await stage.checker.in_the_end("another release is there")


ASKING: Json = {
    "metadata": {"name": "asking"},
    "spec": {"containers": [{
        "name": "main", "image": "example.com/work:1",
        "resources": {"limits": {"nvidia.com/gpu": "1", "nvidia.com/gpumem": "64"}},
    }]},
}  # fmt: skip


def _overlay(folder: Path) -> tuple[Path, ssl.SSLContext]:
    """With certificates that are good for what the component asks for; and what trusts those."""
    a_kustomization(folder, HA, overlay=OVERLAY, ha=COMPONENTS / "ha", tls=TLS)
    asked = yaml.safe_load((TLS / "certificate.yaml").read_text())["spec"]
    authority = Authority("tessera")
    made = authority.server(*asked["dnsNames"])
    files = {"ca.crt": authority.certificate, "tls.crt": made.certificate, "tls.key": made.key}
    for name, content in files.items():
        (folder / name).write_bytes(content)
    return folder, ssl.create_default_context(cafile=str(folder / "ca.crt"))


async def _servers(cluster: Cluster) -> list[Json]:
    found = await cluster.get("pods", "-n", HOME, "-l", "app.kubernetes.io/name=tessera-nats")
    return list(found["items"])


async def _rolled_out(cluster: Cluster) -> None:
    async def done() -> bool:
        found = await cluster.get(f"statefulset/{CLUSTER_OF_THREE}", SCHEDULER, "-n", HOME)
        return all(
            one["status"].get("observedGeneration") == one["metadata"]["generation"]
            and one["spec"]["replicas"] == one["status"]["replicas"]
            == one["status"].get("updatedReplicas") == one["status"].get("readyReplicas")
            for one in found["items"]
        )  # fmt: skip

    await cluster.until(done, "the rollout is over")
    await cluster.all_ready()


async def _all_copied(cluster: Cluster) -> bool:
    """Whether two others have all that the leader of each stream has."""
    with suppress(*bus_messages.AWAY):
        async with bus_messages.bus(cluster) as jetstream:
            for stream in STREAMS:
                found = (await jetstream.stream_info(stream)).cluster
                others = (found.replicas if found else None) or []
                if len(others) != len(SERVERS) - 1 or not all(one.current for one in others):
                    return False
            return True
    return False


async def _all_messages_came(stage: Stage) -> None:
    """That they have cards: those that have them now."""
    seen = await stage.checker.observe()
    assert seen.granted
    for pod in seen.granted:
        meta = pod["metadata"]
        subject = f"tessera.v1.*.allocation.{meta['namespace']}.{meta['uid']}.granted"
        await bus_messages.received(stage.cluster, subject)
