package messina;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.ByteArrayInputStream;
import java.io.FileInputStream;
import java.io.PrintWriter;
import java.io.StringWriter;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Paths;
import java.security.KeyFactory;
import java.security.KeyStore;
import java.security.PrivateKey;
import java.security.cert.Certificate;
import java.security.cert.CertificateFactory;
import java.security.spec.PKCS8EncodedKeySpec;
import java.util.ArrayList;
import java.util.Base64;
import java.util.Collections;
import java.util.List;
import java.util.concurrent.Callable;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import javax.net.ssl.KeyManager;
import javax.net.ssl.KeyManagerFactory;
import javax.net.ssl.SSLContext;
import javax.net.ssl.TrustManagerFactory;

/**
 * What both Java programs share: the environment they are told everything by, the tables of {@code cases/}, the lines that
 * the Rust side reads, and small assertions.
 */
final class Suite {
  static final String HOST = System.getenv("NODE_HOST");
  static final int PORT = Integer.parseInt(System.getenv("NODE_PORT"));
  static final int SECURE_PORT = Integer.parseInt(System.getenv("NODE_SECURE_PORT"));
  static final int MUTUAL_PORT = Integer.parseInt(System.getenv("NODE_MUTUAL_PORT"));
  static final String DRIVER = System.getenv("SUITE_DRIVER");
  static final int ROWS = Integer.parseInt(System.getenv("SUITE_ROWS"));
  static final boolean QUICK = "1".equals(System.getenv("SUITE_QUICK"));
  static final String ONLY = System.getenv("SUITE_ONLY");
  static final String REPLICATION =
      "replication = {'class': 'NetworkTopologyStrategy', 'datacenter1': 1}";

  /** A test, which returns a remark. */
  interface Test extends Callable<String> {}

  private static int count;

  static void test(String name, Test body) {
    if (!ONLY.isEmpty() && !name.contains(ONLY) && !name.startsWith("connect")) {
      return;
    }
    count++;
    long since = System.nanoTime();
    try {
      String note = body.call();
      double seconds = (System.nanoTime() - since) / 1e9;
      System.out.printf("test %s ... ok [%.1f s]%s%n", name, seconds, note.isEmpty() ? "" : " (" + note + ")");
    } catch (Throwable error) {
      StringWriter text = new StringWriter();
      error.printStackTrace(new PrintWriter(text));
      System.out.printf("test %s ... FAILED%n%s%n", name, text);
    }
    System.out.flush();
  }

  static void end() {
    System.out.println("end " + count);
    System.out.flush();
  }

  static JsonNode cases(String name) throws Exception {
    return new ObjectMapper().readTree(Paths.get(System.getenv("SUITE_CASES"), name).toFile());
  }

  /** Whether an entry of the table is for this driver by this protocol version. */
  static boolean applies(JsonNode entry, int version) {
    for (JsonNode name : entry.path("except")) {
      if (name.asText().equals(DRIVER)) {
        return false;
      }
    }
    return entry.path("since").asInt(0) <= version;
  }

  /** The value of an entry, repeated as often as it says. */
  static JsonNode value(JsonNode entry) {
    JsonNode value = entry.get("value");
    int times = entry.path("repeat").asInt(1);
    if (times == 1) {
      return value;
    }
    ObjectMapper mapper = new ObjectMapper();
    if (value.isTextual()) {
      return mapper.getNodeFactory().textNode(String.join("", Collections.nCopies(times, value.asText())));
    }
    com.fasterxml.jackson.databind.node.ArrayNode all = mapper.createArrayNode();
    for (int i = 0; i < times; i++) {
      value.forEach(all::add);
    }
    return all;
  }

  /** What reading the entry must show. */
  static String expected(JsonNode entry) {
    return plain(entry.has("reads") ? entry.get("reads") : value(entry));
  }

  /** One text for a value of the table; the programs make the same text of what they read. */
  static String plain(JsonNode value) {
    if (value == null || value.isNull()) {
      return "null";
    }
    if (!value.isArray()) {
      return value.asText();
    }
    List<String> parts = new ArrayList<>();
    value.forEach(part -> parts.add(plain(part)));
    return list(parts);
  }

  static String list(List<String> parts) {
    return "[" + String.join(",", parts) + "]";
  }

  /** Members of a set or pairs of a map, in the order of their texts. */
  static String sorted(List<String> parts) {
    Collections.sort(parts);
    return list(parts);
  }

  static byte[] bytes(String hex) {
    byte[] out = new byte[hex.length() / 2];
    for (int i = 0; i < out.length; i++) {
      out[i] = (byte) Integer.parseInt(hex.substring(2 * i, 2 * i + 2), 16);
    }
    return out;
  }

  static String hex(byte[] bytes) {
    StringBuilder out = new StringBuilder();
    for (byte b : bytes) {
      out.append(String.format("%02x", b));
    }
    return out.toString();
  }

  /** A TLS context that trusts the authority in a PEM file. */
  static SSLContext tls(String variable) throws Exception {
    return tls(variable, null);
  }

  /** The same with the key and certificates of a client in another PEM file, unless it is null. */
  static SSLContext tls(String variable, String client) throws Exception {
    KeyStore trusted = KeyStore.getInstance(KeyStore.getDefaultType());
    trusted.load(null, null);
    try (FileInputStream in = new FileInputStream(System.getenv(variable))) {
      trusted.setCertificateEntry("authority", CertificateFactory.getInstance("X.509").generateCertificate(in));
    }
    TrustManagerFactory trust = TrustManagerFactory.getInstance(TrustManagerFactory.getDefaultAlgorithm());
    trust.init(trusted);
    SSLContext context = SSLContext.getInstance("TLS");
    context.init(client == null ? null : own(client), trust.getTrustManagers(), null);
    return context;
  }

  private static KeyManager[] own(String variable) throws Exception {
    String pem = new String(Files.readAllBytes(Paths.get(System.getenv(variable))), StandardCharsets.US_ASCII);
    Matcher blocks = Pattern.compile("-----BEGIN ([A-Z ]+)-----([^-]+)-----END").matcher(pem);
    PrivateKey key = null;
    List<Certificate> chain = new ArrayList<>();
    while (blocks.find()) {
      byte[] der = Base64.getMimeDecoder().decode(blocks.group(2));
      if (blocks.group(1).equals("PRIVATE KEY")) {
        key = KeyFactory.getInstance("EC").generatePrivate(new PKCS8EncodedKeySpec(der));
      } else {
        chain.add(CertificateFactory.getInstance("X.509").generateCertificate(new ByteArrayInputStream(der)));
      }
    }
    KeyStore store = KeyStore.getInstance(KeyStore.getDefaultType());
    store.load(null, null);
    store.setKeyEntry("own", key, new char[0], chain.toArray(new Certificate[0]));
    KeyManagerFactory keys = KeyManagerFactory.getInstance(KeyManagerFactory.getDefaultAlgorithm());
    keys.init(store, new char[0]);
    return keys.getKeyManagers();
  }

  static void equal(Object expected, Object got, String what) {
    if (!java.util.Objects.equals(expected, got)) {
      throw new AssertionError(what + ": expected " + cut(expected) + ", got " + cut(got));
    }
  }

  static void that(boolean holds, String what) {
    if (!holds) {
      throw new AssertionError(what);
    }
  }

  private static String cut(Object value) {
    String text = String.valueOf(value);
    return text.length() > 300 ? text.substring(0, 300) + "…" : text;
  }

  private Suite() {}
}
