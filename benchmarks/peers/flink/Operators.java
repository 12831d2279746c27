package peers;

import com.sun.management.OperatingSystemMXBean;
import java.lang.management.ManagementFactory;
import org.apache.flink.streaming.api.operators.AbstractStreamOperator;
import org.apache.flink.streaming.api.operators.BoundedOneInput;
import org.apache.flink.streaming.api.operators.OneInputStreamOperator;
import org.apache.flink.streaming.api.watermark.Watermark;
import org.apache.flink.streaming.runtime.streamrecord.StreamRecord;

/** Where rows begin and end, and the clocks between. */
final class Operators {
    private Operators() {}

    /** Time and CPU time of the process, from the first row that is made to the last result that is taken. */
    static final class Clocks {
        private static final OperatingSystemMXBean SYSTEM =
                (OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean();
        static long startNs;
        static long startCpuNs;
        static long endNs;
        static long endCpuNs;
        static long results;
        static double sum;

        private Clocks() {}

        static synchronized void reset() {
            startNs = startCpuNs = endNs = endCpuNs = results = 0;
            sum = 0;
        }

        static synchronized void start() {
            if (startNs == 0) {
                startNs = System.nanoTime();
                startCpuNs = SYSTEM.getProcessCpuTime();
            }
        }

        static synchronized void end(long count, double total) {
            endNs = System.nanoTime();
            endCpuNs = SYSTEM.getProcessCpuTime();
            results += count;
            sum += total;
        }
    }

    /** Makes its share of the rows when it gets its one token: no connector is in the figures. */
    static final class Maker extends AbstractStreamOperator<Row> implements OneInputStreamOperator<Long, Row> {
        /** From watermark to watermark. */
        private static final int ROWS = 1_000;

        private final long rows;
        private final long keys;
        /** SQL keeps the objects that it is given. */
        private final boolean isFresh;

        Maker(long rows, long keys, boolean isFresh) {
            this.rows = rows;
            this.keys = keys;
            this.isFresh = isFresh;
        }

        @Override
        public void processElement(StreamRecord<Long> token) {
            Clocks.start();
            var task = getRuntimeContext().getTaskInfo();
            int instances = task.getNumberOfParallelSubtasks();
            var stream = new Stream(keys, task.getIndexOfThisSubtask(), instances);
            var record = new StreamRecord<Row>(null);
            Row row = new Row();
            for (long made = 0; made < rows / instances; made++) {
                row = isFresh ? new Row() : row;
                stream.fill(row);
                output.collect(record.replace(row, row.ts));
                if (made % ROWS == ROWS - 1) {
                    output.emitWatermark(new Watermark(row.ts - 1));
                }
            }
        }
    }

    /** Makes its share of keyed rows when it gets its one token. */
    static final class KeyedMaker extends AbstractStreamOperator<Keyed> implements OneInputStreamOperator<Long, Keyed> {
        private final long rows;
        private final long keys;
        private final int bytes;

        KeyedMaker(long rows, long keys, int bytes) {
            this.rows = rows;
            this.keys = keys;
            this.bytes = bytes;
        }

        @Override
        public void processElement(StreamRecord<Long> token) {
            Clocks.start();
            var task = getRuntimeContext().getTaskInfo();
            int instances = task.getNumberOfParallelSubtasks();
            var stream = new Stream(keys, task.getIndexOfThisSubtask(), instances);
            var row = new Keyed(bytes - 4);
            var record = new StreamRecord<>(row);
            for (long made = 0; made < rows / instances; made++) {
                row.key = (int) stream.key();
                output.collect(record.replace(row));
            }
        }
    }

    /** Counts results, and sums up their values. */
    static final class Taker<T> extends AbstractStreamOperator<Long> implements OneInputStreamOperator<T, Long>, BoundedOneInput {
        private transient long count;
        private transient double sum;

        @Override
        public void processElement(StreamRecord<T> record) {
            count++;
            sum += value(record.getValue());
        }

        private static double value(Object result) {
            if (result instanceof Row) {
                return ((Row) result).key;
            }
            if (result instanceof Keyed) {
                return ((Keyed) result).key;
            }
            // Of SQL, the value is the last column.
            var row = result instanceof org.apache.flink.types.Row ? (org.apache.flink.types.Row) result : null;
            return ((Number) (row == null ? result : row.getField(row.getArity() - 1))).doubleValue();
        }

        @Override
        public void endInput() {
            Clocks.end(count, sum);
        }
    }
}
