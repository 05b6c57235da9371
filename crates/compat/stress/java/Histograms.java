package messina;

import java.io.File;
import java.util.Map;
import java.util.TreeMap;
import org.HdrHistogram.EncodableHistogram;
import org.HdrHistogram.Histogram;
import org.HdrHistogram.HistogramLogReader;

/** Reads an interval log of histograms and says of each tag how many values there are, their median and their largest. */
public final class Histograms {
    public static void main(String[] arguments) throws Exception {
        Map<String, Histogram> all = new TreeMap<>();
        HistogramLogReader reader = new HistogramLogReader(new File(arguments[0]));
        for (EncodableHistogram next = reader.nextIntervalHistogram(); next != null; next = reader.nextIntervalHistogram()) {
            Histogram histogram = (Histogram) next;
            all.computeIfAbsent(next.getTag(), tag -> new Histogram(3)).add(histogram);
        }
        all.forEach((tag, histogram) -> System.out.println(
                tag + " " + histogram.getTotalCount() + " " + histogram.getValueAtPercentile(50) + " " + histogram.getMaxValue()));
    }
}
