"""Lightweight transactions and counters while nodes are killed and links are cut: what clients saw, checked when it is over.

cluster_transactions.py schema N     keyspace and tables with N replicas; prints "SCHEMA"
cluster_transactions.py load FILE    until standard input says STOP; prints "STARTED", then "DONE" and one line of JSON: what was asked, errors by class;
                                     the calls of every register are in FILE
cluster_transactions.py check FILE   lists and counters are read at SERIAL and ALL; prints "CHECKED …" or "WRONG …"

Registers: a value of their own for each change, IF v = what was seen last, and reads at SERIAL. FILE has one call in a line, as JSON: key, start and end in
nanoseconds (end null: nobody knows whether it happened), op "read" with seen, op "swap" with old, new and applied.
Lists: one element is added under a condition, and the list is read at SERIAL. What was confirmed stays where it is, and order follows time.
Counters: + 1 at QUORUM. In the end each is between what was confirmed and that with what nobody knows of.
"""

import collections
import json
import os
import random
import sys
import threading
import time

from cassandra import ConsistencyLevel, Unavailable

from cluster_load import LEVEL, class_of, token_aware

REGISTERS = 41
LISTS = 23
COUNTERS = 20
CLIENTS = int(os.environ["CLUSTER_IN_FLIGHT"])
# Calls of one register, and of one list, whose every answer has all of it; then a fresh one takes its place: what each further one costs to explain
# grows with those that nobody answered.
CALLS_MAX = 400


def schema(replicas):
    cluster = token_aware(LEVEL)
    session = cluster.connect()
    session.execute(f"CREATE KEYSPACE t WITH replication = {{'class': 'SimpleStrategy', 'replication_factor': {replicas}}}")
    session.execute("CREATE TABLE t.registers (k int PRIMARY KEY, v bigint)")
    session.execute("CREATE TABLE t.lists (k int PRIMARY KEY, l list<bigint>, never int)")
    session.execute("CREATE TABLE t.counters (k int PRIMARY KEY, n counter)")
    cluster.shutdown()
    print("SCHEMA", flush=True)


class Transactions:
    def __init__(self, session):
        self.session = session
        self.lock = threading.Lock()
        self.counts = collections.Counter()
        self.errors = collections.Counter()
        self.next = 0
        self.registers = collections.defaultdict(list)
        self.last = {}
        self.lists = collections.defaultdict(list)
        self.full = collections.Counter()
        self.counters = [[0, 0] for _ in range(COUNTERS)]
        # A condition is Paxos at SERIAL, what it decides is committed at LEVEL.
        self.create = session.prepare("INSERT INTO t.registers (k, v) VALUES (?, ?) IF NOT EXISTS")
        self.change = session.prepare("UPDATE t.registers SET v = ? WHERE k = ? IF v = ?")
        self.add = session.prepare("UPDATE t.lists SET l = l + ? WHERE k = ? IF never = null")
        for statement in (self.create, self.change, self.add):
            statement.serial_consistency_level = ConsistencyLevel.SERIAL
        self.register = session.prepare("SELECT v FROM t.registers WHERE k = ?")
        self.list = session.prepare("SELECT l FROM t.lists WHERE k = ?")
        for statement in (self.register, self.list):
            statement.consistency_level = ConsistencyLevel.SERIAL
        self.count = session.prepare("UPDATE t.counters SET n = n + 1 WHERE k = ?")

    def fresh(self):
        with self.lock:
            self.next += 1
            return self.next

    def asked(self, kind, statement, values):
        """The rows, when it began and ended; instead of rows `False`: it did not happen, `None`: nobody knows."""
        begun = time.monotonic_ns()
        try:
            rows = list(self.session.execute(statement, values))
            ended = time.monotonic_ns()
            with self.lock:
                self.counts[kind] += 1
            return rows, begun, ended
        except Exception as error:
            with self.lock:
                self.errors[f"{kind} {class_of(error)}"] += 1
            # Too few live replicas are found before anything is sent.
            return (False if isinstance(error, Unavailable) else None), begun, None

    def one_of(self, calls, count):
        """A key with room for more calls: place `n` is at keys n, n + count, …"""
        place = random.randrange(count)
        with self.lock:
            if len(calls[place + count * self.full[count, place]]) >= CALLS_MAX:
                self.full[count, place] += 1
            return place + count * self.full[count, place]

    def step(self):
        kind = random.random()
        if kind < 0.3:
            self.swap(self.one_of(self.registers, REGISTERS))
        elif kind < 0.45:
            self.look(self.one_of(self.registers, REGISTERS))
        elif kind < 0.6:
            self.append(self.one_of(self.lists, LISTS))
        elif kind < 0.7:
            self.show(self.one_of(self.lists, LISTS))
        else:
            self.increment(random.randrange(COUNTERS))

    def seen(self, key, call, value):
        with self.lock:
            self.registers[key].append(call)
            self.last[key] = value

    def swap(self, key):
        old, new = self.last.get(key), self.fresh()
        statement, values = (self.create, (key, new)) if old is None else (self.change, (new, key, old))
        rows, start, end = self.asked("swap", statement, values)
        call = {"key": key, "op": "swap", "start": start, "end": end, "old": old, "new": new, "applied": None}
        if rows is None:
            with self.lock:
                self.registers[key].append(call)
        elif rows:
            applied = rows[0][0]
            self.seen(key, call | {"applied": applied}, new if applied else rows[0].v)
            if not applied:
                self.seen(key, {"key": key, "op": "read", "start": start, "end": end, "seen": rows[0].v}, rows[0].v)

    def look(self, key):
        rows, start, end = self.asked("read", self.register, (key,))
        if rows is not None and rows is not False:
            value = rows[0].v if rows else None
            self.seen(key, {"key": key, "op": "read", "start": start, "end": end, "seen": value}, value)

    def append(self, key):
        value = self.fresh()
        rows, start, end = self.asked("append", self.add, ([value], key))
        if rows is not False:
            with self.lock:
                self.lists[key].append({"value": value, "start": start, "end": end})
            if rows is not None and not rows[0][0]:
                raise AssertionError(f"list {key} has what was never written")

    def show(self, key):
        rows, start, end = self.asked("show", self.list, (key,))
        if rows:
            with self.lock:
                self.lists[key].append({"shown": rows[0].l or [], "start": start, "end": end})

    def increment(self, key):
        rows, _, _ = self.asked("increment", self.count, (key,))
        if rows is not False:
            with self.lock:
                self.counters[key][0 if rows is not None else 1] += 1


def load(path):
    cluster = token_aware(LEVEL)
    run = Transactions(cluster.connect())
    stop = threading.Event()
    failures = []

    def client():
        while not stop.is_set():
            try:
                run.step()
            except Exception as error:
                failures.append(repr(error))
                return

    clients = [threading.Thread(target=client) for _ in range(CLIENTS)]
    for thread in clients:
        thread.start()
    print("STARTED", flush=True)
    sys.stdin.readline()
    stop.set()
    for thread in clients:
        thread.join()
    with open(path, "w", encoding="ascii") as out:
        for calls in run.registers.values():
            out.writelines(json.dumps(call) + "\n" for call in calls)
    with open(f"{path}.rest", "w", encoding="ascii") as out:
        json.dump({"lists": run.lists, "counters": run.counters}, out)
    print("DONE", flush=True)
    calls = sum(len(calls) for calls in run.registers.values())
    print(json.dumps(dict(run.counts) | {"calls": calls, "errors": run.errors, "failures": failures}), flush=True)
    cluster.shutdown()


def wrong_in_list(calls, final):
    """What no order of appends explains; lists only grow, so each that was shown is the beginning of the last one."""
    at = {value: place for place, value in enumerate(final)}
    if len(at) != len(final):
        return "an element is there twice"
    appends = {call["value"]: call for call in calls if "value" in call}
    if not set(final) <= set(appends):
        return f"nobody added {set(final) - set(appends)}"
    lost = [value for value, call in appends.items() if call["end"] is not None and value not in at]
    if lost:
        return f"{lost} were confirmed and are not there"
    for call in calls:
        if "shown" in call and call["shown"] != final[: len(call["shown"])]:
            return f"{call['shown']} was shown, and in the end there is {final}"
    # Behind each other in time is behind each other in the list: the earliest end of an element at or behind a place.
    ends, earliest = [0] * len(final), float("inf")
    for place in range(len(final) - 1, -1, -1):
        end = appends[final[place]]["end"]
        earliest = min(earliest, end if end is not None else float("inf"))
        ends[place] = earliest
    for place, value in enumerate(final):
        if place + 1 < len(final) and ends[place + 1] < appends[value]["start"]:
            return f"{value} stands before one that was confirmed before it was sent"
    for call in calls:
        if "shown" in call:
            length = len(call["shown"])
            if length < len(final) and ends[length] < call["start"]:
                return f"{call['shown']} misses one that was confirmed before"
            if length and max(appends[value]["start"] for value in call["shown"]) > call["end"]:
                return f"{call['shown']} has one that was sent later"
    return None


def check(path):
    with open(f"{path}.rest", encoding="ascii") as lines:
        kept = json.load(lines)
    cluster = token_aware(ConsistencyLevel.ALL)
    session = cluster.connect()
    show = session.prepare("SELECT l FROM t.lists WHERE k = ?")
    show.consistency_level = ConsistencyLevel.SERIAL
    wrong, elements, unknown = [], 0, 0
    for key, calls in kept["lists"].items():
        rows = list(session.execute(show, (int(key),)))
        final = rows[0].l or [] if rows else []
        elements += len(final)
        problem = wrong_in_list(calls, final)
        if problem:
            wrong.append(f"list {key}: {problem}")
    for key, (confirmed, maybe) in enumerate(kept["counters"]):
        rows = list(session.execute(f"SELECT n FROM t.counters WHERE k = {key}"))
        value = rows[0].n if rows else 0
        unknown += maybe
        if not confirmed <= value <= confirmed + maybe:
            wrong.append(f"counter {key} is {value}, {confirmed} were confirmed and {maybe} unknown")
    cluster.shutdown()
    total = sum(confirmed for confirmed, _ in kept["counters"])
    checked = f"{elements} elements of lists, {total} increments and {unknown} that nobody knows of"
    print(f"WRONG {'; '.join(wrong)}" if wrong else f"CHECKED {checked}", flush=True)


if __name__ == "__main__":
    {"schema": schema, "load": load, "check": check}[sys.argv[1]](sys.argv[2])
