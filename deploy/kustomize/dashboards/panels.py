"""Kinds of panels, rows of them, and what Grafana reads of a dashboard."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final
from urllib.parse import quote

from msgspec import Struct

Json = dict[str, Any]

COLUMNS: Final = 24
"""Of Grafana's grid."""
SOURCE: Final = {"type": "prometheus", "uid": "${source}"}


class Panel(Struct, frozen=True):
    """One panel, without its place."""

    title: str
    kind: str
    width: int
    height: int
    body: Json


class Row(Struct, frozen=True):
    """Panels under a title, line by line; once for each value of the variable `repeat`."""

    title: str
    panels: tuple[Panel, ...]
    repeat: str = ""


class Column(Struct, frozen=True):
    """A column of a table: a query with one figure for each line."""

    title: str
    query: str
    unit: str = "short"


class Dashboard(Struct, frozen=True):
    """A dashboard, with variables as `variables` makes them."""

    name: str
    variables: tuple[Json, ...]
    rows: tuple[Row, ...]

    def json(self) -> Json:
        """What Grafana imports."""
        others = {
            "title": "Tessera", "type": "dashboards", "tags": ["tessera"], "asDropdown": True,
            "includeVars": True, "keepTime": True,
        }  # fmt: skip
        runbook = {
            "title": "Runbook", "type": "link", "icon": "doc", "targetBlank": True,
            "url": "${docs}/operations.md#alerts", "tooltip": "What alerts mean, and what to do",
        }  # fmt: skip
        return {
            "uid": uid(self.name), "title": f"Tessera: {self.name}", "tags": ["tessera"],
            "schemaVersion": 39, "editable": True, "refresh": "30s",
            "time": {"from": "now-3h", "to": "now"},
            "templating": {"list": list(self.variables)}, "links": [others, runbook],
            "panels": [{"id": n + 1, **panel} for n, panel in enumerate(_placed(self.rows))],
        }  # fmt: skip


def uid(name: str) -> str:
    """By which links name a dashboard."""
    return "tessera-" + name.replace(" ", "-")


def link(name: str, **variables: str) -> str:
    """A URL of another dashboard, with these variables besides the time and those in common."""
    values = "".join(f"&var-{name}={value}" for name, value in variables.items())
    common = "${__url_time_range}&${source:queryparam}&${cluster:queryparam}"
    return f"/d/{uid(name)}?{common}{values}"


def stat(title: str, query: str, unit: str = "short", *, bad_above: float | None = None) -> Panel:
    """One figure; red above a bound."""
    steps: list[Json] = [{"color": "text", "value": None}]
    if bad_above is not None:
        steps.append({"color": "red", "value": bad_above})
    defaults = {"unit": unit, "thresholds": {"mode": "absolute", "steps": steps}, "noValue": "0"}
    return Panel(title, "stat", 3, 4, {
        "targets": [_target(0, query)],
        "options": {
            "reduceOptions": {"calcs": ["lastNotNull"], "values": False}, "colorMode": "value",
            "graphMode": "area", "textMode": "value",
        },
        "fieldConfig": {"defaults": defaults, "overrides": []},
    })  # fmt: skip


def graph(title: str, query: str, legend: str = "", unit: str = "short") -> Panel:
    """One query over time."""
    return graphs(title, (query, legend), unit=unit)


def graphs(title: str, *queries: tuple[str, str], unit: str = "short", span: str = "") -> Panel:
    """Queries with their legends, drawn together. With the name of a `span` they are durations:
    exemplars are drawn, and a click finds the traces that took longer."""
    defaults: Json = {"unit": unit, "min": 0}
    if span:
        defaults["links"] = [{"title": "Traces that took longer", "url": _slower(span)}]
    return Panel(title, "timeseries", 8, 8, {
        "targets": [
            {**_target(n, query), "legendFormat": legend or "__auto", "exemplar": bool(span)}
            for n, (query, legend) in enumerate(queries)
        ],
        "fieldConfig": {"defaults": defaults, "overrides": []},
    })  # fmt: skip


def table(
    title: str, by: Mapping[str, str], *columns: Column, width: int = COLUMNS,
    links: Mapping[str, str] = {},
) -> Panel:  # fmt: skip
    """A line for each set of labels, which `by` names and gives headings; `links` are URLs by
    label. The first column orders the lines."""
    values = [f"Value #{_ref(n)}" if len(columns) > 1 else "Value" for n in range(len(columns))]
    names = dict(by) | {v: c.title for v, c in zip(values, columns, strict=True)}
    overrides = [_override(c.title, unit=c.unit) for c in columns]
    overrides += [_override(by[label], links=[_link(url)]) for label, url in links.items()]
    organize = {
        "excludeByName": {"Time": True}, "renameByName": names,
        "indexByName": {name: n for n, name in enumerate(names)},
    }  # fmt: skip
    return Panel(title, "table", width, 8, {
        "targets": [
            {**_target(n, c.query), "instant": True, "range": False, "format": "table"}
            for n, c in enumerate(columns)
        ],
        "transformations": [
            {"id": "merge", "options": {}}, {"id": "organize", "options": organize},
        ],
        "options": {"sortBy": [{"displayName": columns[0].title, "desc": True}]},
        "fieldConfig": {"defaults": {"custom": {"filterable": True}}, "overrides": overrides},
    })  # fmt: skip


def _target(number: int, query: str) -> Json:
    return {"refId": _ref(number), "expr": query, "datasource": SOURCE}


def _ref(number: int) -> str:
    return chr(ord("A") + number)


def _link(url: str) -> Json:
    return {"title": "${__value.raw}", "url": url}


def _override(column: str, **properties: object) -> Json:
    return {
        "matcher": {"id": "byName", "options": column},
        "properties": [{"id": name, "value": value} for name, value in properties.items()],
    }


def _slower(span: str) -> str:
    """Grafana's page of traces with this span, longer than the value that was clicked."""
    traces = {"type": "tempo", "uid": "${traces}"}
    query = {
        "refId": "A", "datasource": traces, "queryType": "traceql",
        "query": f'{{ name = "{span}" && duration > ${{__value.raw}}s }}',
    }  # fmt: skip
    shown = {"from": "${__from}", "to": "${__to}"}
    panes = {"t": {"datasource": "${traces}", "queries": [query], "range": shown}}
    return "/explore?schemaVersion=1&panes=" + quote(json.dumps(panes), safe="${}")


def _placed(rows: Sequence[Row]) -> Iterator[Json]:
    """All panels with their places; each row has a panel of its own for its title."""
    y = 0
    for row in rows:
        head: Json = {"type": "row", "title": row.title, "collapsed": False, "panels": []}
        if row.repeat:
            head["repeat"] = row.repeat
        yield {**head, "gridPos": {"x": 0, "y": y, "w": COLUMNS, "h": 1}}
        y, x, height = y + 1, 0, 0
        for panel in row.panels:
            if x + panel.width > COLUMNS:
                y, x, height = y + height, 0, 0
            place = {"x": x, "y": y, "w": panel.width, "h": panel.height}
            yield {
                "type": panel.kind, "title": panel.title, "datasource": SOURCE, "gridPos": place,
                **panel.body,
            }  # fmt: skip
            x, height = x + panel.width, max(height, panel.height)
        y += height
