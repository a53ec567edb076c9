"""The agent among the services that NATS lists (`nats service ls`), with a word on how it is.

    nats request tessera.ask.<cluster>.agent.info-<node>-<vendor> ''

Agents have a subject each, the node's dots as underscores: any one would answer a common one.
Nothing depends on it.
"""

from __future__ import annotations

from msgspec import Struct

from tessera_agent.agent import Agent
from tessera_agent.settings import AgentSettings
from tessera_schema.messages.device_reports import CardHeld


class AgentInfo(Struct, frozen=True, kw_only=True):
    """The answer to `info`."""

    node: str
    vendor: str
    problem: str
    """Why containers cannot get cards now; empty when they can."""
    problems: tuple[str, ...]
    """What is wrong with driver, runtime or cards, a sentence each."""
    cards: int
    healthy: int
    held: tuple[CardHeld, ...]


def info(agent: Agent, settings: AgentSettings) -> AgentInfo:
    """How the agent is now."""
    cards = agent.devices.latest.cards
    return AgentInfo(
        node=settings.node, vendor=settings.vendor, problem=agent.problem(),
        problems=agent.devices.state.problems, cards=len(cards),
        healthy=sum(card.healthy for card in cards), held=agent.holdings.by_card(),
    )  # fmt: skip
