package messina;

import com.datastax.driver.core.CodecRegistry;
import com.datastax.driver.core.DataType;
import com.datastax.driver.core.Duration;
import com.datastax.driver.core.LocalDate;
import com.datastax.driver.core.TupleType;
import com.datastax.driver.core.TupleValue;
import com.datastax.driver.core.TypeCodec;
import com.datastax.driver.core.UDTValue;
import com.datastax.driver.core.UserType;
import com.fasterxml.jackson.databind.JsonNode;
import java.math.BigDecimal;
import java.math.BigInteger;
import java.net.InetAddress;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.Date;
import java.util.LinkedHashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.UUID;

/** Values of the table as the driver 3.x has them, and their texts. */
final class Values {
  /** The driver's value of a value in the table. */
  static Object build(DataType type, JsonNode value) throws Exception {
    if (value == null || value.isNull()) {
      return null;
    }
    List<DataType> inner = type.getTypeArguments();
    switch (type.getName()) {
      case LIST:
        return all(inner.get(0), value);
      case SET:
        return new LinkedHashSet<>(all(inner.get(0), value));
      case MAP:
        Map<Object, Object> map = new LinkedHashMap<>();
        for (JsonNode pair : value) {
          map.put(build(inner.get(0), pair.get(0)), build(inner.get(1), pair.get(1)));
        }
        return map;
      case TUPLE:
        TupleValue tuple = ((TupleType) type).newValue();
        List<DataType> types = ((TupleType) type).getComponentTypes();
        for (int i = 0; i < types.size(); i++) {
          tuple.set(i, build(types.get(i), value.get(i)), codec(types.get(i)));
        }
        return tuple;
      case UDT:
        UDTValue user = ((UserType) type).newValue();
        int at = 0;
        for (UserType.Field field : (UserType) type) {
          user.set(at, build(field.getType(), value.get(at)), codec(field.getType()));
          at++;
        }
        return user;
      default:
        return scalar(type, value.asText());
    }
  }

  private static Object scalar(DataType type, String text) throws Exception {
    String[] parts = text.split(":");
    switch (type.getName()) {
      case ASCII:
      case TEXT:
      case VARCHAR:
        return text;
      case BIGINT:
      case TIME:
        return Long.valueOf(text);
      case BLOB:
        return ByteBuffer.wrap(Suite.bytes(text));
      case BOOLEAN:
        return Boolean.valueOf(text);
      case DATE:
        return LocalDate.fromDaysSinceEpoch(Integer.parseInt(text));
      case DECIMAL:
        return new BigDecimal(new BigInteger(parts[0]), Integer.parseInt(parts[1]));
      case DOUBLE:
        return Double.longBitsToDouble(Long.parseUnsignedLong(text, 16));
      case DURATION:
        return Duration.newInstance(Integer.parseInt(parts[0]), Integer.parseInt(parts[1]), Long.parseLong(parts[2]));
      case FLOAT:
        return Float.intBitsToFloat(Integer.parseUnsignedInt(text, 16));
      case INET:
        return InetAddress.getByAddress(Suite.bytes(text));
      case INT:
        return Integer.valueOf(text);
      case SMALLINT:
        return Short.valueOf(text);
      case TIMESTAMP:
        return new Date(Long.parseLong(text));
      case TINYINT:
        return Byte.valueOf(text);
      case UUID:
      case TIMEUUID:
        return UUID.fromString(text);
      case VARINT:
        return new BigInteger(text);
      default:
        throw new IllegalArgumentException("no value of " + type);
    }
  }

  /** The text of a value that was read. */
  static String show(DataType type, Object value) {
    if (value == null) {
      return "null";
    }
    List<DataType> inner = type.getTypeArguments();
    List<String> parts = new ArrayList<>();
    switch (type.getName()) {
      case LIST:
        ((Iterable<?>) value).forEach(part -> parts.add(show(inner.get(0), part)));
        return Suite.list(parts);
      case SET:
        ((Iterable<?>) value).forEach(part -> parts.add(show(inner.get(0), part)));
        return Suite.sorted(parts);
      case MAP:
        ((Map<?, ?>) value).forEach((key, held) ->
            parts.add("[" + show(inner.get(0), key) + "," + show(inner.get(1), held) + "]"));
        return Suite.sorted(parts);
      case TUPLE:
        int i = 0;
        for (DataType part : ((TupleType) type).getComponentTypes()) {
          TupleValue tuple = (TupleValue) value;
          parts.add(tuple.isNull(i) ? "null" : show(part, tuple.getObject(i)));
          i++;
        }
        return Suite.list(parts);
      case UDT:
        int at = 0;
        for (UserType.Field field : (UserType) type) {
          UDTValue user = (UDTValue) value;
          parts.add(user.isNull(at) ? "null" : show(field.getType(), user.getObject(at)));
          at++;
        }
        return Suite.list(parts);
      default:
        return text(value);
    }
  }

  private static String text(Object value) {
    if (value instanceof ByteBuffer) {
      byte[] bytes = new byte[((ByteBuffer) value).remaining()];
      ((ByteBuffer) value).duplicate().get(bytes);
      return Suite.hex(bytes);
    }
    if (value instanceof LocalDate) return String.valueOf(((LocalDate) value).getDaysSinceEpoch());
    if (value instanceof BigDecimal) {
      return ((BigDecimal) value).unscaledValue() + ":" + ((BigDecimal) value).scale();
    }
    if (value instanceof Double) return String.format("%016x", Double.doubleToRawLongBits((Double) value));
    if (value instanceof Float) return String.format("%08x", Float.floatToRawIntBits((Float) value));
    if (value instanceof Duration) {
      Duration duration = (Duration) value;
      return duration.getMonths() + ":" + duration.getDays() + ":" + duration.getNanoseconds();
    }
    if (value instanceof InetAddress) return Suite.hex(((InetAddress) value).getAddress());
    if (value instanceof Date) return String.valueOf(((Date) value).getTime());
    return value.toString();
  }

  static TypeCodec<Object> codec(DataType type) {
    return CodecRegistry.DEFAULT_INSTANCE.codecFor(type);
  }

  private static List<Object> all(DataType type, JsonNode values) throws Exception {
    List<Object> out = new ArrayList<>();
    for (JsonNode value : values) {
      out.add(build(type, value));
    }
    return out;
  }

  private Values() {}
}
