package messina;

import com.datastax.driver.core.BoundStatement;
import com.datastax.driver.core.Cluster;
import com.datastax.driver.core.ColumnDefinitions;
import com.datastax.driver.core.ConsistencyLevel;
import com.datastax.driver.core.PreparedStatement;
import com.datastax.driver.core.Row;
import com.datastax.driver.core.Session;
import java.net.InetSocketAddress;
import java.nio.ByteBuffer;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import java.util.Vector;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.Supplier;
import java.util.stream.Collectors;
import site.ycsb.ByteArrayByteIterator;
import site.ycsb.ByteIterator;
import site.ycsb.DB;
import site.ycsb.DBException;
import site.ycsb.Status;

/**
 * A thin YCSB binding that sends the statements of YCSB's cassandra-cql binding, which is not published as a package.
 * Properties, with the defaults of release 0.17.0: hosts, port (9042), cassandra.keyspace (ycsb),
 * cassandra.readconsistencylevel and cassandra.writeconsistencylevel (ONE).
 *
 * <p>One cluster, session and set of prepared statements is shared by all threads.
 */
public final class CqlBinding extends DB {
  private static final String KEY = "y_id";
  private static final AtomicInteger USERS = new AtomicInteger();
  /** By the fields they are about, as YCSB's binding keeps them; all fields where reads name none. */
  private static final Set<String> ALL = Set.of();
  private static final Map<Set<String>, PreparedStatement> READS = new ConcurrentHashMap<>();
  private static final Map<Set<String>, PreparedStatement> SCANS = new ConcurrentHashMap<>();
  private static final Map<Set<String>, PreparedStatement> UPDATES = new ConcurrentHashMap<>();
  private static final Map<Set<String>, PreparedStatement> INSERTS = new ConcurrentHashMap<>();
  private static final Map<Set<String>, PreparedStatement> DELETES = new ConcurrentHashMap<>();
  private static Cluster cluster;
  private static Session session;
  private static ConsistencyLevel readLevel;
  private static ConsistencyLevel writeLevel;

  @Override
  public void init() throws DBException {
    synchronized (USERS) {
      if (USERS.getAndIncrement() > 0) {
        return;
      }
      String hosts = getProperties().getProperty("hosts");
      if (hosts == null) {
        throw new DBException("the property hosts is required");
      }
      int port = Integer.parseInt(getProperties().getProperty("port", "9042"));
      Cluster.Builder builder = Cluster.builder().withoutJMXReporting();
      for (String host : hosts.split(",")) {
        builder.addContactPointsWithPorts(new InetSocketAddress(host, port));
      }
      readLevel = level("cassandra.readconsistencylevel");
      writeLevel = level("cassandra.writeconsistencylevel");
      cluster = builder.build();
      session = cluster.connect(getProperties().getProperty("cassandra.keyspace", "ycsb"));
    }
  }

  private ConsistencyLevel level(String property) {
    return ConsistencyLevel.valueOf(getProperties().getProperty(property, "ONE"));
  }

  @Override
  public void cleanup() {
    synchronized (USERS) {
      if (USERS.decrementAndGet() == 0) {
        session.close();
        cluster.close();
        List.of(READS, SCANS, UPDATES, INSERTS, DELETES).forEach(Map::clear);
      }
    }
  }

  @Override
  public Status read(String table, String key, Set<String> fields, Map<String, ByteIterator> result) {
    return guarded(() -> {
      PreparedStatement statement = prepared(READS, fields == null ? ALL : fields, readLevel,
          () -> "SELECT " + columns(fields) + " FROM " + table + " WHERE " + KEY + "=? LIMIT 1;");
      Row row = session.execute(statement.bind(key)).one();
      if (row == null) {
        return Status.NOT_FOUND;
      }
      fill(row, result);
      return Status.OK;
    });
  }

  @Override
  public Status scan(String table, String start, int count, Set<String> fields,
      Vector<HashMap<String, ByteIterator>> result) {
    return guarded(() -> {
      PreparedStatement statement = prepared(SCANS, fields == null ? ALL : fields, readLevel,
          () -> "SELECT " + columns(fields) + " FROM " + table + " WHERE token(" + KEY + ") >= token(?) LIMIT ?");
      for (Row row : session.execute(statement.bind(start, count))) {
        HashMap<String, ByteIterator> fieldsOfRow = new HashMap<>();
        fill(row, fieldsOfRow);
        result.add(fieldsOfRow);
      }
      return Status.OK;
    });
  }

  @Override
  public Status update(String table, String key, Map<String, ByteIterator> values) {
    return guarded(() -> {
      PreparedStatement statement = prepared(UPDATES, values.keySet(), writeLevel, () -> "UPDATE " + table + " SET "
          + String.join(",", assigned(values.keySet())) + " WHERE " + KEY + "=?;");
      session.execute(bound(statement, key, values));
      return Status.OK;
    });
  }

  @Override
  public Status insert(String table, String key, Map<String, ByteIterator> values) {
    return guarded(() -> {
      PreparedStatement statement = prepared(INSERTS, values.keySet(), writeLevel, () -> "INSERT INTO " + table + " ("
          + KEY + "," + String.join(",", values.keySet()) + ") VALUES (?" + ",?".repeat(values.size()) + ");");
      session.execute(bound(statement, key, values));
      return Status.OK;
    });
  }

  @Override
  public Status delete(String table, String key) {
    return guarded(() -> {
      PreparedStatement statement =
          prepared(DELETES, ALL, writeLevel, () -> "DELETE FROM " + table + " WHERE " + KEY + "=?;");
      session.execute(statement.bind(key));
      return Status.OK;
    });
  }

  private static PreparedStatement prepared(Map<Set<String>, PreparedStatement> known, Set<String> fields,
      ConsistencyLevel level, Supplier<String> text) {
    PreparedStatement statement = known.get(fields);
    if (statement == null) {
      statement = session.prepare(text.get()).setConsistencyLevel(level);
      // The caller may use its set for something else.
      known.put(Set.copyOf(fields), statement);
    }
    return statement;
  }

  /** Key and values, wherever the statement has them. */
  private static BoundStatement bound(PreparedStatement statement, String key, Map<String, ByteIterator> values) {
    BoundStatement bound = statement.bind();
    int at = 0;
    for (ColumnDefinitions.Definition column : statement.getVariables()) {
      bound.setString(at++, column.getName().equals(KEY) ? key : values.get(column.getName()).toString());
    }
    return bound;
  }

  private static List<String> assigned(Set<String> fields) {
    return fields.stream().sorted().map(field -> field + "=?").collect(Collectors.toList());
  }

  private static String columns(Set<String> fields) {
    return fields == null ? "*" : String.join(",", new TreeSet<>(fields));
  }

  private static void fill(Row row, Map<String, ByteIterator> result) {
    for (ColumnDefinitions.Definition column : row.getColumnDefinitions()) {
      ByteBuffer value = row.getBytesUnsafe(column.getName());
      if (value != null) {
        byte[] bytes = new byte[value.remaining()];
        value.get(bytes);
        result.put(column.getName(), new ByteArrayByteIterator(bytes));
      }
    }
  }

  private interface Operation {
    Status run();
  }

  /** Any exception is an ERROR of this one operation, told once, and the run goes on. */
  private static Status guarded(Operation operation) {
    try {
      return operation.run();
    } catch (RuntimeException e) {
      System.err.println("operation failed: " + e);
      return Status.ERROR;
    }
  }
}
