package peers;

import java.io.IOException;
import org.apache.flink.api.common.typeinfo.TypeInformation;
import org.apache.flink.api.common.typeutils.TypeSerializerSnapshot;
import org.apache.flink.api.common.typeutils.base.TypeSerializerSingleton;
import org.apache.flink.core.memory.DataInputView;
import org.apache.flink.core.memory.DataOutputView;

/** The rows of the benchmarks: event time in milliseconds, key, value. A selection uses the key alone. */
public final class Row {
    public long ts;
    public long key;
    public double value;

    /** 24 bytes, nothing else. */
    static TypeInformation<Row> type() { return new Plain<>(Row.class, new Serializer()); }

    private static final class Serializer extends TypeSerializerSingleton<Row> {
        @Override public boolean isImmutableType() { return false; }
        @Override public Row createInstance() { return new Row(); }
        @Override public int getLength() { return 24; }

        @Override public Row copy(Row from) { return copy(from, new Row()); }

        @Override
        public Row copy(Row from, Row reuse) {
            reuse.ts = from.ts;
            reuse.key = from.key;
            reuse.value = from.value;
            return reuse;
        }

        @Override
        public void serialize(Row row, DataOutputView target) throws IOException {
            target.writeLong(row.ts);
            target.writeLong(row.key);
            target.writeDouble(row.value);
        }

        @Override public Row deserialize(DataInputView source) throws IOException { return deserialize(new Row(), source); }

        @Override
        public Row deserialize(Row reuse, DataInputView source) throws IOException {
            reuse.ts = source.readLong();
            reuse.key = source.readLong();
            reuse.value = source.readDouble();
            return reuse;
        }

        @Override public void copy(DataInputView source, DataOutputView target) throws IOException { target.write(source, 24); }

        @Override
        public TypeSerializerSnapshot<Row> snapshotConfiguration() {
            throw new UnsupportedOperationException("there are no checkpoints here");
        }
    }
}
