package peers;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Arrays;
import java.util.Locale;
import org.apache.flink.api.common.functions.AggregateFunction;
import org.apache.flink.api.common.functions.FilterFunction;
import org.apache.flink.api.common.functions.Partitioner;
import org.apache.flink.api.common.typeinfo.PrimitiveArrayTypeInfo;
import org.apache.flink.api.common.typeinfo.TypeInformation;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.api.java.functions.KeySelector;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.streaming.api.datastream.DataStream;
import org.apache.flink.streaming.api.datastream.SingleOutputStreamOperator;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.windowing.assigners.TumblingEventTimeWindows;
import org.apache.flink.table.api.DataTypes;
import org.apache.flink.table.api.Schema;
import org.apache.flink.table.api.bridge.java.StreamTableEnvironment;

/**
 * Runs one job of Flink several times in this process: {@code Bench JOB ROWS RUNS PARALLELISM}, where the job {@code keyed}
 * has {@code ROW_BYTES PARTITIONS SUBTASKS} behind it, and {@code interval-join} has {@code KEYS WINDOW LATENESS HOT PERCENT
 * PERIOD}. The first run warms up. Each of the others prints a line
 * {@code seconds cpu_seconds results peak_bytes}, after its results were compared with what they must be. The peak is that of
 * the process up to now, 0 where the system does not tell.
 */
public final class Bench {
    private static final int KEYS = 10_000;
    private static final int FEW_KEYS = 1_000;
    private static final long SELECTION_KEYS = 1_000_000_000;
    private static final long SHUFFLE_KEYS = Integer.MAX_VALUE;

    private final StreamExecutionEnvironment environment;
    private final String job;
    private final long rows;
    private final int[] numbers;

    private Bench(StreamExecutionEnvironment environment, String job, long rows, int[] numbers) {
        this.environment = environment;
        this.job = job;
        this.rows = rows;
        this.numbers = numbers;
    }

    public static void main(String[] arguments) throws Exception {
        String job = arguments[0];
        long rows = Long.parseLong(arguments[1]);
        int runs = Integer.parseInt(arguments[2]);
        int parallelism = Integer.parseInt(arguments[3]);
        int[] numbers = Arrays.stream(arguments).skip(4).mapToInt(Integer::parseInt).toArray();
        var expected = expected(job, rows, parallelism, numbers);
        for (int run = 0; run <= runs; run++) {
            Operators.Clocks.reset();
            var environment = StreamExecutionEnvironment.createLocalEnvironment(parallelism, configuration());
            new Bench(environment, job, rows, numbers).build();
            environment.execute(job);
            expected.check(Operators.Clocks.results, Operators.Clocks.sum);
            if (run > 0) {
                double seconds = (Operators.Clocks.endNs - Operators.Clocks.startNs) / 1e9;
                double cpu = (Operators.Clocks.endCpuNs - Operators.Clocks.startCpuNs) / 1e9;
                System.out.printf(Locale.ROOT, "%.9f %.9f %d %d%n", seconds, cpu, Operators.Clocks.results, peakBytes());
            }
        }
        System.exit(0);
    }

    /** The most memory that the system has given to this process at a time. */
    private static long peakBytes() throws IOException {
        var status = Path.of("/proc/self/status");
        if (!Files.exists(status)) {
            return 0;
        }
        try (var lines = Files.lines(status)) {
            return lines.filter(line -> line.startsWith("VmHWM:"))
                    .mapToLong(line -> Long.parseLong(line.replaceAll("[^0-9]", "")) * 1024)
                    .findFirst()
                    .orElse(0);
        }
    }

    private static Configuration configuration() {
        var configuration = new Configuration();
        configuration.setString("pipeline.object-reuse", "true");
        configuration.setString("taskmanager.memory.network.min", "256m");
        configuration.setString("taskmanager.memory.network.max", "256m");
        configuration.setString("rest.port", "0");
        return configuration;
    }

    private static Expected expected(String job, long rows, int parallelism, int[] numbers) {
        return switch (job) {
            case "selection", "selection-sql" -> Expected.selection(rows, SELECTION_KEYS, parallelism);
            case "keyed" -> Expected.keys(rows, SHUFFLE_KEYS, parallelism);
            case "tumble", "tumble-sql" -> Expected.averages(rows, KEYS, parallelism, 1);
            case "hop-sql" -> Expected.averages(rows, KEYS, parallelism, 60);
            case "distinct-sql" -> Expected.distinct(rows, FEW_KEYS, parallelism);
            case "interval-join" -> Joined.expected(rows, Joined.Question.of(numbers), parallelism);
            default -> throw new IllegalArgumentException("there is no job " + job);
        };
    }

    private void build() {
        switch (job) {
            case "selection" -> take(make(SELECTION_KEYS, Row.type(), false).filter(new Selection()));
            case "keyed" -> keyed(numbers[0], numbers[1], numbers[2]);
            case "interval-join" -> joined(Joined.Question.of(numbers));
            case "tumble" -> take(make(KEYS, Row.type(), false)
                    .keyBy(new Key())
                    .window(TumblingEventTimeWindows.of(Duration.ofSeconds(1)))
                    .aggregate(new Average(), PrimitiveArrayTypeInfo.DOUBLE_PRIMITIVE_ARRAY_TYPE_INFO, Types.DOUBLE));
            case "selection-sql" -> sql(SELECTION_KEYS, "SELECT `key` FROM readings WHERE MOD(`key`, 10) = 0");
            case "tumble-sql" -> sql(KEYS, windows("AVG(`value`)", "TUMBLE(TABLE readings, DESCRIPTOR(rowtime), INTERVAL '1' SECOND)"));
            case "hop-sql" -> sql(KEYS, windows("AVG(`value`)",
                    "HOP(TABLE readings, DESCRIPTOR(rowtime), INTERVAL '1' SECOND, INTERVAL '60' SECOND)"));
            case "distinct-sql" -> sql(FEW_KEYS, windows("COUNT(DISTINCT `value`)",
                    "TUMBLE(TABLE readings, DESCRIPTOR(rowtime), INTERVAL '1' SECOND)"));
            default -> throw new IllegalArgumentException("there is no job " + job);
        }
    }

    /** To subtasks by the whole key, or by its partition where there are more partitions than subtasks. */
    private void keyed(int bytes, int partitions, int subtasks) {
        KeySelector<Keyed, Integer> key = partitions == subtasks ? row -> row.key : row -> row.key % partitions;
        tokens().transform("make", Keyed.type(bytes), new Operators.KeyedMaker(rows, SHUFFLE_KEYS, bytes))
                .keyBy(key, Types.INT)
                .transform("take", Types.LONG, new Operators.Taker<Keyed>())
                .setParallelism(subtasks);
    }

    private void joined(Joined.Question question) {
        var both = tokens().transform("make", Row.type(), new Joined.Maker(rows, question));
        KeySelector<Row, Long> key = Joined::key;
        var base = both.filter(Joined::isBase).keyBy(key, Types.LONG);
        var probe = both.filter(row -> !Joined.isBase(row)).keyBy(key, Types.LONG);
        take(base.intervalJoin(probe)
                .between(Duration.ofMillis(-question.window()), Duration.ZERO)
                .process(new Joined.Pair(), Row.type())
                .transform("sum", Types.DOUBLE, new Joined.Sums()));
    }

    private static String windows(String value, String windows) {
        return "SELECT `key`, " + value + " AS v FROM TABLE(" + windows + ") GROUP BY `key`, window_start, window_end";
    }

    private void sql(long keys, String query) {
        var tables = StreamTableEnvironment.create(environment);
        // Sums up before the exchange, which is what a user would set.
        tables.getConfig().set("table.optimizer.agg-phase-strategy", "TWO_PHASE");
        var schema = Schema.newBuilder()
                .column("ts", DataTypes.BIGINT().notNull())
                .column("key", DataTypes.BIGINT().notNull())
                .column("value", DataTypes.DOUBLE().notNull())
                .columnByMetadata("rowtime", DataTypes.TIMESTAMP_LTZ(3), "rowtime")
                .watermark("rowtime", "SOURCE_WATERMARK()")
                .build();
        tables.createTemporaryView("readings", make(keys, TypeInformation.of(Row.class), true), schema);
        take(tables.toDataStream(tables.sqlQuery(query)));
    }

    private SingleOutputStreamOperator<Row> make(long keys, TypeInformation<Row> type, boolean isFresh) {
        return tokens().transform("make", type, new Operators.Maker(rows, keys, isFresh));
    }

    /** One token for each instance, which makes its rows of it. */
    private DataStream<Long> tokens() {
        return environment.fromSequence(0, environment.getParallelism() - 1)
                .setParallelism(1)
                .partitionCustom((Partitioner<Long>) (token, instances) -> (int) (token % instances), token -> token);
    }

    private static <T> void take(DataStream<T> stream) {
        stream.forward().transform("take", Types.LONG, new Operators.Taker<T>());
    }

    private static final class Selection implements FilterFunction<Row> {
        @Override public boolean filter(Row row) { return row.key % 10 == 0; }
    }

    private static final class Key implements KeySelector<Row, Long> {
        @Override public Long getKey(Row row) { return row.key; }
    }

    /** Sum and count. */
    private static final class Average implements AggregateFunction<Row, double[], Double> {
        @Override public double[] createAccumulator() { return new double[2]; }

        @Override
        public double[] add(Row row, double[] average) {
            average[0] += row.value;
            average[1]++;
            return average;
        }

        @Override public Double getResult(double[] average) { return average[0] / average[1]; }

        @Override
        public double[] merge(double[] left, double[] right) {
            left[0] += right[0];
            left[1] += right[1];
            return left;
        }
    }
}
