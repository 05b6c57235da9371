'use strict';
// What the environment says, the tables of cases, the lines that the Rust side reads, and small assertions.

const fs = require('fs');
const path = require('path');
const { types } = require('cassandra-driver');
const Encoder = require('cassandra-driver/lib/encoder');

const env = process.env;
const DRIVER = env.SUITE_DRIVER;
let count = 0;

/** Runs one test; what it throws is why it failed. */
async function test(name, body) {
  if (env.SUITE_ONLY && !name.includes(env.SUITE_ONLY) && !name.startsWith('connect')) {
    return;
  }
  count++;
  const since = Date.now();
  try {
    const note = await body();
    const seconds = ((Date.now() - since) / 1000).toFixed(1);
    console.log(`test ${name} ... ok [${seconds} s]${note ? ` (${note})` : ''}`);
  } catch (error) {
    console.log(`test ${name} ... FAILED\n${error.stack}\n`);
  }
}

function end() {
  console.log(`end ${count}`);
}

function cases(name) {
  return JSON.parse(fs.readFileSync(path.join(env.SUITE_CASES, name), 'utf8'));
}

/** Whether an entry of the table is for this driver by this protocol version. */
function applies(entry, version) {
  return !(entry.except || []).includes(DRIVER) && (entry.since || 0) <= version;
}

/** The value of an entry, repeated as often as it says. */
function valueOf(entry) {
  if (!entry.repeat) {
    return entry.value;
  }
  return Array.isArray(entry.value) ? Array(entry.repeat).fill(entry.value).flat() : entry.value.repeat(entry.repeat);
}

function expected(entry) {
  return plain('reads' in entry ? entry.reads : valueOf(entry));
}

function plain(value) {
  return Array.isArray(value) ? list(value.map(plain)) : String(value);
}

function list(parts) {
  return `[${parts.join(',')}]`;
}

const codes = types.dataTypes;

/** A vector's type comes by the name of Cassandra's class. */
function resolved(type) {
  const named = type.code === codes.custom && typeof type.info === 'string' && type.info.includes('VectorType');
  return named ? new Encoder(4, {}).parseFqTypeName(type.info) : type;
}

/** The driver's value of a value in the table. */
function build(unresolved, value) {
  const type = resolved(unresolved);
  if (value === null || value === undefined) {
    return null;
  }
  if (isVector(type)) {
    return new types.Vector(value.map(part => build(type.info[0], part)), type.info[0].code === codes.float ? 'float' : undefined);
  }
  switch (type.code) {
    case codes.list:
      return value.map(part => build(type.info, part));
    case codes.set:
      return new Set(value.map(part => build(type.info, part)));
    case codes.map:
      return new Map(value.map(pair => [build(type.info[0], pair[0]), build(type.info[1], pair[1])]));
    case codes.tuple:
      return new types.Tuple(...type.info.map((part, i) => build(part, value[i])));
    case codes.udt:
      return Object.fromEntries(type.info.fields.map((field, i) => [field.name, build(field.type, value[i])]));
    default:
      return scalar(type, value);
  }
}

function isVector(type) {
  return type.code === codes.custom && typeof type.customTypeName === 'string' && type.customTypeName === 'vector';
}

function isDuration(type) {
  return type.code === codes.duration || (type.code === codes.custom && String(type.info).includes('DurationType'));
}

function scalar(type, text) {
  const parts = String(text).split(':');
  if (isDuration(type)) {
    return new types.Duration(Number(parts[0]), Number(parts[1]), types.Long.fromString(parts[2]));
  }
  switch (type.code) {
    case codes.bigint:
      return types.Long.fromString(text);
    case codes.blob:
      return Buffer.from(text, 'hex');
    case codes.date:
      return types.LocalDate.fromBuffer(uint32(Number(text) + 2 ** 31));
    case codes.decimal:
      return new types.BigDecimal(types.Integer.fromString(parts[0]), Number(parts[1]));
    case codes.double:
      return Buffer.from(text, 'hex').readDoubleBE();
    case codes.float:
      return Buffer.from(text, 'hex').readFloatBE();
    case codes.inet:
      return new types.InetAddress(Buffer.from(text, 'hex'));
    case codes.int:
    case codes.smallint:
    case codes.tinyint:
      return Number(text);
    case codes.time:
      return new types.LocalTime(types.Long.fromString(text));
    case codes.timestamp:
      return new Date(Number(text));
    case codes.uuid:
      return types.Uuid.fromString(text);
    case codes.timeuuid:
      return types.TimeUuid.fromString(text);
    case codes.varint:
      return types.Integer.fromString(text);
    default:
      return text;
  }
}

function uint32(number) {
  const buffer = Buffer.alloc(4);
  buffer.writeUInt32BE(number);
  return buffer;
}

/** The text of a value that was read. */
function show(unresolved, value) {
  const type = resolved(unresolved);
  if (value === null || value === undefined) {
    return 'null';
  }
  if (isVector(type)) {
    return list(Array.from(value).map(part => show(type.info[0], part)));
  }
  switch (type.code) {
    case codes.list:
      return list(value.map(part => show(type.info, part)));
    case codes.set:
      return list([...value].map(part => show(type.info, part)).sort());
    case codes.map:
      return list([...value].map(([key, held]) => list([show(type.info[0], key), show(type.info[1], held)])).sort());
    case codes.tuple:
      return list(type.info.map((part, i) => show(part, value.get(i))));
    case codes.udt:
      return list(type.info.fields.map(field => show(field.type, value[field.name])));
    default:
      return text(type, value);
  }
}

function text(type, value) {
  if (isDuration(type)) {
    return `${value.months}:${value.days}:${value.nanoseconds}`;
  }
  const bits = Buffer.alloc(type.code === codes.double ? 8 : 4);
  switch (type.code) {
    case codes.blob:
      return value.toString('hex');
    case codes.date:
      return String(value.toBuffer().readUInt32BE() - 2 ** 31);
    case codes.decimal:
      return `${value._intVal}:${value._scale}`;
    case codes.double:
      bits.writeDoubleBE(value);
      return bits.toString('hex');
    case codes.float:
      bits.writeFloatBE(value);
      return bits.toString('hex');
    case codes.inet:
      return value.getBuffer().toString('hex');
    case codes.time:
      return value.getTotalNanoseconds().toString();
    case codes.timestamp:
      return String(value.getTime());
    default:
      return String(value);
  }
}

module.exports = { test, end, cases, applies, valueOf, expected, build, show };
