"""Mistakes of every kind and the answer each one deserves: the driver's exception class, the protocol's error code
and a piece of Cassandra's text. After each of them the same session goes on working."""

import cassandra
from cassandra import ConsistencyLevel
from cassandra.protocol import ConfigurationException, SyntaxException
from cassandra.query import BatchStatement, BatchType, BoundStatement, SimpleStatement

import link

Invalid = cassandra.InvalidRequest

# (what is wrong, statement, exception, code, piece of the text)
TEXTS = [
    ("no such statement", "SELEC * FROM good", SyntaxException, 0x2000, "line 1:0"),
    ("statement cut short", "SELECT * FROM", SyntaxException, 0x2000, "line"),
    ("text after the end", "SELECT * FROM good; SELECT", SyntaxException, 0x2000, "line 1:"),
    ("string without end", "SELECT * FROM good WHERE t = 'abc", SyntaxException, 0x2000, "line 1:"),
    ("unknown table", "SELECT * FROM nowhere", Invalid, 0x2200, "table nowhere does not exist"),
    ("unknown keyspace", "SELECT * FROM nospace.good", Invalid, 0x2200, "keyspace nospace does not exist"),
    ("USE of an unknown keyspace", "USE nospace", Invalid, 0x2200, "nospace"),
    ("unknown column", "SELECT nothing FROM good", Invalid, 0x2200, "Undefined column name nothing"),
    ("unknown column written", "INSERT INTO good (k, c, nothing) VALUES (1, 1, 1)", Invalid, 0x2200, "Undefined column name nothing"),
    ("unknown function", "SELECT nofunction(v) FROM good", Invalid, 0x2200, "nofunction"),
    ("literal of the wrong type", "INSERT INTO good (k, c, v) VALUES (1, 1, 'text')", Invalid, 0x2200, "Invalid STRING constant"),
    ("number too large", "INSERT INTO good (k, c, v) VALUES (1, 1, 2147483648)", Invalid, 0x2200, ""),
    ("not a date", "INSERT INTO good (k, c, d) VALUES (1, 1, '2024-13-45')", Invalid, 0x2200, "2024-13-45"),
    ("more values than columns", "INSERT INTO good (k, c) VALUES (1, 1, 1)", Invalid, 0x2200, "Unmatched column names/values"),
    ("column named twice", "INSERT INTO good (k, k, c) VALUES (1, 1, 1)", Invalid, 0x2200, "duplicates"),
    ("partition key missing", "INSERT INTO good (c, v) VALUES (1, 1)", Invalid, 0x2200, "k"),
    ("clustering key missing", "INSERT INTO good (k, v) VALUES (1, 1)", Invalid, 0x2200, "clustering keys are missing: c"),
    ("clustering key missing in UPDATE", "UPDATE good SET v = 1 WHERE k = 1", Invalid, 0x2200, "clustering keys are missing: c"),
    ("key column set", "UPDATE good SET c = 2 WHERE k = 1 AND c = 1", Invalid, 0x2200, "PRIMARY KEY part c found in SET part"),
    ("null partition key", "INSERT INTO good (k, c) VALUES (null, 1)", Invalid, 0x2200, "Invalid null value in condition for column k"),
    ("null clustering key", "INSERT INTO good (k, c) VALUES (1, null)", Invalid, 0x2200, "Invalid null value in condition for column c"),
    ("needs filtering", "SELECT * FROM good WHERE v = 1", Invalid, 0x2200, "ALLOW FILTERING"),
    ("clustering without partition key", "SELECT * FROM good WHERE c = 1", Invalid, 0x2200, "ALLOW FILTERING"),
    ("range of a partition key", "SELECT * FROM good WHERE k > 1", Invalid, 0x2200, "ALLOW FILTERING"),
    ("wrong ORDER BY", "SELECT * FROM good WHERE k = 1 ORDER BY v", Invalid, 0x2200, "v"),
    ("ORDER BY without key", "SELECT * FROM good ORDER BY c", Invalid, 0x2200, "ORDER BY is only supported when the partition key is restricted by an EQ or an IN"),
    ("LIMIT of nothing", "SELECT * FROM good LIMIT 0", Invalid, 0x2200, "LIMIT must be strictly positive"),
    ("negative ttl", "INSERT INTO good (k, c) VALUES (1, 1) USING TTL -1", Invalid, 0x2200, "A TTL must be greater or equal to 0, but was -1"),
    ("ttl beyond 20 years", "INSERT INTO good (k, c) VALUES (1, 1) USING TTL 630720001", Invalid, 0x2200, "ttl is too large"),
    ("table made in the system keyspace", "CREATE TABLE system.bad (k int PRIMARY KEY)", cassandra.Unauthorized, 0x2100, "system keyspace is not user-modifiable"),
    ("system table dropped", "DROP TABLE system.local", cassandra.Unauthorized, 0x2100, "system keyspace is not user-modifiable"),
    ("keyspace exists", "CREATE KEYSPACE {ks} WITH replication = {{'class': 'SimpleStrategy', 'replication_factor': 1}}", cassandra.AlreadyExists, None, "{ks}"),
    ("table exists", "CREATE TABLE good (k int PRIMARY KEY)", cassandra.AlreadyExists, None, "good"),
    ("unknown strategy", "CREATE KEYSPACE bad WITH replication = {{'class': 'NoStrategy'}}", ConfigurationException, 0x2300, "NoStrategy"),
    ("negative replication factor", "CREATE KEYSPACE bad WITH replication = {{'class': 'SimpleStrategy', 'replication_factor': -1}}", ConfigurationException, 0x2300, ""),
    ("keyspace without replication", "CREATE KEYSPACE bad", SyntaxException, 0x2000, ""),
    ("unknown type", "CREATE TABLE bad (k nosuchtype PRIMARY KEY)", Invalid, 0x2200, "nosuchtype"),
    ("unknown table option", "CREATE TABLE bad (k int PRIMARY KEY) WITH nooption = 1", SyntaxException, 0x2000, "nooption"),
    ("no primary key", "CREATE TABLE bad (k int)", Invalid, 0x2200, "PRIMARY KEY"),
    ("two primary keys", "CREATE TABLE bad (k int PRIMARY KEY, c int PRIMARY KEY)", Invalid, 0x2200, "PRIMARY KEY"),
    ("collection as key", "CREATE TABLE bad (k list<int> PRIMARY KEY)", Invalid, 0x2200, "k"),
    ("clustering order of a stranger", "CREATE TABLE bad (k int, c int, v int, PRIMARY KEY (k, c)) WITH CLUSTERING ORDER BY (v DESC)", Invalid, 0x2200, "v"),
    ("drop of nothing", "DROP TABLE nowhere", Invalid, 0x2200, "nowhere"),
    ("added column exists", "ALTER TABLE good ADD v int", Invalid, 0x2200, "v"),
    ("key column dropped", "ALTER TABLE good DROP k", Invalid, 0x2200, "k"),
    ("column type changed", "ALTER TABLE good ADD k text", Invalid, 0x2200, "k"),
    ("truncate of nothing", "TRUNCATE nowhere", Invalid, 0x2200, "nowhere"),
]


class Mistakes(link.NodeCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.session.execute(
            "CREATE TABLE good (k int, c int, v int, t text, d date, l list<int>, m map<text, int>, PRIMARY KEY (k, c))"
        )
        cls.session.execute("CREATE TABLE texts (k text PRIMARY KEY, v int)")
        cls.session.execute("CREATE TABLE clustered (k int, c text, v int, PRIMARY KEY (k, c))")

    def tearDown(self):
        self.assertEqual(self.one("SELECT key FROM system.local"), ("local",))

    def refused(self, exception, code, text, run, *args, **kwargs):
        """Asserts that `run` raises exactly this class with this code and text; returns what was raised."""
        try:
            run(*args, **kwargs)
        except Exception as error:
            self.assertIs(type(error), exception, repr(error))
            if code is not None:
                self.assertIn(f"code={code:04x}", str(error))
            self.assertIn(text, str(error))
            return error
        self.fail(f"accepted, but should be {exception.__name__}: {args}")

    def test_statements(self):
        for what, statement, exception, code, text in TEXTS:
            with self.subTest(what):
                statement = statement.format(ks=self.keyspace)
                self.refused(exception, code, text.format(ks=self.keyspace), self.session.execute, statement)

    def test_statements_by_prepare(self):
        for what, statement, exception, code, text in TEXTS[:12]:
            with self.subTest(what):
                if statement.startswith("USE"):
                    continue
                statement = statement.format(ks=self.keyspace)
                self.refused(exception, code, text, self.session.prepare, statement)

    def test_already_exists_carries_names(self):
        error = self.refused(
            cassandra.AlreadyExists, None, "", self.session.execute, "CREATE TABLE texts (k int PRIMARY KEY)"
        )
        self.assertEqual((error.keyspace, error.table), (self.keyspace, "texts"))

    def bind_raw(self, statement, *raw):
        """Executes a prepared statement with value bytes the driver would never send."""
        bound = BoundStatement(self.session.prepare(statement))
        bound.values = list(raw)
        return self.session.execute(bound)

    def test_wrong_value_lengths(self):
        insert = "INSERT INTO good (k, c, v) VALUES (?, ?, ?)"
        one = b"\x00\x00\x00\x01"
        for raw in (b"\x00", b"\x00\x00\x00", b"\x00" * 5, b"\x00" * 8):
            self.refused(Invalid, 0x2200, "Expected 4 or 0 byte int", self.bind_raw, insert, one, one, raw)
            self.refused(Invalid, 0x2200, "", self.bind_raw, insert, raw, one, one)
            self.refused(Invalid, 0x2200, "", self.bind_raw, insert, one, raw, one)
        lists = "INSERT INTO good (k, c, l) VALUES (?, ?, ?)"
        for raw in (b"\x00", b"\x00\x00\x00\x02\x00\x00\x00\x04\x00\x00\x00\x01", b"\x00\x00\x00\x01\x00\x00\x00\x02\x00\x01"):
            self.refused(Invalid, 0x2200, "", self.bind_raw, lists, one, one, raw)
        self.refused(
            Invalid, 0x2200, "", self.bind_raw, "INSERT INTO good (k, c, t) VALUES (?, ?, ?)", one, one, b"\xff\xfe"
        )

    def test_number_of_values(self):
        one = b"\x00\x00\x00\x01"
        insert = "INSERT INTO good (k, c) VALUES (?, ?)"
        self.refused(Invalid, 0x2200, "there were 2 markers(?) in CQL but", self.bind_raw, insert, one)
        self.refused(Invalid, 0x2200, "there were 2 markers(?) in CQL but", self.bind_raw, insert, one, one, one)

    def test_null_and_unset_keys(self):
        insert = self.session.prepare("INSERT INTO good (k, c, v) VALUES (?, ?, ?)")
        self.refused(Invalid, 0x2200, "Invalid null value in condition for column k", self.session.execute, insert, [None, 1, 1])
        self.refused(Invalid, 0x2200, "Invalid null value in condition for column c", self.session.execute, insert, [1, None, 1])
        unset = cassandra.query.UNSET_VALUE
        self.refused(Invalid, 0x2200, "Invalid unset value for column c", self.session.execute, insert, [1, unset, 1])
        select = self.session.prepare("SELECT * FROM good WHERE k = ? AND c = ?")
        self.refused(Invalid, 0x2200, "Invalid null value in condition for column c", self.session.execute, select, [1, None])
        self.refused(Invalid, 0x2200, "Invalid unset value for column c", self.session.execute, select, [1, unset])

    def test_empty_and_long_keys(self):
        insert = self.session.prepare("INSERT INTO texts (k, v) VALUES (?, 1)")
        self.refused(Invalid, 0x2200, "Key may not be empty", self.session.execute, insert, [""])
        self.session.execute(insert, ["k" * 65535])
        self.assertEqual(len(self.rows("SELECT k FROM texts")[0][0]), 65535)
        self.session.execute("TRUNCATE texts")
        self.refused(Invalid, 0x2200, "Key length of 65536 is longer than maximum of 65535", self.session.execute, insert, ["k" * 65536])
        select = self.session.prepare("SELECT v FROM texts WHERE k = ?")
        self.refused(Invalid, 0x2200, "Key length of 70000 is longer than maximum of 65535", self.session.execute, select, ["k" * 70000])
        long = self.session.prepare("INSERT INTO clustered (k, c, v) VALUES (1, ?, 1)")
        self.refused(Invalid, 0x2200, "65535", self.session.execute, long, ["c" * 65536])

    def test_null_inside_collections(self):
        self.refused(
            Invalid, 0x2200, "null is not supported inside collections", self.session.execute,
            "INSERT INTO good (k, c, l) VALUES (1, 1, [1, null])",
        )
        self.refused(
            Invalid, 0x2200, "Invalid map literal for l of type list<int>", self.session.execute, "INSERT INTO good (k, c, l) VALUES (1, 1, {'a': 1})"
        )

    def test_unavailable(self):
        self.session.execute(
            f"ALTER KEYSPACE {self.keyspace} WITH replication = {{'class': 'SimpleStrategy', 'replication_factor': 3}}"
        )
        try:
            for name, required in (("QUORUM", 2), ("ALL", 3), ("LOCAL_QUORUM", 2), ("TWO", 2), ("THREE", 3)):
                level = ConsistencyLevel.name_to_value[name]
                for text in ("INSERT INTO good (k, c) VALUES (1, 1)", "SELECT * FROM good WHERE k = 1"):
                    error = self.refused(
                        cassandra.Unavailable, 0x1000, "", self.session.execute,
                        SimpleStatement(text, consistency_level=level),
                    )
                    got = (error.consistency, error.required_replicas, error.alive_replicas)
                    self.assertEqual(got, (level, required, 1))
            self.session.execute("INSERT INTO good (k, c) VALUES (1, 1)")
            self.assertEqual(self.rows("SELECT k, c FROM good WHERE k = 1"), [(1, 1)])
        finally:
            self.session.execute(
                f"ALTER KEYSPACE {self.keyspace} WITH replication = {{'class': 'SimpleStrategy', 'replication_factor': 1}}"
            )

    def test_wrong_consistency_levels(self):
        read = SimpleStatement("SELECT * FROM good WHERE k = 1", consistency_level=ConsistencyLevel.ANY)
        self.refused(Invalid, 0x2200, "ANY ConsistencyLevel is only supported for writes", self.session.execute, read)
        write = SimpleStatement("INSERT INTO good (k, c) VALUES (1, 1)", consistency_level=ConsistencyLevel.SERIAL)
        self.refused(Invalid, 0x2200, "You must use conditional updates for serializable writes", self.session.execute, write)

    def test_batch_with_a_mistake_writes_nothing(self):
        insert = self.session.prepare("INSERT INTO good (k, c, v) VALUES (?, ?, ?)")
        batch = BatchStatement(batch_type=BatchType.UNLOGGED)
        batch.add(insert, [900, 1, 1])
        batch.add(SimpleStatement("INSERT INTO nowhere (k) VALUES (1)"))
        self.refused(Invalid, 0x2200, "table nowhere does not exist", self.session.execute, batch)
        self.assertEqual(self.rows("SELECT * FROM good WHERE k = 900"), [])
        select = BatchStatement()
        select.add(SimpleStatement("SELECT * FROM good"))
        self.refused(Invalid, 0x2200, "Invalid statement in batch", self.session.execute, select)


if __name__ == "__main__":
    link.main(Mistakes)
