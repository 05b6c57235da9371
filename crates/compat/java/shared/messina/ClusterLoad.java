package messina;

import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Paths;
import java.nio.file.StandardOpenOption;
import java.util.ArrayList;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.CompletionStage;
import java.util.concurrent.Semaphore;
import java.util.stream.Collectors;

/**
 * Load on a cluster whose nodes come and go, as {@code python/cluster_load.py} makes it; what a driver does of it is in the
 * program of that driver: {@code ClusterRun load FIRST}.
 */
abstract class ClusterLoad {
  static final String[] NODES = System.getenv("CLUSTER_NODES").split(",");
  static final int PORT = Integer.parseInt(System.getenv("NODE_PORT"));
  static final String LEVEL = System.getenv("CLUSTER_LEVEL");
  static final String DC = System.getenv("CLUSTER_DC");
  static final int TIMEOUT_SECONDS = 15;
  static final int RECONNECTION_MS = 200;
  static final String INSERT = "INSERT INTO load.rows (k, v) VALUES (?, ?)";
  static final String SELECT = "SELECT v FROM load.rows WHERE k = ?";
  private static final int IN_FLIGHT = Integer.parseInt(System.getenv("CLUSTER_IN_FLIGHT"));
  private static final long SEEN_WITHIN_MS = 30_000;

  /** When it said that it had started: until then it connects, which may take seconds. */
  private volatile long begin;
  private final List<Long> acked = new ArrayList<>();
  private final Map<String, List<Double>> errors = new TreeMap<>();
  private final List<Long> wrong = new ArrayList<>();
  private long reads;
  private volatile boolean stopped;

  /** Writes one row. */
  abstract CompletionStage<?> write(long key, String value);

  /** Its text; null when there is no row. */
  abstract CompletionStage<String> read(long key);

  abstract void execute(String text);

  /** Whether the driver's own metadata has a table of the keyspace. */
  abstract boolean sees(String table);

  /** What the node or the driver said, out of what it is wrapped in. */
  abstract String named(Throwable error);

  final void run(long first) throws IOException, InterruptedException {
    Thread obeying = new Thread(this::obey);
    obeying.setDaemon(true);
    obeying.start();
    begin = System.nanoTime();
    say("STARTED");
    Semaphore slots = new Semaphore(IN_FLIGHT);
    long key = first;
    for (; !stopped; key++) {
      slots.acquire();
      step(key, slots);
    }
    slots.acquire(IN_FLIGHT);
    String keys = acked.stream().map(acknowledged -> acknowledged + "\n").collect(Collectors.joining());
    Files.write(Paths.get(System.getenv("CLUSTER_ACKED")), keys.getBytes(StandardCharsets.US_ASCII),
        StandardOpenOption.CREATE, StandardOpenOption.APPEND);
    Map<String, Object> told = new LinkedHashMap<>();
    told.put("next", key);
    told.put("writes", acked.size());
    told.put("reads", reads);
    told.put("wrong", wrong);
    told.put("errors", errors);
    say("DONE\n" + new ObjectMapper().writeValueAsString(told));
  }

  private void step(long key, Semaphore slots) {
    Long known;
    synchronized (this) {
      known = acked.isEmpty() || key % 2 == 0 ? null : acked.get((int) (key * 7919 % acked.size()));
    }
    if (known == null) {
      begun(() -> write(key, value(key))).whenComplete((done, error) -> {
        ended("write", error, () -> acked.add(key));
        slots.release();
      });
      return;
    }
    long asked = known;
    begun(() -> read(asked)).whenComplete((text, error) -> {
      ended("read", error, () -> {
        reads++;
        if (!value(asked).equals(text)) {
          wrong.add(asked);
        }
      });
      slots.release();
    });
  }

  private interface Request<T> {
    CompletionStage<T> begin();
  }

  /** A driver may also refuse by throwing. */
  private static <T> CompletionStage<T> begun(Request<T> request) {
    try {
      return request.begin();
    } catch (RuntimeException error) {
      java.util.concurrent.CompletableFuture<T> failed = new java.util.concurrent.CompletableFuture<>();
      failed.completeExceptionally(error);
      return failed;
    }
  }

  private synchronized void ended(String what, Throwable error, Runnable done) {
    if (error == null) {
      done.run();
    } else {
      errors.computeIfAbsent(what + " " + named(error), name -> new ArrayList<>()).add((System.nanoTime() - begin) / 1e9);
    }
  }

  private void obey() {
    try {
      BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
      for (String line = lines.readLine(); line != null && !line.equals("STOP"); line = lines.readLine()) {
        String table = line.substring(line.indexOf(' ') + 1);
        if (line.startsWith("CREATE ")) {
          execute("CREATE TABLE load." + table + " (k bigint PRIMARY KEY, v text)");
          say("CREATED " + table);
          continue;
        }
        for (long end = System.currentTimeMillis() + SEEN_WITHIN_MS; !sees(table) && System.currentTimeMillis() < end;) {
          Thread.sleep(20);
        }
        say((sees(table) ? "SEES " : "BLIND ") + table);
      }
    } catch (IOException | InterruptedException | RuntimeException error) {
      say("FAILED " + error);
    }
    stopped = true;
  }

  private static void say(String line) {
    System.out.println(line);
    System.out.flush();
  }

  static String value(long key) {
    return String.join("", Collections.nCopies(5 + (int) (key % 20), key + ":"));
  }
}
