package peers;

import java.util.Arrays;
import java.util.HashMap;
import org.apache.flink.streaming.api.functions.co.ProcessJoinFunction;
import org.apache.flink.streaming.api.operators.AbstractStreamOperator;
import org.apache.flink.streaming.api.operators.OneInputStreamOperator;
import org.apache.flink.streaming.api.watermark.Watermark;
import org.apache.flink.streaming.runtime.streamrecord.StreamRecord;
import org.apache.flink.util.Collector;

/**
 * Two streams that are joined by key and time: base rows, whose key is the complement of what it stands for and whose value is their number, and probe
 * rows. Each has a row in a millisecond of event time, behind by up to the lateness.
 */
final class Joined {
    private Joined() {}

    /** The rows of both streams, the same at each run: those of instance {@code i} of {@code instances}. */
    static final class Streams {
        private final Stream keys;
        private final long lateness;
        private final int instance;
        private final int instances;
        private long next;

        Streams(int keys, long lateness, int instance, int instances) {
            this.keys = new Stream(keys, instance, instances);
            this.lateness = lateness;
            this.instance = instance;
            this.instances = instances;
        }

        /** The time before which no row of this instance comes any more. */
        long passed() { return next / 2 * instances + instance - lateness; }

        /** Fills in the next row. */
        void fill(Row row) {
            long key = keys.key();
            boolean isBase = (next & 1) == 0;
            row.key = isBase ? ~key : key;
            row.ts = next / 2 * instances + instance - keys.bits() % (lateness + 1);
            row.value = isBase ? next * instances + instance : (keys.bits() >>> 20) % 100;
            next++;
        }
    }

    static boolean isBase(Row row) { return row.key < 0; }

    static long key(Row row) { return isBase(row) ? ~row.key : row.key; }

    /** Makes its share of both streams when it gets its one token. */
    static final class Maker extends AbstractStreamOperator<Row> implements OneInputStreamOperator<Long, Row> {
        /** From watermark to watermark. */
        private static final int ROWS = 1_000;

        private final long rows;
        private final int keys;
        private final long lateness;

        Maker(long rows, int keys, long lateness) {
            this.rows = rows;
            this.keys = keys;
            this.lateness = lateness;
        }

        @Override
        public void processElement(StreamRecord<Long> token) {
            Operators.Clocks.start();
            var task = getRuntimeContext().getTaskInfo();
            int instances = task.getNumberOfParallelSubtasks();
            var streams = new Streams(keys, lateness, task.getIndexOfThisSubtask(), instances);
            var row = new Row();
            var record = new StreamRecord<>(row);
            for (long made = 0; made < rows / instances; made++) {
                streams.fill(row);
                output.collect(record.replace(row, row.ts));
                if (made % ROWS == ROWS - 1) {
                    output.emitWatermark(new Watermark(streams.passed() - 1));
                }
            }
        }
    }

    /** The time and the number of a base row, with the value of a probe row that it sees. */
    static final class Pair extends ProcessJoinFunction<Row, Row, Row> {
        private transient Row pair;

        @Override
        public void processElement(Row base, Row probe, Context context, Collector<Row> out) {
            if (pair == null) {
                pair = new Row();
            }
            pair.ts = base.ts;
            pair.key = (long) base.value;
            pair.value = probe.value;
            out.collect(pair);
        }
    }

    /** Sums up the pairs of each base row, until the watermark has passed it. */
    static final class Sums extends AbstractStreamOperator<Double> implements OneInputStreamOperator<Row, Double> {
        private transient HashMap<Long, double[]> sums;

        @Override
        public void processElement(StreamRecord<Row> record) {
            if (sums == null) {
                sums = new HashMap<>();
            }
            var pair = record.getValue();
            sums.computeIfAbsent(pair.key, number -> new double[] {pair.ts, 0})[1] += pair.value;
        }

        @Override
        public void processWatermark(Watermark watermark) throws Exception {
            if (sums != null) {
                sums.values().removeIf(sum -> {
                    boolean isFinal = sum[0] <= watermark.getTimestamp();
                    if (isFinal) {
                        output.collect(new StreamRecord<>(sum[1]));
                    }
                    return isFinal;
                });
            }
            super.processWatermark(watermark);
        }
    }

    /** Base rows that see others, and the sum of what all of them see. */
    static Expected expected(long rows, int keys, long window, long lateness, int instances) {
        var times = new long[keys][];
        var values = new double[keys][];
        var counts = new int[keys];
        var row = new Row();
        for (boolean isCounting : new boolean[] {true, false}) {
            if (!isCounting) {
                for (int key = 0; key < keys; key++) {
                    times[key] = new long[counts[key]];
                    values[key] = new double[counts[key]];
                }
                Arrays.fill(counts, 0);
            }
            for (int instance = 0; instance < instances; instance++) {
                var streams = new Streams(keys, lateness, instance, instances);
                for (long made = 0; made < rows / instances; made++) {
                    streams.fill(row);
                    if (isBase(row)) {
                        continue;
                    }
                    int key = (int) row.key;
                    if (!isCounting) {
                        times[key][counts[key]] = row.ts;
                        values[key][counts[key]] = row.value;
                    }
                    counts[key]++;
                }
            }
        }
        for (int key = 0; key < keys; key++) {
            sort(times[key], values[key]);
        }
        var expected = new Expected();
        for (int instance = 0; instance < instances; instance++) {
            var streams = new Streams(keys, lateness, instance, instances);
            for (long made = 0; made < rows / instances; made++) {
                streams.fill(row);
                if (!isBase(row)) {
                    continue;
                }
                int key = (int) key(row);
                int first = first(times[key], row.ts - window);
                int end = first(times[key], row.ts + 1);
                double sum = 0;
                for (int seen = first; seen < end; seen++) {
                    sum += values[key][seen];
                }
                expected.add(end - first, sum);
            }
        }
        return expected;
    }

    /** Both by the times. */
    private static void sort(long[] times, double[] values) {
        var order = new Integer[times.length];
        Arrays.setAll(order, place -> place);
        var before = times.clone();
        Arrays.sort(order, (a, b) -> Long.compare(before[a], before[b]));
        var unsorted = values.clone();
        for (int place = 0; place < order.length; place++) {
            times[place] = before[order[place]];
            values[place] = unsorted[order[place]];
        }
    }

    /** The first time that is this or later. */
    private static int first(long[] times, long time) {
        int low = 0;
        int high = times.length;
        while (low < high) {
            int middle = (low + high) >>> 1;
            if (times[middle] < time) {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        return low;
    }
}
