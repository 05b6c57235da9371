"""Values of the table of types as the Python driver has them, and the texts by which they are compared."""

import datetime
import ipaddress
import struct
import uuid
from decimal import Decimal

from cassandra.util import Date, Duration, Time

EPOCH = datetime.datetime(1970, 1, 1)
INTEGERS = {"tinyint", "smallint", "int", "bigint", "varint", "counter"}


def kind_of(cls):
    """The CQL name of a driver's type class."""
    return "vector" if cls.__name__.startswith(("VectorType", "Vector")) else cls.typename


class Fields(tuple):
    """A user type's value: the driver takes any sequence for one."""


def build(cls, value):
    """The driver's value of a value in the table."""
    if value is None:
        return None
    kind = kind_of(cls)
    parts = getattr(cls, "subtypes", ())
    if kind in ("frozen",):
        return build(parts[0], value)
    if kind == "list":
        return [build(parts[0], part) for part in value]
    if kind == "vector":
        return [build(cls.subtype, part) for part in value]
    if kind == "set":
        return [build(parts[0], part) for part in value]
    if kind == "map":
        return Pairs((build(parts[0], key), build(parts[1], held)) for key, held in value)
    if hasattr(cls, "fieldnames") and cls.fieldnames:
        return Fields(build(part, inner) for part, inner in zip(parts, value))
    if kind == "tuple":
        return tuple(build(part, inner) for part, inner in zip(parts, value))
    return scalar(kind, value)


class Pairs(list):
    """A map's value with keys that Python cannot hash; the driver asks for items only."""

    def items(self):
        return iter(self)


def scalar(kind, text):
    if kind in INTEGERS:
        return int(text)
    if kind == "blob":
        return bytes.fromhex(text)
    if kind == "date":
        return Date(int(text))
    if kind == "decimal":
        unscaled, scale = text.split(":")
        digits = tuple(int(digit) for digit in unscaled.lstrip("-"))
        return Decimal((int(unscaled.startswith("-")), digits, -int(scale)))
    if kind == "double":
        return struct.unpack(">d", bytes.fromhex(text))[0]
    if kind == "duration":
        return Duration(*(int(part) for part in text.split(":")))
    if kind == "float":
        return struct.unpack(">f", bytes.fromhex(text))[0]
    if kind == "inet":
        return str(ipaddress.ip_address(bytes.fromhex(text)))
    if kind == "time":
        return Time(int(text))
    if kind == "timestamp":
        return EPOCH + datetime.timedelta(milliseconds=int(text))
    if kind in ("uuid", "timeuuid"):
        return uuid.UUID(text)
    return text


def show(cls, value):
    """The text of a value that was read."""
    if value is None:
        return "null"
    kind = kind_of(cls)
    parts = getattr(cls, "subtypes", ())
    if kind == "frozen":
        return show(parts[0], value)
    if kind == "list":
        return listed(show(parts[0], part) for part in value)
    if kind == "vector":
        return listed(show(cls.subtype, part) for part in value)
    if kind == "set":
        return listed(sorted(show(parts[0], part) for part in value))
    if kind == "map":
        pairs = (listed([show(parts[0], key), show(parts[1], held)]) for key, held in value.items())
        return listed(sorted(pairs))
    if hasattr(cls, "fieldnames") and cls.fieldnames:
        return listed(show(part, inner) for part, inner in zip(parts, value))
    if kind == "tuple":
        return listed(show(part, inner) for part, inner in zip(parts, value))
    return text_of(kind, value)


def text_of(kind, value):
    if kind == "boolean":
        return str(value).lower()
    if kind == "blob":
        return value.hex()
    if kind == "date":
        return str(value.days_from_epoch)
    if kind == "decimal":
        sign, digits, exponent = value.as_tuple()
        unscaled = int("".join(map(str, digits)))
        return f"{-unscaled if sign else unscaled}:{-exponent}"
    if kind == "double":
        return struct.pack(">d", value).hex()
    if kind == "duration":
        return f"{value.months}:{value.days}:{value.nanoseconds}"
    if kind == "float":
        return struct.pack(">f", value).hex()
    if kind == "inet":
        return ipaddress.ip_address(value).packed.hex()
    if kind == "time":
        return str(value.nanosecond_time)
    if kind == "timestamp":
        return str((value - EPOCH) // datetime.timedelta(milliseconds=1))
    return str(value)


def plain(value):
    """The text of a value of the table."""
    if value is None:
        return "null"
    if isinstance(value, list):
        return listed(map(plain, value))
    return str(value).lower() if isinstance(value, bool) else value


def listed(parts):
    return "[" + ",".join(parts) + "]"
