"""Nodes and their cards."""

from __future__ import annotations

from typing import Final

from deploy.kustomize.dashboards.panels import (
    Column,
    Dashboard,
    Row,
    graph,
    graphs,
    link,
    stat,
    table,
)
from deploy.kustomize.dashboards.variables import (
    COMMON,
    NODE,
    VENDOR,
    of_node,
    rates,
    series,
    values,
)

SHOWN: Final = values(
    "card", "Cards in rows",
    'tessera_agent_card_healthy{cluster=~"$cluster",vendor=~"$vendor",node=~"$node"}', every=False,
)  # fmt: skip
CARD: Final = {"node": "Node", "card": "Card", "model": "Model", "vendor": "Vendor"}


def per_card(metric: str) -> str:
    """One figure for each card."""
    return f"max by ({', '.join(CARD)}) ({of_node(f'tessera_agent_card_{metric}')})"


def of_card(metric: str) -> str:
    """Of the card of the row."""
    return of_node(metric, card="$card")


NOW: Final = Row("Now", (
    stat("Nodes", f"count(count by (node) ({of_node('tessera_agent_card_shares')}))"),
    stat("Cards", f"count({of_node('tessera_agent_card_shares')})"),
    stat("Shares", f"sum({of_node('tessera_agent_card_shares')})"),
    stat("Memory granted", f"sum({of_node('tessera_agent_card_memory_granted_bytes')})", "bytes"),
    stat("Memory used", f"sum({of_node('tessera_agent_card_memory_used_bytes')})", "bytes"),
    stat("Busy", f"avg({of_node('tessera_agent_card_busy_percent')})", "percent"),
    stat("Cards that take no pods",
        f"sum({of_node('tessera_agent_card_healthy')} == bool 0)", bad_above=1),
    stat("Problems", f"sum({of_node('tessera_agent_problems')})", bad_above=1),
))  # fmt: skip
CARDS: Final = Row("Cards", (
    table("Cards by node", CARD,
        Column("Busy", per_card("busy_percent"), "percent"),
        Column("Cores granted", per_card("cores_granted_percent"), "percent"),
        Column("Shares", per_card("shares")),
        Column("Memory", per_card("memory_bytes"), "bytes"),
        Column("Memory granted", per_card("memory_granted_bytes"), "bytes"),
        Column("Memory used", per_card("memory_used_bytes"), "bytes"),
        Column("Takes pods", per_card("healthy"), "bool_yes_no"),
        links={"card": link("nodes and cards", card="${__value.raw}")}),
))  # fmt: skip
PER_CARD: Final = Row("$card", (
    graphs("Cores of $card",
        (of_card("tessera_agent_card_busy_percent"), "used"),
        (of_card("tessera_agent_card_cores_granted_percent"), "granted"), unit="percent"),
    graphs("Memory of $card",
        (of_card("tessera_agent_card_memory_bytes"), "there"),
        (of_card("tessera_agent_card_memory_granted_bytes"), "granted"),
        (of_card("tessera_agent_card_memory_used_bytes"), "used"), unit="bytes"),
    graph("Pods on $card", of_card("tessera_agent_container_memory_bytes"),
        "{{namespace}}/{{pod}} {{container}}", "bytes"),
), repeat="card")  # fmt: skip
USE: Final = Row("How cards are used", (
    graph("Contended", series("tessera_rebalancer_card_contended_percent", node="$node"),
        "{{node}} {{card}}", "percent"),
    graph("Granted cores at rest",
        series("tessera_rebalancer_card_idle_cores_percent", node="$node"),
        "{{node}} {{card}}", "percent"),
    graph("Processes on a card",
        f"sum by (node, card) ({of_node('tessera_agent_container_processes')})",
        "{{node}} {{card}}"),
))  # fmt: skip
HEALTH: Final = Row("Is all well", (
    table("Cards that take no pods (none)", CARD,
        Column("Takes pods", f"{per_card('healthy')} == 0", "bool_yes_no"), width=8),
    graph("Problems of nodes", f"{of_node('tessera_agent_problems')} > 0", "{{node}} {{vendor}}"),
    graph("Polls that the driver left unanswered",
        rates("tessera_agent_silent_polls_total", "node", vendor="$vendor", node="$node"),
        "{{node}}"),
))  # fmt: skip
DASHBOARD: Final = Dashboard(
    "nodes and cards", (*COMMON, VENDOR, NODE, SHOWN), (NOW, CARDS, PER_CARD, USE, HEALTH)
)
