"""The queue does as kube-scheduler's: active, backing off, parked."""

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from tessera_embedded.scheduling.queue import PARKED_AT_MOST_S, Queue

UIDS = st.sampled_from(["p0", "p1", "p2", "p3"])


def test_the_more_important_come_first_then_the_older() -> None:
    queue = Queue()
    queue.add("old", 0, 1)
    queue.add("new", 0, 2)
    queue.add("important", 9, 3)
    assert [queue.pop(3) for _ in range(4)] == ["important", "old", "new", None]


def test_a_pod_that_does_not_fit_is_left_alone_until_something_changes() -> None:
    queue = Queue()
    queue.add("a", 0, 0)
    queue.failed(str(queue.pop(0)), 0)
    assert queue.pop(100) is None
    queue.changed()
    assert queue.pop(100) == "a"


def test_what_changes_in_the_middle_of_a_cycle_counts() -> None:
    queue = Queue()
    queue.add("a", 0, 0)
    assert queue.pop(0) == "a"
    queue.changed()
    queue.failed("a", 0)
    assert queue.wait_until() == 1
    assert queue.pop(1) == "a"


def test_a_change_does_not_shorten_the_back_off() -> None:
    queue = Queue()
    queue.add("a", 0, 0)
    queue.failed(str(queue.pop(0)), 0)
    queue.changed()
    assert queue.pop(0.5) is None
    assert queue.pop(1) == "a"


def test_the_back_off_doubles_up_to_its_most() -> None:
    queue = Queue(first_s=1, most_s=10)
    queue.add("a", 0, 0)
    waits, now = [], 0.0
    for _ in range(6):
        assert queue.pop(now) == "a"
        queue.failed("a", now, error=True)
        until = queue.wait_until()
        assert until is not None
        waits.append(until - now)
        now = until
    assert waits == [1, 2, 4, 8, 10, 10]


def test_a_parked_pod_is_examined_again_after_five_minutes() -> None:
    queue = Queue()
    queue.add("a", 0, 0)
    queue.failed(str(queue.pop(0)), 0)
    assert queue.wait_until() == PARKED_AT_MOST_S
    assert queue.pop(PARKED_AT_MOST_S) == "a"


def test_a_pod_that_went_in_its_cycle_does_not_come_back() -> None:
    queue = Queue()
    queue.add("a", 0, 0)
    queue.pop(0)
    queue.remove("a")
    queue.failed("a", 0)
    assert "a" not in queue
    assert queue.wait_until() is None


class Random(RuleBasedStateMachine):
    """No pod is lost, and none is in two cycles."""

    def __init__(self) -> None:
        super().__init__()
        self.queue, self.now = Queue(), 0.0
        self.alive, self.cycling = set[str](), set[str]()

    @rule(uid=UIDS, priority=st.integers(0, 2))
    def add(self, uid: str, priority: int) -> None:
        self.queue.add(uid, priority, self.now)
        self.alive.add(uid)

    @rule()
    def pop(self) -> None:
        uid = self.queue.pop(self.now)
        if uid is not None:
            assert uid not in self.cycling
            self.cycling.add(uid)

    @rule(uid=UIDS, error=st.booleans())
    def fail(self, uid: str, error: bool) -> None:  # noqa: FBT001  (hypothesis passes it by name)
        self.queue.failed(uid, self.now, error=error)
        self.cycling.discard(uid)

    @rule(uid=UIDS)
    def remove(self, uid: str) -> None:
        self.queue.remove(uid)
        self.alive.discard(uid)
        self.cycling.discard(uid)

    @rule(later=st.floats(0, 20))
    def change(self, later: float) -> None:
        self.now += later
        self.queue.changed()

    @invariant()
    def all_are_known(self) -> None:
        assert all(uid in self.queue for uid in self.alive)

    def teardown(self) -> None:
        for uid in self.cycling:
            self.queue.failed(uid, self.now)
        self.now += PARKED_AT_MOST_S
        popped = set()
        while (left := self.queue.pop(self.now)) is not None:
            popped.add(left)
        assert popped == self.alive


TestRandom = Random.TestCase
