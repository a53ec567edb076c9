"""A real Prometheus scrapes the real services, records the rules, and evaluates each query of each
dashboard and alert."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest
import yaml

from tests.contract.prometheus import Json, Prometheus, prometheus, scrapes
from tests.contract.served_services import VENDOR, served_services

COMPONENT: Final = Path(__file__).parents[2] / "deploy/kustomize/components/prometheus"
META: Final = {
    "__meta_kubernetes_pod_node_name": "worker-1",
    "__meta_kubernetes_pod_label_app_kubernetes_io_component": VENDOR,
}
VARIABLES: Final = {"$__rate_interval": "1m"}
"""Of Grafana. All others stand for every value at first."""
ELSEWHERE: Final = re.compile(r"ALERTS|kube_\w+|process_\w+|tessera_scheduler_loop_blocked_total")
"""Made by Prometheus, by kube-state-metrics, and by services only where they are processes."""
MAY_BE_ABSENT: Final = {"cluster", "le"}
"""Labels that series may lack, or that only buckets have."""
GROWN: Final = {"tessera_scheduler_resizes_total"}
"""Counters that have no series before the first of what they count."""


class Question(NamedTuple):
    """A query, where it stands, and the labels that its legend shows."""

    where: str
    query: str
    labels: frozenset[str] = frozenset()


def boards() -> list[Json]:
    return [json.loads(path.read_text()) for path in sorted(COMPONENT.glob("dashboards/*.json"))]


def groups() -> list[Json]:
    found: list[Json] = yaml.safe_load((COMPONENT / "rules.yaml").read_text())["spec"]["groups"]
    return found


def of_panels() -> Iterator[Question]:
    for board in boards():
        for panel in board["panels"]:
            for target in panel.get("targets", ()):
                labels = re.findall(r"{{(\w+)}}", target.get("legendFormat", ""))
                where = f"{board['title']}, {panel['title']}"
                yield Question(where, filled_in(target["expr"]), frozenset(labels))


def of_variables() -> Iterator[Question]:
    for board in boards():
        for variable in board["templating"]["list"]:
            if variable["type"] == "query":
                found = re.fullmatch(r"label_values\((.*), (\w+)\)", variable["query"]["query"])
                assert found is not None
                where = f"{board['title']}, variable {variable['name']}"
                yield Question(where, filled_in(found[1]), frozenset({found[2]}))


def filled_in(query: str) -> str:
    for name, value in VARIABLES.items():
        query = query.replace(name, value)
    return re.sub(r"\$\w+", ".*", query)


@asynccontextmanager
async def recording(folder: Path) -> AsyncGenerator[Prometheus]:
    """Prometheus, once all services were scraped twice and all rules were evaluated."""
    rules = [{**group, "interval": "1s"} for group in groups()]
    (folder / "rules.yaml").write_text(yaml.safe_dump({"groups": rules}))
    monitors = list(yaml.safe_load_all((COMPONENT / "monitors.yaml").read_text()))
    async with served_services(folder) as urls:
        jobs = list(scrapes(monitors, {f"tessera-{n}": url for n, url in urls.items()}, META))
        configuration = {"scrape_configs": jobs, "rule_files": ["rules.yaml"]}
        async with prometheus(folder, configuration) as server:

            async def evaluated() -> bool:
                twice = await server.query("count_over_time(up[1m]) > 2 and up == 1")
                last = await server.query("namespace:tessera_gpu_hours:sum1d")
                return len(twice) == len(urls) and bool(last)

            await server.until(evaluated)
            yield server


def parts(tree: Any) -> Iterator[Json]:
    """A parsed expression, and all below it."""
    if isinstance(tree, list):
        for one in tree:
            yield from parts(one)
    elif isinstance(tree, dict):
        yield tree
        for one in tree.values():
            yield from parts(one)


def selectors(tree: Any) -> list[Json]:
    """Those of names that the services here publish."""
    found = (p for p in parts(tree) if p.get("type") in ("vectorSelector", "matrixSelector"))
    return [one for one in found if one["name"] and not ELSEWHERE.fullmatch(one["name"])]


async def check_names(server: Prometheus, question: Question) -> None:
    """Each name is published, with the labels that the query selects and groups by."""
    tree = await server.get("parse_query", query=question.query)
    series: dict[str, list[dict[str, str]]] = {}
    for selector in selectors(tree):
        name = selector["name"]
        series[name] = await server.get("series", **{"match[]": name})
        assert series[name] or name in GROWN, f"{question}: nobody publishes {name}"
        labels = {matcher["name"] for matcher in selector["matchers"]} - MAY_BE_ABSENT
        assert all(labels <= one.keys() for one in series[name]), f"{question}: {series[name][:1]}"
    for part in parts(tree):
        if part.get("type") == "aggregation" and not part["without"]:
            labels = set(part["grouping"]) - MAY_BE_ABSENT
            for selector in selectors(part):
                assert all(labels <= one.keys() for one in series[selector["name"]]), question


@pytest.mark.timeout(300)
async def test_every_query_has_figures_of_series_that_exist(tmp_path: Path) -> None:
    rules = [rule for group in groups() for rule in group["rules"]]
    written = [Question(rule.get("alert") or rule["record"], rule["expr"]) for rule in rules]
    async with recording(tmp_path) as server:
        for question in (*of_panels(), *written):
            await check_names(server, question)
            rows = await server.query(question.query)
            # What compares may find nothing, and is about what is not so in this cluster.
            compares = re.search(r"[<>=]=? (?!bool)\d|ALERTS|absent", question.query)
            if not compares and not any(re.search(name, question.query) for name in GROWN):
                assert rows or ELSEWHERE.search(question.query), question
            for row in rows:
                assert question.labels <= row["metric"].keys(), question
        for question in of_variables():
            series = await server.get("series", **{"match[]": question.query})
            assert series, question
            if not question.labels <= MAY_BE_ABSENT:
                assert all(question.labels <= one.keys() for one in series), question


@pytest.mark.timeout(300)
async def test_recorded_figures_are_right(tmp_path: Path) -> None:
    """Of two cards of 16 GiB one has a share of 4, the other of 1; a pod waits for room, and a gang
    in a queue."""
    async with recording(tmp_path) as server:

        async def number(query: str) -> float:
            found = await server.query(query)
            assert len(found) == 1, f"{query}: {found}"
            return float(found[0]["value"][1])

        nvidia = f'{{vendor="{VENDOR}"}}'
        assert await number(f"vendor:tessera_cards:count{nvidia}") == 2
        assert await number(f"vendor:tessera_cards_granted:ratio{nvidia}") == 1
        assert await number(f"vendor:tessera_memory_granted:ratio{nvidia}") == 5 / 32
        team = '{namespace="team"}'
        assert await number(f"namespace:tessera_memory_granted_bytes:sum{team}") == 5 << 30
        waiting = await number('namespace:tessera_waiting_pods:sum{namespace="default"}')
        assert waiting == 2  # the one, and the member of the gang that was tried
        assert await number('namespace:tessera_longest_wait_seconds:max{namespace="default"}') >= 0
        assert await number('queue:tessera_cards_used:max{queue="q",vendor="nvidia"}') == 0
        used = await number(f"namespace:tessera_gpus_used:sum{team}")
        hours = await number(f"namespace:tessera_gpu_hours:sum1d{team}")
        samples = await number(f"count_over_time(namespace:tessera_gpus_used:sum{team}[1d])")
        assert hours <= used * samples / 60
