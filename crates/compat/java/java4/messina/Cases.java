package messina;

import static messina.Suite.equal;
import static messina.Suite.test;
import static messina.Suite.that;

import com.datastax.oss.driver.api.core.AllNodesFailedException;
import com.datastax.oss.driver.api.core.CqlIdentifier;
import com.datastax.oss.driver.api.core.CqlSession;
import com.datastax.oss.driver.api.core.CqlSessionBuilder;
import com.datastax.oss.driver.api.core.DefaultConsistencyLevel;
import com.datastax.oss.driver.api.core.auth.AuthenticationException;
import com.datastax.oss.driver.api.core.config.DefaultDriverOption;
import com.datastax.oss.driver.api.core.config.DriverConfigLoader;
import com.datastax.oss.driver.api.core.cql.AsyncResultSet;
import com.datastax.oss.driver.api.core.cql.BatchStatement;
import com.datastax.oss.driver.api.core.cql.BatchStatementBuilder;
import com.datastax.oss.driver.api.core.cql.BoundStatement;
import com.datastax.oss.driver.api.core.cql.DefaultBatchType;
import com.datastax.oss.driver.api.core.cql.PreparedStatement;
import com.datastax.oss.driver.api.core.cql.QueryTrace;
import com.datastax.oss.driver.api.core.cql.ResultSet;
import com.datastax.oss.driver.api.core.cql.Row;
import com.datastax.oss.driver.api.core.cql.SimpleStatement;
import com.datastax.oss.driver.api.core.cql.Statement;
import com.datastax.oss.driver.api.core.metadata.Metadata;
import com.datastax.oss.driver.api.core.metadata.TokenMap;
import com.datastax.oss.driver.api.core.metadata.schema.ClusteringOrder;
import com.datastax.oss.driver.api.core.metadata.schema.KeyspaceMetadata;
import com.datastax.oss.driver.api.core.metadata.schema.SchemaChangeListenerBase;
import com.datastax.oss.driver.api.core.metadata.schema.TableMetadata;
import com.datastax.oss.driver.api.core.servererrors.AlreadyExistsException;
import com.datastax.oss.driver.api.core.servererrors.InvalidConfigurationInQueryException;
import com.datastax.oss.driver.api.core.servererrors.InvalidQueryException;
import com.datastax.oss.driver.api.core.servererrors.SyntaxError;
import com.datastax.oss.driver.api.core.servererrors.UnauthorizedException;
import com.datastax.oss.driver.api.core.servererrors.UnavailableException;
import com.datastax.oss.driver.api.core.type.DataType;
import com.datastax.oss.driver.api.core.type.UserDefinedType;
import com.fasterxml.jackson.databind.JsonNode;
import java.net.InetSocketAddress;
import java.nio.ByteBuffer;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletionStage;
import java.util.concurrent.Semaphore;
import java.util.concurrent.atomic.AtomicReference;

/** The Java driver 4.x against a running node. */
public final class Cases {
  private static final String[][] CONVERSATIONS = {
    {"V5", "lz4"}, {"V4", "snappy"}, {"V3", "none"}, {"V4", "lz4"}, {"V5", "none"}, {"V3", "snappy"},
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
      String version = CONVERSATIONS[i][0];
      String compression = CONVERSATIONS[i][1];
      String name = " " + version.toLowerCase() + " " + compression;
      AtomicReference<CqlSession> session = new AtomicReference<>();
      test("connect" + name, () -> {
        session.set(builder(version, compression, new Events()).build());
        equal(version, session.get().getContext().getProtocolVersion().name(), "negotiated version");
        session.get().execute("DROP KEYSPACE IF EXISTS java4");
        session.get().execute("CREATE KEYSPACE java4 WITH " + Suite.REPLICATION);
        session.get().execute("USE java4");
        return "";
      });
      if (session.get() == null) {
        continue;
      }
      Cases cases = new Cases(session.get(), version.charAt(1) - '0');
      test("types" + name, cases::types);
      test("mistakes" + name, cases::mistakes);
      test("prepared_across_changes" + name, cases::preparedAcrossChanges);
      test("batches_timestamps_ttl" + name, cases::batches);
      test("tracing_payload_warnings" + name, cases::extras);
      test("metadata" + name, cases::metadata);
      test("events" + name, () -> events(version, compression));
      if (i == 0) {
        test("paging" + name, cases::paging);
      }
      session.get().execute("DROP KEYSPACE IF EXISTS java4");
      session.get().close();
    }
    for (String version : Suite.QUICK ? new String[] {"V5"} : new String[] {"V5", "V4", "V3"}) {
      test("tls_and_password " + version.toLowerCase(), () -> secure(version));
      test("client_certificate " + version.toLowerCase(), () -> clientCertificate(version));
    }
    Suite.end();
  }

  private final CqlSession session;
  private final int version;

  private Cases(CqlSession session, int version) {
    this.session = session;
    this.version = version;
  }

  private static CqlSessionBuilder builder(String version, String compression, Events events) {
    return builder(version, compression, events, Suite.PORT);
  }

  private static CqlSessionBuilder builder(String version, String compression, Events events, int port) {
    DriverConfigLoader config = DriverConfigLoader.programmaticBuilder()
        .withString(DefaultDriverOption.PROTOCOL_VERSION, version)
        .withString(DefaultDriverOption.PROTOCOL_COMPRESSION, compression)
        .withDuration(DefaultDriverOption.REQUEST_TIMEOUT, Duration.ofSeconds(60))
        .withDuration(DefaultDriverOption.CONNECTION_INIT_QUERY_TIMEOUT, Duration.ofSeconds(30))
        .withDuration(DefaultDriverOption.CONTROL_CONNECTION_TIMEOUT, Duration.ofSeconds(30))
        .withDuration(DefaultDriverOption.METADATA_SCHEMA_REQUEST_TIMEOUT, Duration.ofSeconds(30))
        .withDuration(DefaultDriverOption.METADATA_SCHEMA_WINDOW, Duration.ofMillis(10))
        .withDuration(DefaultDriverOption.REQUEST_TRACE_INTERVAL, Duration.ofMillis(100))
        .withInt(DefaultDriverOption.REQUEST_TRACE_ATTEMPTS, 50)
        .withInt(DefaultDriverOption.NETTY_IO_SHUTDOWN_QUIET_PERIOD, 0)
        .withInt(DefaultDriverOption.NETTY_ADMIN_SHUTDOWN_QUIET_PERIOD, 0)
        .build();
    return CqlSession.builder()
        .withConfigLoader(config)
        .withSchemaChangeListener(events)
        .withLocalDatacenter("datacenter1")
        .addContactPoint(new InetSocketAddress(Suite.HOST, port));
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
      DataType type = insert.getVariableDefinitions().get(1).getType();
      for (JsonNode entry : types.get(i).get("values")) {
        if (!Suite.applies(entry, version)) continue;
        String expected = Suite.expected(entry);
        Object value = Values.build(type, Suite.value(entry));
        session.execute(insert.bind().setInt(0, ++key).set(1, value, Values.codec(type)));
        equal(expected, read(select, key), name + " bound");
        session.execute(SimpleStatement.newInstance(
            "INSERT INTO types (k, c" + i + ") VALUES (?, ?)", ++key, value));
        equal(expected, read(select, key), name + " bound to a text");
        if (entry.hasNonNull("cql")) {
          session.execute("INSERT INTO types (k, c" + i + ") VALUES (" + ++key + ", " + entry.get("cql").asText() + ")");
          equal(expected, read(select, key), name + " as " + entry.get("cql").asText());
        }
        values++;
      }
      session.execute(insert.bind().setInt(0, key).setToNull(1));
      equal("null", read(select, key), name + " set to null");
      if (version >= 4) {
        session.execute(insert.bind().setInt(0, ++key).unset(1));
        equal("null", read(select, key), name + " left unset");
      }
    }
    return values + " values of " + types.size() + " types";
  }

  private String read(PreparedStatement select, int key) {
    Row row = session.execute(select.bind(key)).one();
    // The driver shows a null collection as an empty one.
    return row.isNull(0) ? "null" : Values.show(row.getColumnDefinitions().get(0).getType(), row.getObject(0));
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
        Throwable cause = error;
        if (error instanceof AllNodesFailedException) {
          cause = ((AllNodesFailedException) error).getAllErrors().values().iterator().next().get(0);
        }
        that(wanted.isInstance(cause), name + ": " + cause);
        String says = mistake.path("says").asText("");
        that(cause.getMessage().contains(says), name + " does not say " + says + ": " + cause.getMessage());
        if (cause instanceof UnavailableException) {
          equal("2 1", ((UnavailableException) cause).getRequired() + " " + ((UnavailableException) cause).getAlive(), name);
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
        SimpleStatement statement = SimpleStatement.newInstance(cql);
        if (mistake.has("level")) {
          statement = statement.setConsistencyLevel(DefaultConsistencyLevel.valueOf(mistake.get("level").asText()));
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
    ByteBuffer id = select.getResultMetadataId();
    session.execute("ALTER TABLE changing ADD w text");
    session.execute(insert.bind(2, 3));
    session.execute("UPDATE changing SET w = 'new' WHERE k = 1");
    Row row = session.execute(select.bind(1)).one();
    equal(1, row.getInt("k"), "k after ADD");
    equal(2, row.getInt("v"), "v after ADD");
    if (version >= 5) {
      equal("new", row.getString("w"), "w after ADD");
      that(!id.equals(select.getResultMetadataId()), "the id of the result's metadata is the old one");
    }
    equal("new", session.execute(session.prepare("SELECT w FROM changing WHERE k = ?").bind(1)).one().getString(0), "w");
    session.execute("ALTER TABLE changing DROP v");
    if (version >= 5) {
      row = session.execute(select.bind(1)).one();
      equal("new", row.getString("w"), "w after DROP");
      that(!row.getColumnDefinitions().contains("v"), "v is still there");
    }
    try {
      session.execute(insert.bind(3, 4));
      throw new AssertionError("a dropped column was written");
    } catch (InvalidQueryException expected) {
      that(expected.getMessage().contains("v"), expected.getMessage());
    }
    session.execute("DROP TABLE changing");
    try {
      session.execute(select.bind(1));
      throw new AssertionError("a dropped table was read");
    } catch (InvalidQueryException expected) {
      that(expected.getMessage().contains("changing"), expected.getMessage());
    }
    return "";
  }

  private String batches() throws Exception {
    session.execute("CREATE TABLE batched (k int, c int, v int, PRIMARY KEY (k, c))");
    PreparedStatement insert = session.prepare("INSERT INTO batched (k, c, v) VALUES (?, ?, ?)");
    for (DefaultBatchType type : new DefaultBatchType[] {DefaultBatchType.LOGGED, DefaultBatchType.UNLOGGED}) {
      BatchStatementBuilder batch = BatchStatement.builder(type);
      for (int c = 0; c < 20; c++) {
        batch.addStatement(insert.bind(c % 3, c, c));
      }
      batch.addStatement(SimpleStatement.newInstance("INSERT INTO batched (k, c, v) VALUES (?, 100, ?)", 7, 1));
      batch.addStatement(SimpleStatement.newInstance("DELETE FROM batched WHERE k = 0 AND c = 0"));
      session.execute(batch.setQueryTimestamp(5000).build());
      equal(20L, session.execute("SELECT count(*) FROM batched").one().getLong(0), "rows of a batch");
      equal(5000L, session.execute("SELECT writetime(v) FROM batched WHERE k = 7").one().getLong(0), "its time");
      session.execute("TRUNCATE batched");
    }
    session.execute(insert.bind(1, 1, 10).setQueryTimestamp(2000));
    session.execute(insert.bind(1, 1, 20).setQueryTimestamp(1000));
    Row row = session.execute("SELECT v, writetime(v) FROM batched WHERE k = 1 AND c = 1").one();
    equal("10 2000", row.getInt(0) + " " + row.getLong(1), "the newer timestamp");
    session.execute(SimpleStatement.newInstance("INSERT INTO batched (k, c, v) VALUES (2, 2, 2) USING TTL ?", 1000));
    int left = session.execute("SELECT ttl(v) FROM batched WHERE k = 2").one().getInt(0);
    that(left > 900 && left <= 1000, "ttl " + left);
    session.execute("INSERT INTO batched (k, c, v) VALUES (3, 3, 3) USING TTL 1");
    Thread.sleep(2100);
    that(session.execute("SELECT * FROM batched WHERE k = 3").one() == null, "a row outlived its ttl");
    return "";
  }

  private String extras() {
    session.execute("CREATE TABLE extras (k int PRIMARY KEY, v text)");
    SimpleStatement statement = SimpleStatement.newInstance("INSERT INTO extras (k, v) VALUES (1, 'v')");
    if (version >= 4) {
      statement = statement.setCustomPayload(Collections.singletonMap("key", ByteBuffer.wrap(new byte[] {1, 2})));
    }
    ResultSet result = session.execute(statement.setTracing(true));
    QueryTrace trace = result.getExecutionInfo().getQueryTrace();
    payloads();
    that(!trace.getEvents().isEmpty(), "a trace without events");
    that(trace.getDurationMicros() >= 0 && trace.getRequestType() != null, "a trace without its session");
    that(session.execute("SELECT * FROM extras").getExecutionInfo().getTracingId() == null, "traced unasked");
    ResultSet counted = session.execute("SELECT count(*) FROM extras");
    if (version >= 4) {
      List<String> warnings = counted.getExecutionInfo().getWarnings();
      that(warnings.toString().contains("Aggregation query used without partition key"), "warnings " + warnings);
      char[] long_ = new char[7000];
      Arrays.fill(long_, 'x');
      BatchStatement batch = BatchStatement.newInstance(DefaultBatchType.UNLOGGED,
          SimpleStatement.newInstance("INSERT INTO extras (k, v) VALUES (1, '" + new String(long_) + "')"),
          SimpleStatement.newInstance("INSERT INTO extras (k, v) VALUES (2, 'short')"));
      warnings = session.execute(batch).getExecutionInfo().getWarnings();
      that(warnings.toString().contains("exceed"), "warnings of a large batch " + warnings);
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
    payload.put("empty", ByteBuffer.wrap(new byte[0]));
    payload.put("long", ByteBuffer.wrap(new byte[300_000]));
    SimpleStatement update = SimpleStatement.newInstance("UPDATE extras SET v = ? WHERE k = 1");
    PreparedStatement prepared = session.prepare(update.setCustomPayload(payload));
    Map<String, Statement<?>> statements = new LinkedHashMap<>();
    statements.put("simple", update.setPositionalValues(Collections.singletonList("simple")));
    statements.put("bound", prepared.bind("bound"));
    statements.put("batched", BatchStatement.newInstance(DefaultBatchType.LOGGED, prepared.bind("batched")));
    statements.forEach((reads, statement) -> {
      ResultSet result = session.execute(statement.setCustomPayload(payload));
      that(result.getExecutionInfo().getIncomingPayload().isEmpty(), "answered with a payload: " + reads);
      equal(reads, session.execute("SELECT v FROM extras WHERE k = 1").one().getString(0), "written with a payload");
    });
    try {
      session.execute(SimpleStatement.newInstance("SELECT nothing FROM extras").setCustomPayload(payload));
    } catch (InvalidQueryException expected) {
      return;
    }
    throw new AssertionError("a payload made a mistake right");
  }

  private String metadata() {
    session.execute("CREATE TYPE IF NOT EXISTS point (x int, y int)");
    session.execute("CREATE TABLE described (a int, b text, c int, d timeuuid, s text static, m map<int, frozen<list<text>>>, "
        + "p frozen<point>, PRIMARY KEY ((a, b), c, d)) WITH CLUSTERING ORDER BY (c DESC, d ASC) "
        + "AND comment = 'it''s' AND gc_grace_seconds = 99 AND compaction = {'class': 'SizeTieredCompactionStrategy'}");
    session.checkSchemaAgreement();
    Metadata metadata = session.refreshSchema();
    KeyspaceMetadata keyspace = metadata.getKeyspace("java4").get();
    TableMetadata table = keyspace.getTable("described").get();
    equal("[a, b]", names(table.getPartitionKey()), "partition key");
    equal(Arrays.asList(ClusteringOrder.DESC, ClusteringOrder.ASC), new ArrayList<>(table.getClusteringColumns().values()), "order");
    that(table.getColumn("s").get().isStatic(), "s is static");
    equal("Map(INT => List(TEXT, frozen), not frozen)", table.getColumn("m").get().getType().toString(), "type of m");
    equal(99, table.getOptions().get(CqlIdentifier.fromCql("gc_grace_seconds")), "an option");
    UserDefinedType point = keyspace.getUserDefinedType("point").get();
    equal("[x, y]", point.getFieldNames().toString(), "fields");
    String text = table.describe(true);
    session.execute("DROP TABLE described");
    session.execute(text.replace(";", ""));
    equal(text, session.refreshSchema().getKeyspace("java4").get().getTable("described").get().describe(true), "described again");
    that(keyspace.describeWithChildren(true).contains("CREATE TYPE"), "the keyspace's text has its types");
    TokenMap tokens = session.getMetadata().getTokenMap().get();
    that(!tokens.getTokenRanges().isEmpty(), "no token ranges");
    ByteBuffer key = ByteBuffer.wrap(new byte[] {0, 0, 0, 1});
    equal(1, tokens.getReplicas("java4", key).size(), "replicas of a key");
    PreparedStatement select = session.prepare("SELECT * FROM described WHERE b = ? AND a = ?");
    equal("[1, 0]", select.getPartitionKeyIndices().toString(), "markers of the partition key");
    that(session.execute(select.bind("b", 1)).getExecutionInfo().getCoordinator() != null, "no coordinator");
    return "";
  }

  private static String names(List<?> columns) {
    List<String> names = new ArrayList<>();
    for (Object column : columns) {
      names.add(((com.datastax.oss.driver.api.core.metadata.schema.ColumnMetadata) column).getName().asInternal());
    }
    return names.toString();
  }

  private String paging() throws Exception {
    session.execute("CREATE TABLE pages (k bigint, c int, v text, PRIMARY KEY (k, c))");
    PreparedStatement insert = session.prepare("INSERT INTO pages (k, c, v) VALUES (?, ?, ?)");
    Semaphore slots = new Semaphore(256);
    AtomicReference<Throwable> failed = new AtomicReference<>();
    for (int i = 0; i < Suite.ROWS; i++) {
      slots.acquire();
      CompletionStage<AsyncResultSet> write = session.executeAsync(insert.bind((long) (i / 100), i % 100, "value " + i));
      write.whenComplete((result, error) -> {
        if (error != null) failed.set(error);
        slots.release();
      });
    }
    slots.acquire(256);
    that(failed.get() == null, "a write failed: " + failed.get());
    for (int size : new int[] {5000, 997}) {
      boolean[] seen = new boolean[Suite.ROWS];
      int count = 0;
      long lastKey = -1;
      int lastRow = -1;
      for (Row row : session.execute(session.prepare("SELECT k, c, v FROM pages").bind().setPageSize(size))) {
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
    ResultSet first = session.execute(SimpleStatement.newInstance("SELECT k, c FROM pages").setPageSize(10));
    equal(10, first.getAvailableWithoutFetching(), "rows of the first page");
    SimpleStatement next = SimpleStatement.newInstance("SELECT k, c FROM pages").setPageSize(10)
        .setPagingState(first.getExecutionInfo().getSafePagingState());
    List<String> two = new ArrayList<>();
    session.execute(SimpleStatement.newInstance("SELECT k, c FROM pages LIMIT 20")).forEach(row -> two.add(row.getFormattedContents()));
    equal(two.get(10), session.execute(next).one().getFormattedContents(), "the row behind a paging state");
    return Suite.ROWS + " rows";
  }

  /** Counts what a listener is told; every change of the schema must be told once. */
  private static final class Events extends SchemaChangeListenerBase {
    final List<String> told = Collections.synchronizedList(new ArrayList<>());

    @Override
    public void onKeyspaceCreated(KeyspaceMetadata keyspace) {
      told.add("keyspace created " + keyspace.getName());
    }

    @Override
    public void onKeyspaceUpdated(KeyspaceMetadata current, KeyspaceMetadata previous) {
      told.add("keyspace updated " + current.getName());
    }

    @Override
    public void onKeyspaceDropped(KeyspaceMetadata keyspace) {
      told.add("keyspace dropped " + keyspace.getName());
    }

    @Override
    public void onTableCreated(TableMetadata table) {
      told.add("table created " + table.getName());
    }

    @Override
    public void onTableUpdated(TableMetadata current, TableMetadata previous) {
      told.add("table updated " + current.getName());
    }

    @Override
    public void onTableDropped(TableMetadata table) {
      told.add("table dropped " + table.getName());
    }

    @Override
    public void onUserDefinedTypeCreated(UserDefinedType type) {
      told.add("type created " + type.getName());
    }

    @Override
    public void onUserDefinedTypeUpdated(UserDefinedType current, UserDefinedType previous) {
      told.add("type updated " + current.getName());
    }

    @Override
    public void onUserDefinedTypeDropped(UserDefinedType type) {
      told.add("type dropped " + type.getName());
    }
  }

  private static String events(String version, String compression) throws Exception {
    Events events = new Events();
    // What was told twice stands before what is told of the next change.
    String[][] steps = {
      {"CREATE KEYSPACE java4_events WITH " + Suite.REPLICATION, "keyspace created java4_events"},
      {"ALTER KEYSPACE java4_events WITH durable_writes = false", "keyspace updated java4_events"},
      {"CREATE TYPE java4_events.t (x int)", "type created t"},
      {"ALTER TYPE java4_events.t ADD y int", "type updated t"},
      {"DROP TYPE java4_events.t", "type dropped t"},
      {"CREATE TABLE java4_events.told (k int PRIMARY KEY)", "table created told"},
      {"ALTER TABLE java4_events.told ADD v int", "table updated told"},
      {"DROP TABLE java4_events.told", "table dropped told"},
      {"DROP KEYSPACE java4_events", "keyspace dropped java4_events"},
      {"CREATE KEYSPACE java4_last WITH " + Suite.REPLICATION, "keyspace created java4_last"},
      {"DROP KEYSPACE java4_last", "keyspace dropped java4_last"},
    };
    List<String> expected = new ArrayList<>();
    try (CqlSession listening = builder(version, compression, events).build();
        CqlSession changing = builder(version, compression, new Events()).build()) {
      for (String[] step : steps) {
        changing.execute(step[0]);
        expected.add(step[1]);
        long end = System.nanoTime() + 60_000_000_000L;
        while (events.told.size() < expected.size() && System.nanoTime() < end) {
          Thread.sleep(10);
        }
        equal(expected, new ArrayList<>(events.told), "told after " + step[0]);
      }
      that(listening.getMetadata().getNodes().size() == 1, "there is one node");
    }
    return expected.size() + " events";
  }

  private static String secure(String version) throws Exception {
    String compression = version.equals("V4") ? "snappy" : "lz4";
    try (CqlSession session = login(version, compression, "NODE_AUTHORITY", "cassandra", "cassandra").build()) {
      session.execute("CREATE ROLE IF NOT EXISTS java4 WITH PASSWORD = 'it''s secret' AND LOGIN = true");
      equal(1, session.execute("SELECT key FROM system.local").all().size(), "rows");
    }
    try (CqlSession session = login(version, compression, "NODE_AUTHORITY", "java4", "it's secret").build()) {
      equal(1, session.execute("SELECT key FROM system.local").all().size(), "rows");
    }
    refused(login(version, compression, "NODE_AUTHORITY", "java4", "wrong"), AuthenticationException.class);
    refused(login(version, compression, "NODE_AUTHORITY", "nobody", "secret"), AuthenticationException.class);
    refused(login(version, compression, "NODE_STRANGER", "java4", "it's secret"), null);
    CqlSessionBuilder plain = builder(version, compression, new Events(), Suite.SECURE_PORT);
    refused(plain.withAuthCredentials("java4", "it's secret"), null);
    CqlSessionBuilder nameless = builder(version, compression, new Events(), Suite.SECURE_PORT);
    refused(nameless.withSslContext(Suite.tls("NODE_AUTHORITY")), AuthenticationException.class);
    return "";
  }

  private static String clientCertificate(String version) throws Exception {
    try (CqlSession session = showing(version, "NODE_CLIENT").build()) {
      equal(1, session.execute("SELECT key FROM system.local").all().size(), "rows");
    }
    refused(showing(version, "NODE_IMPOSTOR"), null);
    refused(showing(version, null), null);
    return "";
  }

  private static CqlSessionBuilder showing(String version, String client) throws Exception {
    String compression = version.equals("V4") ? "snappy" : "lz4";
    return builder(version, compression, new Events(), Suite.MUTUAL_PORT)
        .withSslContext(Suite.tls("NODE_AUTHORITY", client));
  }

  private static CqlSessionBuilder login(String version, String compression, String authority, String user, String password)
      throws Exception {
    return builder(version, compression, new Events(), Suite.SECURE_PORT)
        .withSslContext(Suite.tls(authority)).withAuthCredentials(user, password);
  }

  private static void refused(CqlSessionBuilder builder, Class<?> wanted) {
    try (CqlSession session = builder.build()) {
      throw new AssertionError("a session that must be refused was opened: " + session.getName());
    } catch (AllNodesFailedException error) {
      Throwable cause = error.getAllErrors().values().iterator().next().get(0);
      that(wanted == null || wanted.isInstance(cause), "refused by " + cause);
    }
  }
}
