"""An alert on a metric that nobody publishes never rings, and a graph of it is empty; one that no
page explains is no help."""

from __future__ import annotations

import json
import re
from typing import Any

import yaml

from tessera_agent.metrics import AgentMetrics
from tessera_runtime.metrics import MetricsRegistry
from tests.deploy.manifests import KUSTOMIZE, ROOT, named, overlay

SERVICES = ("scheduler", "agent", "quota", "rebalancer")
RULES = KUSTOMIZE / "components/prometheus/rules.yaml"
MADE = re.compile(r"""(?:counter|gauge|histogram|full|_gauge|_counter)\(\s*"([a-z_]+)\"""")
METRIC = r"(?:tessera|process)_[a-z_]+"
OF_THE_PROCESS = {"process_resident_memory_bytes"}
SUFFIX = re.compile(r"_(total|bucket|count|sum)$")


def published(service: str) -> set[str]:
    """Names that the service's code makes, and those that are made only while it runs."""
    found: set[str] = set()
    for path in (ROOT / f"services/{service}/src").rglob("*.py"):
        names = MADE.findall(path.read_text(encoding="utf-8"))
        found |= {f"tessera_{service}_{SUFFIX.sub('', name)}" for name in names}
    registry = MetricsRegistry("agent")
    AgentMetrics(registry, "n")
    for line in registry.text().decode().splitlines():
        if line.startswith("# TYPE "):
            found.add(SUFFIX.sub("", line.split()[2]))
    return found


def rules() -> list[dict[str, Any]]:
    groups = yaml.safe_load(RULES.read_text(encoding="utf-8"))["spec"]["groups"]
    return [rule for group in groups for rule in group["rules"]]


def test_metrics_of_rules_are_published() -> None:
    known = set[str]().union(*map(published, SERVICES))
    used = {
        SUFFIX.sub("", name)
        for rule in rules()
        for name in re.findall(r"tessera_[a-z_]+", rule["expr"])
    }
    assert len(used) > 10
    assert used - known == set()


def dashboards() -> list[dict[str, Any]]:
    (found,) = named(overlay("production"), "ConfigMap", "tessera-dashboards")
    assert found["metadata"]["labels"]["grafana_dashboard"] == "1"
    return [json.loads(text) for text in found["data"].values()]


def test_metrics_of_dashboards_are_published() -> None:
    known = set[str]().union(*map(published, SERVICES)) | OF_THE_PROCESS
    for dashboard in dashboards():
        titles = [panel["title"] for panel in dashboard["panels"]]
        assert len(set(titles)) == len(titles)
        assert len(titles) in (6, 12)  # whole rows
        for panel in dashboard["panels"]:
            asks = [target["expr"] for target in panel["targets"]]
            used = {name for ask in asks for name in re.findall(METRIC, ask)}
            assert used, panel["title"]
            assert {SUFFIX.sub("", name) for name in used} <= known, panel["title"]
            assert all(ask.count("(") == ask.count(")") for ask in asks)


def test_the_page_names_the_dashboards() -> None:
    text = (ROOT / "docs/operations.md").read_text(encoding="utf-8")
    assert [d["title"] for d in dashboards() if f"`{d['title']}`" not in text] == []


def test_every_alert_is_explained() -> None:
    text = (ROOT / "docs/operations.md").read_text(encoding="utf-8")
    names = [rule["alert"] for rule in rules()]
    assert len(set(names)) == len(names)
    assert [name for name in names if f"`{name}`" not in text] == []


def test_every_alert_has_a_headline_a_sentence_and_its_row_of_the_page() -> None:
    page = (ROOT / "docs/operations.md").read_text(encoding="utf-8")
    headlines = set[str]()
    for rule in rules():
        notes, anchor = rule["annotations"], rule["alert"].lower()
        assert set(notes) == {"summary", "description", "runbook"}
        assert len(notes["summary"]) <= 60
        assert "{{" not in notes["summary"]
        assert notes["runbook"] == f"docs/operations.md#{anchor}"
        assert page.count(f'<a id="{anchor}"></a>`{rule["alert"]}`') == 1
        headlines.add(notes["summary"])
    assert len(headlines) == len(rules())


def test_an_alert_about_a_state_waits_until_it_lasts() -> None:
    """Of what has happened once, and of what did not happen for an hour, none could wait."""
    at_once = {rule["alert"] for rule in rules() if "for" not in rule}
    of_events = {
        rule["alert"] for rule in rules() if re.search(r"increase\(|time\(\)", rule["expr"])
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
