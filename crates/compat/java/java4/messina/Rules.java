package messina;

import com.datastax.oss.driver.api.core.CqlSession;
import com.datastax.oss.driver.api.core.cql.Row;
import java.net.InetSocketAddress;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.HashMap;
import java.util.Map;
import java.util.Random;

/**
 * Recomputes the rows of cassandra-stress from the published rules and compares them with those of a table: {@code Rules
 * HOST PORT KEYSPACE ROWS} says how many there are and how many values differ, and ends badly unless none does. With
 * {@code spoil SEED COLUMN BYTE} it writes one byte of a value differently instead. The table is {@code standard1} as {@code
 * write n=ROWS} makes it: seeds from 1 to ROWS, keys of 10 characters, C0 to C4 of 34 bytes.
 */
public final class Rules {
  private static final String[] COLUMNS = {"C0", "C1", "C2", "C3", "C4"};
  private static final int KEY_CHARACTERS = 10;
  private static final int VALUE_BYTES = 34;
  private static final long MIN = 1;
  private static final long MAX = 100_000_000_000L;

  /** A draw of whole numbers from 1 to a hundred billion. */
  private static long draw(Random random) {
    double u = random.nextDouble();
    return Math.max(MIN, Math.min(MAX, (long) (u * (MAX + 1) + (1 - u) * MIN)));
  }

  static String key(long seed) {
    Random random = new Random(seed ^ salt("randomstrkey"));
    draw(random); // The size's.
    StringBuilder key = new StringBuilder();
    while (key.length() < KEY_CHARACTERS) {
      long bits = draw(random);
      for (int nth = 0; nth < 16 && key.length() < KEY_CHARACTERS; nth++, bits >>= 4) {
        int digit = (int) (bits & 15);
        key.append((char) (digit < 10 ? '0' + digit : 'A' + digit));
      }
    }
    return key.toString();
  }

  static byte[] value(String key, String column) {
    long identity = 0;
    for (byte next : key.getBytes(StandardCharsets.US_ASCII)) {
      identity = 31 * identity + next;
    }
    long seed = draw(new Random(identity ^ salt("randomstr" + column)));
    long state = new Random(~seed).nextLong();
    byte[] value = new byte[VALUE_BYTES];
    long word = 0;
    for (int at = 0, words = 0; at < VALUE_BYTES; at++, word >>>= 8) {
      if (at % 8 == 0) {
        if (++words == 32) {
          state = new Random(state).nextLong();
          words = 0;
        }
        state ^= state >> 12;
        state ^= state << 25;
        state ^= state >> 27;
        word = state * 2685821657736338717L;
      }
      value[at] = (byte) word;
    }
    return value;
  }

  /** The first half of MurmurHash3_x64_128 with seed 0, of less than 16 bytes of ASCII. */
  static long salt(String text) {
    byte[] bytes = text.getBytes(StandardCharsets.US_ASCII);
    if (bytes.length > 15) {
      throw new IllegalArgumentException(text);
    }
    ByteBuffer padded = ByteBuffer.wrap(Arrays.copyOf(bytes, 16)).order(java.nio.ByteOrder.LITTLE_ENDIAN);
    long c1 = 0x87c37b91114253d5L;
    long c2 = 0x4cf5ad432745937fL;
    long h1 = Long.rotateLeft(padded.getLong() * c1, 31) * c2 ^ bytes.length;
    long h2 = Long.rotateLeft(padded.getLong() * c2, 33) * c1 ^ bytes.length;
    h1 += h2;
    h2 += h1;
    return mix(h1) + mix(h2);
  }

  private static long mix(long k) {
    k = (k ^ k >>> 33) * 0xff51afd7ed558ccdL;
    k = (k ^ k >>> 33) * 0xc4ceb9fe1a85ec53L;
    return k ^ k >>> 33;
  }

  public static void main(String[] words) {
    InetSocketAddress address = new InetSocketAddress(words[0], Integer.parseInt(words[1]));
    long rows = Long.parseLong(words[3]);
    try (CqlSession session = CqlSession.builder()
        .addContactPoint(address)
        .withLocalDatacenter("datacenter1")
        .withKeyspace(words[2])
        .build()) {
      if (words.length > 4) {
        spoil(session, Long.parseLong(words[5]), words[6], Integer.parseInt(words[7]));
        return;
      }
      System.exit(compare(session, rows) == 0 ? 0 : 1);
    }
  }

  private static long compare(CqlSession session, long rows) {
    Map<String, Long> missing = new HashMap<>();
    for (long seed = 1; seed <= rows; seed++) {
      missing.put(key(seed), seed);
    }
    long found = 0;
    long mismatches = 0;
    for (Row row : session.execute("SELECT key, \"C0\", \"C1\", \"C2\", \"C3\", \"C4\" FROM standard1")) {
      found++;
      String key = StandardCharsets.US_ASCII.decode(row.getByteBuffer("key")).toString();
      Long seed = missing.remove(key);
      if (seed == null) {
        mismatches++;
        System.out.println("key " + key + " of no seed");
        continue;
      }
      for (String column : COLUMNS) {
        ByteBuffer read = row.getByteBuffer('"' + column + '"');
        if (!ByteBuffer.wrap(value(key, column)).equals(read)) {
          mismatches++;
          System.out.println(column + " of seed " + seed + ": another value");
        }
      }
    }
    mismatches += missing.size();
    System.out.println(found + " rows, " + mismatches + " mismatches");
    return mismatches;
  }

  private static void spoil(CqlSession session, long seed, String column, int at) {
    byte[] value = value(key(seed), column);
    value[at] ^= 1;
    ByteBuffer key = ByteBuffer.wrap(key(seed).getBytes(StandardCharsets.US_ASCII));
    session.execute(
        session.prepare("UPDATE standard1 SET \"" + column + "\" = ? WHERE key = ?").bind(ByteBuffer.wrap(value), key));
  }
}
