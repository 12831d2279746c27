package peers;

import java.io.IOException;
import org.apache.flink.api.common.typeinfo.TypeInformation;
import org.apache.flink.api.common.typeutils.TypeSerializerSnapshot;
import org.apache.flink.api.common.typeutils.base.TypeSerializerSingleton;
import org.apache.flink.core.memory.DataInputView;
import org.apache.flink.core.memory.DataOutputView;

/** The rows of the shuffle: a key of four bytes, and so many bytes beside it. */
public final class Keyed {
    public int key;
    public final byte[] more;

    Keyed(int more) { this.more = new byte[more]; }

    /** The key and the bytes, nothing else. */
    static TypeInformation<Keyed> type(int bytes) { return new Plain<>(Keyed.class, new Serializer(bytes)); }

    private static final class Serializer extends TypeSerializerSingleton<Keyed> {
        private final int bytes;

        Serializer(int bytes) { this.bytes = bytes; }

        @Override public boolean isImmutableType() { return false; }
        @Override public Keyed createInstance() { return new Keyed(bytes - 4); }
        @Override public int getLength() { return bytes; }

        @Override public Keyed copy(Keyed from) { return copy(from, createInstance()); }

        @Override
        public Keyed copy(Keyed from, Keyed reuse) {
            reuse.key = from.key;
            System.arraycopy(from.more, 0, reuse.more, 0, from.more.length);
            return reuse;
        }

        @Override
        public void serialize(Keyed row, DataOutputView target) throws IOException {
            target.writeInt(row.key);
            target.write(row.more);
        }

        @Override public Keyed deserialize(DataInputView source) throws IOException { return deserialize(createInstance(), source); }

        @Override
        public Keyed deserialize(Keyed reuse, DataInputView source) throws IOException {
            reuse.key = source.readInt();
            source.readFully(reuse.more);
            return reuse;
        }

        @Override public void copy(DataInputView source, DataOutputView target) throws IOException { target.write(source, bytes); }

        @Override
        public TypeSerializerSnapshot<Keyed> snapshotConfiguration() {
            throw new UnsupportedOperationException("there are no checkpoints here");
        }
    }
}
