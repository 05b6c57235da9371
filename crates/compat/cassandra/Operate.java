import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.List;
import java.util.Set;
import javax.management.MBeanServerConnection;
import javax.management.ObjectName;
import javax.management.remote.JMXConnector;
import javax.management.remote.JMXConnectorFactory;
import javax.management.remote.JMXServiceURL;

/**
 * What an operator asks of a running Cassandra, over JMX at the port that is named first. Each line of the input is one
 * of "flush KEYSPACE", "compact KEYSPACE TABLE", "import KEYSPACE TABLE FOLDER", and "rest KEYSPACE", which ends automatic
 * compactions. Prints for each line "ok LINE" or "FAILED LINE: why", and ends with its input.
 */
public class Operate {
    private static final String SET = Set.class.getName();
    private static final String[] IMPORT = {
        SET, "boolean", "boolean", "boolean", "boolean", "boolean", "boolean", "boolean"
    };

    public static void main(String[] arguments) throws Exception {
        String url = "service:jmx:rmi:///jndi/rmi://127.0.0.1:" + arguments[0] + "/jmxrmi";
        try (JMXConnector connector = JMXConnectorFactory.connect(new JMXServiceURL(url))) {
            MBeanServerConnection node = connector.getMBeanServerConnection();
            BufferedReader input = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
            for (String line = input.readLine(); line != null; line = input.readLine()) {
                try {
                    run(node, line.split(" "));
                    System.out.println("ok " + line);
                } catch (Exception failed) {
                    System.out.println("FAILED " + line + ": " + failed);
                }
            }
        }
    }

    private static void run(MBeanServerConnection node, String[] words) throws Exception {
        ObjectName service = new ObjectName("org.apache.cassandra.db:type=StorageService");
        String[] tables = Arrays.copyOfRange(words, 2, Math.min(words.length, 3));
        switch (words[0]) {
            case "flush":
                node.invoke(service, "forceKeyspaceFlush", new Object[] {words[1], tables},
                        new String[] {String.class.getName(), String[].class.getName()});
                break;
            case "rest":
                node.invoke(service, "disableAutoCompaction", new Object[] {words[1], tables},
                        new String[] {String.class.getName(), String[].class.getName()});
                break;
            case "compact":
                node.invoke(service, "forceKeyspaceCompaction", new Object[] {false, words[1], tables},
                        new String[] {"boolean", String.class.getName(), String[].class.getName()});
                break;
            default:
                ObjectName table = new ObjectName(
                        "org.apache.cassandra.db:type=Tables,keyspace=" + words[1] + ",table=" + words[2]);
                // Levels and repair are reset, everything is verified, tokens too; the source keeps its files.
                Object[] how = {Set.of(words[3]), true, true, true, true, true, true, true};
                List<?> failed = (List<?>) node.invoke(table, "importNewSSTables", how, IMPORT);
                if (!failed.isEmpty()) {
                    throw new IllegalStateException("not imported: " + failed);
                }
        }
    }
}
