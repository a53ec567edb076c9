"""On what terms a container takes part in lending: its dialect's, its own, its pod's. The agent and
the rebalancer read them alike."""

from collections.abc import Mapping

import msgspec
import pytest

from tessera_agent.api.pod_view import read
from tessera_agent.containers.limits import limits_of, terms_in
from tessera_core.dialect_kit.lending_terms import LendingTerms
from tessera_core.hook.limits_file import Mode
from tessera_core.registry.registry import load
from tessera_core.usage.lending_terms import GrantedShare, granted_shares_of
from tessera_kubelet.nri.types import PodSandbox
from tessera_schema.grants import Grant, Share
from tessera_schema.injections import Injection
from tessera_schema.kube import Pod
from tessera_testing.builders import a_container, a_pod

REGISTRY = load()
POLICY, PRIORITY = "GPU_CORE_UTILIZATION_POLICY", "CUDA_TASK_PRIORITY"
NOTHING = Injection()
POD = PodSandbox(id="s", name="p", uid="u", namespace="team")
WITH_HAMI_CORE = ("hami", "volcano", "koordinator")
OTHERS = ("gpumanager", "iluvatar", "mthreads")


def a_share(dialect: str) -> Share:
    return Share(
        container="c", position=0, vendor="acme", dialect=dialect, card="GPU-0", index=0,
        memory_bytes=1 << 30, cores_percent=30,
    )  # fmt: skip


def by_the_agent(
    dialect: str, env: Mapping[str, str] | None = None, notes: Mapping[str, str] | None = None,
    given: Injection = NOTHING,
) -> LendingTerms:  # fmt: skip
    return terms_in(REGISTRY.readers, notes or {}, (a_share(dialect),), env or {}, given)


def by_the_rebalancer(
    dialect: str, env: Mapping[str, str] | None = None, notes: Mapping[str, str] | None = None
) -> GrantedShare:
    pod: Pod = a_pod(a_container(name="c", env=env), annotations=notes, node="n", name="p")
    grant = Grant(uid="u", namespace="default", name="p", node="n", shares=(a_share(dialect),))
    [found] = granted_shares_of(grant, pod, REGISTRY).values()
    return found


@pytest.mark.parametrize(
    ("text", "priority"),
    [(None, 1), ("", 1), ("0", 0), ("1", 1), ("7", 7), ("high", 1), ("-1", 1), ("1" * 10, 1)],
)
def test_a_priority_is_hamis_and_is_1_where_none_can_be_read(
    text: str | None, priority: int
) -> None:
    env = {} if text is None else {PRIORITY: text}
    assert by_the_agent("hami", env).priority == priority
    assert by_the_rebalancer("hami", env).priority == priority
    for dialect in (*WITH_HAMI_CORE[1:], *OTHERS):
        assert by_the_agent(dialect, env).priority is None
        assert by_the_rebalancer(dialect, env).priority is None


@pytest.mark.parametrize(
    ("text", "lends"),
    [("false", False), ("False", False), (" FALSE ", False), ("true", True), ("no", True)],
)
def test_a_pod_stays_out_however_it_spells_it(text: str, *, lends: bool) -> None:
    notes = {"tessera.dev/lending": text}
    assert by_the_agent("hami", notes=notes).lends is lends
    assert by_the_rebalancer("hami", notes=notes).lends is lends
    assert read(msgspec.json.encode(a_pod(annotations=notes))).lends is lends


@pytest.mark.parametrize(
    ("text", "most"), [("force", 0), ("FORCE", 0), ("default", None), ("", None), ("x", None)]
)
@pytest.mark.parametrize("dialect", WITH_HAMI_CORE)
def test_force_keeps_the_limit(dialect: str, text: str, most: float | None) -> None:
    assert by_the_agent(dialect, {POLICY: text}).most_percent == most
    assert by_the_rebalancer(dialect, {POLICY: text}).most_cores_percent == most


def test_disable_gives_it_up_where_the_dialect_has_that_word() -> None:
    env = {POLICY: "Disable"}
    for dialect in (*WITH_HAMI_CORE, *OTHERS):
        terms = by_the_agent(dialect, env)
        assert terms.unlimited is (dialect in WITH_HAMI_CORE)
        assert not terms.unlimited_by_operator


def test_an_operators_disable_is_distinguished_from_the_containers_own() -> None:
    env = {POLICY: "disable"}
    assert by_the_agent("volcano", env, given=Injection(env=env)).unlimited_by_operator
    assert not by_the_agent("volcano", env).unlimited_by_operator


def test_a_card_without_a_limit_is_reported_to_the_hook() -> None:
    share, terms = a_share("hami"), LendingTerms(unlimited=True)
    assert limits_of(POD, "c", (share,), terms, {"GPU-0"}).cards[0].mode is Mode.OFF
    assert limits_of(POD, "c", (share,), terms, {"GPU-1"}).cards[0].mode is Mode.HARD


def test_what_the_scheduler_gives_counts_as_the_containers_own() -> None:
    share = a_share("hami")
    grant = Grant(
        uid="u", namespace="default", name="p", node="n", shares=(share,),
        given={"c": Injection(env={PRIORITY: "0"})},
    )  # fmt: skip
    [found] = granted_shares_of(grant, a_pod(a_container(name="c"), node="n"), REGISTRY).values()
    assert found.priority == 0


def test_gpu_managers_containers_have_their_ceiling_or_none() -> None:
    given = Injection(annotations={"tencent.com/vcuda-core-limit": "70"})
    assert by_the_agent("gpumanager", given=given).ceiling_percent == 70
    unread = Injection(annotations={"tencent.com/vcuda-core-limit": "x"})
    assert by_the_agent("gpumanager", given=unread).ceiling_percent == 0
    assert by_the_agent("gpumanager").ceiling_percent == 0
    assert by_the_agent("volcano").ceiling_percent == 100
