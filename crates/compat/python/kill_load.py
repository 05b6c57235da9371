"""Load for the kill loop: writes rows as fast as the node acknowledges them and says which ones it acknowledged.

kill_load.py write FIRST   writes partitions from FIRST on; prints "STARTED", then lives until the node dies under it;
                           prints "ACKED n" and appends every acknowledged key to the file KILL_ACKED.
kill_load.py check         reads every key of KILL_ACKED back; prints "CHECKED n" or names what is missing.
kill_load.py check-all     the same, and scans the table for halves of batches that were not acknowledged.

A row's value is computed from its key, so a torn or foreign value is noticed, too. Every 10th write is a batch of
five rows of one partition: either all of them are there or none.
"""

import hashlib
import os
import sys
import threading

from cassandra.concurrent import execute_concurrent_with_args
from cassandra.query import BatchStatement, BatchType

import link

ACKED = os.environ.get("KILL_ACKED", "")
IN_FLIGHT = 64
BATCH_ROWS = 5


def value_of(key, c):
    return hashlib.sha256(f"{key}/{c}".encode()).hexdigest() * (1 + key % 7)


def prepare(session):
    session.execute(
        "CREATE KEYSPACE IF NOT EXISTS kill_loop WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}"
    )
    session.execute("CREATE TABLE IF NOT EXISTS kill_loop.rows (k bigint, c int, v text, PRIMARY KEY (k, c))")
    return session.prepare("INSERT INTO kill_loop.rows (k, c, v) VALUES (?, ?, ?)")


def write(first):
    cluster = link.open_cluster()
    session = cluster.connect()
    insert = prepare(session)
    lock, dead = threading.Lock(), threading.Event()
    slots = threading.Semaphore(IN_FLIGHT)
    acked = []

    def acknowledged(_, key):
        with lock:
            acked.append(key)
        slots.release()

    def failed(_):
        dead.set()
        slots.release()

    key = first
    print("STARTED", flush=True)
    while not dead.is_set():
        slots.acquire()
        if key % 10 == 0:
            statement = BatchStatement(batch_type=BatchType.UNLOGGED)
            for c in range(BATCH_ROWS):
                statement.add(insert, [key, c, value_of(key, c)])
            future = session.execute_async(statement)
        else:
            future = session.execute_async(insert, [key, 0, value_of(key, 0)])
        future.add_callbacks(acknowledged, failed, callback_args=(key,))
        key += 1
    for _ in range(IN_FLIGHT):
        if not slots.acquire(timeout=30):
            break
    with lock:
        done = list(acked)
    with open(ACKED, "a", encoding="ascii") as out:
        out.writelines(f"{k}\n" for k in done)
    print(f"ACKED {len(done)} NEXT {key}", flush=True)
    # The node is gone: an orderly shutdown of the driver would only wait for it.
    os._exit(0)


def check(scan):
    with open(ACKED, encoding="ascii") as lines:
        keys = [int(line) for line in lines]
    cluster = link.open_cluster()
    session = cluster.connect()
    prepare(session)
    select = session.prepare("SELECT c, v FROM kill_loop.rows WHERE k = ?")
    lost, wrong = [], []
    results = execute_concurrent_with_args(
        session, select, ((key,) for key in keys), concurrency=100, results_generator=True
    )
    for key, (ok, rows) in zip(keys, results):
        if not ok:
            raise rows
        rows = [tuple(row) for row in rows]
        width = BATCH_ROWS if key % 10 == 0 else 1
        if not rows:
            lost.append(key)
        elif rows != [(c, value_of(key, c)) for c in range(width)]:
            wrong.append(key)
    # Rows never acknowledged may be there, but never half of a batch.
    torn = []
    scanned = 0
    counts = {}
    for k, c, v in session.execute("SELECT k, c, v FROM kill_loop.rows") if scan else ():
        scanned += 1
        counts[k] = counts.get(k, 0) + 1
        if v != value_of(k, c):
            wrong.append(k)
    for k, n in counts.items():
        if n != (BATCH_ROWS if k % 10 == 0 else 1):
            torn.append(k)
    cluster.shutdown()
    if lost or wrong or torn:
        print(f"LOST {lost[:20]} ({len(lost)}) WRONG {wrong[:20]} ({len(wrong)}) TORN {torn[:20]} ({len(torn)})", flush=True)
        sys.exit(1)
    print(f"CHECKED {len(keys)} SCANNED {scanned}", flush=True)


if __name__ == "__main__":
    if sys.argv[1] == "write":
        write(int(sys.argv[2]))
    else:
        check(sys.argv[1] == "check-all")
