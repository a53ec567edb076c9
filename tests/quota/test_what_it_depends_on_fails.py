"""The API server and NATS may fail, and objects may make no sense: the monitor goes on."""

import asyncio

import pytest

from tessera_core.hami_metrics.family import text
from tessera_embedded.apiserver.faults import Answer, Cut, InjectedFault
from tessera_quota.hami_metrics import families
from tessera_schema.quotas import QuotaExceeded, QuotaRestored
from tests.quota.cluster import Cluster, monitoring, until

pytestmark = pytest.mark.looptime


async def test_a_field_that_makes_no_sense_is_reported_and_limits_what_it_did_before() -> None:
    cluster = Cluster()
    cluster.quota({"hard": {"cards": 1}})
    for n in range(2):
        cluster.bound(f"p{n}", card=n)
    async with monitoring(cluster):
        await asyncio.sleep(10)
        cluster.change({"hard": {"cards": "1.5"}})
        await asyncio.sleep(30)
        status = cluster.status()
        assert (
            status.problem
            == "spec.hard.cards: '1.5': not a whole number: write an amount, 0 or more"
        )
        assert (status.phase, status.used.cards) == ("Grace", 2)
        cluster.change({"hard": {"cards": 2}})
        await asyncio.sleep(30)
        assert (cluster.status().problem, cluster.status().phase) == ("", "Within")


@pytest.mark.parametrize(
    ("spec", "problem"),
    [
        ({"hard": {"memry": "1Gi"}}, "unknown field `memry`"),
        ({"vendor": "acme"}, "spec.vendor: 'acme': write one of"),
        ({"hard": {"cards": 2}, "guaranteed": {"cards": 3}}, "spec.guaranteed.cards: 3"),
    ],
)
async def test_one_that_never_made_sense_limits_nothing_and_says_so(
    spec: dict[str, object], problem: str
) -> None:
    cluster = Cluster()
    cluster.quota(spec)
    async with monitoring(cluster):
        await asyncio.sleep(30)
        assert problem in cluster.status().problem
        assert cluster.status().phase == "Within"


async def test_a_status_that_somebody_else_wrote_does_no_harm() -> None:
    cluster = Cluster()
    cluster.quota({"hard": {"cards": 1}})
    path = "/apis/tessera.dev/v1alpha1/namespaces/default/acceleratorquotas/q/status"
    cluster.call(
        "PATCH", path, {"status": {"phase": "Grace", "phaseSince": "soon", "hours": {"seen": -5}}}
    )
    async with monitoring(cluster):
        await asyncio.sleep(30)
        status = cluster.status()
        assert (status.phase, status.hours.seen) == ("Within", 0)


async def test_what_could_not_be_written_is_written_later() -> None:
    cluster = Cluster()
    cluster.quota({})
    for effect in (Answer(500), Answer(409), Answer(422), Cut(after=True)):
        cluster.kube.faults.add(InjectedFault("PATCH", ".*/status", effect, 1))
    async with monitoring(cluster) as quota:
        await asyncio.sleep(60)
        assert cluster.status().phase == "Within"
        assert quota.writer.failures == 4


async def test_an_unchanged_status_is_written_seldom() -> None:
    cluster = Cluster()
    cluster.quota({})
    cluster.bound("a")
    async with monitoring(cluster):
        await asyncio.sleep(600)
        writes = [path for verb, path in cluster.kube.calls if verb == "PATCH"]
        assert 5 <= len(writes) <= 15


async def test_without_nats_it_counts_and_throttles_and_says_later() -> None:
    cluster = Cluster()
    cluster.bus.away()
    cluster.quota({"hard": {"cards": 0}})
    cluster.bound("a")
    async with monitoring(cluster):
        await asyncio.sleep(30)
        assert cluster.status().phase == "Grace"
        assert cluster.published() == []
        cluster.bus.back()
        await asyncio.sleep(30)
        assert isinstance(cluster.published()[0], QuotaExceeded)


async def test_it_waits_for_the_definition_and_says_that_it_does() -> None:
    cluster = Cluster(defined=False)
    async with monitoring(cluster) as quota:
        await until(quota.counting.is_set)
        assert "not installed" in quota.problem()
        cluster.define()
        cluster.quota({})
        await asyncio.sleep(90)
        assert quota.problem() == ""
        assert cluster.status().phase == "Within"


async def test_watches_that_break_are_taken_up() -> None:
    cluster = Cluster()
    cluster.quota({"hard": {"cards": 1}})
    async with monitoring(cluster):
        await asyncio.sleep(10)
        cluster.kube.cut_watches()
        for n in range(2):
            cluster.bound(f"p{n}")
        await asyncio.sleep(60)
        assert cluster.status().used.cards == 2


async def test_what_is_granted_is_displayed_to_prometheus_too() -> None:
    cluster = Cluster()
    cluster.quota({"hard": {"cards": 4}})
    cluster.bound("a", mib=4000)
    async with monitoring(cluster) as quota:
        await asyncio.sleep(30)
        text = quota.metrics.text().decode()
    for line in (
        'tessera_quota_used_cards{namespace="default",quota="q"} 1.0',
        'tessera_quota_phase{namespace="default",phase="Within",quota="q"} 1.0',
    ):
        assert line in text.splitlines()


async def test_resource_quotas_are_reported_under_hamis_names() -> None:
    cluster = Cluster()
    for name, most in (("r", "9000"), ("s", "12000")):
        cluster.make(
            "/api/v1/namespaces/default/resourcequotas",
            {"metadata": {"name": name}, "spec": {"hard": {"limits.nvidia.com/gpumem": most}}},
        )
    cluster.bound("a", mib=4000)
    async with monitoring(cluster) as quota:
        await asyncio.sleep(30)
        reported = families(quota.evaluator.objects, quota.ledger)
    assert [line for line in text(reported) if not line.startswith("#")] == [
        'hami_resource_quota_used{namespace="default",quota_name="nvidia.com/gpumem",'
        'limit="9000",zone="vGPU"} 4000\n',
        'hami_resource_quota_limit{namespace="default",quota_name="nvidia.com/gpumem",'
        'zone="vGPU"} 9000\n',
    ]


async def test_without_the_schedulers_keys_nobody_is_let_go() -> None:
    cluster = Cluster(keys=False)
    cluster.quota({"hard": {"cards": 1}})
    for n in range(2):
        cluster.bound(f"p{n}", card=n)
    path = "/apis/tessera.dev/v1alpha1/namespaces/default/acceleratorquotas/q/status"
    since = "2026-09-01T00:00:00Z"
    cluster.call("PATCH", path, {"status": {"phase": "Throttled", "phaseSince": since}})
    async with monitoring(cluster) as quota:
        await asyncio.sleep(60)
        assert "public keys" in quota.problem()
        assert cluster.status().phase_since == since
        cluster.publish_keys(cluster.signer)
        await asyncio.sleep(60)
        status = cluster.status()
        assert (quota.problem(), status.phase, status.phase_since) == ("", "Throttled", since)
        assert status.cores_percent == 50


async def test_one_that_makes_no_sense_after_a_restart_lets_its_pods_go() -> None:
    cluster = Cluster()
    cluster.quota({"hard": {"cards": "1.5"}})
    path = "/apis/tessera.dev/v1alpha1/namespaces/default/acceleratorquotas/q/status"
    since = "2026-09-01T00:00:00Z"
    cluster.call("PATCH", path, {"status": {"phase": "Throttled", "phaseSince": since}})
    async with monitoring(cluster):
        await asyncio.sleep(60)
        assert cluster.status().phase == "Within"
        assert isinstance(cluster.published()[-1], QuotaRestored)
