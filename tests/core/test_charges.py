import pytest
from msgspec.structs import replace

from tessera_core.fleet.charges import Charge, charge_of, charges, init_is_over
from tessera_core.quota.allowance import use_of
from tessera_schema.cards import Card
from tessera_schema.grants import Share
from tessera_schema.requests import Role
from tessera_testing.builders import a_container, a_pod

APP, INIT, SIDECAR = Role.APP, Role.INIT, Role.SIDECAR


def shares(*held: tuple[Role, int, float], card: str = "g0") -> list[Share]:
    return [
        Share(
            container=f"c{i}", position=i, role=role, vendor="acme", dialect="acme", card=card,
            index=0, memory_bytes=memory, cores_percent=cores,
        )
        for i, (role, memory, cores) in enumerate(held)
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("held", "want"),
    [
        pytest.param([(APP, 100, 10), (APP, 200, 20)], Charge(300, 30_000, 2, 0, 300), id="USE-01"),
        pytest.param(
            [(INIT, 100, 10), (INIT, 200, 30)], Charge(200, 30_000, 1, 0, 200), id="USE-02"
        ),
        pytest.param(
            [(INIT, 500, 10), (APP, 100, 40)],
            Charge(500, 40_000, 1, 0, 500),
            id="the larger of each",
        ),
        pytest.param(
            [(SIDECAR, 100, 10), (INIT, 300, 10), (APP, 150, 20)],
            Charge(400, 30_000, 2, 0, 400),
            id="an init container runs beside the sidecar before it",
        ),
        pytest.param(
            [(INIT, 300, 10), (SIDECAR, 100, 10), (APP, 150, 20)],
            Charge(300, 30_000, 2, 0, 300),
            id="and not beside the one after it",
        ),
    ],
)
def test_a_card_is_charged_what_runs_at_one_time(
    held: list[tuple[Role, int, float]], want: Charge
) -> None:
    assert charges(shares(*held)) == {"g0": want}


def test_once_init_is_over_only_what_runs_is_charged() -> None:
    held = shares((INIT, 999, 99), (APP, 100, 10), (APP, 200, 20))
    assert charges(held, init_over=True) == {"g0": Charge(300, 30_000, 2, 0, 300)}  # USE-06


@pytest.mark.parametrize(("restart", "over"), [("Never", True), ("Always", False)])
def test_init_is_over_only_where_it_cannot_run_again(restart: str, over: bool) -> None:  # noqa: FBT001  (a table column)
    pod = a_pod(
        a_container(), init=(a_container(),), node="n1", init_done=True, restart_policy=restart
    )
    assert init_is_over(pod) is over


def test_a_sidecar_does_not_keep_init_from_being_over() -> None:
    sidecar = a_container(sidecar=True, name="proxy")
    pod = a_pod(
        a_container(), init=(a_container(), sidecar), restart_policy="Never", init_done=True
    )
    assert init_is_over(pod)


def test_equal_charges_and_what_they_count_are_one_object() -> None:
    cards = [Card(id=name, index=0, vendor="acme", model="m", memory_bytes=800) for name in "ab"]
    [one], [other] = (shares((APP, 200, 20), card=card.id) for card in cards)
    assert charge_of(one) is charge_of(other)
    [[first], [second]] = ([*use_of([(c, charge_of(one))]).items()] for c in cards)
    assert first[0] is second[0]
    assert first[1] is second[1]
    assert first[1].parts == 0.25
    assert charge_of(replace(one, memory_bytes=400)) == Charge(400, 20_000, 1, 0, 400)


def test_what_is_exclusive_or_best_effort_is_not_equal_to_what_is_not() -> None:
    [share] = shares((APP, 200, 0))
    assert charge_of(replace(share, exclusive=True)).exclusive == 1
    assert charge_of(replace(share, best_effort=True)).best_effort == 1
    assert charge_of(share) == Charge(200, 0, 1, 0, 200)


@pytest.mark.parametrize("role", [APP, INIT, SIDECAR])
@pytest.mark.parametrize("init_over", [True, False])
def test_a_pod_of_one_share_is_charged_as_any_other(role: Role, *, init_over: bool) -> None:
    one = shares((role, 500, 10))
    assert charges(tuple(one), init_over=init_over) == charges(one, init_over=init_over)


def test_what_is_lent_costs_nothing_that_owners_count() -> None:
    [share] = shares((APP, 200, 0))
    charge = charge_of(replace(share, best_effort=True, lent=True))
    assert charge == Charge(best_effort=1, lent_bytes=200, lent_slots=1)
    assert charge.plus(charge) == Charge(best_effort=2, lent_bytes=400, lent_slots=2)
    assert charge.plus(charge).beyond(charge) == charge
    [(_, use)] = use_of([(Card(id="g0", index=0, vendor="acme", memory_bytes=800), charge)]).items()
    assert (use.memory_bytes, use.rest_memory_bytes, use.cards) == (200, 200, 1)
