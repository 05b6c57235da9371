"""Every scalar type and the collections: the driver writes values at the edges of each type and reads them back."""

import datetime
import ipaddress
import math
import uuid
from decimal import Decimal

from cassandra import InvalidRequest
from cassandra.util import Date, Duration, OrderedMapSerializedKey, SortedSet, Time

import link

UTC_EPOCH = datetime.datetime(1970, 1, 1)
UUID_1 = uuid.UUID("c2cb1b30-8d1a-11ee-b9d1-0242ac120002")
UUID_1_LATER = uuid.UUID("00000000-8d1b-11ee-b9d1-0242ac120002")
UUID_4 = uuid.UUID("3f2504e0-4f89-41d3-9a0c-0305e82c3301")

# type -> values in the server's order of that type; the edges come first and last.
ORDERED = {
    "ascii": ["", "\x00", "A", "a", "az", "~" * 300],
    "bigint": [-(2**63), -1, 0, 1, 2**63 - 1],
    "blob": [b"", b"\x00", b"\x00\x00", b"\x01", b"\x7f\xff", b"\xff" * 300],
    "boolean": [False, True],
    "date": [Date(-(2**31)), Date(-1), Date(0), Date("2024-02-29"), Date(2**31 - 1)],
    "decimal": [Decimal("-1E+100"), Decimal("-1.5"), Decimal("0"), Decimal("1E-100"), Decimal("3.14159"), Decimal("1E+100")],
    "double": [-math.inf, -1.7976931348623157e308, -1.0, 5e-324, 1.0, 1.7976931348623157e308, math.inf],
    "float": [-math.inf, -1.0, 0.0, 1.401298464324817e-45, 0.5, math.inf],
    "inet": ["0.0.0.0", "::1", "10.0.0.1", "2001:db8::ff00:42:8329", "255.255.255.255"],
    "int": [-(2**31), -1, 0, 1, 2**31 - 1],
    "smallint": [-(2**15), -1, 0, 1, 2**15 - 1],
    "text": ["", "a", "aa", "z", "ß", "€", "日本語", "\U0001f30a" * 70],
    "time": [Time(0), Time(1), Time("12:34:56.789012345"), Time(86399999999999)],
    "timestamp": [
        UTC_EPOCH - datetime.timedelta(days=300000, seconds=1),
        UTC_EPOCH - datetime.timedelta(milliseconds=1),
        UTC_EPOCH,
        datetime.datetime(2024, 2, 29, 23, 59, 59, 999000),
        UTC_EPOCH + datetime.timedelta(days=2000000),
    ],
    "timeuuid": [UUID_1, UUID_1_LATER],
    "tinyint": [-128, -1, 0, 1, 127],
    "uuid": [UUID_1, UUID_4],
    "varint": [-(2**2000), -(2**64), -129, -128, -1, 0, 1, 127, 128, 2**64, 2**2000],
}
UNORDERED = {
    "duration": [
        Duration(0, 0, 0),
        Duration(1, 2, 3),
        Duration(-1, -2, -3),
        Duration(2**31 - 1, 2**31 - 1, 2**63 - 1),
        Duration(-(2**31), -(2**31), -(2**63) + 1),
    ],
}
SCALARS = {**ORDERED, **UNORDERED}

# type -> (CQL literal, the value the driver must see)
LITERALS = {
    "ascii": ("'it''s'", "it's"),
    "bigint": ("-9223372036854775808", -(2**63)),
    "blob": ("0xCAFEbabe", b"\xca\xfe\xba\xbe"),
    "boolean": ("TRUE", True),
    "date": ("'2024-02-29'", Date("2024-02-29")),
    "decimal": ("-12.340", Decimal("-12.340")),
    "double": ("-1.5e-3", -0.0015),
    "duration": ("1y2mo3d4h5m6s7ms8us9ns", Duration(14, 3, 14706007008009)),
    "float": ("Infinity", math.inf),
    "inet": ("'2001:db8::1'", "2001:db8::1"),
    "int": ("-2147483648", -(2**31)),
    "smallint": ("32767", 2**15 - 1),
    "text": ("$$it's €$$", "it's €"),
    "time": ("'23:59:59.999999999'", Time("23:59:59.999999999")),
    "timestamp": ("'2024-02-29T12:00:00.123+0000'", datetime.datetime(2024, 2, 29, 12, 0, 0, 123000)),
    "timeuuid": (str(UUID_1), UUID_1),
    "tinyint": ("-128", -128),
    "uuid": (str(UUID_4), UUID_4),
    "varint": ("1" + "0" * 60, 10**60),
}


def columns():
    return ", ".join(f"c_{kind} {kind}" for kind in SCALARS)


def same(left, right):
    """Equality with NaN equal to itself."""
    if isinstance(left, float) and math.isnan(left):
        return isinstance(right, float) and math.isnan(right)
    return left == right


class ScalarTypes(link.NodeCase):
    def test_every_scalar_by_prepared_statement(self):
        self.session.execute(f"CREATE TABLE scalars (k int PRIMARY KEY, {columns()})")
        names = [f"c_{kind}" for kind in SCALARS]
        insert = self.session.prepare(
            f"INSERT INTO scalars (k, {', '.join(names)}) VALUES (?{', ?' * len(names)})"
        )
        depth = max(len(values) for values in SCALARS.values())
        for k in range(depth):
            values = [values[k % len(values)] for values in SCALARS.values()]
            self.session.execute(insert, [k] + values)
            for text in ("SELECT {} FROM scalars WHERE k = ?", "SELECT {} FROM scalars WHERE k IN (?)"):
                select = self.session.prepare(text.format(", ".join(names)))
                for name, wrote, read in zip(names, values, self.one(select, [k])):
                    self.assertTrue(same(wrote, read), f"{name}: wrote {wrote!r}, read {read!r}")

    def test_nulls_and_absent_values(self):
        self.session.execute(f"CREATE TABLE nulls (k int PRIMARY KEY, {columns()})")
        names = [f"c_{kind}" for kind in SCALARS]
        insert = self.session.prepare(
            f"INSERT INTO nulls (k, {', '.join(names)}) VALUES (?{', ?' * len(names)})"
        )
        self.session.execute(insert, [1] + [values[-1] for values in SCALARS.values()])
        self.session.execute(insert, [1] + [None] * len(names))
        self.session.execute("INSERT INTO nulls (k) VALUES (2)")
        for k in (1, 2):
            self.assertEqual(
                self.one(f"SELECT {', '.join(names)} FROM nulls WHERE k = {k}"), (None,) * len(names)
            )

    def test_nan(self):
        self.session.execute("CREATE TABLE nans (k int PRIMARY KEY, d double, f float)")
        self.session.execute("INSERT INTO nans (k, d, f) VALUES (1, NaN, NaN)")
        double, float32 = self.one("SELECT d, f FROM nans WHERE k = 1")
        self.assertTrue(math.isnan(double) and math.isnan(float32))

    def test_literals(self):
        self.session.execute(f"CREATE TABLE literals (k int PRIMARY KEY, {columns()})")
        for kind, (text, value) in LITERALS.items():
            self.session.execute(f"INSERT INTO literals (k, c_{kind}) VALUES (7, {text})")
            self.assertEqual(self.one(f"SELECT c_{kind} FROM literals WHERE k = 7")[0], value, kind)

    def test_every_scalar_as_partition_key(self):
        for kind, values in ORDERED.items():
            self.session.execute(f"CREATE TABLE pk_{kind} (k {kind} PRIMARY KEY, v int)")
            insert = self.session.prepare(f"INSERT INTO pk_{kind} (k, v) VALUES (?, ?)")
            select = self.session.prepare(f"SELECT k, v FROM pk_{kind} WHERE k = ?")
            keys = [value for value in values if value not in ("", b"")]
            for v, key in enumerate(keys):
                self.session.execute(insert, [key, v])
            for v, key in enumerate(keys):
                self.assertEqual(self.one(select, [key]), (key, v), kind)
            self.assertEqual(len(self.rows(f"SELECT k FROM pk_{kind}")), len(keys), kind)

    def test_every_scalar_orders_rows(self):
        for kind, values in ORDERED.items():
            self.session.execute(f"CREATE TABLE ck_{kind} (k int, c {kind}, v int, PRIMARY KEY (k, c))")
            insert = self.session.prepare(f"INSERT INTO ck_{kind} (k, c, v) VALUES (1, ?, ?)")
            order = list(range(len(values)))
            for v in order[1::2] + order[0::2]:
                self.session.execute(insert, [values[v], v])
            self.assertEqual(self.rows(f"SELECT c, v FROM ck_{kind} WHERE k = 1"), list(zip(values, order)), kind)
            down = self.rows(f"SELECT c, v FROM ck_{kind} WHERE k = 1 ORDER BY c DESC")
            self.assertEqual(down, list(zip(values, order))[::-1], kind)
            middle = values[len(values) // 2]
            above = self.session.prepare(f"SELECT v FROM ck_{kind} WHERE k = 1 AND c >= ?")
            self.assertEqual(self.rows(above, [middle]), [(v,) for v in order[len(values) // 2 :]], kind)
            below = self.session.prepare(f"SELECT v FROM ck_{kind} WHERE k = 1 AND c < ?")
            self.assertEqual(self.rows(below, [middle]), [(v,) for v in order[: len(values) // 2]], kind)

    def test_descending_and_mixed_clustering(self):
        self.session.execute(
            "CREATE TABLE mixed (k int, a text, b int, v int, PRIMARY KEY (k, a, b)) "
            "WITH CLUSTERING ORDER BY (a DESC, b ASC)"
        )
        insert = self.session.prepare("INSERT INTO mixed (k, a, b, v) VALUES (1, ?, ?, ?)")
        expected = []
        for a in ("", "a", "ab", "b"):
            for b in (-5, 0, 5):
                self.session.execute(insert, [a, b, 0])
                expected.append((a, b))
        expected.sort(key=lambda pair: pair[1])
        expected.sort(key=lambda pair: pair[0], reverse=True)
        self.assertEqual(self.rows("SELECT a, b FROM mixed WHERE k = 1"), expected)
        self.assertEqual(
            self.rows("SELECT a, b FROM mixed WHERE k = 1 ORDER BY a ASC, b DESC"), expected[::-1]
        )
        self.assertEqual(
            self.rows("SELECT a, b FROM mixed WHERE k = 1 AND a >= 'ab'"),
            [pair for pair in expected if pair[0] >= "ab"],
        )
        self.assertEqual(
            self.rows("SELECT a, b FROM mixed WHERE k = 1 AND (a, b) > ('a', 0)"),
            [pair for pair in expected if pair > ("a", 0)],
        )


class Collections(link.NodeCase):
    def test_every_scalar_inside_collections(self):
        for kind, values in SCALARS.items():
            keyed = kind in ORDERED
            self.session.execute(
                f"CREATE TABLE c_{kind} (k int PRIMARY KEY, l list<{kind}>, fl frozen<list<{kind}>>, m map<int, {kind}>"
                + (f", s set<{kind}>, fs frozen<set<{kind}>>, r map<{kind}, int>)" if keyed else ")")
            )
            names, wrote = ["l", "fl", "m"], [values, values, {-i: v for i, v in enumerate(values)}]
            if keyed:
                names += ["s", "fs", "r"]
                wrote += [set(values), set(values), {v: i for i, v in enumerate(values)}]
            insert = self.session.prepare(
                f"INSERT INTO c_{kind} (k, {', '.join(names)}) VALUES (1{', ?' * len(names)})"
            )
            self.session.execute(insert, wrote)
            read = self.one(f"SELECT {', '.join(names)} FROM c_{kind} WHERE k = 1")
            self.assertEqual(list(read[0]), values, kind)
            self.assertEqual(list(read[1]), values, kind)
            self.assertEqual(list(read[2].items()), sorted(wrote[2].items()), kind)
            if keyed:
                # Map keys come back in the order of their type; the driver sorts sets by an order of its own.
                self.assertEqual(set(read[3]), set(values), kind)
                self.assertEqual(set(read[4]), set(values), kind)
                self.assertEqual(list(read[5].items()), [(v, i) for i, v in enumerate(values)], kind)

    def test_list_operations(self):
        self.session.execute("CREATE TABLE lists (k int PRIMARY KEY, l list<int>)")
        read = lambda: self.one("SELECT l FROM lists WHERE k = 1")[0]
        self.session.execute("INSERT INTO lists (k, l) VALUES (1, [3, 4])")
        self.session.execute("UPDATE lists SET l = l + [5, 6] WHERE k = 1")
        self.session.execute("UPDATE lists SET l = [1, 2] + l WHERE k = 1")
        self.assertEqual(read(), [1, 2, 3, 4, 5, 6])
        self.session.execute("UPDATE lists SET l = [9] WHERE k = 1")
        self.assertEqual(read(), [9])
        self.session.execute("UPDATE lists SET l = [] WHERE k = 1")
        self.assertEqual(read(), None)

    def test_list_operations_that_read_first(self):
        self.session.execute("CREATE TABLE indexed (k int PRIMARY KEY, l list<int>)")
        self.session.execute("INSERT INTO indexed (k, l) VALUES (1, [1, 2, 3, 4, 5, 6])")
        read = lambda: self.one("SELECT l FROM indexed WHERE k = 1")[0]
        self.session.execute("UPDATE indexed SET l[2] = 33 WHERE k = 1")
        self.assertEqual(read(), [1, 2, 33, 4, 5, 6])
        self.session.execute("DELETE l[0] FROM indexed WHERE k = 1")
        self.session.execute("UPDATE indexed SET l = l - [5, 77] WHERE k = 1")
        self.assertEqual(read(), [2, 33, 4, 6])
        for text in ("UPDATE indexed SET l[9] = 1 WHERE k = 1", "DELETE l[9] FROM indexed WHERE k = 1"):
            with self.assertRaisesRegex(InvalidRequest, "List index 9 out of bound, list has size 4"):
                self.session.execute(text)

    def test_set_operations(self):
        self.session.execute("CREATE TABLE sets (k int PRIMARY KEY, v int, s set<text>)")
        read = lambda: self.one("SELECT s FROM sets WHERE k = 1")[0]
        self.session.execute("INSERT INTO sets (k, v, s) VALUES (1, 0, {'b', 'a'})")
        self.session.execute("UPDATE sets SET s = s + {'d', 'c'} WHERE k = 1")
        self.assertEqual(list(read()), ["a", "b", "c", "d"])
        self.session.execute("UPDATE sets SET s = s - {'a', 'x'} WHERE k = 1")
        self.assertEqual(list(read()), ["b", "c", "d"])
        self.session.execute("DELETE s['c'] FROM sets WHERE k = 1")
        self.assertEqual(list(read()), ["b", "d"])
        self.session.execute("DELETE s FROM sets WHERE k = 1")
        self.assertIn(read(), (None, SortedSet()))

    def test_map_operations(self):
        self.session.execute("CREATE TABLE maps (k int PRIMARY KEY, v int, m map<text, int>)")
        read = lambda: dict(self.one("SELECT m FROM maps WHERE k = 1")[0] or {})
        self.session.execute("INSERT INTO maps (k, v, m) VALUES (1, 0, {'a': 1, 'b': 2})")
        self.session.execute("UPDATE maps SET m['c'] = 3, m['a'] = 10 WHERE k = 1")
        self.assertEqual(read(), {"a": 10, "b": 2, "c": 3})
        self.session.execute("UPDATE maps SET m = m + {'d': 4} WHERE k = 1")
        self.session.execute("UPDATE maps SET m = m - {'b'} WHERE k = 1")
        self.assertEqual(read(), {"a": 10, "c": 3, "d": 4})
        self.session.execute("DELETE m['a'] FROM maps WHERE k = 1")
        self.session.execute("UPDATE maps SET m = {'z': 26} WHERE k = 1")
        self.assertEqual(read(), {"z": 26})
        self.session.execute("INSERT INTO maps (k, m) VALUES (1, null)")
        self.assertEqual(read(), {})

    def test_frozen_nested_and_as_key(self):
        self.session.execute(
            "CREATE TABLE nested (k frozen<list<int>>, c frozen<map<text, int>>, "
            "v map<text, frozen<list<frozen<set<int>>>>>, PRIMARY KEY (k, c))"
        )
        insert = self.session.prepare("INSERT INTO nested (k, c, v) VALUES (?, ?, ?)")
        self.session.execute(insert, [[1, 2], {"a": 1}, {"x": [{3, 1}, set()], "y": []}])
        self.session.execute(insert, [[1, 2], {"a": 2}, {}])
        rows = self.rows(self.session.prepare("SELECT c, v FROM nested WHERE k = ?"), [[1, 2]])
        self.assertEqual(len(rows), 2)
        self.assertEqual(dict(rows[0][0]), {"a": 1})
        self.assertEqual([list(map(list, sets)) for sets in rows[0][1].values()], [[[1, 3], []], []])
        self.assertIn(rows[1][1], (None, OrderedMapSerializedKey(None, 5)))


if __name__ == "__main__":
    link.main(ScalarTypes, Collections)
