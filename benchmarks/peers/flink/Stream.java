package peers;

/**
 * The made-up stream, the same at each run: row {@code n} of instance {@code i} of {@code instances}. A second of event time has a
 * million rows, in order.
 */
final class Stream {
    static final int ROWS_PER_MS = 1_000;

    private final long keys;
    private final int instance;
    private final int instances;
    private long random;
    private long next;

    Stream(long keys, int instance, int instances) {
        this.keys = keys;
        this.instance = instance;
        this.instances = instances;
        this.random = 0x9E3779B97F4A7C15L * (instance + 1);
    }

    /** The next row's key. */
    long key() {
        random ^= random << 13;
        random ^= random >>> 7;
        random ^= random << 17;
        return (random >>> 33) % keys;
    }

    /** More bits of what the last key was made of. */
    long bits() {
        return random >>> 3 & 0x3FFF_FFFFL;
    }

    /** Fills in the next row. */
    void fill(Row row) {
        row.key = key();
        row.ts = (next++ * instances + instance) / ROWS_PER_MS;
        // Eighths, so that sums are exact.
        row.value = (random >>> 8) % 100_000 / 8.0;
    }
}
