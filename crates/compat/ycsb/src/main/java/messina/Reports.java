package messina;

import java.io.ByteArrayOutputStream;
import java.io.OutputStream;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Properties;
import site.ycsb.Status;
import site.ycsb.measurements.Measurements;
import site.ycsb.measurements.exporter.MeasurementsExporter;

/**
 * Prints the file of cases it is given with what YCSB's own classes report for each: for every line of properties the terminal, the
 * summary after half of the operations, and the report.
 */
public final class Reports {
    private static final int OPERATIONS = 60;

    public static void main(String[] arguments) throws Exception {
        StringBuilder out = new StringBuilder();
        for (String line : Files.readAllLines(Path.of(arguments[0]))) {
            if (line.startsWith("#")) {
                out.append(line).append('\n');
            } else if (line.startsWith("measurementtype=")) {
                out.append('\n').append(line).append("\n----\n").append(told(line));
            }
        }
        System.out.print(out);
    }

    private static String told(String line) throws Exception {
        Properties properties = new Properties();
        for (String word : line.split(" ")) {
            int equals = word.indexOf('=');
            properties.setProperty(word.substring(0, equals), word.substring(equals + 1));
        }
        PrintStream terminal = System.out;
        ByteArrayOutputStream said = new ByteArrayOutputStream();
        System.setOut(new PrintStream(said, true, "UTF-8"));
        try {
            ByteArrayOutputStream report = new ByteArrayOutputStream();
            Measurements measurements = new Measurements(properties);
            String summary = "";
            long state = 1;
            for (int operation = 0; operation < OPERATIONS; operation++) {
                if (operation == OPERATIONS / 2) {
                    summary = measurements.getSummary();
                }
                state = (state * 1103515245 + 12345) % (1L << 31);
                int micros = (int) (operation % 50 == 7 ? state % 3_000_000 : state % 30_000);
                String name = operation % 3 == 0 ? "UPDATE" : "READ";
                measurements.measure(name, micros);
                measurements.measureIntended(name, 2 * micros);
                measurements.reportStatus(name, operation % 10 == 9 ? Status.NOT_FOUND : Status.OK);
            }
            MeasurementsExporter exporter = exporter(properties.getProperty("exporter", "TextMeasurementsExporter"), report);
            measurements.exportMeasurements(exporter);
            exporter.close();
            String text = said.toString("UTF-8") + summary + "$\n" + new String(report.toByteArray(), StandardCharsets.UTF_8);
            // No time of day comes twice.
            text = text.replaceAll(",\\d{13},", ",0,");
            return text.endsWith("\n") ? text : text + "\n";
        } finally {
            System.setOut(terminal);
        }
    }

    private static MeasurementsExporter exporter(String name, OutputStream out) throws Exception {
        Class<?> type = Class.forName("site.ycsb.measurements.exporter." + name);
        return (MeasurementsExporter) type.getConstructor(OutputStream.class).newInstance(out);
    }
}
