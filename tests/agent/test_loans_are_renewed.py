"""A loan is renewed by whatever is written to the file, for as long as the decision stands."""

from pathlib import Path

from msgspec.structs import replace

from tessera_agent.containers.holdings import ContainerStage, Holding
from tessera_agent.containers.hook_files import ContainerFiles, ContainerKey, HookFiles
from tessera_agent.containers.loan_renewal import LoanRenewal
from tessera_agent.lending.loans import CurrentLoans, LoanWriter, WantedLoans
from tessera_core.dialect_kit.lending_terms import LendingTerms
from tessera_core.hook.limits_file import CardLimit, HookLimits
from tessera_kubelet.nri.types import PodSandbox
from tessera_runtime.clock import SystemClock

CARD = "GPU-0"
SECOND = 1_000_000_000


class Set(SystemClock):
    """A wall clock that a test sets."""

    now_ns = 1000 * SECOND

    def time_ns(self) -> int:
        return self.now_ns


class Borrower:
    """A container that is lent to, and a writer whose loans last a second."""

    def __init__(self, folder: Path) -> None:
        self.clock = Set()
        limits = HookLimits(container="c", cards=(CardLimit(uuid=CARD, cores_permille=300),))
        self.files: ContainerFiles = HookFiles(folder, self.clock).make(
            ContainerKey("uid", "c"), limits
        )
        pod = PodSandbox(id="s", name="p", uid="uid", namespace="ns", annotations={})
        self.held = Holding(
            key=ContainerKey("uid", "c"), id="id", pod=pod, shares=(), limits=limits,
            files=self.files, stage=ContainerStage.RUNNING, since=0, terms=LendingTerms(),
        )  # fmt: skip
        self.writer, self.loans = LoanWriter(1.0), CurrentLoans(1.0)

    def lend(self, permille: int) -> None:
        """What a decision says now."""
        wanted = WantedLoans(self.files, {CARD: permille}, hold=False)
        self.writer.write([wanted], self.clock.now_ns)
        self.loans.take([self.held])

    @property
    def ends(self) -> bool:
        """Whether the loan is to be renewed now."""
        return bool(self.loans.ending(self.clock.now_ns))

    def measure(self) -> None:
        """What the driver measured is written."""
        self.files.change_card(CARD, lambda card: replace(card, measured_ns=card.measured_ns + 1))

    @property
    def left_s(self) -> float:
        """Of the loan in the file."""
        return (self.files.limits.cards[0].lent_until_ns - self.clock.now_ns) / SECOND

    def after(self, seconds: float) -> None:
        self.clock.now_ns += round(seconds * SECOND)


def test_a_measurement_renews_the_loan(tmp_path: Path) -> None:
    one = Borrower(tmp_path)
    one.lend(200)
    one.after(0.3)
    assert one.left_s == 0.7
    one.measure()
    assert one.left_s == 1.0
    generation = one.files.limits.generation
    one.after(0.2)
    one.lend(200)
    assert one.files.limits.generation == generation  # there was nothing to write


def test_a_loan_is_renewed_by_itself_where_nothing_else_is_written(tmp_path: Path) -> None:
    one = Borrower(tmp_path)
    for _ in range(4):
        one.lend(200)
        assert one.left_s == 1.0
        one.after(0.6)
        assert not one.ends
        one.after(0.15)
        assert one.ends


def test_a_loan_that_was_renewed_meanwhile_does_not_end(tmp_path: Path) -> None:
    one = Borrower(tmp_path)
    one.lend(200)
    for _ in range(3):
        one.after(0.4)
        assert not one.ends
        one.measure()


def test_nothing_is_renewed_once_the_decision_is_old(tmp_path: Path) -> None:
    one = Borrower(tmp_path)
    one.lend(200)
    for _ in range(2):
        one.after(0.95)
        one.measure()
    one.after(0.4)
    one.measure()
    assert round(one.left_s, 3) == 0.6


def test_a_loan_that_was_taken_back_or_ended_stays_so(tmp_path: Path) -> None:
    one = Borrower(tmp_path)
    one.lend(200)
    one.lend(0)
    one.measure()
    card = one.files.limits.cards[0]
    assert (card.lent_permille, card.lent_until_ns) == (0, 0)
    one.lend(200)
    one.files.renewal = LoanRenewal(one.clock.now_ns + 9 * SECOND, SECOND)
    one.after(2)
    one.measure()
    assert one.left_s == -1.0
