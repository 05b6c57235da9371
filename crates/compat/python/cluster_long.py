"""Load for the long run of kills: rows written once, and registers written again and again, each with what its client knows of it.

cluster_long.py schema N      keyspace and tables with N replicas; prints "SCHEMA"
cluster_long.py load FIRST    until standard input says STOP; prints "STARTED", then "DONE" and one line of JSON: lost counts reads that did not
                              find an acknowledged row, stale those of a register that were older than what was acknowledged before they began
cluster_long.py quorum        every acknowledged row and register, read at QUORUM; prints "CHECKED n" or what is wrong
cluster_long.py alone         the same from each node alone at ONE; prints how many differ, by node
The last two say "READ n of m" on the way.

A register has one writer at a time, whose versions only grow; one whose write failed may have the old or the new version.
"""

import collections
import json
import os
import sys
import threading
import time

from cassandra import ConsistencyLevel
from cassandra.concurrent import execute_concurrent_with_args

from cluster_load import IN_FLIGHT, LEVEL, NODES, alone, class_of, token_aware, value_of

REGISTERS = 200
# Keys of one statement of the last check, and after how many it says how far it is.
AT_ONCE = 50
TOLD_EVERY = 100_000
ACKED = os.environ["CLUSTER_ACKED"]


def schema(replicas):
    cluster = token_aware(LEVEL)
    session = cluster.connect()
    session.execute(f"CREATE KEYSPACE load WITH replication = {{'class': 'SimpleStrategy', 'replication_factor': {replicas}}}")
    session.execute("CREATE TABLE load.rows (k bigint PRIMARY KEY, v text)")
    session.execute("CREATE TABLE load.registers (k bigint PRIMARY KEY, version bigint)")
    cluster.shutdown()
    print("SCHEMA", flush=True)


class Load:
    def __init__(self, session, first):
        self.session = session
        self.insert = session.prepare("INSERT INTO load.rows (k, v) VALUES (?, ?)")
        self.select = session.prepare("SELECT v FROM load.rows WHERE k = ?")
        # The client's own timestamps: the order of a register's versions does not hang on clocks of nodes.
        self.write = session.prepare("INSERT INTO load.registers (k, version) VALUES (?, ?) USING TIMESTAMP ?")
        self.read = session.prepare("SELECT version FROM load.registers WHERE k = ?")
        self.lock = threading.Lock()
        self.acked = []
        self.next = first
        self.versions = [0] * REGISTERS
        self.known = [0] * REGISTERS
        self.busy = [False] * REGISTERS
        self.counts = collections.Counter(writes=0, reads=0, lost=0, stale=0)
        self.errors = collections.Counter()
        self.slowest = 0.0
        self.slots = threading.Semaphore(IN_FLIGHT)

    def send(self, what, statement, values, done):
        begun = time.monotonic()

        def failed(error):
            with self.lock:
                self.errors[f"{what} {class_of(error)}"] += 1
                done(None, error)
            self.slots.release()

        def answered(rows):
            with self.lock:
                self.slowest = max(self.slowest, time.monotonic() - begun)
                self.counts["reads" if what.startswith("read") else "writes"] += 1
                done([row[0] for row in rows or []], None)
            self.slots.release()

        self.session.execute_async(statement, values).add_callbacks(answered, failed)

    def step(self, turn):
        with self.lock:
            register = turn // 4 % REGISTERS
            if turn % 4 == 0:
                key, self.next = self.next, self.next + 1
                todo = ("write", self.insert, [key, value_of(key)], lambda _, error: error or self.acked.append(key))
            elif turn % 4 == 1 and self.acked:
                key = self.acked[turn * 7919 % len(self.acked)]
                todo = ("read", self.select, [key], lambda rows, error: self.row(key, rows, error))
            elif turn % 4 == 2 and not self.busy[register]:
                self.busy[register] = True
                self.versions[register] += 1
                version = self.versions[register]
                done = lambda _, error: self.written(register, version, error)
                todo = ("write register", self.write, [register, version, version], done)
            else:
                known = self.known[register]
                done = lambda rows, error: self.register(register, known, rows, error)
                todo = ("read register", self.read, [register], done)
        self.send(*todo)

    def row(self, key, rows, error):
        if not error and rows != [value_of(key)]:
            self.counts["lost"] += 1

    def written(self, register, version, error):
        self.busy[register] = False
        if not error:
            self.known[register] = version

    def register(self, register, known, rows, error):
        if error or not known and not rows:
            return
        seen = rows[0] if rows else 0
        # Newer than it was when the read began is right, newer than what was ever written is not.
        if not known <= seen <= self.versions[register]:
            self.counts["stale"] += 1


def load(first):
    cluster = token_aware(LEVEL)
    run = Load(cluster.connect(), first)
    stop = threading.Event()
    threading.Thread(target=lambda: (sys.stdin.readline(), stop.set()), daemon=True).start()
    print("STARTED", flush=True)
    turn = 0
    while not stop.is_set():
        run.slots.acquire()
        run.step(turn)
        turn += 1
    for _ in range(IN_FLIGHT):
        run.slots.acquire(timeout=60)
    with open(ACKED, "w", encoding="ascii") as out:
        json.dump({"rows": run.acked, "known": run.known, "versions": run.versions}, out)
    told = dict(run.counts) | {"errors": run.errors, "slowest": round(run.slowest, 2)}
    print("DONE", flush=True)
    print(json.dumps(told), flush=True)
    cluster.shutdown()


def differences(session, kept):
    """How many acknowledged rows are not there, and how many registers are older than what was acknowledged."""
    known, versions = kept["known"], kept["versions"]
    return [
        wrong_in(session, "SELECT k, v FROM load.rows WHERE k IN ?", kept["rows"], lambda key, found: found == value_of(key)),
        wrong_in(
            session,
            "SELECT k, version FROM load.registers WHERE k IN ?",
            list(range(REGISTERS)),
            lambda key, found: known[key] <= (found or 0) <= versions[key],
        ),
    ]


def wrong_in(session, text, keys, is_right):
    """Of how many keys what is found is not right. Says how far it is: there can be millions."""
    select = session.prepare(text)
    groups = [keys[start : start + AT_ONCE] for start in range(0, len(keys), AT_ONCE)]
    results = execute_concurrent_with_args(session, select, ((group,) for group in groups), concurrency=16, results_generator=True)
    wrong, read = 0, 0
    for group, (ok, rows) in zip(groups, results):
        if not ok:
            raise rows
        found = dict(tuple(row) for row in rows)
        wrong += sum(not is_right(key, found.get(key)) for key in group)
        read += len(group)
        if read // TOLD_EVERY != (read - len(group)) // TOLD_EVERY:
            print(f"READ {read} of {len(keys)}", flush=True)
    return wrong


def quorum():
    with open(ACKED, encoding="ascii") as lines:
        kept = json.load(lines)
    cluster = token_aware(ConsistencyLevel.QUORUM)
    rows, registers = differences(cluster.connect(), kept)
    cluster.shutdown()
    wrong = f"WRONG: {rows} rows lost, {registers} registers stale"
    print(wrong if rows or registers else f"CHECKED {len(kept['rows'])}", flush=True)


def from_each():
    with open(ACKED, encoding="ascii") as lines:
        kept = json.load(lines)
    told = []
    for node in NODES:
        cluster = alone(node, ConsistencyLevel.ONE)
        rows, registers = differences(cluster.connect(), kept)
        told.append(f"{node} {rows} of {len(kept['rows'])} rows, {registers} of {REGISTERS} registers differ")
        cluster.shutdown()
    print("; ".join(told), flush=True)


if __name__ == "__main__":
    word, rest = sys.argv[1], sys.argv[2:]
    {"schema": schema, "load": lambda a: load(int(a)), "quorum": quorum, "alone": from_each}[word](*rest)
