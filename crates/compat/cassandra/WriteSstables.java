import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import org.apache.cassandra.config.DatabaseDescriptor;
import org.apache.cassandra.io.sstable.CQLSSTableWriter;
import org.apache.cassandra.io.sstable.format.SSTableFormat;
import org.apache.cassandra.utils.ByteBufferUtil;

/**
 * Writes sstables with Cassandra's CQLSSTableWriter, in the formats that are named behind the first argument. The file
 * that is named first says what, a word and its rest on each line:
 *
 *   type STATEMENT     a user type of all tables that follow
 *   table STATEMENT    begins a table
 *   folder PATH        where its files go, in a folder that has the format's name
 *   write STATEMENT    begins a file of what one modification writes
 *   row VALUE...       one execution of it: hexadecimal digits behind an x, "null" or "unset"
 *
 * Prints "wrote FORMAT PATH ROWS" for each file.
 */
public class WriteSstables {
    public static void main(String[] arguments) throws Exception {
        DatabaseDescriptor.clientInitialization(false);
        List<String> lines = Files.readAllLines(Path.of(arguments[0]));
        for (int at = 1; at < arguments.length; at++) {
            write(lines, arguments[at]);
        }
        System.exit(0);
    }

    private static void write(List<String> lines, String name) throws Exception {
        SSTableFormat<?, ?> format = DatabaseDescriptor.getSSTableFormats().get(name);
        List<String> types = new ArrayList<>();
        String table = "";
        Path folder = null;
        CQLSSTableWriter writer = null;
        long rows = 0;
        for (String line : lines) {
            int space = line.indexOf(' ');
            String rest = line.substring(space + 1);
            String word = line.substring(0, space);
            if (!word.equals("row") && writer != null) {
                writer.close();
                System.out.println("wrote " + name + " " + folder + " " + rows);
                writer = null;
                rows = 0;
            }
            switch (word) {
                case "type":
                    types.add(rest);
                    break;
                case "table":
                    table = rest;
                    break;
                case "folder":
                    folder = Path.of(rest, name);
                    Files.createDirectories(folder);
                    break;
                case "write":
                    CQLSSTableWriter.Builder builder = CQLSSTableWriter.builder()
                            .inDirectory(folder.toString()).forTable(table).withFormat(format).using(rest);
                    for (String type : types) {
                        builder.withType(type);
                    }
                    writer = builder.build();
                    break;
                default:
                    List<ByteBuffer> values = new ArrayList<>();
                    for (String value : rest.split(" ")) {
                        values.add(value(value));
                    }
                    writer.rawAddRow(values);
                    rows++;
            }
        }
        if (writer != null) {
            writer.close();
            System.out.println("wrote " + name + " " + folder + " " + rows);
        }
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
