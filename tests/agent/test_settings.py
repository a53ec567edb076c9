"""Settings that make no sense are refused by name."""

import pytest

from tessera_agent.settings import AgentSettings
from tessera_runtime.errors import BadSettings
from tessera_runtime.settings import load

NEEDED = {"TESSERA_NODE": "worker-1", "TESSERA_VENDOR": "nvidia"}


def test_two_things_must_be_said() -> None:
    assert load(AgentSettings, NEEDED).health.poll_s == 1
    with pytest.raises(BadSettings, match=r"TESSERA_NODE: not set.*TESSERA_VENDOR: not set"):
        load(AgentSettings, {})


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("TESSERA_HEALTH_POLL_S", "0"),
        ("TESSERA_HEALTH_RECOVER_POLLS", "-1"),
        ("TESSERA_INVENTORY_SLOTS", "0"),
        ("TESSERA_USAGE_INTERVAL_S", "-2"),
        ("TESSERA_USAGE_CORRECT_S", "0"),
        ("TESSERA_READER_CALL_S", "soon"),
        ("TESSERA_LENDING_LOAN_S", "0.15"),
        ("TESSERA_RESIZE_PATIENCE_S", "0"),
        ("TESSERA_LIMITS", "a/limits"),
    ],
)
def test_nonsense_is_refused(name: str, value: str) -> None:
    with pytest.raises(BadSettings, match=r"(write|unset)"):
        load(AgentSettings, NEEDED | {name: value})


def test_codes_to_ignore_are_a_list() -> None:
    read = load(AgentSettings, NEEDED | {"TESSERA_HEALTH_IGNORED_CODES": "94, 63"})
    assert read.health.ignored_codes == (94, 63)
