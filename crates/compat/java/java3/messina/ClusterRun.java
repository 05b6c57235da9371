package messina;

import com.datastax.driver.core.Cluster;
import com.datastax.driver.core.ConsistencyLevel;
import com.datastax.driver.core.PreparedStatement;
import com.datastax.driver.core.QueryOptions;
import com.datastax.driver.core.ResultSet;
import com.datastax.driver.core.ResultSetFuture;
import com.datastax.driver.core.Row;
import com.datastax.driver.core.Session;
import com.datastax.driver.core.SocketOptions;
import com.datastax.driver.core.exceptions.NoHostAvailableException;
import com.datastax.driver.core.exceptions.TransportException;
import com.datastax.driver.core.policies.ConstantReconnectionPolicy;
import com.datastax.driver.core.policies.DCAwareRoundRobinPolicy;
import com.datastax.driver.core.policies.FallthroughRetryPolicy;
import com.datastax.driver.core.policies.TokenAwarePolicy;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionException;
import java.util.concurrent.CompletionStage;
import java.util.concurrent.ExecutionException;
import java.util.stream.Collectors;

/** The load of a cluster by the Java driver 3.x. */
public final class ClusterRun extends ClusterLoad {
  private final Cluster cluster;
  private final Session session;
  private final PreparedStatement insert;
  private final PreparedStatement select;

  private ClusterRun(Cluster cluster) {
    this.cluster = cluster;
    session = cluster.connect("load");
    insert = session.prepare(INSERT);
    select = session.prepare(SELECT);
  }

  public static void main(String[] words) throws Exception {
    Cluster.Builder builder = Cluster.builder()
        .addContactPoints(NODES)
        .withPort(PORT)
        .withoutJMXReporting()
        .withQueryOptions(new QueryOptions().setConsistencyLevel(ConsistencyLevel.valueOf(LEVEL)))
        .withLoadBalancingPolicy(new TokenAwarePolicy(DCAwareRoundRobinPolicy.builder().withLocalDc(DC).build()))
        .withRetryPolicy(FallthroughRetryPolicy.INSTANCE)
        .withReconnectionPolicy(new ConstantReconnectionPolicy(RECONNECTION_MS))
        .withSocketOptions(new SocketOptions().setReadTimeoutMillis(TIMEOUT_SECONDS * 1000));
    try (Cluster cluster = builder.build()) {
      new ClusterRun(cluster).run(Long.parseLong(words[1]));
    }
  }

  @Override
  CompletionStage<?> write(long key, String value) {
    return stage(session.executeAsync(insert.bind(key, value)));
  }

  @Override
  CompletionStage<String> read(long key) {
    return stage(session.executeAsync(select.bind(key))).thenApply(rows -> {
      Row row = rows.one();
      return row == null ? null : row.getString(0);
    });
  }

  private static CompletionStage<ResultSet> stage(ResultSetFuture future) {
    CompletableFuture<ResultSet> stage = new CompletableFuture<>();
    future.addListener(() -> {
      try {
        stage.complete(future.get());
      } catch (ExecutionException error) {
        stage.completeExceptionally(error.getCause());
      } catch (InterruptedException error) {
        stage.completeExceptionally(error);
      }
    }, Runnable::run);
    return stage;
  }

  @Override
  void execute(String text) {
    session.execute(text);
  }

  @Override
  boolean sees(String table) {
    return cluster.getMetadata().getKeyspace("load").getTable(table) != null;
  }

  @Override
  String named(Throwable error) {
    Throwable cause = error instanceof CompletionException ? error.getCause() : error;
    String name = cause.getClass().getSimpleName();
    if (cause instanceof NoHostAvailableException) {
      return name + ((NoHostAvailableException) cause).getErrors().values().stream()
          .map(inner -> " of " + inner.getClass().getSimpleName()).distinct().collect(Collectors.joining());
    }
    // The class alone does not say which node's connection it was, and whether it was closed or never opened.
    return cause instanceof TransportException ? name + " (" + cause.getMessage() + ")" : name;
  }
}
