"""Statements of the everyday kind, as an application sends them through the driver."""

import time

from cassandra import ConsistencyLevel
from cassandra.query import BatchStatement, BatchType, SimpleStatement, named_tuple_factory

import link


class Statements(link.NodeCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.session.execute(
            "CREATE TABLE events (k int, c int, d text, s text static, v int, w text, PRIMARY KEY (k, c, d))"
        )
        insert = cls.session.prepare("INSERT INTO events (k, c, d, v, w) VALUES (?, ?, ?, ?, ?)")
        for k in range(4):
            for c in range(10):
                for d in ("x", "y"):
                    cls.session.execute(insert, [k, c, d, k * 100 + c, f"w{c}"])
            cls.session.execute("UPDATE events SET s = %s WHERE k = %s", [f"static{k}", k])

    def test_slices(self):
        read = lambda rest: self.rows("SELECT c, d FROM events WHERE k = 1 " + rest)
        everything = [(c, d) for c in range(10) for d in ("x", "y")]
        self.assertEqual(read(""), everything)
        self.assertEqual(read("AND c = 3"), [(3, "x"), (3, "y")])
        self.assertEqual(read("AND c = 3 AND d = 'y'"), [(3, "y")])
        self.assertEqual(read("AND c = 3 AND d > 'x'"), [(3, "y")])
        self.assertEqual(read("AND c > 7"), everything[16:])
        self.assertEqual(read("AND c >= 2 AND c < 4"), everything[4:8])
        self.assertEqual(read("AND c IN (9, 2, 2)"), everything[4:6] + everything[18:20])
        self.assertEqual(read("AND (c, d) >= (2, 'y') AND (c, d) <= (3, 'x')"), everything[5:7])
        self.assertEqual(read("AND (c, d) IN ((2, 'y'), (4, 'x'))"), [(2, "y"), (4, "x")])
        self.assertEqual(read("AND c > 7 ORDER BY c DESC"), everything[:15:-1])
        self.assertEqual(read("ORDER BY c DESC, d DESC LIMIT 3"), everything[:-4:-1])
        self.assertEqual(read("AND c > 3 AND c < 3"), [])

    def test_static_columns(self):
        self.assertEqual(self.rows("SELECT s FROM events WHERE k = 2 LIMIT 1"), [("static2",)])
        self.assertEqual(sorted(self.rows("SELECT DISTINCT k, s FROM events")), [(k, f"static{k}") for k in range(4)])
        self.session.execute("INSERT INTO events (k, s) VALUES (50, 'alone')")
        self.assertEqual(self.rows("SELECT k, c, s, v FROM events WHERE k = 50"), [(50, None, "alone", None)])
        self.session.execute("DELETE s FROM events WHERE k = 50")
        self.assertEqual(self.rows("SELECT k FROM events WHERE k = 50"), [])

    def test_in_limit_count_token(self):
        self.assertEqual(len(self.rows("SELECT * FROM events WHERE k IN (0, 2, 99)")), 40)
        self.assertEqual(self.one("SELECT count(*) FROM events WHERE k IN (0, 1, 2, 3)"), (80,))
        self.assertEqual(len(self.rows("SELECT * FROM events WHERE k IN (0, 1, 2, 3) PER PARTITION LIMIT 3")), 12)
        self.assertEqual(len(self.rows("SELECT * FROM events WHERE k IN (0, 1) LIMIT 25")), 25)
        tokens = sorted(self.rows("SELECT DISTINCT token(k), k FROM events WHERE k IN (0, 1, 2, 3)"))
        scan = self.rows("SELECT DISTINCT k FROM events")
        scan = [k for (k,) in scan if k < 4]
        self.assertEqual(scan, [k for _, k in tokens])
        after = self.rows("SELECT DISTINCT k FROM events WHERE token(k) > token(%s)", [scan[1]])
        self.assertEqual([k for (k,) in after if k < 4], scan[2:])
        bound = self.session.prepare("SELECT k, c FROM events WHERE token(k) >= token(?) LIMIT ?")
        self.assertEqual(self.rows(bound, [scan[0], 3])[0][0], scan[0])
        lo, hi = tokens[0][0], tokens[-1][0]
        ring = self.rows(f"SELECT DISTINCT k FROM events WHERE token(k) > {lo} AND token(k) <= {hi}")
        self.assertEqual([k for (k,) in ring if k < 4], scan[1:])

    def test_filtering(self):
        rows = self.rows("SELECT k, c, d FROM events WHERE v = 203 ALLOW FILTERING")
        self.assertEqual(rows, [(2, 3, "x"), (2, 3, "y")])
        rows = self.rows("SELECT k, c FROM events WHERE w = 'w4' AND c > 1 AND d = 'x' ALLOW FILTERING")
        self.assertEqual(sorted(rows), [(k, 4) for k in range(4)])
        self.assertEqual(self.one("SELECT count(*) FROM events WHERE v >= 300 ALLOW FILTERING"), (20,))

    def test_aliases_and_json_free_selectors(self):
        row = self.session.execute("SELECT k AS key, count(*) AS n, max(v) AS top FROM events WHERE k = 3").one()
        self.assertEqual((row.key, row.n, row.top), (3, 20, 309))

    def test_deletes(self):
        self.session.execute("CREATE TABLE gone (k int, c int, d int, v int, w int, PRIMARY KEY (k, c, d))")
        insert = self.session.prepare("INSERT INTO gone (k, c, d, v, w) VALUES (?, ?, ?, 1, 1)")
        for c in range(6):
            for d in range(3):
                self.session.execute(insert, [1, c, d])
        read = lambda: self.rows("SELECT c, d FROM gone WHERE k = 1")
        self.session.execute("DELETE FROM gone WHERE k = 1 AND c = 0 AND d = 1")
        self.session.execute("DELETE FROM gone WHERE k = 1 AND c = 1")
        self.session.execute("DELETE FROM gone WHERE k = 1 AND c > 3 AND c <= 5")
        self.session.execute("DELETE v FROM gone WHERE k = 1 AND c = 2 AND d = 0")
        self.assertEqual(read(), [(0, 0), (0, 2), (2, 0), (2, 1), (2, 2), (3, 0), (3, 1), (3, 2)])
        self.assertEqual(self.one("SELECT v, w FROM gone WHERE k = 1 AND c = 2 AND d = 0"), (None, 1))
        self.session.execute(insert, [1, 1, 1])
        self.assertIn((1, 1), read())
        self.session.execute("DELETE FROM gone WHERE k = 1")
        self.assertEqual(read(), [])

    def test_update_and_row_marker(self):
        self.session.execute("CREATE TABLE marks (k int PRIMARY KEY, v int, w int)")
        self.session.execute("UPDATE marks SET v = 1 WHERE k = 1")
        self.session.execute("INSERT INTO marks (k, v) VALUES (2, 1)")
        self.session.execute("UPDATE marks SET v = null WHERE k IN (1, 2)")
        self.assertEqual(self.rows("SELECT * FROM marks"), [(2, None, None)])

    def test_timestamps(self):
        self.session.execute("CREATE TABLE stamps (k int PRIMARY KEY, v text)")
        self.session.execute("INSERT INTO stamps (k, v) VALUES (1, 'new') USING TIMESTAMP 2000")
        self.session.execute("INSERT INTO stamps (k, v) VALUES (1, 'old') USING TIMESTAMP 1000")
        self.assertEqual(self.one("SELECT v, writetime(v) FROM stamps WHERE k = 1"), ("new", 2000))
        self.session.execute("DELETE FROM stamps USING TIMESTAMP 1500 WHERE k = 1")
        self.assertEqual(self.one("SELECT v FROM stamps WHERE k = 1"), ("new",))
        # At one timestamp the tombstone wins, then the greater value.
        self.session.execute("INSERT INTO stamps (k, v) VALUES (1, 'a') USING TIMESTAMP 3000")
        self.session.execute("INSERT INTO stamps (k, v) VALUES (1, 'b') USING TIMESTAMP 3000")
        self.session.execute("INSERT INTO stamps (k, v) VALUES (1, 'a') USING TIMESTAMP 3000")
        self.assertEqual(self.one("SELECT v FROM stamps WHERE k = 1"), ("b",))
        self.session.execute("DELETE FROM stamps USING TIMESTAMP 3000 WHERE k = 1")
        self.assertEqual(self.rows("SELECT v FROM stamps WHERE k = 1"), [])

    def test_ttl(self):
        self.session.execute("CREATE TABLE fleeting (k int PRIMARY KEY, v int, w int)")
        # What is looked at before it goes has long to live: a busy machine may take seconds from one line to the next.
        self.session.execute("INSERT INTO fleeting (k, v) VALUES (1, 1) USING TTL 2000")
        self.session.execute("UPDATE fleeting USING TTL %s SET w = 1 WHERE k = 1", [1000])
        left = self.one("SELECT ttl(v), ttl(w) FROM fleeting WHERE k = 1")
        self.assertTrue(1900 <= left[0] <= 2000 and 900 <= left[1] <= 1000, left)
        self.session.execute("INSERT INTO fleeting (k, v) VALUES (1, 1) USING TTL 1")
        time.sleep(2.1)
        self.assertEqual(self.one("SELECT v, w FROM fleeting WHERE k = 1"), (None, 1))
        self.session.execute("CREATE TABLE default_ttl (k int PRIMARY KEY, v int) WITH default_time_to_live = 1")
        self.session.execute("INSERT INTO default_ttl (k, v) VALUES (1, 1)")
        self.session.execute("INSERT INTO default_ttl (k, v) VALUES (2, 1) USING TTL 0")
        time.sleep(2.1)
        self.assertEqual(self.rows("SELECT k FROM default_ttl"), [(2,)])

    def test_batches(self):
        self.session.execute("CREATE TABLE batched (k int, c int, v int, PRIMARY KEY (k, c))")
        insert = self.session.prepare("INSERT INTO batched (k, c, v) VALUES (?, ?, ?)")
        for kind in (BatchType.LOGGED, BatchType.UNLOGGED):
            batch = BatchStatement(batch_type=kind)
            for c in range(20):
                batch.add(insert, [c % 3, c, c])
            batch.add(SimpleStatement("INSERT INTO batched (k, c, v) VALUES (%s, 100, 1)"), [7])
            batch.add(SimpleStatement("DELETE FROM batched WHERE k = 0 AND c = 0"))
            self.session.execute(batch)
            self.assertEqual(self.one("SELECT count(*) FROM batched"), (20,))
            self.session.execute("TRUNCATE batched")
            self.assertEqual(self.one("SELECT count(*) FROM batched"), (0,))
        self.session.execute(
            "BEGIN BATCH USING TIMESTAMP 5 INSERT INTO batched (k, c, v) VALUES (1, 1, 1); "
            "UPDATE batched SET v = 2 WHERE k = 1 AND c = 2; APPLY BATCH"
        )
        self.assertEqual(self.rows("SELECT c, v, writetime(v) FROM batched WHERE k = 1"), [(1, 1, 5), (2, 2, 5)])

    def test_named_binds_and_unset(self):
        self.session.execute("CREATE TABLE named (k int PRIMARY KEY, v int, w int)")
        insert = self.session.prepare("INSERT INTO named (k, v, w) VALUES (:key, :v, :w)")
        self.session.execute(insert, {"key": 1, "v": 2, "w": 3})
        self.session.execute(insert, {"key": 1, "v": 20})
        self.assertEqual(self.one("SELECT v, w FROM named WHERE k = 1"), (20, 3))

    def test_consistency_levels_of_one_replica(self):
        for level in ("ONE", "LOCAL_ONE", "QUORUM", "LOCAL_QUORUM", "ALL"):
            number = ConsistencyLevel.name_to_value[level]
            statement = SimpleStatement("INSERT INTO events (k, c, d) VALUES (60, 1, 'x')", consistency_level=number)
            self.session.execute(statement)
            statement = SimpleStatement("SELECT c FROM events WHERE k = 60", consistency_level=number)
            self.assertEqual(self.rows(statement), [(1,)])
        self.session.execute("DELETE FROM events WHERE k = 60")

    def test_large_values_and_many_columns(self):
        self.session.execute("CREATE TABLE large (k int PRIMARY KEY, v blob)")
        insert = self.session.prepare("INSERT INTO large (k, v) VALUES (?, ?)")
        for size in (0, 1, 65535, 131071, 131072, 400_000, 2_000_000):
            value = bytes(i * 7 % 256 for i in range(256)) * (size // 256 + 1)
            self.session.execute(insert, [size, value[:size]])
            self.assertEqual(self.one("SELECT v FROM large WHERE k = %s", [size])[0], value[:size])
        names = [f"column_number_{i}" for i in range(300)]
        self.session.execute("CREATE TABLE wide (k int PRIMARY KEY, " + ", ".join(n + " int" for n in names) + ")")
        insert = self.session.prepare(
            f"INSERT INTO wide (k, {', '.join(names)}) VALUES (?{', ?' * len(names)})"
        )
        self.session.execute(insert, list(range(301)))
        row = self.session.execute("SELECT * FROM wide").one()._asdict()
        self.assertEqual([row[n] for n in names], list(range(1, 301)))


if __name__ == "__main__":
    link.main(Statements)
