package peers;

import java.io.Serializable;
import java.util.Arrays;
import java.util.HashMap;
import java.util.PriorityQueue;
import java.util.Random;
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

    /**
     * Rows of so many keys, within a window before a base row, and behind by so much at most. For a period {@code hot} of the keys have
     * so many of a hundred rows, and then others, until each has been hot once; none has if that is 0.
     */
    record Question(int keys, long window, long lateness, int hot, int percent, long period) implements Serializable {
        static Question of(int[] numbers) {
            return new Question(numbers[0], numbers[1], numbers[2], numbers[3], numbers[4], numbers[5]);
        }
    }

    /** The rows of both streams, the same at each run: those of instance {@code i} of {@code instances}. */
    static final class Streams {
        private final Question question;
        private final Stream keys;
        /** All keys, in the order in which they are hot. */
        private final int[] deck;
        private final int instance;
        private final int instances;
        private long next;

        Streams(Question question, int instance, int instances) {
            this.question = question;
            this.keys = new Stream(question.keys, instance, instances);
            this.deck = question.hot > 0 ? shuffled(question.keys) : null;
            this.instance = instance;
            this.instances = instances;
        }

        /** The time that the next row has if it is not behind. */
        private long time() { return next / 2 * instances + instance; }

        /** The time before which no row of this instance comes any more. */
        long passed() { return time() - question.lateness; }

        /** Fills in the next row. */
        void fill(Row row) {
            long key = key();
            boolean isBase = (next & 1) == 0;
            row.key = isBase ? ~key : key;
            row.ts = time() - keys.bits() % (question.lateness + 1);
            row.value = isBase ? next * instances + instance : (keys.bits() >>> 20) % 100;
            next++;
        }

        private long key() {
            long key = keys.key();
            if (deck == null || keys.bits() % 100 >= question.percent) {
                return key;
            }
            long first = time() / question.period * question.hot;
            return deck[(int) ((first + keys.key() % question.hot) % deck.length)];
        }

        /** The same at all instances. */
        private static int[] shuffled(int keys) {
            var deck = new int[keys];
            Arrays.setAll(deck, key -> key);
            var random = new Random(24);
            for (int last = keys - 1; last > 0; last--) {
                int place = random.nextInt(last + 1);
                int key = deck[place];
                deck[place] = deck[last];
                deck[last] = key;
            }
            return deck;
        }
    }

    static boolean isBase(Row row) { return row.key < 0; }

    static long key(Row row) { return isBase(row) ? ~row.key : row.key; }

    /** Makes its share of both streams when it gets its one token. */
    static final class Maker extends AbstractStreamOperator<Row> implements OneInputStreamOperator<Long, Row> {
        /** From watermark to watermark. */
        private static final int ROWS = 1_000;

        private final long rows;
        private final Question question;

        Maker(long rows, Question question) {
            this.rows = rows;
            this.question = question;
        }

        @Override
        public void processElement(StreamRecord<Long> token) {
            Operators.Clocks.start();
            var task = getRuntimeContext().getTaskInfo();
            int instances = task.getNumberOfParallelSubtasks();
            var streams = new Streams(question, task.getIndexOfThisSubtask(), instances);
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

    /** The pairs of a base row so far. */
    private static final class Sum {
        final long ts;
        final long number;
        double sum;

        Sum(long ts, long number) {
            this.ts = ts;
            this.number = number;
        }
    }

    /** Sums up the pairs of each base row, until the watermark has passed it. */
    static final class Sums extends AbstractStreamOperator<Double> implements OneInputStreamOperator<Row, Double> {
        private transient HashMap<Long, Sum> sums;
        /** The earliest first, so that nobody looks at those that wait: with much lateness these are many. */
        private transient PriorityQueue<Sum> waiting;

        @Override
        public void open() {
            sums = new HashMap<>();
            waiting = new PriorityQueue<>((a, b) -> Long.compare(a.ts, b.ts));
        }

        @Override
        public void processElement(StreamRecord<Row> record) {
            var pair = record.getValue();
            var sum = sums.get(pair.key);
            if (sum == null) {
                sum = new Sum(pair.ts, pair.key);
                sums.put(pair.key, sum);
                waiting.add(sum);
            }
            sum.sum += pair.value;
        }

        @Override
        public void processWatermark(Watermark watermark) throws Exception {
            while (!waiting.isEmpty() && waiting.peek().ts <= watermark.getTimestamp()) {
                var sum = waiting.poll();
                sums.remove(sum.number);
                output.collect(new StreamRecord<>(sum.sum));
            }
            super.processWatermark(watermark);
        }
    }

    /** Base rows that see others, and the sum of what all of them see. */
    static Expected expected(long rows, Question question, int instances) {
        int keys = question.keys;
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
                var streams = new Streams(question, instance, instances);
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
            var streams = new Streams(question, instance, instances);
            for (long made = 0; made < rows / instances; made++) {
                streams.fill(row);
                if (!isBase(row)) {
                    continue;
                }
                int key = (int) key(row);
                int first = first(times[key], row.ts - question.window);
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
