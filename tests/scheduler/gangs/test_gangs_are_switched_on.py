"""The switch: what it may be, and what it changes at admission."""

from __future__ import annotations

from pathlib import Path

import pytest

from tessera_runtime.errors import BadSettings
from tessera_runtime.settings import load
from tessera_scheduler.settings import SchedulerSettings
from tests.webhook.setting import a_manifest, mutated, the_rules

KUSTOMIZE = Path(__file__).parents[3] / "deploy/kustomize"


def test_gangs_are_off_unless_they_are_switched_on() -> None:
    assert not load(SchedulerSettings, {}).gangs.on
    assert load(SchedulerSettings, {"TESSERA_GANGS_SCHEDULING": "on"}).gangs.on
    assert not load(SchedulerSettings, {"TESSERA_GANGS_SCHEDULING": "off"}).gangs.on


def test_another_word_is_refused_with_the_variable() -> None:
    with pytest.raises(BadSettings, match="TESSERA_GANGS_SCHEDULING"):
        load(SchedulerSettings, {"TESSERA_GANGS_SCHEDULING": "maybe"})


def test_a_barrier_for_which_kube_scheduler_does_not_wait_is_refused_with_both_settings() -> None:
    on = {"TESSERA_GANGS_SCHEDULING": "on", "TESSERA_GANGS_BARRIER_S": "60"}
    with pytest.raises(BadSettings, match=r"gangs\.barrier_s: 60: .*gangs\.http_timeout_s \(30\)"):
        load(SchedulerSettings, on).check()
    load(SchedulerSettings, {**on, "TESSERA_GANGS_HTTP_TIMEOUT_S": "90"}).check()
    load(SchedulerSettings, {"TESSERA_GANGS_BARRIER_S": "60"}).check()


def test_the_component_switches_them_on() -> None:
    text = (KUSTOMIZE / "components/gangs/scheduler.yaml").read_text()
    assert '{name: TESSERA_GANGS_SCHEDULING, value: "on"}' in text


def test_nobody_is_warned_that_pods_go_one_by_one_where_they_do_not() -> None:
    pod = a_manifest(notes={"scheduling.k8s.io/group-name": "g"})
    warned = mutated(pod).warnings
    assert sum("one by one" in warning for warning in warned) == 1
    quiet = mutated(pod, rules=the_rules(whole_gangs=True)).warnings
    assert [warning for warning in warned if "one by one" not in warning] == list(quiet)
