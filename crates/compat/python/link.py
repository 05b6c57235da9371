"""How the suite reaches the node: one place that reads the command line's environment and opens sessions.

Variables, set by the Rust side:
  NODE_HOST, NODE_PORT      where the node listens
  NODE_PROTOCOL             native protocol version, 4 or 5
  NODE_COMPRESSION          "lz4" or "none"
  SUITE_ROWS                how many rows the paging test writes
"""

import os
import sys
import unittest

from cassandra import ConsistencyLevel
from cassandra.cluster import EXEC_PROFILE_DEFAULT, Cluster, ExecutionProfile
from cassandra.policies import FallthroughRetryPolicy, RoundRobinPolicy

HOST = os.environ.get("NODE_HOST", "127.0.0.1")
PORT = int(os.environ.get("NODE_PORT", "9042"))
PROTOCOL = int(os.environ.get("NODE_PROTOCOL", "5"))
COMPRESSION = os.environ.get("NODE_COMPRESSION", "lz4")
ROWS = int(os.environ.get("SUITE_ROWS", "100000"))

# A slow, shared machine is not an error; a node that never answers is.
TIMEOUT_S = 60


def open_cluster(**options):
    """A driver Cluster with the suite's protocol version and compression."""
    profile = ExecutionProfile(
        load_balancing_policy=RoundRobinPolicy(),
        retry_policy=FallthroughRetryPolicy(),
        consistency_level=options.pop("consistency", ConsistencyLevel.ONE),
        request_timeout=TIMEOUT_S,
    )
    return Cluster(
        [HOST],
        port=PORT,
        protocol_version=PROTOCOL,
        compression="lz4" if COMPRESSION == "lz4" else False,
        execution_profiles={EXEC_PROFILE_DEFAULT: profile},
        connect_timeout=TIMEOUT_S,
        control_connection_timeout=TIMEOUT_S,
        max_schema_agreement_wait=TIMEOUT_S,
        **options,
    )


class NodeCase(unittest.TestCase):
    """A test class with a session of its own, inside a keyspace named after the class."""

    replication = 1

    @classmethod
    def setUpClass(cls):
        cls.cluster = open_cluster()
        cls.session = cls.cluster.connect()
        cls.keyspace = cls.__name__.lower() + f"_v{PROTOCOL}_{COMPRESSION}"
        cls.session.execute(f"DROP KEYSPACE IF EXISTS {cls.keyspace}")
        cls.session.execute(
            f"CREATE KEYSPACE {cls.keyspace} WITH replication = "
            f"{{'class': 'SimpleStrategy', 'replication_factor': {cls.replication}}}"
        )
        cls.session.set_keyspace(cls.keyspace)

    @classmethod
    def tearDownClass(cls):
        cls.session.execute(f"DROP KEYSPACE {cls.keyspace}")
        cls.cluster.shutdown()

    def rows(self, statement, values=None):
        """All rows of all pages as plain tuples."""
        return [tuple(row) for row in self.session.execute(statement, values)]

    def one(self, statement, values=None):
        """The only row, as a plain tuple."""
        rows = self.rows(statement, values)
        self.assertEqual(len(rows), 1, statement)
        return rows[0]


def main(*cases):
    """Runs the named test classes with unittest's own runner and its own summary."""
    suite = unittest.TestSuite()
    wanted = sys.argv[1:]
    for case in cases:
        for test in unittest.defaultTestLoader.loadTestsFromTestCase(case):
            if not wanted or any(word in test.id() for word in wanted):
                suite.addTest(test)
    result = unittest.TextTestRunner(stream=sys.stdout, verbosity=2).run(suite)
    sys.exit(0 if result.wasSuccessful() and (result.testsRun or wanted) else 1)
