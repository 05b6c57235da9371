package messina;

import com.datastax.oss.driver.api.core.AllNodesFailedException;
import com.datastax.oss.driver.api.core.ConsistencyLevel;
import com.datastax.oss.driver.api.core.CqlSession;
import com.datastax.oss.driver.api.core.CqlSessionBuilder;
import com.datastax.oss.driver.api.core.config.DefaultDriverOption;
import com.datastax.oss.driver.api.core.config.DriverConfigLoader;
import com.datastax.oss.driver.api.core.context.DriverContext;
import com.datastax.oss.driver.api.core.cql.PreparedStatement;
import com.datastax.oss.driver.api.core.retry.RetryDecision;
import com.datastax.oss.driver.api.core.retry.RetryPolicy;
import com.datastax.oss.driver.api.core.servererrors.CoordinatorException;
import com.datastax.oss.driver.api.core.servererrors.WriteType;
import com.datastax.oss.driver.api.core.session.Request;
import com.datastax.oss.driver.internal.core.connection.ConstantReconnectionPolicy;
import java.net.InetSocketAddress;
import java.time.Duration;
import java.util.concurrent.CompletionException;
import java.util.concurrent.CompletionStage;
import java.util.stream.Collectors;

/** The load of a cluster by the Java driver 4.x, whose default policy is token-aware. */
public final class ClusterRun extends ClusterLoad {
  private final CqlSession session;
  private final PreparedStatement insert;
  private final PreparedStatement select;

  private ClusterRun(CqlSession session) {
    this.session = session;
    insert = session.prepare(INSERT);
    select = session.prepare(SELECT);
  }

  public static void main(String[] words) throws Exception {
    DriverConfigLoader config = DriverConfigLoader.programmaticBuilder()
        .withString(DefaultDriverOption.REQUEST_CONSISTENCY, LEVEL)
        .withDuration(DefaultDriverOption.REQUEST_TIMEOUT, Duration.ofSeconds(TIMEOUT_SECONDS))
        .withDuration(DefaultDriverOption.CONNECTION_INIT_QUERY_TIMEOUT, Duration.ofSeconds(TIMEOUT_SECONDS))
        .withDuration(DefaultDriverOption.CONTROL_CONNECTION_TIMEOUT, Duration.ofSeconds(TIMEOUT_SECONDS))
        .withClass(DefaultDriverOption.RETRY_POLICY_CLASS, Never.class)
        .withClass(DefaultDriverOption.RECONNECTION_POLICY_CLASS, ConstantReconnectionPolicy.class)
        .withDuration(DefaultDriverOption.RECONNECTION_BASE_DELAY, Duration.ofMillis(RECONNECTION_MS))
        .build();
    CqlSessionBuilder builder = CqlSession.builder().withLocalDatacenter(DC).withConfigLoader(config).withKeyspace("load");
    for (String node : NODES) {
      builder.addContactPoint(new InetSocketAddress(node, PORT));
    }
    try (CqlSession session = builder.build()) {
      new ClusterRun(session).run(Long.parseLong(words[1]));
    }
  }

  @Override
  CompletionStage<?> write(long key, String value) {
    return session.executeAsync(insert.bind(key, value));
  }

  @Override
  CompletionStage<String> read(long key) {
    return session.executeAsync(select.bind(key)).thenApply(rows -> {
      com.datastax.oss.driver.api.core.cql.Row row = rows.one();
      return row == null ? null : row.getString(0);
    });
  }

  @Override
  void execute(String text) {
    session.execute(text);
  }

  @Override
  boolean sees(String table) {
    return session.getMetadata().getKeyspace("load").flatMap(keyspace -> keyspace.getTable(table)).isPresent();
  }

  @Override
  String named(Throwable error) {
    Throwable cause = error instanceof CompletionException ? error.getCause() : error;
    String name = cause.getClass().getSimpleName();
    if (cause instanceof AllNodesFailedException) {
      return name + ((AllNodesFailedException) cause).getAllErrors().values().stream().flatMap(errors -> errors.stream())
          .map(inner -> " of " + inner.getClass().getSimpleName()).distinct().collect(Collectors.joining());
    }
    return name;
  }

  /** Shows every error of a node as it comes. */
  public static final class Never implements RetryPolicy {
    public Never(DriverContext context, String profile) {}

    @Override
    @Deprecated
    public RetryDecision onReadTimeout(Request request, ConsistencyLevel level, int needed, int got, boolean data, int count) {
      return RetryDecision.RETHROW;
    }

    @Override
    @Deprecated
    public RetryDecision onWriteTimeout(Request request, ConsistencyLevel level, WriteType type, int needed, int got, int count) {
      return RetryDecision.RETHROW;
    }

    @Override
    @Deprecated
    public RetryDecision onUnavailable(Request request, ConsistencyLevel level, int needed, int alive, int count) {
      return RetryDecision.RETHROW;
    }

    @Override
    @Deprecated
    public RetryDecision onRequestAborted(Request request, Throwable error, int count) {
      return RetryDecision.RETHROW;
    }

    @Override
    @Deprecated
    public RetryDecision onErrorResponse(Request request, CoordinatorException error, int count) {
      return RetryDecision.RETHROW;
    }

    @Override
    public void close() {}
  }
}
