package messina;

import static messina.Suite.equal;
import static messina.Suite.test;
import static messina.Suite.that;

import com.datastax.driver.core.BatchStatement;
import com.datastax.driver.core.BoundStatement;
import com.datastax.driver.core.Cluster;
import com.datastax.driver.core.ColumnMetadata;
import com.datastax.driver.core.ConsistencyLevel;
import com.datastax.driver.core.DataType;
import com.datastax.driver.core.KeyspaceMetadata;
import com.datastax.driver.core.NettyOptions;
import com.datastax.driver.core.PreparedStatement;
import com.datastax.driver.core.ProtocolOptions;
import com.datastax.driver.core.ProtocolVersion;
import com.datastax.driver.core.QueryTrace;
import com.datastax.driver.core.RemoteEndpointAwareJdkSSLOptions;
import com.datastax.driver.core.ResultSet;
import com.datastax.driver.core.ResultSetFuture;
import com.datastax.driver.core.Row;
import com.datastax.driver.core.SchemaChangeListenerBase;
import com.datastax.driver.core.Session;
import com.datastax.driver.core.SimpleStatement;
import com.datastax.driver.core.SocketOptions;
import com.datastax.driver.core.Statement;
import com.datastax.driver.core.TableMetadata;
import com.datastax.driver.core.UserType;
import com.datastax.driver.core.exceptions.AlreadyExistsException;
import com.datastax.driver.core.exceptions.AuthenticationException;
import com.datastax.driver.core.exceptions.InvalidConfigurationInQueryException;
import com.datastax.driver.core.exceptions.InvalidQueryException;
import com.datastax.driver.core.exceptions.NoHostAvailableException;
import com.datastax.driver.core.exceptions.SyntaxError;
import com.datastax.driver.core.exceptions.UnauthorizedException;
import com.datastax.driver.core.exceptions.UnavailableException;
import com.datastax.driver.core.policies.FallthroughRetryPolicy;
import com.fasterxml.jackson.databind.JsonNode;
import io.netty.channel.EventLoopGroup;
import java.nio.ByteBuffer;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicReference;

/** The Java driver 3.x against a running node. */
public final class Cases {
  private static final String[][] CONVERSATIONS = {
    {"V5", "LZ4"}, {"V4", "SNAPPY"}, {"V3", "NONE"}, {"V4", "LZ4"}, {"V5", "NONE"}, {"V3", "SNAPPY"},
  };
  private static final Map<String, Class<?>> ERRORS = new HashMap<>();

  static {
    ERRORS.put("syntax", SyntaxError.class);
    ERRORS.put("invalid", InvalidQueryException.class);
    ERRORS.put("exists", AlreadyExistsException.class);
    ERRORS.put("config", InvalidConfigurationInQueryException.class);
    ERRORS.put("unauthorized", UnauthorizedException.class);
    ERRORS.put("unavailable", UnavailableException.class);
  }

  public static void main(String[] arguments) {
    int count = Suite.QUICK ? 3 : CONVERSATIONS.length;
    for (int i = 0; i < count; i++) {
      String[] talk = CONVERSATIONS[i];
      String name = " " + talk[0].toLowerCase() + " " + talk[1].toLowerCase();
      AtomicReference<Cases> made = new AtomicReference<>();
      test("connect" + name, () -> {
        Cases cases = new Cases(builder(talk, Suite.PORT).build());
        equal(talk[0], cases.cluster.getConfiguration().getProtocolOptions().getProtocolVersion().name(), "version");
        cases.session.execute("DROP KEYSPACE IF EXISTS java3");
        cases.session.execute("CREATE KEYSPACE java3 WITH " + Suite.REPLICATION);
        cases.session.execute("USE java3");
        made.set(cases);
        return "";
      });
      Cases cases = made.get();
      if (cases == null) {
        continue;
      }
      test("types" + name, cases::types);
      test("mistakes" + name, cases::mistakes);
      test("prepared_across_changes" + name, cases::preparedAcrossChanges);
      test("batches_timestamps_ttl" + name, cases::batches);
      test("tracing_payload_warnings" + name, cases::extras);
      test("metadata" + name, cases::metadata);
      test("events" + name, () -> events(talk));
      if (i == 0) {
        test("paging" + name, cases::paging);
      }
      cases.session.execute("DROP KEYSPACE IF EXISTS java3");
      cases.cluster.close();
    }
    for (int i = 0; i < (Suite.QUICK ? 1 : 3); i++) {
      String[] talk = CONVERSATIONS[i];
      test("tls_and_password " + talk[0].toLowerCase() + " " + talk[1].toLowerCase(), () -> secure(talk));
      test("client_certificate " + talk[0].toLowerCase() + " " + talk[1].toLowerCase(), () -> clientCertificate(talk));
    }
    Suite.end();
  }

  private final Cluster cluster;
  private final Session session;
  private final int version;

  private Cases(Cluster cluster) {
    this.cluster = cluster;
    this.session = cluster.connect();
    this.version = cluster.getConfiguration().getProtocolOptions().getProtocolVersion().toInt();
  }

  private static Cluster.Builder builder(String[] talk, int port) {
    return Cluster.builder()
        .addContactPoint(Suite.HOST)
        .withPort(port)
        .withProtocolVersion(ProtocolVersion.valueOf(talk[0]))
        .withCompression(ProtocolOptions.Compression.valueOf(talk[1]))
        .withRetryPolicy(FallthroughRetryPolicy.INSTANCE)
        .withoutJMXReporting()
        .withNettyOptions(new NettyOptions() {
          @Override
          public void onClusterClose(EventLoopGroup group) {
            // The driver's own default waits for two seconds of silence.
            group.shutdownGracefully(0, 15, TimeUnit.SECONDS).syncUninterruptibly();
          }
        })
        .withSocketOptions(new SocketOptions().setReadTimeoutMillis(60_000).setConnectTimeoutMillis(30_000));
  }

  private String types() throws Exception {
    JsonNode cases = Suite.cases("types.json");
    for (JsonNode text : cases.get("setup")) {
      session.execute(text.asText());
    }
    List<JsonNode> types = new ArrayList<>();
    StringBuilder columns = new StringBuilder();
    for (JsonNode entry : cases.get("types")) {
      if (Suite.applies(entry, version)) {
        columns.append(", c").append(types.size()).append(" ").append(entry.get("type").asText());
        types.add(entry);
      }
    }
    session.execute("DROP TABLE IF EXISTS types");
    session.execute("CREATE TABLE types (k int PRIMARY KEY" + columns + ")");
    int values = 0;
    int key = 0;
    for (int i = 0; i < types.size(); i++) {
      String name = types.get(i).get("type").asText();
      PreparedStatement insert = session.prepare("INSERT INTO types (k, c" + i + ") VALUES (?, ?)");
      PreparedStatement select = session.prepare("SELECT c" + i + " FROM types WHERE k = ?");
      DataType type = insert.getVariables().getType(1);
      for (JsonNode entry : types.get(i).get("values")) {
        if (!Suite.applies(entry, version)) continue;
        String expected = Suite.expected(entry);
        Object value = Values.build(type, Suite.value(entry));
        session.execute(insert.bind().setInt(0, ++key).set(1, value, Values.codec(type)));
        equal(expected, read(select, key), name + " bound");
        if (entry.hasNonNull("cql")) {
          session.execute("INSERT INTO types (k, c" + i + ") VALUES (" + ++key + ", " + entry.get("cql").asText() + ")");
          equal(expected, read(select, key), name + " as " + entry.get("cql").asText());
        }
        values++;
      }
      session.execute(insert.bind().setInt(0, key).setToNull(1));
      equal("null", read(select, key), name + " set to null");
      if (version >= 4) {
        session.execute(insert.bind().setInt(0, ++key));
        equal("null", read(select, key), name + " left unset");
      }
    }
    return values + " values of " + types.size() + " types";
  }

  private String read(PreparedStatement select, int key) {
    Row row = session.execute(select.bind(key)).one();
    // The driver shows a null collection as an empty one.
    return row.isNull(0) ? "null" : Values.show(row.getColumnDefinitions().getType(0), row.getObject(0));
  }

  private String mistakes() throws Exception {
    JsonNode cases = Suite.cases("mistakes.json");
    for (JsonNode text : cases.get("setup")) {
      session.execute(text.asText());
    }
    int count = 0;
    for (JsonNode mistake : cases.get("mistakes")) {
      String name = mistake.get("name").asText();
      Class<?> wanted = ERRORS.get(mistake.get("error").asText());
      try {
        make(mistake);
      } catch (Exception error) {
        that(wanted.isInstance(error), name + ": " + error);
        String says = mistake.path("says").asText("");
        that(error.getMessage().contains(says), name + " does not say " + says + ": " + error.getMessage());
        if (error instanceof UnavailableException) {
          UnavailableException few = (UnavailableException) error;
          equal("2 1", few.getRequiredReplicas() + " " + few.getAliveReplicas(), name);
        }
        if (error instanceof AlreadyExistsException) {
          AlreadyExistsException exists = (AlreadyExistsException) error;
          equal("java3.rows", exists.getKeyspace() + "." + exists.getTable(), name);
        }
        count++;
        continue;
      }
      throw new AssertionError(name + " was accepted");
    }
    return count + " mistakes";
  }

  private void make(JsonNode mistake) {
    String cql = mistake.get("cql").asText();
    switch (mistake.get("how").asText()) {
      case "prepare":
        session.prepare(cql);
        return;
      case "execute":
        BoundStatement bound = session.prepare(cql).bind();
        int i = 0;
        for (JsonNode value : mistake.get("values")) {
          bound = value.isNull() ? bound.setToNull(i) : bound.setInt(i, value.asInt());
          i++;
        }
        session.execute(bound);
        return;
      default:
        Statement statement = new SimpleStatement(cql);
        if (mistake.has("level")) {
          statement = statement.setConsistencyLevel(ConsistencyLevel.valueOf(mistake.get("level").asText()));
        }
        session.execute(statement);
    }
  }

  private String preparedAcrossChanges() {
    session.execute("CREATE TABLE changing (k int PRIMARY KEY, v int)");
    PreparedStatement select = session.prepare("SELECT * FROM changing WHERE k = ?");
    PreparedStatement insert = session.prepare("INSERT INTO changing (k, v) VALUES (?, ?)");
    session.execute(insert.bind(1, 2));
    equal(2, session.execute(select.bind(1)).one().getInt("v"), "before");
    session.execute("ALTER TABLE changing ADD w text");
    session.execute(insert.bind(2, 3));
    session.execute("UPDATE changing SET w = 'new' WHERE k = 1");
    Row row = session.execute(select.bind(1)).one();
    equal(1, row.getInt("k"), "k after ADD");
    equal(2, row.getInt("v"), "v after ADD");
    if (version >= 5) {
      equal("new", row.getString("w"), "w after ADD");
    }
    equal("new", session.execute(session.prepare("SELECT w FROM changing WHERE k = ?").bind(1)).one().getString(0), "w");
    session.execute("ALTER TABLE changing DROP v");
    if (version >= 5) {
      row = session.execute(select.bind(1)).one();
      equal("new", row.getString("w"), "w after DROP");
      that(!row.getColumnDefinitions().contains("v"), "v is still there");
    }
    invalid(insert.bind(3, 4), "a dropped column was written");
    session.execute("DROP TABLE changing");
    invalid(select.bind(1), "a dropped table was read");
    return "";
  }

  private void invalid(BoundStatement statement, String what) {
    try {
      session.execute(statement);
    } catch (InvalidQueryException expected) {
      return;
    } catch (NoHostAvailableException refused) {
      // What the node said when the driver prepared the statement again.
      that(refused.getMessage().contains("ERROR INVALID"), refused.getMessage());
      return;
    }
    throw new AssertionError(what);
  }

  private String batches() throws Exception {
    session.execute("CREATE TABLE batched (k int, c int, v int, PRIMARY KEY (k, c))");
    PreparedStatement insert = session.prepare("INSERT INTO batched (k, c, v) VALUES (?, ?, ?)");
    for (BatchStatement.Type type : new BatchStatement.Type[] {BatchStatement.Type.LOGGED, BatchStatement.Type.UNLOGGED}) {
      BatchStatement batch = new BatchStatement(type);
      for (int c = 0; c < 20; c++) {
        batch.add(insert.bind(c % 3, c, c));
      }
      batch.add(new SimpleStatement("INSERT INTO batched (k, c, v) VALUES (?, 100, ?)", 7, 1));
      batch.add(new SimpleStatement("DELETE FROM batched WHERE k = 0 AND c = 0"));
      session.execute(batch.setDefaultTimestamp(5000));
      equal(20L, session.execute("SELECT count(*) FROM batched").one().getLong(0), "rows of a batch");
      equal(5000L, session.execute("SELECT writetime(v) FROM batched WHERE k = 7").one().getLong(0), "its time");
      session.execute("TRUNCATE batched");
    }
    session.execute(insert.bind(1, 1, 10).setDefaultTimestamp(2000));
    session.execute(insert.bind(1, 1, 20).setDefaultTimestamp(1000));
    Row row = session.execute("SELECT v, writetime(v) FROM batched WHERE k = 1 AND c = 1").one();
    equal("10 2000", row.getInt(0) + " " + row.getLong(1), "the newer timestamp");
    session.execute("INSERT INTO batched (k, c, v) VALUES (2, 2, 2) USING TTL ?", 1000);
    int left = session.execute("SELECT ttl(v) FROM batched WHERE k = 2").one().getInt(0);
    that(left > 900 && left <= 1000, "ttl " + left);
    session.execute("INSERT INTO batched (k, c, v) VALUES (3, 3, 3) USING TTL 1");
    Thread.sleep(2100);
    that(session.execute("SELECT * FROM batched WHERE k = 3").one() == null, "a row outlived its ttl");
    return "";
  }

  private String extras() {
    session.execute("CREATE TABLE extras (k int PRIMARY KEY, v text)");
    Statement statement = new SimpleStatement("INSERT INTO extras (k, v) VALUES (1, 'v')").enableTracing();
    if (version >= 4) {
      statement.setOutgoingPayload(Collections.singletonMap("key", ByteBuffer.wrap(new byte[] {1, 2})));
    }
    QueryTrace trace = session.execute(statement).getExecutionInfo().getQueryTrace();
    payloads();
    that(!trace.getEvents().isEmpty() && trace.getDurationMicros() >= 0, "a trace without events or session");
    that(session.execute("SELECT * FROM extras").getExecutionInfo().getQueryTrace() == null, "traced unasked");
    if (version >= 4) {
      List<String> warnings = session.execute("SELECT count(*) FROM extras").getExecutionInfo().getWarnings();
      that(warnings.toString().contains("Aggregation query used without partition key"), "warnings " + warnings);
    }
    return "";
  }

  /** Nobody reads them, nobody answers with one, nothing changes by them. */
  private void payloads() {
    if (version < 4) {
      return;
    }
    Map<String, ByteBuffer> payload = new HashMap<>();
    payload.put("key", ByteBuffer.wrap(new byte[] {1, 2}));
    payload.put("long", ByteBuffer.wrap(new byte[300_000]));
    PreparedStatement prepared = session.prepare("UPDATE extras SET v = ? WHERE k = 1");
    Map<String, Statement> statements = new LinkedHashMap<>();
    statements.put("simple", new SimpleStatement("UPDATE extras SET v = 'simple' WHERE k = 1"));
    statements.put("bound", prepared.bind("bound"));
    statements.put("batched", new BatchStatement().add(prepared.bind("batched")));
    statements.forEach((reads, statement) -> {
      ResultSet result = session.execute(statement.setOutgoingPayload(payload));
      equal(null, result.getExecutionInfo().getIncomingPayload(), "payload of an answer");
      equal(reads, session.execute("SELECT v FROM extras WHERE k = 1").one().getString(0), "written with a payload");
    });
  }

  private String metadata() {
    session.execute("CREATE TYPE IF NOT EXISTS point (x int, y int)");
    session.execute("CREATE TABLE described (a int, b text, c int, d timeuuid, s text static, m map<int, frozen<list<text>>>, "
        + "p frozen<point>, PRIMARY KEY ((a, b), c, d)) WITH CLUSTERING ORDER BY (c DESC, d ASC) "
        + "AND comment = 'it''s' AND gc_grace_seconds = 99");
    KeyspaceMetadata keyspace = cluster.getMetadata().getKeyspace("java3");
    TableMetadata table = keyspace.getTable("described");
    equal("[a, b]", names(table.getPartitionKey()), "partition key");
    equal("[c, d]", names(table.getClusteringColumns()), "clustering columns");
    equal("[DESC, ASC]", table.getClusteringOrder().toString(), "order");
    that(table.getColumn("s").isStatic(), "s is static");
    equal("map<int, frozen<list<text>>>", table.getColumn("m").getType().toString().replace("varchar", "text"), "type of m");
    equal(99, table.getOptions().getGcGraceInSeconds(), "an option");
    equal("it's", table.getOptions().getComment(), "an option");
    equal("[x, y]", new ArrayList<>(keyspace.getUserType("point").getFieldNames()).toString(), "fields");
    that(keyspace.exportAsString().contains("CREATE TYPE java3.point"), "the keyspace's text has its types");
    that(!cluster.getMetadata().getTokenRanges().isEmpty(), "no token ranges");
    ByteBuffer key = ByteBuffer.wrap(new byte[] {0, 0, 0, 1});
    equal(1, cluster.getMetadata().getReplicas("java3", key).size(), "replicas of a key");
    BoundStatement select = session.prepare("SELECT * FROM described WHERE b = ? AND a = ?").bind("b", 1);
    that(select.getRoutingKey(ProtocolVersion.valueOf("V" + version), com.datastax.driver.core.CodecRegistry.DEFAULT_INSTANCE) != null, "no routing key");
    return "";
  }

  private static String names(List<ColumnMetadata> columns) {
    List<String> names = new ArrayList<>();
    columns.forEach(column -> names.add(column.getName()));
    return names.toString();
  }

  private String paging() {
    session.execute("CREATE TABLE pages (k bigint, c int, v text, PRIMARY KEY (k, c))");
    PreparedStatement insert = session.prepare("INSERT INTO pages (k, c, v) VALUES (?, ?, ?)");
    ArrayDeque<ResultSetFuture> writes = new ArrayDeque<>();
    for (int i = 0; i < Suite.ROWS; i++) {
      if (writes.size() == 256) {
        writes.remove().getUninterruptibly();
      }
      writes.add(session.executeAsync(insert.bind((long) (i / 100), i % 100, "value " + i)));
    }
    writes.forEach(ResultSetFuture::getUninterruptibly);
    for (int size : new int[] {5000, 997}) {
      boolean[] seen = new boolean[Suite.ROWS];
      int count = 0;
      long lastKey = -1;
      int lastRow = -1;
      for (Row row : session.execute(session.prepare("SELECT k, c, v FROM pages").bind().setFetchSize(size))) {
        int i = (int) row.getLong(0) * 100 + row.getInt(1);
        that(!seen[i], "row " + i + " came twice");
        that(row.getLong(0) != lastKey || row.getInt(1) > lastRow, "row " + i + " is out of order");
        equal("value " + i, row.getString(2), "value");
        seen[i] = true;
        count++;
        lastKey = row.getLong(0);
        lastRow = row.getInt(1);
      }
      equal(Suite.ROWS, count, "rows by pages of " + size);
    }
    Statement pages = new SimpleStatement("SELECT k, c FROM pages").setFetchSize(10);
    ResultSet first = session.execute(pages);
    equal(10, first.getAvailableWithoutFetching(), "rows of the first page");
    pages.setPagingState(first.getExecutionInfo().getPagingState());
    String eleventh = session.execute(pages).one().toString();
    equal(session.execute("SELECT k, c FROM pages LIMIT 20").all().get(10).toString(), eleventh, "behind a paging state");
    return Suite.ROWS + " rows";
  }

  private static String events(String[] talk) throws Exception {
    List<String> told = Collections.synchronizedList(new ArrayList<>());
    // What was told twice stands before what is told of the next change.
    String[][] steps = {
      {"CREATE KEYSPACE java3_events WITH " + Suite.REPLICATION, "keyspace created java3_events"},
      {"ALTER KEYSPACE java3_events WITH durable_writes = false", "keyspace changed java3_events"},
      {"CREATE TYPE java3_events.t (x int)", "type created t"},
      {"ALTER TYPE java3_events.t ADD y int", "type changed t"},
      {"DROP TYPE java3_events.t", "type dropped t"},
      {"CREATE TABLE java3_events.told (k int PRIMARY KEY)", "table created told"},
      {"ALTER TABLE java3_events.told ADD v int", "table changed told"},
      {"DROP TABLE java3_events.told", "table dropped told"},
      {"DROP KEYSPACE java3_events", "keyspace dropped java3_events"},
      {"CREATE KEYSPACE java3_last WITH " + Suite.REPLICATION, "keyspace created java3_last"},
      {"DROP KEYSPACE java3_last", "keyspace dropped java3_last"},
    };
    List<String> expected = new ArrayList<>();
    try (Cluster listening = builder(talk, Suite.PORT).build(); Cluster changing = builder(talk, Suite.PORT).build()) {
      listening.init();
      listening.register(new SchemaChangeListenerBase() {
        @Override
        public void onKeyspaceAdded(KeyspaceMetadata keyspace) {
          told.add("keyspace created " + keyspace.getName());
        }

        @Override
        public void onKeyspaceChanged(KeyspaceMetadata current, KeyspaceMetadata previous) {
          told.add("keyspace changed " + current.getName());
        }

        @Override
        public void onKeyspaceRemoved(KeyspaceMetadata keyspace) {
          told.add("keyspace dropped " + keyspace.getName());
        }

        @Override
        public void onTableAdded(TableMetadata table) {
          told.add("table created " + table.getName());
        }

        @Override
        public void onTableChanged(TableMetadata current, TableMetadata previous) {
          told.add("table changed " + current.getName());
        }

        @Override
        public void onTableRemoved(TableMetadata table) {
          told.add("table dropped " + table.getName());
        }

        @Override
        public void onUserTypeAdded(UserType type) {
          told.add("type created " + type.getTypeName());
        }

        @Override
        public void onUserTypeChanged(UserType current, UserType previous) {
          told.add("type changed " + current.getTypeName());
        }

        @Override
        public void onUserTypeRemoved(UserType type) {
          told.add("type dropped " + type.getTypeName());
        }
      });
      Session session = changing.connect();
      for (String[] step : steps) {
        session.execute(step[0]);
        expected.add(step[1]);
        long end = System.nanoTime() + 60_000_000_000L;
        while (told.size() < expected.size() && System.nanoTime() < end) {
          Thread.sleep(10);
        }
        equal(expected, new ArrayList<>(told), "told after " + step[0]);
      }
      equal(1, listening.getMetadata().getAllHosts().size(), "nodes");
    }
    return expected.size() + " events";
  }

  private static String secure(String[] talk) throws Exception {
    try (Cluster cluster = login(talk, "NODE_AUTHORITY", "cassandra", "cassandra").build()) {
      cluster.connect().execute("CREATE ROLE IF NOT EXISTS java3 WITH PASSWORD = 'it''s secret' AND LOGIN = true");
    }
    try (Cluster cluster = login(talk, "NODE_AUTHORITY", "java3", "it's secret").build()) {
      equal(1, cluster.connect().execute("SELECT key FROM system.local").all().size(), "rows");
    }
    refused(login(talk, "NODE_AUTHORITY", "java3", "wrong"), AuthenticationException.class);
    refused(login(talk, "NODE_AUTHORITY", "nobody", "it's secret"), AuthenticationException.class);
    refused(login(talk, "NODE_STRANGER", "java3", "it's secret"), NoHostAvailableException.class);
    refused(builder(talk, Suite.SECURE_PORT).withCredentials("java3", "it's secret"), NoHostAvailableException.class);
    refused(builder(talk, Suite.SECURE_PORT).withSSL(tls("NODE_AUTHORITY")), AuthenticationException.class);
    return "";
  }

  private static String clientCertificate(String[] talk) throws Exception {
    try (Cluster cluster = showing(talk, "NODE_CLIENT").build()) {
      equal(1, cluster.connect().execute("SELECT key FROM system.local").all().size(), "rows");
    }
    refused(showing(talk, "NODE_IMPOSTOR"), NoHostAvailableException.class);
    refused(showing(talk, null), NoHostAvailableException.class);
    return "";
  }

  private static Cluster.Builder showing(String[] talk, String client) throws Exception {
    return builder(talk, Suite.MUTUAL_PORT).withSSL(tls("NODE_AUTHORITY", client));
  }

  private static Cluster.Builder login(String[] talk, String authority, String user, String password) throws Exception {
    return builder(talk, Suite.SECURE_PORT).withSSL(tls(authority)).withCredentials(user, password);
  }

  private static RemoteEndpointAwareJdkSSLOptions tls(String authority) throws Exception {
    return tls(authority, null);
  }

  private static RemoteEndpointAwareJdkSSLOptions tls(String authority, String client) throws Exception {
    return (RemoteEndpointAwareJdkSSLOptions)
        RemoteEndpointAwareJdkSSLOptions.builder().withSSLContext(Suite.tls(authority, client)).build();
  }

  private static void refused(Cluster.Builder builder, Class<?> wanted) {
    try (Cluster cluster = builder.build()) {
      cluster.connect();
    } catch (Exception error) {
      that(wanted.isInstance(error), "refused by " + error);
      return;
    }
    throw new AssertionError("a session that must be refused was opened");
  }
}
