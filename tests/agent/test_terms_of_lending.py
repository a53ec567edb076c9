"""On what terms a container takes part in lending: its dialect's, its own, its pod's."""

import pytest

from tessera_agent.terms import Terms, terms_of
from tessera_core.hookfiles.glance import NOTHING, SIZE, glance, is_of, record_at
from tessera_core.hookfiles.layout import CARDS
from tessera_schema.keys import LENDING_KEY
from tests.agent.nri.world import DIALECTS, a_share
from tests.agent.usagefile import a_usage


def terms(dialect: str, env: dict[str, str] | None = None) -> Terms:
    return terms_of(DIALECTS.readers, {}, (a_share(dialect=dialect),), env or {}, {})


@pytest.mark.parametrize("dialect", ["hami", "volcano", "koordinator"])
def test_most_may_have_all_that_is_idle(dialect: str) -> None:
    assert terms(dialect).most_permille == 1000


def test_gpu_managers_containers_have_their_ceiling_or_none() -> None:
    limit = {"tencent.com/vcuda-core-limit": "70"}
    shares = (a_share(dialect="gpumanager"),)
    assert terms_of(DIALECTS.readers, {}, shares, {}, limit).most_permille == 700
    assert terms_of(DIALECTS.readers, {}, shares, {}, {}).most_permille == 0


def test_hamis_force_wants_the_limit_kept() -> None:
    assert terms("hami", env={"GPU_CORE_UTILIZATION_POLICY": "force"}).most_permille == 0
    assert terms("hami", env={"GPU_CORE_UTILIZATION_POLICY": "default"}).most_permille == 1000


@pytest.mark.parametrize(
    ("env", "priority"),
    [({}, 1), ({"CUDA_TASK_PRIORITY": "0"}, 0), ({"CUDA_TASK_PRIORITY": "x"}, 1)],
)
def test_priorities_are_hamis(env: dict[str, str], priority: int) -> None:
    assert terms("hami", env=env).priority == priority
    assert terms("volcano", env=env).priority is None


def test_a_pod_may_stay_out_of_it() -> None:
    for text, lends in (("false", False), ("true", True)):
        found = terms_of(DIALECTS.readers, {LENDING_KEY: text}, (a_share(),), {}, {})
        assert found.lends is lends


# -- a glance


def test_a_glance_reads_what_a_hook_writes() -> None:
    card = {"gpu_ns": 5, "throttled_ns": 6, "launches": 7, "raw_ns": 8, "last_launch_ns": 9}
    data = bytes(a_usage({"uuid": b"GPU-1"}, {"uuid": b"GPU-2", **card}))
    record = data[record_at(1) : record_at(1) + SIZE]
    assert is_of(record, "2")
    assert not is_of(record, "1")
    assert not is_of(record[:-1], "2")
    assert glance(record) == (5, 6, 7)
    assert NOTHING == (0, 0, 0)


@pytest.mark.parametrize("position", [-1, CARDS])
def test_there_are_no_other_records(position: int) -> None:
    with pytest.raises(ValueError, match="there are 16"):
        record_at(position)
