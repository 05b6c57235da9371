"""Many rows written at once and read back page by page: nothing twice, nothing missing, order kept."""

from cassandra.concurrent import execute_concurrent_with_args
from cassandra.query import SimpleStatement

import link

# Rows per partition; with the default row count there are 1,000 partitions.
WIDTH = 100


class Paging(link.NodeCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.session.execute(
            "CREATE TABLE pages (k bigint, c int, v text, PRIMARY KEY (k, c)) WITH CLUSTERING ORDER BY (c DESC)"
        )
        insert = cls.session.prepare("INSERT INTO pages (k, c, v) VALUES (?, ?, ?)")
        cls.wrote = {(i // WIDTH, i % WIDTH): f"value {i}" for i in range(link.ROWS)}
        values = ((k, c, v) for (k, c), v in cls.wrote.items())
        for ok, error in execute_concurrent_with_args(cls.session, insert, values, concurrency=200):
            if not ok:
                raise error

    def pages(self, text, fetch_size):
        """Rows of every page, checking that no page is larger than asked."""
        result = self.session.execute(SimpleStatement(text, fetch_size=fetch_size))
        rows = []
        while True:
            page = [tuple(row) for row in result.current_rows]
            self.assertLessEqual(len(page), fetch_size)
            rows += page
            if not result.has_more_pages:
                return rows
            result.fetch_next_page()

    def test_full_scan(self):
        for fetch_size in (5000, 997):
            rows = self.pages("SELECT k, c, v FROM pages", fetch_size)
            self.assertEqual(len(rows), link.ROWS)
            self.assertEqual({(k, c): v for k, c, v in rows}, self.wrote)
            last, seen = None, set()
            for k, c, _ in rows:
                if last and last[0] == k:
                    self.assertLess(c, last[1])
                else:
                    self.assertNotIn(k, seen)
                    seen.add(k)
                last = (k, c)

    def test_count(self):
        self.assertEqual(self.one("SELECT count(*) FROM pages"), (link.ROWS,))

    def test_one_partition_in_small_pages(self):
        for order, step in (("", -1), ("ORDER BY c ASC", 1)):
            for fetch_size in (1, 7, WIDTH, WIDTH + 1):
                rows = self.pages(f"SELECT c FROM pages WHERE k = 3 {order}", fetch_size)
                self.assertEqual([c for (c,) in rows], list(range(WIDTH))[::step])

    def test_limits_across_pages(self):
        self.assertEqual(len(self.pages("SELECT c FROM pages LIMIT 250", 40)), 250)
        self.assertEqual(len(self.pages("SELECT c FROM pages WHERE k IN (1, 2, 3) LIMIT 250", 40)), 250)
        rows = self.pages("SELECT k, c FROM pages PER PARTITION LIMIT 2", 33)
        self.assertEqual(len(rows), 2 * (link.ROWS // WIDTH))
        self.assertTrue(all(c >= WIDTH - 2 for _, c in rows))
        keys = self.pages("SELECT DISTINCT k FROM pages", 33)
        self.assertEqual(sorted(keys), [(k,) for k in range(link.ROWS // WIDTH)])

    def test_in_across_pages(self):
        rows = self.pages("SELECT k, c FROM pages WHERE k IN (5, 4, 6) AND c < 50", 17)
        self.assertEqual(sorted(rows), [(k, c) for k in (4, 5, 6) for c in range(50)])

    def test_filtering_across_pages(self):
        rows = self.pages("SELECT k FROM pages WHERE c = 50 ALLOW FILTERING", 10)
        self.assertEqual(sorted(rows), [(k,) for k in range(link.ROWS // WIDTH)])

    def test_paging_state_moves_between_sessions(self):
        statement = SimpleStatement("SELECT k, c FROM pages", fetch_size=100)
        first = self.session.execute(statement)
        state, rows = first.paging_state, [tuple(row) for row in first.current_rows]
        with link.open_cluster() as other:
            session = other.connect(self.keyspace)
            while state and len(rows) < 2000:
                page = session.execute(statement, paging_state=state)
                state = page.paging_state
                rows += [tuple(row) for row in page.current_rows]
        self.assertEqual(rows, self.rows("SELECT k, c FROM pages LIMIT %s", [len(rows)]))


if __name__ == "__main__":
    link.main(Paging)
