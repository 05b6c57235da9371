package messina;

import com.datastax.oss.driver.api.core.data.CqlDuration;
import com.datastax.oss.driver.api.core.data.CqlVector;
import com.datastax.oss.driver.api.core.data.TupleValue;
import com.datastax.oss.driver.api.core.data.UdtValue;
import com.datastax.oss.driver.api.core.type.DataType;
import com.datastax.oss.driver.api.core.type.DataTypes;
import com.datastax.oss.driver.api.core.type.ListType;
import com.datastax.oss.driver.api.core.type.MapType;
import com.datastax.oss.driver.api.core.type.SetType;
import com.datastax.oss.driver.api.core.type.TupleType;
import com.datastax.oss.driver.api.core.type.UserDefinedType;
import com.datastax.oss.driver.api.core.type.VectorType;
import com.datastax.oss.driver.api.core.type.codec.TypeCodec;
import com.datastax.oss.driver.api.core.type.codec.registry.CodecRegistry;
import com.fasterxml.jackson.databind.JsonNode;
import java.math.BigDecimal;
import java.math.BigInteger;
import java.net.InetAddress;
import java.nio.ByteBuffer;
import java.time.Instant;
import java.time.LocalDate;
import java.time.LocalTime;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.UUID;

/** Values of the table as the driver 4.x has them, and their texts. */
final class Values {
  /** The driver's value of a value in the table. */
  static Object build(DataType type, JsonNode value) throws Exception {
    if (value == null || value.isNull()) {
      return null;
    }
    if (type instanceof ListType) {
      return all(((ListType) type).getElementType(), value);
    }
    if (type instanceof SetType) {
      return new LinkedHashSet<>(all(((SetType) type).getElementType(), value));
    }
    if (type instanceof VectorType) {
      return CqlVector.newInstance(all(((VectorType) type).getElementType(), value));
    }
    if (type instanceof MapType) {
      Map<Object, Object> map = new LinkedHashMap<>();
      for (JsonNode pair : value) {
        map.put(build(((MapType) type).getKeyType(), pair.get(0)), build(((MapType) type).getValueType(), pair.get(1)));
      }
      return map;
    }
    if (type instanceof TupleType) {
      TupleValue tuple = ((TupleType) type).newValue();
      List<DataType> types = ((TupleType) type).getComponentTypes();
      for (int i = 0; i < types.size(); i++) {
        tuple = tuple.set(i, build(types.get(i), value.get(i)), codec(types.get(i)));
      }
      return tuple;
    }
    if (type instanceof UserDefinedType) {
      UdtValue user = ((UserDefinedType) type).newValue();
      List<DataType> types = ((UserDefinedType) type).getFieldTypes();
      for (int i = 0; i < types.size(); i++) {
        user = user.set(i, build(types.get(i), value.get(i)), codec(types.get(i)));
      }
      return user;
    }
    return scalar(type, value.asText());
  }

  private static Object scalar(DataType type, String text) throws Exception {
    String[] parts = text.split(":");
    if (type.equals(DataTypes.ASCII) || type.equals(DataTypes.TEXT)) return text;
    if (type.equals(DataTypes.BIGINT)) return Long.valueOf(text);
    if (type.equals(DataTypes.BLOB)) return ByteBuffer.wrap(Suite.bytes(text));
    if (type.equals(DataTypes.BOOLEAN)) return Boolean.valueOf(text);
    if (type.equals(DataTypes.DATE)) return LocalDate.ofEpochDay(Long.parseLong(text));
    if (type.equals(DataTypes.DECIMAL)) return new BigDecimal(new BigInteger(parts[0]), Integer.parseInt(parts[1]));
    if (type.equals(DataTypes.DOUBLE)) return Double.longBitsToDouble(Long.parseUnsignedLong(text, 16));
    if (type.equals(DataTypes.DURATION)) {
      return CqlDuration.newInstance(
          Integer.parseInt(parts[0]), Integer.parseInt(parts[1]), Long.parseLong(parts[2]));
    }
    if (type.equals(DataTypes.FLOAT)) return Float.intBitsToFloat(Integer.parseUnsignedInt(text, 16));
    if (type.equals(DataTypes.INET)) return InetAddress.getByAddress(Suite.bytes(text));
    if (type.equals(DataTypes.INT)) return Integer.valueOf(text);
    if (type.equals(DataTypes.SMALLINT)) return Short.valueOf(text);
    if (type.equals(DataTypes.TIME)) return LocalTime.ofNanoOfDay(Long.parseLong(text));
    if (type.equals(DataTypes.TIMESTAMP)) return Instant.ofEpochMilli(Long.parseLong(text));
    if (type.equals(DataTypes.TINYINT)) return Byte.valueOf(text);
    if (type.equals(DataTypes.UUID) || type.equals(DataTypes.TIMEUUID)) return UUID.fromString(text);
    if (type.equals(DataTypes.VARINT)) return new BigInteger(text);
    throw new IllegalArgumentException("no value of " + type);
  }

  /** The text of a value that was read. */
  static String show(DataType type, Object value) {
    if (value == null) {
      return "null";
    }
    if (type instanceof ListType) {
      return Suite.list(shown(((ListType) type).getElementType(), (List<?>) value));
    }
    if (type instanceof SetType) {
      return Suite.sorted(shown(((SetType) type).getElementType(), (Set<?>) value));
    }
    if (type instanceof VectorType) {
      List<Object> parts = new ArrayList<>();
      ((CqlVector<?>) value).forEach(parts::add);
      return Suite.list(shown(((VectorType) type).getElementType(), parts));
    }
    if (type instanceof MapType) {
      List<String> parts = new ArrayList<>();
      ((Map<?, ?>) value).forEach((key, held) -> parts.add("["
          + show(((MapType) type).getKeyType(), key) + "," + show(((MapType) type).getValueType(), held) + "]"));
      return Suite.sorted(parts);
    }
    if (type instanceof TupleType) {
      List<String> parts = new ArrayList<>();
      List<DataType> types = ((TupleType) type).getComponentTypes();
      for (int i = 0; i < types.size(); i++) {
        TupleValue tuple = (TupleValue) value;
        parts.add(tuple.isNull(i) ? "null" : show(types.get(i), tuple.getObject(i)));
      }
      return Suite.list(parts);
    }
    if (type instanceof UserDefinedType) {
      List<String> parts = new ArrayList<>();
      List<DataType> types = ((UserDefinedType) type).getFieldTypes();
      for (int i = 0; i < types.size(); i++) {
        UdtValue user = (UdtValue) value;
        parts.add(user.isNull(i) ? "null" : show(types.get(i), user.getObject(i)));
      }
      return Suite.list(parts);
    }
    return text(value);
  }

  private static String text(Object value) {
    if (value instanceof ByteBuffer) {
      byte[] bytes = new byte[((ByteBuffer) value).remaining()];
      ((ByteBuffer) value).duplicate().get(bytes);
      return Suite.hex(bytes);
    }
    if (value instanceof LocalDate) return String.valueOf(((LocalDate) value).toEpochDay());
    if (value instanceof BigDecimal) {
      return ((BigDecimal) value).unscaledValue() + ":" + ((BigDecimal) value).scale();
    }
    if (value instanceof Double) return String.format("%016x", Double.doubleToRawLongBits((Double) value));
    if (value instanceof Float) return String.format("%08x", Float.floatToRawIntBits((Float) value));
    if (value instanceof CqlDuration) {
      CqlDuration duration = (CqlDuration) value;
      return duration.getMonths() + ":" + duration.getDays() + ":" + duration.getNanoseconds();
    }
    if (value instanceof InetAddress) return Suite.hex(((InetAddress) value).getAddress());
    if (value instanceof LocalTime) return String.valueOf(((LocalTime) value).toNanoOfDay());
    if (value instanceof Instant) return String.valueOf(((Instant) value).toEpochMilli());
    return value.toString();
  }

  static TypeCodec<Object> codec(DataType type) {
    return CodecRegistry.DEFAULT.codecFor(type);
  }

  private static List<Object> all(DataType type, JsonNode values) throws Exception {
    List<Object> out = new ArrayList<>();
    for (JsonNode value : values) {
      out.add(build(type, value));
    }
    return out;
  }

  private static List<String> shown(DataType type, Iterable<?> values) {
    List<String> out = new ArrayList<>();
    values.forEach(value -> out.add(show(type, value)));
    return out;
  }

  private Values() {}
}
