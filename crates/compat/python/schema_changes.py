"""Schema changes as a second application sees them: events, metadata, and statements prepared before the change."""

import time

import cassandra

import link


def eventually(check, seconds=60):
    """Polls until `check()` is true: events are delivered, not awaited."""
    end = time.monotonic() + seconds
    while not check():
        if time.monotonic() > end:
            return False
        time.sleep(0.05)
    return True


class SchemaChanges(link.NodeCase):
    def test_events_reach_another_session(self):
        with link.open_cluster(schema_event_refresh_window=0) as watcher:
            watcher.connect()
            keyspaces = watcher.metadata.keyspaces
            tables = lambda: keyspaces[self.keyspace].tables
            self.session.execute("CREATE TABLE watched (k int PRIMARY KEY, v text)")
            self.assertTrue(eventually(lambda: "watched" in tables()), "table created")
            self.session.execute("ALTER TABLE watched ADD w map<text, int>")
            self.assertTrue(eventually(lambda: "w" in tables()["watched"].columns), "column added")
            self.assertEqual(tables()["watched"].columns["w"].cql_type, "map<text, int>")
            self.session.execute("ALTER TABLE watched DROP v")
            self.assertTrue(eventually(lambda: "v" not in tables()["watched"].columns), "column dropped")
            self.session.execute("ALTER TABLE watched WITH comment = 'seen'")
            self.assertTrue(eventually(lambda: tables()["watched"].options["comment"] == "seen"), "option changed")
            self.session.execute("DROP TABLE watched")
            self.assertTrue(eventually(lambda: "watched" not in tables()), "table dropped")
            other = self.keyspace + "_two"
            self.session.execute(
                f"CREATE KEYSPACE {other} WITH replication = {{'class': 'NetworkTopologyStrategy', 'datacenter1': 1}}"
            )
            self.assertTrue(eventually(lambda: other in keyspaces), "keyspace created")
            self.session.execute(f"ALTER KEYSPACE {other} WITH durable_writes = false")
            self.assertTrue(eventually(lambda: not keyspaces[other].durable_writes), "keyspace altered")
            self.session.execute(f"DROP KEYSPACE {other}")
            self.assertTrue(eventually(lambda: other not in keyspaces), "keyspace dropped")

    def test_schema_version_moves_and_agrees(self):
        version = lambda: self.one("SELECT schema_version FROM system.local WHERE key='local'")[0]
        before = version()
        self.session.execute("CREATE TABLE versioned (k int PRIMARY KEY)")
        self.assertNotEqual(version(), before)
        self.session.execute("CREATE TABLE IF NOT EXISTS versioned (k int PRIMARY KEY)")
        self.session.execute("DROP TABLE IF EXISTS never_there")

    def test_metadata_round_trip(self):
        self.session.execute(
            "CREATE TABLE described (a int, b text, c timeuuid, d decimal, s set<text> static, m map<int, frozen<list<text>>>, "
            "\"Quoted Name\" blob, PRIMARY KEY ((a, b), c, d)) "
            "WITH CLUSTERING ORDER BY (c DESC, d ASC) AND comment = 'it''s' AND gc_grace_seconds = 99 "
            "AND compaction = {'class': 'SizeTieredCompactionStrategy', 'min_threshold': 6} AND default_time_to_live = 5"
        )
        self.cluster.refresh_schema_metadata()
        table = self.cluster.metadata.keyspaces[self.keyspace].tables["described"]
        self.assertEqual([column.name for column in table.partition_key], ["a", "b"])
        self.assertEqual([column.name for column in table.clustering_key], ["c", "d"])
        self.assertEqual([column.is_reversed for column in table.clustering_key], [True, False])
        self.assertTrue(table.columns["s"].is_static)
        self.assertEqual(table.columns["m"].cql_type, "map<int, frozen<list<text>>>")
        text = table.as_cql_query()
        self.session.execute("DROP TABLE described")
        self.session.execute(text)
        self.cluster.refresh_schema_metadata()
        again = self.cluster.metadata.keyspaces[self.keyspace].tables["described"]
        self.assertEqual(again.as_cql_query(), text)
        self.assertEqual(again.options["gc_grace_seconds"], 99)

    def test_token_map_and_node(self):
        host = self.cluster.metadata.all_hosts()[0]
        self.assertEqual((host.datacenter, host.rack), ("datacenter1", "rack1"))
        self.assertEqual(host.release_version.split("-")[0], "5.0.6")
        self.assertTrue(self.cluster.metadata.token_map.ring)
        self.assertTrue(self.cluster.metadata.get_replicas(self.keyspace, b"\x00\x00\x00\x01"))

    def test_prepared_across_alter(self):
        self.session.execute("CREATE TABLE altered (k int PRIMARY KEY, v int)")
        select = self.session.prepare("SELECT * FROM altered WHERE k = ?")
        insert = self.session.prepare("INSERT INTO altered (k, v) VALUES (?, ?)")
        self.session.execute(insert, [1, 2])
        self.assertEqual(self.rows(select, [1]), [(1, 2)])
        self.session.execute("ALTER TABLE altered ADD w text")
        self.session.execute(insert, [2, 3])
        self.session.execute("UPDATE altered SET w = 'new' WHERE k = 1")
        if link.PROTOCOL >= 5:
            # The node says that the result's columns changed; the driver takes the new ones.
            self.assertEqual(self.rows(select, [1]), [(1, 2, "new")])
        else:
            fresh = self.session.prepare("SELECT k, v, w FROM altered WHERE k = ?")
            self.assertEqual(self.rows(fresh, [1]), [(1, 2, "new")])
        self.session.execute("ALTER TABLE altered DROP v")
        fresh = self.session.prepare("SELECT k, w FROM altered WHERE k = ?")
        self.assertEqual(self.rows(fresh, [1]), [(1, "new")])
        with self.assertRaises(cassandra.InvalidRequest):
            self.session.execute(insert, [3, 4])

    def test_dropped_column_added_again_is_empty(self):
        self.session.execute("CREATE TABLE readded (k int PRIMARY KEY, v int)")
        self.session.execute("INSERT INTO readded (k, v) VALUES (1, 1)")
        self.session.execute("ALTER TABLE readded DROP v")
        time.sleep(0.01)
        self.session.execute("ALTER TABLE readded ADD v int")
        self.assertEqual(self.rows("SELECT k, v FROM readded"), [(1, None)])
        self.session.execute("INSERT INTO readded (k, v) VALUES (1, 5)")
        self.assertEqual(self.rows("SELECT k, v FROM readded"), [(1, 5)])

    def test_prepared_across_drop_and_create(self):
        self.session.execute("CREATE TABLE reborn (k int PRIMARY KEY, v int)")
        insert = self.session.prepare("INSERT INTO reborn (k, v) VALUES (?, ?)")
        self.session.execute(insert, [1, 1])
        self.session.execute("DROP TABLE reborn")
        with self.assertRaises(cassandra.InvalidRequest):
            self.session.execute(insert, [1, 1])
        self.session.execute("CREATE TABLE reborn (k int PRIMARY KEY, v int)")
        self.assertEqual(self.rows("SELECT * FROM reborn"), [])
        self.session.execute(insert, [2, 2])
        self.assertEqual(self.rows("SELECT * FROM reborn"), [(2, 2)])


if __name__ == "__main__":
    link.main(SchemaChanges)
