package messina;

import com.datastax.oss.driver.api.core.CqlSession;
import com.datastax.oss.driver.api.core.config.DefaultDriverOption;
import com.datastax.oss.driver.api.core.config.DriverConfigLoader;
import com.datastax.oss.driver.api.core.cql.PreparedStatement;
import java.net.InetSocketAddress;
import java.nio.ByteBuffer;
import java.time.Duration;
import java.util.concurrent.Semaphore;
import java.util.concurrent.atomic.AtomicLong;

/**
 * Inserts as fast as the driver can, to see what a request costs it: {@code Load HOST PORT CONNECTIONS IN_FLIGHT
 * OPERATIONS}. One thread binds and sends; the table {@code load.kv} is there. Ends badly if a request fails.
 */
public final class Load {
  private static final int VALUE_BYTES = 100;

  public static void main(String[] words) throws InterruptedException {
    InetSocketAddress address = new InetSocketAddress(words[0], Integer.parseInt(words[1]));
    int connections = Integer.parseInt(words[2]);
    int most = Integer.parseInt(words[3]);
    long operations = Long.parseLong(words[4]);
    DriverConfigLoader config = DriverConfigLoader.programmaticBuilder()
        .withString(DefaultDriverOption.PROTOCOL_VERSION, "V4")
        .withInt(DefaultDriverOption.CONNECTION_POOL_LOCAL_SIZE, connections)
        .withDuration(DefaultDriverOption.REQUEST_TIMEOUT, Duration.ofSeconds(30))
        .withBoolean(DefaultDriverOption.METADATA_SCHEMA_ENABLED, false)
        .build();
    AtomicLong failures = new AtomicLong();
    try (CqlSession session = CqlSession.builder()
        .addContactPoint(address)
        .withLocalDatacenter("datacenter1")
        .withConfigLoader(config)
        .build()) {
      PreparedStatement insert = session.prepare("INSERT INTO load.kv (key, value) VALUES (?, ?)");
      ByteBuffer value = ByteBuffer.allocate(VALUE_BYTES);
      Semaphore inFlight = new Semaphore(most);
      for (long nth = 0; nth < operations; nth++) {
        inFlight.acquire();
        session.executeAsync(insert.bind("key" + (1_000_000_000_000L + nth), value)).whenComplete((rows, error) -> {
          if (error != null) {
            failures.incrementAndGet();
          }
          inFlight.release();
        });
      }
      inFlight.acquire(most);
    }
    System.out.println(operations + " operations, " + failures + " failures");
    System.exit(failures.get() == 0 ? 0 : 1);
  }
}
