"""A session that outlives the node: prepares, asks the Rust side to restart the node, and goes on.

Protocol with the parent: prints "RESTART graceful" or "RESTART kill" and waits for a line on standard input; the last
line is "SESSION OK". The table is compared with what was acknowledged before each restart.
"""

import sys
import time

from cassandra.cluster import NoHostAvailable
from cassandra.policies import ConstantReconnectionPolicy

import link


def restart(how):
    print(f"RESTART {how}", flush=True)
    if not sys.stdin.readline().strip() == "READY":
        sys.exit("the parent went away")


def patiently(session, statement, values=None, seconds=60):
    """Retries while the driver still believes that the node is down."""
    end = time.monotonic() + seconds
    while True:
        try:
            return [tuple(row) for row in session.execute(statement, values)]
        except (NoHostAvailable, OSError, Exception) as error:
            if time.monotonic() > end or "code=" in str(error):
                raise
            time.sleep(0.1)


def main():
    cluster = link.open_cluster(reconnection_policy=ConstantReconnectionPolicy(0.2, max_attempts=None))
    session = cluster.connect()
    keyspace = f"restart_v{link.PROTOCOL}_{link.COMPRESSION}"
    session.execute(f"DROP KEYSPACE IF EXISTS {keyspace}")
    session.execute(
        f"CREATE KEYSPACE {keyspace} WITH replication = {{'class': 'SimpleStrategy', 'replication_factor': 1}}"
    )
    session.execute(f"CREATE TABLE {keyspace}.kept (k int, c int, v text, s text static, PRIMARY KEY (k, c))")
    insert = session.prepare(f"INSERT INTO {keyspace}.kept (k, c, v, s) VALUES (?, ?, ?, ?)")
    select = session.prepare(f"SELECT v FROM {keyspace}.kept WHERE k = ? AND c = ?")
    wrote = {}
    for turn, how in enumerate(("graceful", "kill", "graceful")):
        for i in range(200):
            key = (i, turn)
            wrote[key] = f"turn {turn} row {i}"
            patiently(session, insert, [i, turn, wrote[key], f"static {turn}"])
        patiently(session, f"DELETE FROM {keyspace}.kept WHERE k = 7 AND c = {turn}")
        wrote.pop((7, turn))
        restart(how)
        # The driver's own prepared id is unknown to the new process: it must be told so, and prepare again.
        assert patiently(session, select, [3, turn]) == [(f"turn {turn} row 3",)]
        rows = patiently(session, f"SELECT k, c, v, s FROM {keyspace}.kept")
        got = {(k, c): v for k, c, v, _ in rows if c is not None}
        assert got == wrote, f"after restart {turn}: {len(got)} rows instead of {len(wrote)}"
        assert {s for _, _, _, s in rows} == {f"static {turn}"}
    patiently(session, f"DROP KEYSPACE {keyspace}")
    cluster.shutdown()
    print("SESSION OK", flush=True)


if __name__ == "__main__":
    main()
