"""Every metric and label that HAMi's board and web interface select is in what Tessera prints, of
state that its own code recorded. `tests/contract` has a real Prometheus evaluate the same."""

from __future__ import annotations

import re
from typing import Final

import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.dialects.hami import published_queries as published
from tests.dialects.hami.published_queries import Query
from tests.dialects.hami.recorded import (
    CARDS,
    CHARGED_MIB,
    GRANTS,
    LAST_LAUNCH_NS,
    NODE,
    OVERHEAD_MIB,
    SECOND,
    START_NS,
    scraped,
)
from tests.dialects.hami.recorded import usage as recorded_usage

_TEXT: Final = re.compile(r'"[^"]*"')
_WORD: Final = re.compile(r"[a-zA-Z_]\w*")
_GROUPING: Final = re.compile(r"\b(?:by|on)\s*\(([^)]*)\)")
_SELECTOR: Final = re.compile(r"\b(hami_\w+)\s*(?:\{([^}]*)\})?")
ADDED_BY_PROMETHEUS: Final = {"instance"}
Samples = dict[str, list[tuple[dict[str, str], float]]]


def selectors(query: Query) -> list[tuple[str, set[str]]]:
    """The metrics that an expression selects, each with the labels that it has to have: those of
    its matchers, and those that the expression groups or joins by, or its legend shows."""
    plain = _TEXT.sub('""', query.expression)
    everywhere = {word for labels in _GROUPING.findall(plain) for word in _WORD.findall(labels)}
    everywhere |= set() if " and on " in plain else set(query.legend)
    found = []
    for position, (name, matchers) in enumerate(_SELECTOR.findall(plain)):
        own = set(_WORD.findall(matchers))
        legend = set(query.legend) if position == 0 else set()
        found.append((name, (own | everywhere | legend) - ADDED_BY_PROMETHEUS))
    assert found, f"no metric in {query.expression}"
    return found


@pytest.fixture
async def samples() -> Samples:
    """By name, each with its labels and value."""
    found: Samples = {}
    for family in text_string_to_metric_families(await scraped("?legacy=true&web=true")):
        for sample in family.samples:
            found.setdefault(sample.name, []).append((dict(sample.labels), sample.value))
    return found


@pytest.mark.parametrize(
    "query",
    [*published.BOARD, *published.WEB_SERVER, *published.WEB_PAGES],
    ids=lambda query: query.expression,
)
async def test_what_is_selected_is_printed(query: Query, samples: Samples) -> None:
    for name, labels in selectors(query):
        assert name in samples, f"{name} is not printed"
        for present, _ in samples[name]:
            assert labels <= present.keys(), f"{name} lacks {sorted(labels - present.keys())}"


async def test_the_boards_variables_have_values(samples: Samples) -> None:
    values = {
        variable: {labels[label] for labels, _ in samples[name]}
        for variable, (name, label) in published.BOARD_VARIABLES.items()
    }
    assert values == {"$node": {NODE}, "$namespace": {grant.namespace for grant in GRANTS}}


async def test_what_the_vendors_exporter_says_is_left_to_it(samples: Samples) -> None:
    for query in published.OF_VENDORS_EXPORTERS:
        for name, _ in selectors(query):
            assert name not in samples


def test_a_selector_is_read_with_its_labels() -> None:
    joined = Query('hami_a and on (device_uuid) hami_b{node=~"$by"}', ("x",))
    assert selectors(joined) == [
        ("hami_a", {"device_uuid", "x"}), ("hami_b", {"device_uuid", "node"}),
    ]  # fmt: skip
    nested = Query('avg(sum(hami_c{pod="$p"}) by (instance)) by (node)', ("node",))
    assert selectors(nested) == [("hami_c", {"pod", "node"})]


def of(samples: Samples, name: str) -> dict[tuple[str, str], float]:
    """By pod and card."""
    return {
        (labels["pod"], labels["device_uuid"]): value for labels, value in samples[f"hami_{name}"]
    }


async def test_figures_of_containers_are_those_that_were_measured(samples: Samples) -> None:
    uses = {
        (one.pod, use.card): use for one in recorded_usage().containers for use in one.cards
    }  # fmt: skip
    charged = {
        (grant.name, share.card): CHARGED_MIB[grant.uid] << 20
        for grant in GRANTS
        for share in grant.shares
    }
    granted = {(g.name, s.card): s.memory_bytes for g in GRANTS for s in g.shares}
    assert of(samples, "vgpu_memory_used_bytes") == charged
    assert of(samples, "container_device_memory_bytes") == charged
    assert of(samples, "vgpu_memory_buffer_bytes") == charged
    assert of(samples, "vgpu_memory_context_bytes") == dict.fromkeys(charged, OVERHEAD_MIB << 20)
    assert of(samples, "vgpu_memory_module_bytes") == dict.fromkeys(charged, 0)
    assert of(samples, "vgpu_memory_limit_bytes") == granted
    busy = of(samples, "container_device_utilization_ratio")
    assert busy == {key: pytest.approx(use.cores_percent) for key, use in uses.items()}
    assert busy["train", CARDS[0].id] == pytest.approx(20)
    since = (START_NS + 3 * SECOND - LAST_LAUNCH_NS) // SECOND
    assert of(samples, "container_last_kernel_elapsed_seconds") == dict.fromkeys(charged, since)


async def test_figures_of_cards_are_their_drivers(samples: Samples) -> None:
    for name, field in (
        ("hami_host_gpu_memory_used_bytes", "memory_used_bytes"),
        ("hami_host_gpu_utilization_ratio", "cores_percent"),
        ("hami_host_gpu_memory_controller_utilization_ratio", "memory_busy_percent"),
    ):
        found = {labels["device_uuid"]: value for labels, value in samples[name]}
        assert found == {load.card: getattr(load, field) for load in recorded_usage().cards}
    labels, _ = samples["hami_host_gpu_memory_used_bytes"][0]
    assert labels == {
        "node": NODE, "device_index": "0", "device_uuid": CARDS[0].id,
        "device_type": CARDS[0].model, "zone": "vGPU",
    }  # fmt: skip


OLDER: Final = {
    "HostGPUMemoryUsage": "hami_host_gpu_memory_used_bytes",
    "HostCoreUtilization": "hami_host_gpu_utilization_ratio",
    "vGPU_device_memory_usage_in_bytes": "hami_vgpu_memory_used_bytes",
    "vGPU_device_memory_limit_in_bytes": "hami_vgpu_memory_limit_bytes",
    "Device_memory_desc_of_container": "hami_container_device_memory_bytes",
    "Device_utilization_desc_of_container": "hami_container_device_utilization_ratio",
    "Device_last_kernel_of_container": "hami_container_last_kernel_elapsed_seconds",
}


async def test_the_monitors_older_names_mean_the_same(samples: Samples) -> None:
    for old, new in OLDER.items():
        assert [value for _, value in samples[old]] == [value for _, value in samples[new]]
    host, _ = samples["HostCoreUtilization"][0]
    assert host.keys() == {"nodeid", "deviceidx", "deviceuuid", "devicetype", "zone"}
    breakdown, _ = samples["Device_memory_desc_of_container"][0]
    assert breakdown == {
        "podnamespace": "team", "podname": "train", "ctrname": "main", "vdeviceid": "0",
        "deviceuuid": CARDS[0].id, "context": str(OVERHEAD_MIB << 20), "module": "0",
        "data": str(CHARGED_MIB["u-train"] << 20), "offset": "0", "zone": "vGPU",
    }  # fmt: skip


async def test_neither_is_printed_without_a_parameter() -> None:
    plain = await scraped()
    for name in (*OLDER, "hami_vgpu_count", "hami_container_core_util"):
        assert name not in plain


async def test_the_build_is_named(samples: Samples) -> None:
    labels, value = samples["hami_build_info"][0]
    assert (labels["revision"], value) == ("abc", 1)
    assert {"version", "build_date", "go_version", "compiler", "platform"} <= labels.keys()
    assert "zone" not in labels
