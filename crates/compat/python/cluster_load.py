"""Load on a cluster while its nodes come and go, by the stock driver with its token-aware policy.

cluster_load.py schema N      makes keyspace and table with N replicas, or as a map such as "'dc1': 2, 'dc2': 2" says; prints "SCHEMA n", n tables seen on every node alone
cluster_load.py load FIRST    writes and reads at CLUSTER_LEVEL until standard input says STOP; prints "STARTED", then "DONE" and
                              one line of JSON: what was acknowledged, errors by class with the seconds at which they came;
                              meanwhile, CREATE T makes a table ("CREATED T"), SEES T waits until the driver has it ("SEES T")
cluster_load.py check FILE    every key of the file, read from each node alone at ONE; prints "CHECKED n" or names what is wrong
cluster_load.py levels        reads, writes and light-weight transactions at every level, asked at the first node alone: a line of each
                              says what came of it; then "END"
cluster_load.py events        prints "LISTENING", then every event of a node as it comes, until standard input ends

CLUSTER_NODES: addresses with commas between. A row's value is computed from its key. Programs of other drivers do the same, from
"load" on; none repeats a request by itself, so that every error shows.
"""

import collections
import json
import os
import sys
import threading
import time

from cassandra import ConsistencyLevel, OperationTimedOut, ReadTimeout, Unavailable, WriteTimeout
from cassandra.cluster import EXEC_PROFILE_DEFAULT, Cluster, ExecutionProfile
from cassandra.concurrent import execute_concurrent_with_args
from cassandra.policies import (
    ConstantReconnectionPolicy,
    DCAwareRoundRobinPolicy,
    FallthroughRetryPolicy,
    TokenAwarePolicy,
    WhiteListRoundRobinPolicy,
)
from cassandra.query import SimpleStatement

NODES = os.environ["CLUSTER_NODES"].split(",")
PORT = int(os.environ["NODE_PORT"])
IN_FLIGHT = int(os.environ.get("CLUSTER_IN_FLIGHT", "32"))
LEVEL = ConsistencyLevel.name_to_value[os.environ.get("CLUSTER_LEVEL", "QUORUM")]
SEEN_WITHIN = 30


def value_of(key):
    return f"{key}:" * (5 + key % 20)


def connect(policy, level, contacts=NODES):
    profile = ExecutionProfile(
        load_balancing_policy=policy, retry_policy=FallthroughRetryPolicy(), consistency_level=level, request_timeout=15
    )
    return Cluster(
        contacts,
        port=PORT,
        execution_profiles={EXEC_PROFILE_DEFAULT: profile},
        protocol_version=int(os.environ.get("NODE_PROTOCOL", "5")),
        reconnection_policy=ConstantReconnectionPolicy(0.2, max_attempts=None),
        connect_timeout=10,
    )


def token_aware(level):
    if os.environ.get("CLUSTER_PINNED") == "1":
        return connect(WhiteListRoundRobinPolicy(NODES), level)
    return connect(TokenAwarePolicy(DCAwareRoundRobinPolicy(os.environ.get("CLUSTER_DC", ""))), level)


def alone(node, level):
    return connect(WhiteListRoundRobinPolicy([node]), level, [node])


def schema(replicas):
    cluster = token_aware(ConsistencyLevel.QUORUM)
    session = cluster.connect()
    simple = f"'class': 'SimpleStrategy', 'replication_factor': {replicas}"
    options = simple if replicas.isdigit() else f"'class': 'NetworkTopologyStrategy', {replicas}"
    session.execute(f"CREATE KEYSPACE load WITH replication = {{{options}}}")
    session.execute("CREATE TABLE load.rows (k bigint PRIMARY KEY, v text)")
    cluster.shutdown()
    seen = 0
    versions = set()
    for node in NODES:
        cluster = alone(node, ConsistencyLevel.ONE)
        session = cluster.connect()
        tables = session.execute("SELECT table_name FROM system_schema.tables WHERE keyspace_name = 'load'")
        seen += len(list(tables))
        versions |= {str(row[0]) for row in session.execute("SELECT schema_version FROM system.local")}
        versions |= {str(row[0]) for row in session.execute("SELECT schema_version FROM system.peers")}
        cluster.shutdown()
    print(f"SCHEMA {seen} VERSIONS {len(versions)}", flush=True)


def class_of(error):
    for kind in (Unavailable, WriteTimeout, ReadTimeout, OperationTimedOut):
        if isinstance(error, kind):
            return kind.__name__
    return type(error).__name__


def sees(cluster, table):
    end = time.monotonic() + SEEN_WITHIN
    while table not in cluster.metadata.keyspaces["load"].tables:
        if time.monotonic() > end:
            return "BLIND"
        time.sleep(0.02)
    return "SEES"


def obey(cluster, session, stop):
    """Does what standard input says while the load runs."""
    for line in sys.stdin:
        word, _, table = line.strip().partition(" ")
        if word == "CREATE":
            try:
                session.execute(f"CREATE TABLE load.{table} (k bigint PRIMARY KEY, v text)")
                print(f"CREATED {table}", flush=True)
            except Exception as error:  # The conversation goes on; who reads it decides.
                print(f"FAILED {error}", flush=True)
        elif word == "SEES":
            print(f"{sees(cluster, table)} {table}", flush=True)
        else:
            break
    stop.set()


def load(first):
    cluster = token_aware(LEVEL)
    session = cluster.connect("load")
    insert = session.prepare("INSERT INTO load.rows (k, v) VALUES (?, ?)")
    select = session.prepare("SELECT v FROM load.rows WHERE k = ?")
    stop = threading.Event()
    threading.Thread(target=obey, args=(cluster, session, stop), daemon=True).start()
    begin = time.monotonic()
    lock = threading.Lock()
    acked, errors, wrong = [], collections.defaultdict(list), []
    slots = threading.Semaphore(IN_FLIGHT)
    counts = collections.Counter()

    def failed(error, what):
        with lock:
            errors[f"{what} {class_of(error)}"].append(round(time.monotonic() - begin, 2))
        slots.release()

    def written(_, key):
        with lock:
            acked.append(key)
            counts["writes"] += 1
        slots.release()

    def read(rows, key):
        found = [row[0] for row in rows]
        with lock:
            counts["reads"] += 1
            if found != [value_of(key)]:
                wrong.append(key)
        slots.release()

    key = first
    print("STARTED", flush=True)
    while not stop.is_set():
        slots.acquire()
        with lock:
            known = acked[(key * 7919) % len(acked)] if acked and key % 2 else None
        if known is None:
            future = session.execute_async(insert, [key, value_of(key)])
            future.add_callbacks(written, lambda error: failed(error, "write"), callback_args=(key,))
        else:
            future = session.execute_async(select, [known])
            future.add_callbacks(read, lambda error: failed(error, "read"), callback_args=(known,))
        key += 1
    for _ in range(IN_FLIGHT):
        slots.acquire(timeout=30)
    with open(os.environ["CLUSTER_ACKED"], "a", encoding="ascii") as out:
        out.writelines(f"{k}\n" for k in acked)
    told = {"next": key, "writes": counts["writes"], "reads": counts["reads"], "wrong": wrong[:20], "errors": errors}
    print("DONE", flush=True)
    print(json.dumps(told), flush=True)
    cluster.shutdown()


def check(path):
    with open(path, encoding="ascii") as lines:
        keys = sorted({int(line) for line in lines})
    for node in NODES:
        cluster = alone(node, ConsistencyLevel.ONE)
        session = cluster.connect()
        select = session.prepare("SELECT v FROM load.rows WHERE k = ?")
        wrong = []
        results = execute_concurrent_with_args(session, select, ((key,) for key in keys), concurrency=64, results_generator=True)
        for key, (ok, rows) in zip(keys, results):
            if not ok:
                raise rows
            if [row[0] for row in rows] != [value_of(key)]:
                wrong.append(key)
        cluster.shutdown()
        if wrong:
            print(f"WRONG on {node}: {len(wrong)} of {len(keys)}, such as {wrong[:10]}", flush=True)
            sys.exit(1)
    print(f"CHECKED {len(keys)}", flush=True)


def quorum(path):
    with open(path, encoding="ascii") as lines:
        keys = sorted({int(line) for line in lines})
    cluster = token_aware(ConsistencyLevel.QUORUM)
    session = cluster.connect()
    select = session.prepare("SELECT v FROM load.rows WHERE k = ?")
    wrong = []
    results = execute_concurrent_with_args(session, select, ((key,) for key in keys), concurrency=64, results_generator=True)
    for key, (ok, rows) in zip(keys, results):
        if not ok:
            raise rows
        if [row[0] for row in rows] != [value_of(key)]:
            wrong.append(key)
    cluster.shutdown()
    print(f"WRONG {len(wrong)}, such as {wrong[:10]}" if wrong else f"CHECKED {len(keys)}", flush=True)


LEVELS = ["ANY", "ONE", "TWO", "THREE", "QUORUM", "ALL", "LOCAL_QUORUM", "EACH_QUORUM", "LOCAL_ONE"]
REQUESTS = [
    ("read", "SELECT v FROM load.rows WHERE k = -1", LEVELS, None),
    ("write", "INSERT INTO load.rows (k, v) VALUES (-1, 'level')", LEVELS, None),
    ("batch", "BEGIN BATCH INSERT INTO load.rows (k, v) VALUES (-1, 'b') INSERT INTO load.rows (k, v) VALUES (-2, 'b') APPLY BATCH", LEVELS, None),
    ("scan", "SELECT v FROM load.rows LIMIT 1", LEVELS, None),
    ("read", "SELECT v FROM load.rows WHERE k = -1", ["SERIAL", "LOCAL_SERIAL"], None),
    ("condition", "INSERT INTO load.rows (k, v) VALUES (-1, 'c') IF NOT EXISTS", ["QUORUM"], ["SERIAL", "LOCAL_SERIAL"]),
]


def levels():
    cluster = alone(NODES[0], ConsistencyLevel.ONE)
    session = cluster.connect()
    for what, text, names, serials in REQUESTS:
        for name in names:
            for serial in serials or [None]:
                statement = SimpleStatement(text, consistency_level=ConsistencyLevel.name_to_value[name])
                if serial:
                    statement.serial_consistency_level = ConsistencyLevel.name_to_value[serial]
                try:
                    session.execute(statement)
                    told = "ok"
                except Exception as error:  # Every refusal is an answer here.
                    told = " ".join(str(error).split())
                print(f"{what} {name}{' ' + serial if serial else ''}: {told}", flush=True)
    print("END", flush=True)
    cluster.shutdown()


def events():
    cluster = alone(NODES[0], ConsistencyLevel.ONE)
    cluster.connect()
    lock = threading.Lock()

    def tell(event):
        with lock:
            print(f"{event['change_type']} {event['address'][0]}", flush=True)

    connection = cluster.control_connection._connection
    connection.register_watchers({"TOPOLOGY_CHANGE": tell, "STATUS_CHANGE": tell})
    print("LISTENING", flush=True)
    sys.stdin.read()
    os._exit(0)


if __name__ == "__main__":
    word, rest = sys.argv[1], sys.argv[2:]
    {"schema": schema, "load": lambda a: load(int(a)), "check": check, "quorum": quorum, "levels": levels, "events": events}[word](*rest)
