"""What is done to a run: a seeded schedule of events, and the doing of each.

The schedule (which kinds, in which order, how far apart, to whom) is drawn from the seed before anything starts. When
exactly an event strikes, and what it interrupts, is left to the machine: that is what makes a run worth repeating. An
event that nobody can be the victim of just then is put off for a moment.
"""

from __future__ import annotations

import heapq
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable
from queue import Empty, SimpleQueue
from random import Random

from chaos.late import LateRecords
from chaos.processes import REFUSED, Process, Processes
from chaos.streams import SESSION_SECONDS
from chaos.transactions import Transactions
from kafka.cluster import KafkaCluster
from kafka.errors import KafkaNotStarted

WORKER_KILLED = "worker killed (SIGKILL), started again"
MERGER_KILLED = "merger killed (SIGKILL), started again"
BROKER_KILLED = "broker of three killed, started again"
BROKER_KILLED_IN_TRANSACTION = "broker killed as an open transaction writes to it, started again"
SCALED_UP = "workers scaled 1 to 3"
SCALED_DOWN = "workers scaled 3 to 1"
WORKER_FROZEN = "worker frozen past its session (SIGSTOP), resumed"
WORKER_REPLACED = "frozen worker replaced under its own name, resumed"
WORKER_RESTARTED = "worker restarted (SIGTERM)"
MERGER_RESTARTED = "merger restarted (SIGTERM)"
MERGER_FROZEN = "merger frozen, standby took over, resumed"
DEAD_SPEAKS = "deltas and a claim of a dead worker arrive late"

WEIGHTS = {
    WORKER_KILLED: 9,
    MERGER_KILLED: 5,
    BROKER_KILLED: 3,
    BROKER_KILLED_IN_TRANSACTION: 2,
    SCALED_UP: 0,
    SCALED_DOWN: 1,
    WORKER_FROZEN: 4,
    WORKER_REPLACED: 2,
    WORKER_RESTARTED: 3,
    MERGER_RESTARTED: 2,
    MERGER_FROZEN: 2,
    DEAD_SPEAKS: 2,
}
"""Every kind of event, and how often it is drawn once each has been. Who scales down scales up again."""

PAUSES_SECONDS = ((0.1, 1.0), (2.0, 6.0))
PUT_OFF_SECONDS = 0.5
PUT_OFF_AT_MOST = 800
WAIT_SECONDS = 400.0
"""Far beyond what a wait has ever taken: a machine that is shared may stand still for minutes, and what is looked for
here are waits that never end."""

STATIC_SLOT = 1
"""The worker with a name of its own in the group (static membership); the others get their places anew."""

IMPATIENT_SLOT = 2
IMPATIENT = ("--kafka", "message.timeout.ms=1500")
"""A worker that gives a delivery up sooner than a broker's place is filled: to it, every dead broker is one of the
failed deliveries that others wait out."""


def schedule(random: Random, kills: int, kinds: Iterable[str]) -> list[tuple[float, str]]:
    """(seconds after the one before, kind) of at least ``kills`` events, each kind at least once."""
    kinds = list(kinds)
    weights = [WEIGHTS[kind] for kind in kinds]
    assert kills >= len(kinds), f"{kills} events cannot be of {len(kinds)} kinds"
    singles = [kind for kind in kinds if kind not in (SCALED_UP, SCALED_DOWN)]
    ways_down = 1 if SCALED_DOWN in kinds else 0
    first = [SCALED_UP] if SCALED_UP in kinds else []
    while len(first) + len(singles) + 2 * ways_down < kills:
        kind = random.choices(kinds, weights)[0]
        if kind == SCALED_DOWN:
            ways_down += 1
        else:
            singles.append(kind)
    random.shuffle(singles)
    units = [[kind] for kind in singles]
    for unit in units[:ways_down]:
        # Whoever is scaled down scales up again, and in between something happens.
        unit[:] = [SCALED_DOWN, *unit, SCALED_UP]
    random.shuffle(units)
    order = first + [kind for unit in units for kind in unit]
    # Some follow at once, into the middle of what the one before has started; some let the stream flow again.
    return [(random.uniform(*random.choice(PAUSES_SECONDS)), kind) for kind in order]


class Mayhem:
    """Does the events of a schedule to the processes and brokers of a run."""

    def __init__(
        self,
        random: Random,
        processes: Processes,
        cluster: KafkaCluster,
        late: LateRecords,
        transactions: Transactions,
    ) -> None:
        self.done: Counter[str] = Counter()
        self.course: list[tuple[float, str]] = []
        self.faults: list[str] = []
        self._began = time.monotonic()
        self._random = random
        self._processes = processes
        self._cluster = cluster
        self._transactions = transactions
        self._agenda: list[tuple[float, int, Callable[[], None]]] = []
        self._entries = 0
        self._target = 1
        self._workers: dict[int, Process] = {}
        self._mergers: dict[int, Process] = {}
        self._broker: threading.Thread | None = None
        self._act: dict[str, Callable[[], bool]] = {
            WORKER_KILLED: lambda: self._kill(self._any_worker(), self._start_worker),
            MERGER_KILLED: lambda: self._kill(self._any_merger(), self._start_merger),
            BROKER_KILLED: self._kill_broker,
            BROKER_KILLED_IN_TRANSACTION: self._kill_broker_in_transaction,
            SCALED_UP: self._scale_up,
            SCALED_DOWN: self._scale_down,
            WORKER_FROZEN: self._freeze_worker,
            WORKER_REPLACED: self._replace_worker,
            WORKER_RESTARTED: lambda: self._restart(self._any_worker(), self._start_worker),
            MERGER_RESTARTED: lambda: self._restart(self._any_merger(), self._start_merger),
            MERGER_FROZEN: self._freeze_merger,
            DEAD_SPEAKS: lambda: self._broker is None and late.arrive(random),
        }

    # The run ---------------------------------------------------------------------------------------------------------

    def begin(self) -> None:
        """One worker, and a merger with a standby."""
        for slot in (0, 1):
            self._start_merger(slot)
        self._start_worker(0)

    def live_through(self, events: Iterable[tuple[float, str]]) -> None:
        """Do the events, and what follows from them."""
        at = time.monotonic()
        for pause, kind in events:
            at += pause
            self._at(at, self._attempt(kind, PUT_OFF_AT_MOST))
        while self._agenda or self._broker is not None:
            self._processes.watch()
            self._replace_shut_out()
            if self._broker is not None and not self._broker.is_alive():
                self._broker = None
                self._note("the broker is back")
            if self._agenda and self._agenda[0][0] <= time.monotonic():
                heapq.heappop(self._agenda)[2]()
            else:
                time.sleep(0.02)

    def restore(self) -> None:
        """Have everything run that is to run."""
        self._cluster.restore()
        self._target = 3
        for slot in range(self._target):
            self._start_worker(slot)
        for slot in (0, 1):
            self._start_merger(slot)

    def _note(self, what: str) -> None:
        """Keep when something happened, in seconds since the beginning, for the report of a run that fails."""
        self.course.append((round(time.monotonic() - self._began, 1), what))

    def _at(self, at: float, action: Callable[[], None]) -> None:
        self._entries += 1
        heapq.heappush(self._agenda, (at, self._entries, action))

    def _later(self, low: float, high: float, action: Callable[[], None]) -> None:
        self._at(time.monotonic() + self._random.uniform(low, high), action)

    def _attempt(self, kind: str, times: int) -> Callable[[], None]:
        def act() -> None:
            if self._act[kind]():
                self.done[kind] += 1
                self._note(kind)
            elif times:
                self._later(PUT_OFF_SECONDS, PUT_OFF_SECONDS, self._attempt(kind, times - 1))
            else:
                self.faults.append(f"there was never a victim for: {kind}")

        return act

    def _when(self, so: Callable[[], bool], action: Callable[[], None], what: str) -> None:
        """Do something as soon as something is so; that it never is, is a fault."""
        until = time.monotonic() + WAIT_SECONDS

        def look() -> None:
            if so():
                self._note(what)
                action()
            elif time.monotonic() < until:
                self._later(0.05, 0.1, look)
            else:
                self.faults.append(f"not so after {WAIT_SECONDS:g} s: {what}")
                action()

        look()

    # Victims ---------------------------------------------------------------------------------------------------------

    def _start_worker(self, slot: int) -> None:
        present = self._workers.get(slot)
        if slot < self._target and (present is None or not present.alive):
            more = {STATIC_SLOT: ("--instance", f"chaos-{slot}"), IMPATIENT_SLOT: IMPATIENT}.get(slot, ())
            self._workers[slot] = self._processes.start(f"worker-{slot}", "worker", *more)

    def _start_merger(self, slot: int) -> None:
        present = self._mergers.get(slot)
        if present is None or not present.alive:
            self._mergers[slot] = self._processes.start(f"merger-{slot}", "merger")

    def _replace_shut_out(self) -> None:
        """What a supervisor does: a worker whose place in the group was taken has ended, and is started again."""
        process = self._workers.get(STATIC_SLOT)
        if process is not None and not process.busy and not process.alive and process.shut_out():
            self._start_worker(STATIC_SLOT)

    def _any_worker(self) -> tuple[int, Process] | None:
        """Any worker, whatever it is doing: starting, claiming, rebuilding."""
        usable = [(slot, process) for slot, process in self._workers.items() if process.usable]
        return self._random.choice(usable) if usable else None

    def _any_merger(self) -> tuple[int, Process] | None:
        """The merger that publishes, if there is one; now and then the standby."""
        usable = [(slot, process) for slot, process in self._mergers.items() if process.usable]
        elected = [(slot, process) for slot, process in usable if process.elected()]
        chosen = elected if elected and self._random.random() < 0.8 else usable
        return self._random.choice(chosen) if chosen else None

    # Events ----------------------------------------------------------------------------------------------------------

    def _kill(self, victim: tuple[int, Process] | None, start: Callable[[int], None]) -> bool:
        if victim is None:
            return False
        slot, process = victim
        self._processes.kill(process)
        self._later(0.0, 2.5, lambda: start(slot))
        return True

    def _restart(self, victim: tuple[int, Process] | None, start: Callable[[int], None]) -> bool:
        if victim is None or not (victim[1].working() or victim[1].elected()):
            return False
        slot, process = victim
        self._processes.terminate(process)
        self._when(lambda: not process.alive, lambda: start(slot), f"{process.name} ends after SIGTERM")
        return True

    def _scale_up(self) -> bool:
        if self._target == 3:
            return False
        self._target = 3
        for slot in (1, 2):
            self._start_when_gone(slot)
        return True

    def _start_when_gone(self, slot: int) -> None:
        """Start a worker as soon as the one that was told to end has done so."""
        before = self._workers.get(slot)
        self._when(
            lambda: before is None or not before.alive,
            lambda: self._start_worker(slot),
            f"worker-{slot} ends after SIGTERM",
        )

    def _scale_down(self) -> bool:
        """Two of three workers are told to end, whatever they are doing; one that is dead is not started again."""
        workers = [self._workers[slot] for slot in (1, 2) if slot in self._workers]
        living = [worker for worker in workers if worker.alive]
        if self._target == 1 or not living or not all(worker.usable for worker in living):
            return False
        self._target = 1
        for worker in living:
            self._processes.terminate(worker)
        return True

    def _kill_broker(self) -> bool:
        if self._broker is not None:
            return False
        node = self._random.choice(self._cluster.nodes)
        self._cluster.kill(node)
        self._bring_back(lambda: node)
        return True

    def _kill_broker_in_transaction(self) -> bool:
        if self._broker is not None:
            return False
        struck: SimpleQueue[int] = SimpleQueue()

        def strike(node: int) -> None:
            self._cluster.kill(node)
            struck.put(node)

        self._transactions.interrupt(strike)
        self._bring_back(lambda: struck.get(timeout=WAIT_SECONDS))
        return True

    def _bring_back(self, killed: Callable[[], int]) -> None:
        """Start a node again some seconds after it has been killed, beside everything else."""
        away = self._random.uniform(1.0, 6.0)

        def bring_back() -> None:
            try:
                node = killed()
                time.sleep(away)
                self._cluster.restart(node)
            except Empty:
                self.faults.append(f"no transaction was open within {WAIT_SECONDS:g} s")
            except KafkaNotStarted as fault:
                self.faults.append(str(fault))

        self._broker = threading.Thread(target=bring_back, name="chaos-broker")
        self._broker.start()

    def _freeze_worker(self) -> bool:
        victim = self._any_worker()
        if victim is None or not victim[1].working():
            return False
        process = victim[1]
        self._processes.freeze(process)
        self._later(SESSION_SECONDS + 1.0, SESSION_SECONDS + 4.0, lambda: self._processes.resume(process))
        return True

    def _replace_worker(self) -> bool:
        """What a supervisor does that takes a frozen process for dead. One of the two must go, and say why.

        Now and then each takes the name from the other, and both go: then the supervisor starts one again.
        """
        old = self._workers.get(STATIC_SLOT)
        if self._target < 3 or old is None or not old.usable or not old.working():
            return False
        self._processes.freeze(old)
        new = self._processes.start(f"worker-{STATIC_SLOT}b", "worker", "--instance", f"chaos-{STATIC_SLOT}")
        self._workers[STATIC_SLOT] = new
        old.busy = new.busy = True

        def wake() -> None:
            old.may_end = new.may_end = frozenset({REFUSED})
            self._processes.resume(old)
            self._when(
                lambda: not (old.alive and new.alive),
                lambda: self._later(SESSION_SECONDS, SESSION_SECONDS, part),
                "of two workers of one name one goes",
            )

        def part() -> None:
            if old.alive and new.alive:
                self._processes.kill(old)
            survivor = new if new.alive else old
            self._workers[STATIC_SLOT] = survivor
            if survivor.alive:
                survivor.may_end, survivor.busy = frozenset(), False
            self._start_worker(STATIC_SLOT)

        self._when(new.working, lambda: self._later(0.5, 3.0, wake), "a worker takes the place of a frozen one")
        return True

    def _freeze_merger(self) -> bool:
        usable = [process for process in self._mergers.values() if process.usable]
        elected = [process for process in usable if process.elected()]
        if len(usable) < 2 or len(elected) != 1:
            return False
        frozen = elected[0]
        self._processes.freeze(frozen)
        self._when(
            lambda: any(process is not frozen and process.elected() for process in self._mergers.values()),
            lambda: self._later(0.5, 3.0, lambda: self._processes.resume(frozen)),
            "a standby takes over from a frozen merger",
        )
        return True
