"""A running container's limits can be changed, within what the card has."""

from pathlib import Path

import pytest

from tessera_agent.files import Key
from tessera_agent.resizing import NoRoom, NotHeld
from tessera_core.hookfiles.limits import PATH, Mode, decode_limits
from tessera_kubelet.errors import ContainerRefused
from tessera_schema.cards import MIB
from tests.agent.nri.world import a_node, a_share, granted

KEY = Key(uid="uid-job", container="main")


async def test_what_is_taken_away_is_there_for_others(tmp_path: Path) -> None:
    other = granted("other", a_share(mib=10_000))
    async with a_node(tmp_path) as node, node.agent() as agent:
        given = await node.run(granted("job", a_share(mib=10_000)))
        with pytest.raises(ContainerRefused, match="CardOverfull"):
            await node.create(other)
        await agent.resizer.set_limits(KEY, a_share(mib=6_000, cores_percent=20))
        await node.create(other)
        file = next(Path(m.source) for m in given.mounts if m.destination == PATH)
        limits = decode_limits(file.read_bytes())
        [card] = limits.cards
        assert (card.memory_bytes, card.cores_permille) == (6_000 * MIB, 200)
        assert card.mode is Mode.HARD  # it had no limit of cores before
        assert limits.generation == 2


async def test_what_is_not_there_is_not_given(tmp_path: Path) -> None:
    async with a_node(tmp_path) as node, node.agent() as agent:
        await node.run(granted("job", a_share(mib=8_000)))
        await node.run(granted("other", a_share(mib=8_000)))
        with pytest.raises(NoRoom, match="9000 MiB wanted, 8000 of 16384 MiB in use"):
            await agent.resizer.set_limits(KEY, a_share(mib=9_000))
        assert agent.holdings.held()["uid-job"] == [a_share(mib=8_000)]


async def test_only_what_a_container_holds_can_be_changed(tmp_path: Path) -> None:
    async with a_node(tmp_path) as node, node.agent() as agent:
        await node.run(granted("job", a_share()))
        with pytest.raises(NotHeld, match="card GPU-1"):
            await agent.resizer.set_limits(KEY, a_share(card=1))
        with pytest.raises(NotHeld, match="pod uid-other"):
            await agent.resizer.set_limits(Key(uid="uid-other", container="main"), a_share())


async def test_a_file_that_cannot_be_written_changes_nothing(tmp_path: Path) -> None:
    async with a_node(tmp_path) as node, node.agent() as agent:
        given = await node.run(granted("job", a_share(mib=8_000)))
        next(Path(m.source) for m in given.mounts if m.destination == PATH).unlink()
        with pytest.raises(FileNotFoundError):
            await agent.resizer.set_limits(KEY, a_share(mib=9_000))
        assert agent.holdings.held()["uid-job"] == [a_share(mib=8_000)]
