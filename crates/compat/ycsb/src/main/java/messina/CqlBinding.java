package messina;

import com.datastax.driver.core.BoundStatement;
import com.datastax.driver.core.Cluster;
import com.datastax.driver.core.ColumnDefinitions;
import com.datastax.driver.core.ConsistencyLevel;
import com.datastax.driver.core.PreparedStatement;
import com.datastax.driver.core.ResultSet;
import com.datastax.driver.core.Row;
import com.datastax.driver.core.Session;
import java.net.InetSocketAddress;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.Vector;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicInteger;
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
  private static final Map<String, PreparedStatement> PREPARED = new ConcurrentHashMap<>();
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
        PREPARED.clear();
      }
    }
  }

  @Override
  public Status read(String table, String key, Set<String> fields, Map<String, ByteIterator> result) {
    return guarded(() -> {
      String text = "SELECT " + columns(fields) + " FROM " + table + " WHERE " + KEY + "=? LIMIT 1;";
      Row row = run(text, readLevel, key).one();
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
      String text = "SELECT " + columns(fields) + " FROM " + table
          + " WHERE token(" + KEY + ") >= token(?) LIMIT ?";
      for (Row row : run(text, readLevel, start, count)) {
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
      List<String> set = new ArrayList<>();
      List<Object> bound = new ArrayList<>();
      for (Map.Entry<String, ByteIterator> value : new TreeMap<>(values).entrySet()) {
        set.add(value.getKey() + "=?");
        bound.add(value.getValue().toString());
      }
      bound.add(key);
      run("UPDATE " + table + " SET " + String.join(",", set) + " WHERE " + KEY + "=?;", writeLevel,
          bound.toArray());
      return Status.OK;
    });
  }

  @Override
  public Status insert(String table, String key, Map<String, ByteIterator> values) {
    return guarded(() -> {
      StringBuilder names = new StringBuilder(KEY);
      StringBuilder marks = new StringBuilder("?");
      List<Object> bound = new ArrayList<>();
      bound.add(key);
      for (Map.Entry<String, ByteIterator> value : values.entrySet()) {
        names.append(',').append(value.getKey());
        marks.append(",?");
        bound.add(value.getValue().toString());
      }
      run("INSERT INTO " + table + " (" + names + ") VALUES (" + marks + ");", writeLevel, bound.toArray());
      return Status.OK;
    });
  }

  @Override
  public Status delete(String table, String key) {
    return guarded(() -> {
      run("DELETE FROM " + table + " WHERE " + KEY + "=?;", writeLevel, key);
      return Status.OK;
    });
  }

  private static ResultSet run(String text, ConsistencyLevel level, Object... values) {
    PreparedStatement prepared =
        PREPARED.computeIfAbsent(text, absent -> session.prepare(absent).setConsistencyLevel(level));
    BoundStatement bound = prepared.bind(values);
    return session.execute(bound);
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
