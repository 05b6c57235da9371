import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.apache.cassandra.config.DatabaseDescriptor;
import org.apache.cassandra.db.Clustering;
import org.apache.cassandra.db.DecoratedKey;
import org.apache.cassandra.db.Slice;
import org.apache.cassandra.db.Slices;
import org.apache.cassandra.db.filter.ColumnFilter;
import org.apache.cassandra.db.rows.Row;
import org.apache.cassandra.db.rows.Unfiltered;
import org.apache.cassandra.db.rows.UnfilteredRowIterator;
import org.apache.cassandra.io.sstable.Descriptor;
import org.apache.cassandra.io.sstable.ISSTableScanner;
import org.apache.cassandra.io.sstable.SSTableReadsListener;
import org.apache.cassandra.io.sstable.format.SSTableReader;
import org.apache.cassandra.io.util.File;
import org.apache.cassandra.schema.TableMetadata;
import org.apache.cassandra.schema.TableMetadataRef;
import org.apache.cassandra.tools.Util;

/**
 * Reads every sstable below a folder with Cassandra's own reader: whole, then each partition by its key, forward and
 * reversed, and one row in the middle of each by a slice. Prints per data file "path partitions rows statics", or
 * "path FAILED why".
 */
public class ReadSstables {
    private static final SSTableReadsListener NOBODY = SSTableReadsListener.NOOP_LISTENER;

    public static void main(String[] arguments) throws Exception {
        DatabaseDescriptor.toolInitialization();
        List<Path> files;
        try (Stream<Path> all = Files.walk(Path.of(arguments[0]))) {
            files = all.filter(path -> path.toString().endsWith("-Data.db")).sorted().collect(Collectors.toList());
        }
        for (Path path : files) {
            try {
                System.out.println(path + " " + read(path));
            } catch (Throwable failed) {
                System.out.println(path + " FAILED " + failed);
            }
        }
        System.exit(0);
    }

    private static String read(Path path) throws Exception {
        Descriptor descriptor = Descriptor.fromFile(new File(path.toString()));
        TableMetadata table = Util.metadataFromSSTable(descriptor);
        SSTableReader reader = SSTableReader.openNoValidation(null, descriptor, TableMetadataRef.forOfflineTools(table));
        try {
            List<DecoratedKey> keys = new ArrayList<>();
            long rows = 0;
            long statics = 0;
            try (ISSTableScanner scanner = reader.getScanner()) {
                while (scanner.hasNext()) {
                    try (UnfilteredRowIterator partition = scanner.next()) {
                        keys.add(partition.partitionKey());
                        statics += partition.staticRow().isEmpty() ? 0 : 1;
                        rows += rowsOf(partition).size();
                    }
                }
            }
            long forward = 0;
            long reversed = 0;
            for (DecoratedKey key : keys) {
                List<Clustering<?>> found = slice(reader, table, key, Slices.ALL, false);
                forward += found.size();
                reversed += slice(reader, table, key, Slices.ALL, true).size();
                if (found.size() > 1) {
                    Clustering<?> middle = found.get(found.size() / 2);
                    Slices one = Slices.with(table.comparator, Slice.make(middle, middle));
                    for (boolean back : new boolean[] {false, true}) {
                        if (slice(reader, table, key, one, back).size() != 1) {
                            throw new IllegalStateException("a slice of one row of partition " + key);
                        }
                    }
                }
            }
            if (forward != rows || reversed != rows) {
                throw new IllegalStateException(rows + " rows, by key " + forward + ", reversed " + reversed);
            }
            long told = reader.getSSTableMetadata().totalRows;
            if (told != rows && told != rows + statics) {
                throw new IllegalStateException(rows + " rows, the statistics say " + told);
            }
            return keys.size() + " " + rows + " " + statics;
        } finally {
            reader.selfRef().release();
        }
    }

    private static List<Clustering<?>> slice(
            SSTableReader reader, TableMetadata table, DecoratedKey key, Slices slices, boolean reversed) {
        try (UnfilteredRowIterator rows =
                reader.rowIterator(key, slices, ColumnFilter.all(table), reversed, NOBODY)) {
            return rowsOf(rows);
        }
    }

    private static List<Clustering<?>> rowsOf(UnfilteredRowIterator partition) {
        List<Clustering<?>> rows = new ArrayList<>();
        while (partition.hasNext()) {
            Unfiltered next = partition.next();
            if (next.isRow()) {
                rows.add(((Row) next).clustering());
            }
        }
        return rows;
    }
}
