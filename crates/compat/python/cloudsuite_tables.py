"""The tables of CloudSuite's Data Serving: three replicas by SimpleStrategy, whatever the number of nodes."""

import link


def main():
    with link.open_cluster() as cluster:
        session = cluster.connect()
        session.execute(
            "CREATE KEYSPACE IF NOT EXISTS ycsb WITH REPLICATION = {'class': 'SimpleStrategy', 'replication_factor': 3}"
        )
        fields = ", ".join(f"field{i} varchar" for i in range(10))
        session.execute(f"CREATE TABLE IF NOT EXISTS ycsb.usertable (y_id varchar primary key, {fields})")


if __name__ == "__main__":
    main()
