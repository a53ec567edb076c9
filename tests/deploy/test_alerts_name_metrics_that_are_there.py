"""An alert on a metric that nobody publishes never rings, and a graph of it is empty; one that no
page explains is no help."""

from __future__ import annotations

import json
import re
from itertools import pairwise
from typing import Any

import yaml

from tessera_agent.metrics import AgentMetrics
from tessera_runtime.garbage import open_garbage_collector
from tessera_runtime.metrics import MetricsRegistry
from tests.deploy.manifests import KUSTOMIZE, ROOT, named, overlay

SERVICES = ("scheduler", "agent", "quota", "rebalancer")
RULES = KUSTOMIZE / "components/prometheus/rules.yaml"
MADE = re.compile(r"""(?:counter|gauge|histogram|full|_gauge|_counter)\(\s*"([a-z_]+)\"""")
METRIC = r"(?:tessera|process)_[a-z_]+"
OF_THE_PROCESS = {"process_resident_memory_bytes"}
SUFFIX = re.compile(r"_(total|bucket|count|sum)$")
RECORDED = re.compile(r"\w+:tessera_\w+:\w+")
VARIABLE = re.compile(r"\$\{?([a-z_]+)")
OF_GRAFANA = {"__rate_interval", "__url_time_range", "__value", "__data", "__from", "__to"}
COLUMNS = 24


def published(service: str) -> set[str]:
    """Names that the service's code makes, and those that are made only while it runs."""
    found: set[str] = set()
    for path in (ROOT / f"services/{service}/src").rglob("*.py"):
        names = MADE.findall(path.read_text(encoding="utf-8"))
        found |= {f"tessera_{service}_{SUFFIX.sub('', name)}" for name in names}
    agent, every = MetricsRegistry("agent"), MetricsRegistry(service)
    AgentMetrics(agent, "n")
    with open_garbage_collector() as garbage:
        garbage.publish(every)
        text = agent.text() + every.text()
    for line in text.decode().splitlines():
        if line.startswith("# TYPE "):
            found.add(SUFFIX.sub("", line.split()[2]))
    return found


def rules() -> list[dict[str, Any]]:
    groups = yaml.safe_load(RULES.read_text(encoding="utf-8"))["spec"]["groups"]
    return [rule for group in groups for rule in group["rules"]]


def alerts() -> list[dict[str, Any]]:
    return [rule for rule in rules() if "alert" in rule]


def recorded() -> set[str]:
    return {rule["record"] for rule in rules() if "record" in rule}


def named_in(query: str) -> set[str]:
    """Names of metrics in a query; those that are recorded have to be."""
    assert set(RECORDED.findall(query)) <= recorded(), query
    return {SUFFIX.sub("", name) for name in re.findall(METRIC, RECORDED.sub("", query))}


def test_metrics_of_rules_are_published() -> None:
    known = set[str]().union(*map(published, SERVICES))
    used = set[str]().union(*(named_in(rule["expr"]) for rule in rules()))
    assert len(used) > 10
    assert used - known == set()


def test_what_is_recorded_is_queried() -> None:
    texts = [rule["expr"] for rule in rules()]
    texts += [t["expr"] for d in dashboards() for panel in panels(d) for t in panel["targets"]]
    queried = set[str]().union(*(RECORDED.findall(text) for text in texts))
    assert recorded() == queried


def dashboards() -> list[dict[str, Any]]:
    (found,) = named(overlay("production"), "ConfigMap", "tessera-dashboards")
    assert found["metadata"]["labels"]["grafana_dashboard"] == "1"
    return [json.loads(text) for text in found["data"].values()]


def panels(dashboard: dict[str, Any]) -> list[dict[str, Any]]:
    """Those that query something."""
    return [panel for panel in dashboard["panels"] if panel["type"] != "row"]


def test_metrics_of_dashboards_are_published() -> None:
    known = set[str]().union(*map(published, SERVICES)) | OF_THE_PROCESS
    for dashboard in dashboards():
        for panel in panels(dashboard):
            queries = [target["expr"] for target in panel["targets"]]
            assert queries, panel["title"]
            assert set[str]().union(*map(named_in, queries)) <= known, panel["title"]
            assert all("tessera" in query.lower() for query in queries), panel["title"]


def test_panels_fill_whole_lines_and_have_titles_of_their_own() -> None:
    for dashboard in dashboards():
        titles = [panel["title"] for panel in panels(dashboard)]
        assert len(set(titles)) == len(titles)
        numbers = [panel["id"] for panel in dashboard["panels"]]
        assert len(set(numbers)) == len(numbers)
        lines: dict[int, list[tuple[int, int]]] = {}
        for panel in dashboard["panels"]:
            place = panel["gridPos"]
            lines.setdefault(place["y"], []).append((place["x"], place["x"] + place["w"]))
        for line in lines.values():
            edges = sorted(line)
            assert edges[0][0] == 0
            assert edges[-1][1] == COLUMNS
            assert all(left[1] == right[0] for left, right in pairwise(edges))


def test_dashboards_have_each_variable_that_they_use_and_no_other() -> None:
    for dashboard in dashboards():
        variables = {v["name"]: v for v in dashboard["templating"]["list"]}
        used = set(VARIABLE.findall(json.dumps(dashboard["panels"] + dashboard["links"])))
        of_others = {n for v in variables.values() for n in VARIABLE.findall(str(v["query"]))}
        assert used | of_others == {*variables, *(OF_GRAFANA & used)}, dashboard["title"]
        repeated = {p["repeat"] for p in dashboard["panels"] if "repeat" in p}
        assert all(not variables[name]["includeAll"] for name in repeated)


def test_durations_show_their_traces() -> None:
    shown = set[str]()
    for dashboard in dashboards():
        for panel in panels(dashboard):
            drawn = [t for t in panel["targets"] if t.get("exemplar")]
            if drawn:
                assert "${traces}" in panel["fieldConfig"]["defaults"]["links"][0]["url"]
            shown |= set(re.findall(r"tessera_\w+_seconds(?=_bucket)", str(drawn)))
    assert shown == {
        "tessera_scheduler_extender_seconds", "tessera_scheduler_bind_seconds",
        "tessera_scheduler_admission_seconds", "tessera_agent_prepare_seconds",
    }  # fmt: skip


def test_the_page_names_the_dashboards() -> None:
    text = (ROOT / "docs/operations.md").read_text(encoding="utf-8")
    assert [d["title"] for d in dashboards() if f"`{d['title']}`" not in text] == []


def test_every_alert_is_explained() -> None:
    text = (ROOT / "docs/operations.md").read_text(encoding="utf-8")
    names = [rule["alert"] for rule in alerts()]
    assert len(set(names)) == len(names)
    assert [name for name in names if f"`{name}`" not in text] == []


def test_every_alert_has_a_headline_a_sentence_and_its_row_of_the_page() -> None:
    page = (ROOT / "docs/operations.md").read_text(encoding="utf-8")
    headlines = set[str]()
    for rule in alerts():
        notes, anchor = rule["annotations"], rule["alert"].lower()
        assert set(notes) == {"summary", "description", "runbook"}
        assert len(notes["summary"]) <= 60
        assert "{{" not in notes["summary"]
        assert notes["runbook"] == f"docs/operations.md#{anchor}"
        assert page.count(f'<a id="{anchor}"></a>`{rule["alert"]}`') == 1
        headlines.add(notes["summary"])
    assert len(headlines) == len(alerts())


def test_an_alert_about_a_state_waits_until_it_lasts() -> None:
    """Of what has happened once, and of what did not happen for an hour, none could wait."""
    at_once = {rule["alert"] for rule in alerts() if "for" not in rule}
    of_events = {
        rule["alert"] for rule in alerts() if re.search(r"increase\(|time\(\)", rule["expr"])
    }
    assert at_once <= of_events


def test_every_metric_that_the_page_names_is_published() -> None:
    text = (ROOT / "docs/operations.md").read_text(encoding="utf-8")
    known = set[str]().union(*map(published, SERVICES))
    named = {
        SUFFIX.sub("", name)
        for name in re.findall(r"tessera_(?:scheduler|agent|quota|rebalancer)_[a-z_]+", text)
    }
    assert named
    assert named - known == set()
