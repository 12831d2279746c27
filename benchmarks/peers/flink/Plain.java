package peers;

import org.apache.flink.api.common.serialization.SerializerConfig;
import org.apache.flink.api.common.typeinfo.TypeInformation;
import org.apache.flink.api.common.typeutils.TypeSerializer;

/** The type of rows with a serializer written by hand, which is faster than what Flink finds by itself. */
final class Plain<T> extends TypeInformation<T> {
    private final Class<T> rows;
    private final TypeSerializer<T> serializer;

    Plain(Class<T> rows, TypeSerializer<T> serializer) {
        this.rows = rows;
        this.serializer = serializer;
    }

    @Override public boolean isBasicType() { return false; }
    @Override public boolean isTupleType() { return false; }
    @Override public int getArity() { return 1; }
    @Override public int getTotalFields() { return 1; }
    @Override public Class<T> getTypeClass() { return rows; }
    @Override public boolean isKeyType() { return false; }
    @Override public TypeSerializer<T> createSerializer(SerializerConfig config) { return serializer; }
    @Override public String toString() { return rows.getSimpleName(); }
    @Override public boolean equals(Object other) { return other instanceof Plain<?> plain && plain.rows == rows; }
    @Override public int hashCode() { return rows.hashCode(); }
    @Override public boolean canEqual(Object other) { return other instanceof Plain; }
}
