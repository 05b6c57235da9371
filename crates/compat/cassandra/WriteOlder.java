import java.lang.reflect.Method;
import java.nio.ByteBuffer;
import java.nio.file.DirectoryStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.Paths;
import java.util.ArrayList;
import java.util.List;
import org.apache.cassandra.config.DatabaseDescriptor;
import org.apache.cassandra.cql3.QueryProcessor;
import org.apache.cassandra.db.ColumnFamilyStore;
import org.apache.cassandra.db.Keyspace;
import org.apache.cassandra.db.commitlog.CommitLog;
import org.apache.cassandra.db.lifecycle.LifecycleTransaction;
import org.apache.cassandra.utils.ByteBufferUtil;

/**
 * The storage engine of a Cassandra 3.11, or of a 4.0 before its release, without the node around it, which Java 17 does not run: statements go
 * through its query processor into its memtables and out of these into files. What is done stands in the file that is
 * named first, a word and its rest on each line:
 *
 *   run STATEMENT                  executes it
 *   write STATEMENT                is what the rows that follow execute
 *   row VALUE...                   with these: hexadecimal digits behind an x, "null" or "unset"
 *   flush KEYSPACE                 writes all memtables
 *   compact KEYSPACE TABLE         makes one sstable of all
 *   load KEYSPACE TABLE FOLDER     takes the sstables of a folder, which an older version wrote
 *   upgrade KEYSPACE TABLE         writes anew what an older version wrote
 *
 * Prints "executed COUNT" and for each table of a keyspace that was flushed or loaded "folder KEYSPACE TABLE PATH".
 */
public class WriteOlder {
    private static final List<String> keyspaces = new ArrayList<>();
    private static String statement = "";
    private static long executed = 0;

    public static void main(String[] arguments) {
        // Threads of the engine would go on.
        try {
            work(Paths.get(arguments[0]));
            System.out.flush();
            Runtime.getRuntime().halt(0);
        } catch (Throwable failed) {
            failed.printStackTrace();
            Runtime.getRuntime().halt(1);
        }
    }

    private static void work(Path lines) throws Exception {
        DatabaseDescriptor.daemonInitialization();
        DatabaseDescriptor.createAllDirectories();
        Keyspace.setInitialized();
        // Version 3 starts its log by itself, and hides how.
        for (Method method : CommitLog.class.getMethods()) {
            if (method.getName().equals("start")) {
                method.invoke(CommitLog.instance);
            }
        }
        for (String line : Files.readAllLines(lines)) {
            try {
                run(line);
            } catch (Throwable failed) {
                throw new IllegalStateException(line + "\nof " + statement, failed);
            }
        }
        LifecycleTransaction.waitForDeletions();
        System.out.println("executed " + executed);
        for (String keyspace : keyspaces) {
            for (ColumnFamilyStore table : Keyspace.open(keyspace).getColumnFamilyStores()) {
                System.out.println("folder " + keyspace + " " + table.name + " " + folder(table));
            }
        }
    }

    private static void run(String line) throws Exception {
        int space = line.indexOf(' ');
        String rest = line.substring(space + 1);
        String[] words = rest.split(" ");
        switch (line.substring(0, space)) {
            case "run":
                QueryProcessor.executeOnceInternal(rest);
                executed++;
                break;
            case "write":
                statement = rest;
                break;
            case "row":
                Object[] values = new Object[words.length];
                for (int at = 0; at < words.length; at++) {
                    values[at] = value(words[at]);
                }
                QueryProcessor.executeInternal(statement, values);
                executed++;
                break;
            case "flush":
                for (ColumnFamilyStore table : Keyspace.open(words[0]).getColumnFamilyStores()) {
                    table.forceBlockingFlush();
                }
                remember(words[0]);
                break;
            case "compact":
                table(words).forceMajorCompaction();
                break;
            case "load":
                try (DirectoryStream<Path> files = Files.newDirectoryStream(Paths.get(words[2]))) {
                    for (Path file : files) {
                        Files.copy(file, Paths.get(folder(table(words))).resolve(file.getFileName()));
                    }
                }
                table(words).loadNewSSTables();
                remember(words[0]);
                break;
            case "upgrade":
                table(words).sstablesRewrite(true, 1);
                break;
            default:
                throw new IllegalArgumentException("no such word");
        }
    }

    private static void remember(String keyspace) {
        if (!keyspaces.contains(keyspace)) {
            keyspaces.add(keyspace);
        }
    }

    private static ColumnFamilyStore table(String[] words) {
        return Keyspace.open(words[0]).getColumnFamilyStore(words[1]);
    }

    private static String folder(ColumnFamilyStore table) {
        return table.getDirectories().getDirectoryForNewSSTables().getPath();
    }

    private static ByteBuffer value(String text) {
        switch (text) {
            case "null":
                return null;
            case "unset":
                return ByteBufferUtil.UNSET_BYTE_BUFFER;
            default:
                return ByteBufferUtil.hexToBytes(text.substring(1));
        }
    }
}
