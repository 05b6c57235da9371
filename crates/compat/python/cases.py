"""The Python drivers, the stock one and the shard-aware one, against a running node: the tables of `cases/`.

Everything is told by the environment, as `drivers.rs` says. Each test prints one line, the last line is their count.
"""

import json
import os
import ssl
import sys
import threading
import time
import traceback
from pathlib import Path

import cassandra
from cassandra import ConsistencyLevel, InvalidRequest, ProtocolVersion
from cassandra.auth import PlainTextAuthProvider
from cassandra.cluster import EXEC_PROFILE_DEFAULT, Cluster, ExecutionProfile, NoHostAvailable
from cassandra.concurrent import execute_concurrent_with_args
from cassandra.policies import FallthroughRetryPolicy, RoundRobinPolicy, TokenAwarePolicy
from cassandra.protocol import ConfigurationException, SyntaxException
from cassandra.query import BatchStatement, BatchType, SimpleStatement, UNSET_VALUE

import values

ENV = os.environ
DRIVER = ENV["SUITE_DRIVER"]
ROWS = int(ENV["SUITE_ROWS"])
QUICK = ENV["SUITE_QUICK"] == "1"
SHARDS = int(ENV["NODE_SHARDS"])
REPLICATION = "replication = {'class': 'NetworkTopologyStrategy', 'datacenter1': 1}"
TIMEOUT_S = 60

# The shard-aware driver speaks no protocol 5.
CONVERSATIONS = {
    "pycassandra": [(5, "lz4"), (4, "snappy"), (3, None), (4, "lz4"), (5, None), (3, "snappy")],
    "pyscylla": [(4, "lz4"), (3, None), (4, "snappy")],
}[DRIVER]

ERRORS = {
    "syntax": SyntaxException,
    "invalid": InvalidRequest,
    "exists": cassandra.AlreadyExists,
    "config": ConfigurationException,
    "unauthorized": cassandra.Unauthorized,
    "unavailable": cassandra.Unavailable,
}

count = 0


def test(name, body):
    """Runs one test; what it raises is why it failed."""
    global count
    only = ENV["SUITE_ONLY"]
    if only and only not in name and not name.startswith("connect"):
        return
    count += 1
    since = time.monotonic()
    try:
        note = body()
        note = f" ({note})" if note else ""
        print(f"test {name} ... ok [{time.monotonic() - since:.1f} s]{note}", flush=True)
    except BaseException:
        print(f"test {name} ... FAILED\n{traceback.format_exc()}", flush=True)


def table_of(name):
    return json.loads((Path(ENV["SUITE_CASES"]) / name).read_text(encoding="utf-8"))


def equal(expected, got, what=""):
    assert expected == got, f"{what}: expected {expected!r:.300}, got {got!r:.300}"


def applies(entry, version):
    return DRIVER not in entry.get("except", ()) and entry.get("since", 0) <= version


def value_of(entry):
    return entry["value"] * entry["repeat"] if "repeat" in entry else entry["value"]


def expected_of(entry):
    return values.plain(entry["reads"] if "reads" in entry else value_of(entry))


def open_cluster(version, compression, port=None, patience_s=TIMEOUT_S, **more):
    profile = ExecutionProfile(
        load_balancing_policy=TokenAwarePolicy(RoundRobinPolicy()),
        retry_policy=FallthroughRetryPolicy(),
        consistency_level=ConsistencyLevel.ONE,
        request_timeout=TIMEOUT_S,
    )
    return Cluster(
        [ENV["NODE_HOST"]],
        port=int(port or ENV["NODE_PORT"]),
        protocol_version=version,
        compression=compression or False,
        execution_profiles={EXEC_PROFILE_DEFAULT: profile},
        connect_timeout=patience_s,
        control_connection_timeout=patience_s,
        max_schema_agreement_wait=TIMEOUT_S,
        schema_event_refresh_window=0,
        **more,
    )


class Conversation:
    """A session by one protocol version and compression."""

    def __init__(self, version, compression):
        self.version, self.compression = version, compression

    def connect(self):
        self.cluster = open_cluster(self.version, self.compression)
        self.session = self.cluster.connect()
        equal(self.version, self.cluster.protocol_version)
        connection = self.cluster.control_connection._connection
        equal(bool(self.compression), connection.compressor is not None, "compressed")
        self.session.execute(f"DROP KEYSPACE IF EXISTS {DRIVER}")
        self.session.execute(f"CREATE KEYSPACE {DRIVER} WITH {REPLICATION}")
        self.session.set_keyspace(DRIVER)

    def one(self, text, bound=None):
        return self.session.execute(text, bound).one()[0]

    def types(self):
        table = table_of("types.json")
        for text in table["setup"]:
            self.session.execute(text)
        types = [entry for entry in table["types"] if applies(entry, self.version)]
        columns = "".join(f", c{i} {entry['type']}" for i, entry in enumerate(types))
        self.session.execute(f"CREATE TABLE types (k int PRIMARY KEY{columns})")
        key = number = 0
        for i, entry in enumerate(types):
            insert = self.session.prepare(f"INSERT INTO types (k, c{i}) VALUES (?, ?)")
            select = self.session.prepare(f"SELECT c{i} FROM types WHERE k = ?")
            cls = insert.column_metadata[1].type

            def read(key):
                result = self.session.execute(select, [key])
                return values.show(result.column_types[0], result.one()[0])

            for item in entry["values"]:
                if not applies(item, self.version):
                    continue
                key += 1
                self.session.execute(insert, [key, values.build(cls, value_of(item))])
                equal(expected_of(item), read(key), f"{entry['type']} bound")
                if item.get("cql"):
                    key += 1
                    self.session.execute(f"INSERT INTO types (k, c{i}) VALUES ({key}, {item['cql']})")
                    equal(expected_of(item), read(key), f"{entry['type']} as {item['cql']}")
                number += 1
            self.session.execute(insert, [key, None])
            equal("null", read(key), f"{entry['type']} set to null")
            if self.version >= 4:
                self.session.execute(insert, [key + 1, UNSET_VALUE])
                key += 1
                equal("null", read(key), f"{entry['type']} left unset")
        return f"{number} values of {len(types)} types"

    def mistakes(self):
        table = table_of("mistakes.json")
        for text in table["setup"]:
            self.session.execute(text)
        for mistake in table["mistakes"]:
            name = mistake["name"]
            try:
                self.make(mistake)
            except Exception as error:
                # What the driver could not prepare comes wrapped.
                if isinstance(error, NoHostAvailable):
                    error = next(iter(error.errors.values()))
                assert isinstance(error, ERRORS[mistake["error"]]), f"{name}: {error!r}"
                assert mistake.get("says", "") in str(error), f"{name} says {error}"
                if isinstance(error, cassandra.Unavailable):
                    equal((2, 1), (error.required_replicas, error.alive_replicas), name)
                if isinstance(error, cassandra.AlreadyExists):
                    equal((DRIVER, "rows"), (error.keyspace, error.table), name)
                continue
            raise AssertionError(f"{name} was accepted")
        return f"{len(table['mistakes'])} mistakes"

    def make(self, mistake):
        if mistake["how"] == "query":
            level = ConsistencyLevel.name_to_value[mistake.get("level", "ONE")]
            self.session.execute(SimpleStatement(mistake["cql"], consistency_level=level))
            return
        prepared = self.session.prepare(mistake["cql"])
        if mistake["how"] == "execute":
            self.session.execute(prepared, [None if v is None else int(v) for v in mistake["values"]])

    def prepared_across_changes(self):
        self.session.execute("CREATE TABLE changing (k int PRIMARY KEY, v int)")
        select = self.session.prepare("SELECT * FROM changing WHERE k = ?")
        insert = self.session.prepare("INSERT INTO changing (k, v) VALUES (?, ?)")
        self.session.execute(insert, [1, 2])
        equal((1, 2), tuple(self.session.execute(select, [1]).one()))
        self.session.execute("ALTER TABLE changing ADD w text")
        self.session.execute(insert, [2, 3])
        self.session.execute("UPDATE changing SET w = 'new' WHERE k = 1")
        row = tuple(self.session.execute(select, [1]).one())
        equal((1, 2, "new") if self.version >= 5 else (1, 2), row[: 3 if self.version >= 5 else 2], "after ADD")
        equal("new", self.one("SELECT w FROM changing WHERE k = 1"))
        self.session.execute("ALTER TABLE changing DROP v")
        if self.version >= 5:
            equal((1, "new"), tuple(self.session.execute(select, [1]).one()), "after DROP")
        for statement, bound in ((insert, [3, 4]), (select, [1])):
            try:
                self.session.execute(statement, bound)
            except InvalidRequest:
                pass
            else:
                raise AssertionError("a dropped column was written, or a dropped table read")
            if statement is insert:
                self.session.execute("DROP TABLE changing")

    def batches(self):
        self.session.execute("CREATE TABLE batched (k int, c int, v int, PRIMARY KEY (k, c))")
        insert = self.session.prepare("INSERT INTO batched (k, c, v) VALUES (?, ?, ?)")
        for kind in (BatchType.LOGGED, BatchType.UNLOGGED):
            batch = BatchStatement(batch_type=kind)
            for c in range(20):
                batch.add(insert, [c % 3, c, c])
            batch.add(SimpleStatement("INSERT INTO batched (k, c, v) VALUES (%s, 100, 1)"), [7])
            batch.add(SimpleStatement("DELETE FROM batched WHERE k = 0 AND c = 0"))
            self.session.execute(batch)
            equal(20, self.one("SELECT count(*) FROM batched"))
            self.session.execute("TRUNCATE batched")
        now = int(time.time() * 1e6)
        self.session.execute(insert, [1, 1, 10])
        stamp = self.one("SELECT writetime(v) FROM batched WHERE k = 1")
        assert abs(stamp - now) < 60e6, f"a timestamp of the client: {stamp}"
        self.session.execute("INSERT INTO batched (k, c, v) VALUES (1, 1, 20) USING TIMESTAMP %s", [stamp - 1])
        equal(10, self.one("SELECT v FROM batched WHERE k = 1"), "the newer timestamp")
        self.session.execute("INSERT INTO batched (k, c, v) VALUES (2, 2, 2) USING TTL %s", [1000])
        assert 900 < self.one("SELECT ttl(v) FROM batched WHERE k = 2") <= 1000
        self.session.execute("INSERT INTO batched (k, c, v) VALUES (3, 3, 3) USING TTL 1")
        time.sleep(2.1)
        equal(0, self.one("SELECT count(*) FROM batched WHERE k = 3"))

    def extras(self):
        self.session.execute("CREATE TABLE extras (k int PRIMARY KEY, v text)")
        payload = {"key": b"\x01\x02"} if self.version >= 4 else None
        result = self.session.execute("INSERT INTO extras (k, v) VALUES (1, 'v')", trace=True, custom_payload=payload)
        self.payloads()
        trace = result.get_query_trace(max_wait_sec=20)
        assert trace.events and trace.duration is not None and trace.request_type
        assert self.session.execute("SELECT * FROM extras").get_query_trace() is None, "traced unasked"
        if self.version >= 4:
            future = self.session.execute("SELECT count(*) FROM extras").response_future
            assert "Aggregation query used without partition key" in str(future.warnings), future.warnings
            batch = BatchStatement(batch_type=BatchType.UNLOGGED)
            for k in (1, 2):
                batch.add(SimpleStatement("INSERT INTO extras (k, v) VALUES (%s, %s)"), [k, "x" * 4000])
            warnings = self.session.execute(batch).response_future.warnings
            assert "exceed" in str(warnings), f"warnings of a large batch: {warnings}"

    def payloads(self):
        """Nobody reads them, nobody answers with one, nothing changes by them."""
        if self.version < 4:
            return
        payload = {"key": b"\x01\x02", "empty": b"", "long": b"\x07" * 300_000}
        prepared = self.session.prepare("UPDATE extras SET v = ? WHERE k = 1", custom_payload=payload)
        batch = BatchStatement()
        batch.add(prepared, ["batched"])
        for statement, bound, reads in (
            (SimpleStatement("UPDATE extras SET v = 'simple' WHERE k = 1"), None, "simple"),
            (prepared, ["prepared"], "prepared"),
            (batch, None, "batched"),
        ):
            future = self.session.execute(statement, bound, custom_payload=payload).response_future
            equal(None, future.custom_payload, f"payload of an answer: {reads}")
            equal(reads, self.one("SELECT v FROM extras WHERE k = 1"))
        try:
            self.session.execute("SELECT nothing FROM extras", custom_payload=payload)
        except InvalidRequest:
            return
        raise AssertionError("a payload made a mistake right")

    def metadata(self):
        self.session.execute("CREATE TYPE point (x int, y int)")
        self.session.execute(
            "CREATE TABLE described (a int, b text, c int, d timeuuid, s text static, m map<int, frozen<list<text>>>, "
            "p frozen<point>, PRIMARY KEY ((a, b), c, d)) WITH CLUSTERING ORDER BY (c DESC, d ASC) "
            "AND comment = 'it''s' AND gc_grace_seconds = 99"
        )
        keyspace = self.cluster.metadata.keyspaces[DRIVER]
        table = keyspace.tables["described"]
        names = lambda columns: [column.name for column in columns]
        equal((["a", "b"], ["c", "d"]), (names(table.partition_key), names(table.clustering_key)))
        assert table.columns["s"].is_static and table.columns["c"].is_reversed
        equal("map<int, frozen<list<text>>>", table.columns["m"].cql_type)
        equal((99, "it's"), (table.options["gc_grace_seconds"], table.options["comment"]))
        equal(["x", "y"], keyspace.user_types["point"].field_names)
        text = table.as_cql_query()
        self.session.execute("DROP TABLE described")
        self.session.execute(text)
        equal(text, self.cluster.metadata.keyspaces[DRIVER].tables["described"].as_cql_query(), "described again")
        assert "CREATE TYPE" in keyspace.export_as_string()
        equal(1, len(self.cluster.metadata.get_replicas(DRIVER, b"\x00\x00\x00\x01")), "replicas")
        # In v3 the driver looks into what it knows of the table, which the event of the drop may just have taken away.
        patience = time.monotonic() + 10
        while True:
            prepared = self.session.prepare("SELECT * FROM described WHERE b = ? AND a = ?")
            if prepared.bind(["b", 1]).routing_key:
                break
            assert time.monotonic() < patience, "no routing key"
            time.sleep(0.1)

    def events(self):
        told, changed = [], threading.Condition()

        def heard(event):
            with changed:
                told.append((event["change_type"], event["target_type"], event.get("table") or event.get("type") or ""))
                changed.notify_all()

        expected = []
        with open_cluster(self.version, self.compression) as listening:
            listening.connect()
            connection = listening.control_connection._connection
            for kind in ("TOPOLOGY_CHANGE", "STATUS_CHANGE", "SCHEMA_CHANGE"):
                assert connection._push_watchers[kind], f"the driver listens to {kind}"
            of_nodes = lambda event: told.append(("NODE", event["change_type"], str(event["address"])))
            connection._push_watchers["TOPOLOGY_CHANGE"].add(of_nodes)
            connection._push_watchers["STATUS_CHANGE"].add(of_nodes)
            connection._push_watchers["SCHEMA_CHANGE"].add(lambda event: event["keyspace"].endswith("_events") and heard(event))
            for text, *events in (
                (f"CREATE KEYSPACE {DRIVER}_events WITH {REPLICATION}", ("CREATED", "KEYSPACE", "")),
                (f"ALTER KEYSPACE {DRIVER}_events WITH durable_writes = false", ("UPDATED", "KEYSPACE", "")),
                (f"CREATE TYPE {DRIVER}_events.t (x int)", ("CREATED", "TYPE", "t")),
                (f"ALTER TYPE {DRIVER}_events.t ADD y int", ("UPDATED", "TYPE", "t")),
                (f"CREATE TYPE {DRIVER}_events.u (x int)", ("CREATED", "TYPE", "u")),
                (f"DROP TYPE {DRIVER}_events.u", ("DROPPED", "TYPE", "u")),
                (f"CREATE TABLE {DRIVER}_events.told (k int PRIMARY KEY)", ("CREATED", "TABLE", "told")),
                (f"ALTER TABLE {DRIVER}_events.told ADD v int", ("UPDATED", "TABLE", "told")),
                (f"DROP TABLE {DRIVER}_events.told", ("DROPPED", "TABLE", "told")),
                # What a keyspace holds goes with it, and is told of.
                (f"DROP KEYSPACE {DRIVER}_events", ("DROPPED", "TYPE", "t"), ("DROPPED", "KEYSPACE", "")),
                # What was told twice stands before the event of the next change.
                (f"CREATE KEYSPACE last_events WITH {REPLICATION}", ("CREATED", "KEYSPACE", "")),
                ("DROP KEYSPACE last_events", ("DROPPED", "KEYSPACE", "")),
            ):
                self.session.execute(text)
                expected += events
                with changed:
                    changed.wait_for(lambda: len(told) >= len(expected), timeout=TIMEOUT_S)
                    equal(expected, told, f"told after {text}")
        return f"{len(expected)} events"

    def paging(self):
        self.session.execute("CREATE TABLE pages (k bigint, c int, v text, PRIMARY KEY (k, c))")
        insert = self.session.prepare("INSERT INTO pages (k, c, v) VALUES (?, ?, ?)")
        rows = ((i // 100, i % 100, f"value {i}") for i in range(ROWS))
        for ok, error in execute_concurrent_with_args(self.session, insert, rows, concurrency=200, results_generator=True):
            if not ok:
                raise error
        for fetch_size in (5000, 997):
            statement = SimpleStatement("SELECT k, c, v FROM pages", fetch_size=fetch_size)
            seen, last = set(), None
            for k, c, v in self.session.execute(statement):
                i = k * 100 + c
                assert i not in seen and v == f"value {i}", f"row {i} came twice or as {v}"
                assert last is None or last[0] != k or last[1] < c, f"row {i} is out of order"
                seen.add(i)
                last = (k, c)
            equal(ROWS, len(seen))
        if SHARDS > 1 and DRIVER == "pyscylla":
            self.one_connection_per_shard()
        return f"{ROWS} rows"

    def one_connection_per_shard(self):
        """The shard-aware driver opens a connection to each shard behind the session's back."""
        end = time.monotonic() + 30
        while True:
            pools = self.session.get_pool_state().values()
            shards = sum(state["open_count"] for state in pools)
            if shards >= SHARDS:
                return
            assert time.monotonic() < end, f"{shards} connections to {SHARDS} shards: {list(pools)}"
            time.sleep(0.05)


def encrypted(authority, client=None):
    """Options of a cluster that trusts this authority and shows this certificate."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.load_verify_locations(ENV[authority])
    if client:
        context.load_cert_chain(ENV[client])
    return {"ssl_context": context, "ssl_options": {"server_hostname": ENV["NODE_HOST"]}}


def client_certificate(version, compression):
    def open_as(client, patience_s):
        options = encrypted("NODE_AUTHORITY", client)
        return open_cluster(version, compression, ENV["NODE_MUTUAL_PORT"], patience_s, **options)

    with open_as("NODE_CLIENT", TIMEOUT_S) as cluster:
        equal("local", cluster.connect().execute("SELECT key FROM system.local").one()[0])
    for client in ("NODE_IMPOSTOR", None):
        cluster = open_as(client, 10)
        try:
            cluster.connect()
        except NoHostAvailable:
            continue
        finally:
            cluster.shutdown()
        raise AssertionError(f"who shows the certificate {client} was let in")


def every_shard_over_tls(port, **options):
    """The shard-aware driver finds the shard-aware port of encrypted connections, and every shard through it."""
    with open_cluster(4, "lz4", port, **options) as cluster:
        session = cluster.connect()
        (pool,) = session.get_pools()
        shard_port = pool.host.sharding_info.shard_aware_port_ssl
        assert shard_port and shard_port != port, f"no shard-aware port is told: {pool.host.sharding_info}"
        end = time.monotonic() + TIMEOUT_S
        while sorted(pool._connections) != list(range(SHARDS)):
            assert time.monotonic() < end, f"connections to the shards {sorted(pool._connections)} of {SHARDS}"
            time.sleep(0.05)
        through = {shard: held._socket.getpeername()[1] for shard, held in pool._connections.items()}
        # The first connection came through the ordinary port.
        equal(SHARDS - 1, list(through.values()).count(shard_port), f"ports by shard {through}")
        assert set(through.values()) <= {port, shard_port}, through
        for held in pool._connections.values():
            assert isinstance(held._socket, ssl.SSLSocket), f"{held} is not encrypted"
        select = session.prepare("SELECT key FROM system.local WHERE key = ?")
        for ok, rows in execute_concurrent_with_args(session, select, [["local"]] * 500):
            assert ok and rows.one()[0] == "local", rows
    return f"{SHARDS} shards"


def secure(version, compression):
    def open_secure(authority, user, password):
        more = encrypted(authority) if authority else {}
        if user:
            more["auth_provider"] = PlainTextAuthProvider(user, password)
        # The driver does not notice that a refused connection was closed, and waits.
        return open_cluster(version, compression, ENV["NODE_SECURE_PORT"], patience_s=10, **more)

    with open_secure("NODE_AUTHORITY", "cassandra", "cassandra") as cluster:
        cluster.connect().execute(f"CREATE ROLE IF NOT EXISTS {DRIVER} WITH PASSWORD = 'it''s secret' AND LOGIN = true")
    with open_secure("NODE_AUTHORITY", DRIVER, "it's secret") as cluster:
        equal("local", cluster.connect().execute("SELECT key FROM system.local").one()[0])
    for wrong, kind in (
        (("NODE_AUTHORITY", DRIVER, "wrong"), cassandra.AuthenticationFailed),
        (("NODE_AUTHORITY", "nobody", "it's secret"), cassandra.AuthenticationFailed),
        (("NODE_AUTHORITY", None, None), cassandra.AuthenticationFailed),
        (("NODE_STRANGER", DRIVER, "it's secret"), OSError),
        ((None, DRIVER, "it's secret"), Exception),
    ):
        cluster = open_secure(*wrong)
        try:
            cluster.connect()
        except NoHostAvailable as error:
            cause = next(iter(error.errors.values()))
            assert isinstance(cause, kind), f"{wrong} was refused by {cause!r}"
            assert kind is not OSError or "CERTIFICATE_VERIFY_FAILED" in str(cause), f"refused by {cause!r}"
        else:
            raise AssertionError(f"a session that must be refused was opened: {wrong}")
        finally:
            cluster.shutdown()


def main():
    conversations = CONVERSATIONS[:3] if QUICK else CONVERSATIONS
    for i, (version, compression) in enumerate(conversations):
        name = f" v{version} {compression or 'none'}"
        talk = Conversation(version, compression)
        test("connect" + name, talk.connect)
        if not hasattr(talk, "session"):
            continue
        test("types" + name, talk.types)
        test("mistakes" + name, talk.mistakes)
        test("prepared_across_changes" + name, talk.prepared_across_changes)
        test("batches_timestamps_ttl" + name, talk.batches)
        test("tracing_payload_warnings" + name, talk.extras)
        test("metadata" + name, talk.metadata)
        test("events" + name, talk.events)
        if i == 0:
            test("paging" + name, talk.paging)
        talk.session.execute(f"DROP KEYSPACE {DRIVER}")
        talk.cluster.shutdown()
    for version, compression in conversations[: 1 if QUICK else 3]:
        name = f" v{version} {compression or 'none'}"
        test("tls_and_password" + name, lambda: secure(version, compression))
        test("client_certificate" + name, lambda: client_certificate(version, compression))
    if SHARDS and DRIVER == "pyscylla":
        # One server has a shard-aware port of its own for TLS, the other one for whatever it speaks.
        secure_port, mutual_port = int(ENV["NODE_SECURE_PORT"]), int(ENV["NODE_MUTUAL_PORT"])
        login = {"auth_provider": PlainTextAuthProvider("cassandra", "cassandra"), **encrypted("NODE_AUTHORITY")}
        test("every_shard_over_tls with_password", lambda: every_shard_over_tls(secure_port, **login))
        shown = encrypted("NODE_AUTHORITY", "NODE_CLIENT")
        test("every_shard_over_tls with_certificate", lambda: every_shard_over_tls(mutual_port, **shown))
    print(f"end {count}", flush=True)
    # Threads of sessions that were refused end by themselves, some seconds later.
    sys.stdout.flush()
    os._exit(0)


if __name__ == "__main__":
    main()
