package peers;

import java.util.Arrays;

/** How many results there must be, and their sum, computed in plain loops over the same rows. */
final class Expected {
    long results;
    double sum;

    /** Rows whose key is a multiple of ten. */
    static Expected selection(long rows, long keys, int instances) {
        var expected = new Expected();
        each(rows, keys, instances, row -> {
            if (row.key % 10 == 0) {
                expected.results++;
                expected.sum += row.key;
            }
        });
        return expected;
    }

    /** All rows, and the sum of their keys. */
    static Expected keys(long rows, long keys, int instances) {
        var expected = new Expected();
        for (int instance = 0; instance < instances; instance++) {
            var stream = new Stream(keys, instance, instances);
            for (long made = 0; made < rows / instances; made++) {
                expected.results++;
                expected.sum += stream.key();
            }
        }
        return expected;
    }

    /** Averages per key, in windows of so many seconds that start every second. */
    static Expected averages(long rows, int keys, int instances, int seconds) {
        int panes = panes(rows);
        var sums = new double[panes * keys];
        var counts = new long[panes * keys];
        each(rows, keys, instances, row -> {
            int cell = (int) (row.ts / 1_000) * keys + (int) row.key;
            sums[cell] += row.value;
            counts[cell]++;
        });
        var expected = new Expected();
        for (int last = 0; last < panes + seconds - 1; last++) {
            for (int key = 0; key < keys; key++) {
                double sum = 0;
                long count = 0;
                for (int pane = Math.max(0, last - seconds + 1); pane <= Math.min(last, panes - 1); pane++) {
                    sum += sums[pane * keys + key];
                    count += counts[pane * keys + key];
                }
                expected.add(count, sum / count);
            }
        }
        return expected;
    }

    /** Distinct values per key, in windows of a second. */
    static Expected distinct(long rows, int keys, int instances) {
        var cells = new double[panes(rows) * keys][];
        var counts = new int[cells.length];
        each(rows, keys, instances, row -> {
            int cell = (int) (row.ts / 1_000) * keys + (int) row.key;
            if (cells[cell] == null) {
                cells[cell] = new double[16];
            } else if (counts[cell] == cells[cell].length) {
                cells[cell] = Arrays.copyOf(cells[cell], counts[cell] * 2);
            }
            cells[cell][counts[cell]++] = row.value;
        });
        var expected = new Expected();
        for (int cell = 0; cell < cells.length; cell++) {
            if (counts[cell] > 0) {
                expected.add(counts[cell], Arrays.stream(cells[cell], 0, counts[cell]).distinct().count());
            }
        }
        return expected;
    }

    /** Sums of averages depend on the order in the last digits. */
    void check(long results, double sum) {
        if (results != this.results || Math.abs(sum - this.sum) > 1e-9 * Math.abs(this.sum)) {
            throw new IllegalStateException(
                    results + " results with the sum " + sum + " came out, " + this.results + " with " + this.sum + " must");
        }
    }

    /** A group of so many rows has this value. */
    void add(long rows, double value) {
        if (rows > 0) {
            results++;
            sum += value;
        }
    }

    private static int panes(long rows) {
        return (int) ((rows - 1) / (1_000L * Stream.ROWS_PER_MS)) + 1;
    }

    private interface Each {
        void row(Row row);
    }

    private static void each(long rows, long keys, int instances, Each each) {
        var row = new Row();
        for (int instance = 0; instance < instances; instance++) {
            var stream = new Stream(keys, instance, instances);
            for (long made = 0; made < rows / instances; made++) {
                stream.fill(row);
                each.row(row);
            }
        }
    }
}
