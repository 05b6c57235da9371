'use strict';
// The Node.js driver against a running node. It speaks protocol 3 and 4, and compresses nothing.

const assert = require('assert');
const fs = require('fs');
const { Client, auth, errors, policies, types } = require('cassandra-driver');
const { test, end, cases, applies, valueOf, expected, build, show } = require('./suite.js');

const env = process.env;
const ROWS = Number(env.SUITE_ROWS);
const REPLICATION = "replication = {'class': 'NetworkTopologyStrategy', 'datacenter1': 1}";
const CODES = {
  syntax: types.responseErrorCodes.syntaxError,
  invalid: types.responseErrorCodes.invalid,
  exists: types.responseErrorCodes.alreadyExists,
  config: types.responseErrorCodes.configError,
  unauthorized: types.responseErrorCodes.unauthorized,
  unavailable: types.responseErrorCodes.unavailableException,
};

function client(version, more = {}) {
  return new Client({
    contactPoints: [env.NODE_HOST],
    localDataCenter: 'datacenter1',
    protocolOptions: { port: Number(more.port || env.NODE_PORT), maxVersion: version },
    socketOptions: { readTimeout: 60000, connectTimeout: 30000 },
    policies: { retry: new policies.retry.FallthroughRetryPolicy() },
    encoding: { map: Map, set: Set, useUndefinedAsUnset: version >= 4 },
    ...more.options,
  });
}

async function main() {
  for (const [i, version] of [4, 3].entries()) {
    const session = client(version);
    const name = ` v${version} none`;
    let connected = false;
    await test('connect' + name, async () => {
      await session.connect();
      assert.strictEqual(session.controlConnection.protocolVersion, version);
      await session.execute('DROP KEYSPACE IF EXISTS nodejs');
      await session.execute(`CREATE KEYSPACE nodejs WITH ${REPLICATION}`);
      await session.execute('USE nodejs');
      connected = true;
    });
    if (connected) {
      await test('types' + name, () => everyType(session, version));
      await test('mistakes' + name, () => mistakes(session));
      await test('prepared_across_changes' + name, () => preparedAcrossChanges(session));
      await test('batches_timestamps_ttl' + name, () => batches(session));
      await test('tracing_payload_warnings' + name, () => extras(session, version));
      await test('metadata' + name, () => metadata(session));
      await test('events' + name, () => events(version));
      if (i === 0) {
        await test('paging' + name, () => paging(session));
      }
      await session.execute('DROP KEYSPACE nodejs');
    }
    await session.shutdown();
    await test(`tls_and_password v${version}`, () => secure(version));
    await test(`client_certificate v${version}`, () => clientCertificate(version));
  }
  end();
}

async function everyType(session, version) {
  const table = cases('types.json');
  for (const text of table.setup) {
    await session.execute(text);
  }
  const chosen = table.types.filter(entry => applies(entry, version));
  const columns = chosen.map((entry, i) => `, c${i} ${entry.type}`).join('');
  await session.execute('DROP TABLE IF EXISTS types');
  await session.execute(`CREATE TABLE types (k int PRIMARY KEY${columns})`);
  let key = 0;
  let values = 0;
  for (const [i, entry] of chosen.entries()) {
    const insert = `INSERT INTO types (k, c${i}) VALUES (?, ?)`;
    const select = `SELECT c${i} FROM types WHERE k = ?`;
    const type = (await session.execute(select, [-1], { prepare: true })).columns[0].type;
    const read = async () => {
      const result = await session.execute(select, [key], { prepare: true });
      return show(result.columns[0].type, result.rows[0].get(0));
    };
    for (const item of entry.values.filter(item => applies(item, version))) {
      key++;
      await session.execute(insert, [key, build(type, valueOf(item))], { prepare: true });
      assert.strictEqual(await read(), expected(item), `${entry.type} bound`);
      if (item.cql) {
        key++;
        await session.execute(`INSERT INTO types (k, c${i}) VALUES (${key}, ${item.cql})`);
        assert.strictEqual(await read(), expected(item), `${entry.type} as ${item.cql}`);
      }
      values++;
    }
    await session.execute(insert, [key, null], { prepare: true });
    assert.strictEqual(await read(), 'null', `${entry.type} set to null`);
    if (version >= 4) {
      key++;
      await session.execute(insert, [key, types.unset], { prepare: true });
      assert.strictEqual(await read(), 'null', `${entry.type} left unset`);
    }
  }
  return `${values} values of ${chosen.length} types`;
}

async function mistakes(session) {
  const table = cases('mistakes.json');
  for (const text of table.setup) {
    await session.execute(text);
  }
  for (const mistake of table.mistakes) {
    const options = { prepare: mistake.how !== 'query' };
    if (mistake.level) {
      options.consistency = types.consistencies[mistake.level.toLowerCase()];
    }
    const values = (mistake.values || []).map(value => (value === null ? null : Number(value)));
    const error = await session.execute(mistake.cql, mistake.how === 'prepare' ? [1] : values, options).then(
      () => assert.fail(`${mistake.name} was accepted`), error => error);
    assert.ok(error instanceof errors.ResponseError, `${mistake.name}: ${error}`);
    assert.strictEqual(error.code, CODES[mistake.error], `${mistake.name}: ${error.message}`);
    assert.ok(error.message.includes(mistake.says || ''), `${mistake.name} does not say ${mistake.says}: ${error.message}`);
    if (mistake.error === 'unavailable') {
      assert.deepStrictEqual([error.required, error.alive], [2, 1]);
    }
    if (mistake.error === 'exists') {
      assert.deepStrictEqual([error.keyspace, error.table], ['nodejs', 'rows']);
    }
  }
  return `${table.mistakes.length} mistakes`;
}

async function preparedAcrossChanges(session) {
  const run = (text, values) => session.execute(text, values, { prepare: true });
  // What cannot be prepared again is told as a statement that was not prepared anywhere.
  const told = error => error.code === CODES.invalid
    || Object.values(error.innerErrors || {}).some(inner => inner.code === types.responseErrorCodes.unprepared);
  const invalid = (text, values) => assert.rejects(run(text, values), told);
  await session.execute('CREATE TABLE changing (k int PRIMARY KEY, v int)');
  const [insert, select] = ['INSERT INTO changing (k, v) VALUES (?, ?)', 'SELECT * FROM changing WHERE k = ?'];
  await run(insert, [1, 2]);
  assert.strictEqual((await run(select, [1])).first().v, 2);
  await session.execute('ALTER TABLE changing ADD w text');
  await run(insert, [2, 3]);
  await session.execute("UPDATE changing SET w = 'new' WHERE k = 1");
  // This driver never asks to leave the columns' description away, so that it sees the new column by protocol 4, too.
  assert.deepStrictEqual({ ...(await run(select, [1])).first() }, { k: 1, v: 2, w: 'new' });
  await session.execute('ALTER TABLE changing DROP v');
  assert.deepStrictEqual({ ...(await run(select, [1])).first() }, { k: 1, w: 'new' });
  await invalid(insert, [3, 4]);
  await session.execute('DROP TABLE changing');
  await invalid(select, [1]);
}

async function batches(session) {
  await session.execute('CREATE TABLE batched (k int, c int, v int, PRIMARY KEY (k, c))');
  const one = async text => Number((await session.execute(text)).rows[0].get(0));
  const insert = 'INSERT INTO batched (k, c, v) VALUES (?, ?, ?)';
  for (const logged of [true, false]) {
    const queries = [...Array(20).keys()].map(c => ({ query: insert, params: [c % 3, c, c] }));
    queries.push({ query: 'INSERT INTO batched (k, c, v) VALUES (?, 100, ?)', params: [7, 1] });
    queries.push({ query: 'DELETE FROM batched WHERE k = ? AND c = 0', params: [0] });
    await session.batch(queries, { prepare: true, logged, timestamp: 5000 });
    assert.strictEqual(await one('SELECT count(*) FROM batched'), 20);
    assert.strictEqual(await one('SELECT writetime(v) FROM batched WHERE k = 7'), 5000);
    await session.execute('TRUNCATE batched');
  }
  await session.execute(insert, [1, 1, 10], { prepare: true, timestamp: 2000 });
  await session.execute(insert, [1, 1, 20], { prepare: true, timestamp: 1000 });
  assert.strictEqual(await one('SELECT v FROM batched WHERE k = 1'), 10);
  assert.strictEqual(await one('SELECT writetime(v) FROM batched WHERE k = 1'), 2000);
  await session.execute('INSERT INTO batched (k, c, v) VALUES (2, 2, 2) USING TTL ?', [1000], { prepare: true });
  const left = await one('SELECT ttl(v) FROM batched WHERE k = 2');
  assert.ok(left > 900 && left <= 1000, `ttl ${left}`);
  await session.execute('INSERT INTO batched (k, c, v) VALUES (3, 3, 3) USING TTL 1');
  await new Promise(resolve => setTimeout(resolve, 2100));
  assert.strictEqual((await session.execute('SELECT * FROM batched WHERE k = 3')).rows.length, 0);
}

async function extras(session, version) {
  await session.execute('CREATE TABLE extras (k int PRIMARY KEY, v text)');
  const customPayload = version >= 4 ? { key: Buffer.from([1, 2]) } : undefined;
  const result = await session.execute("INSERT INTO extras (k, v) VALUES (1, 'v')", [], { traceQuery: true, customPayload });
  assert.ok(result.info.traceId, 'no id of a trace');
  // The session of a trace is written behind the answer.
  let trace;
  for (let tries = 0; tries < 50 && !(trace && trace.events.length && trace.duration !== null); tries++) {
    trace = await session.metadata.getTrace(result.info.traceId);
    await new Promise(resolve => setTimeout(resolve, 50));
  }
  assert.ok(trace.events.length > 0 && trace.requestType, 'a trace without events');
  assert.ok(!(await session.execute('SELECT * FROM extras')).info.traceId, 'traced unasked');
  if (version >= 4) {
    const { warnings } = (await session.execute('SELECT count(*) FROM extras')).info;
    assert.ok(String(warnings).includes('Aggregation query used without partition key'), `warnings ${warnings}`);
    await payloads(session);
  }
}

/** Nobody reads them, nobody answers with one, nothing changes by them. */
async function payloads(session) {
  const customPayload = { key: Buffer.from([1, 2]), empty: Buffer.alloc(0), long: Buffer.alloc(300000, 7) };
  const update = 'UPDATE extras SET v = ? WHERE k = 1';
  const options = { customPayload, prepare: true };
  const ways = {
    simple: () => session.execute("UPDATE extras SET v = 'simple' WHERE k = 1", [], { customPayload }),
    prepared: () => session.execute(update, ['prepared'], options),
    batched: () => session.batch([{ query: update, params: ['batched'] }], options),
  };
  for (const [reads, way] of Object.entries(ways)) {
    assert.ok(!(await way()).info.customPayload, `answered with a payload: ${reads}`);
    assert.strictEqual((await session.execute('SELECT v FROM extras WHERE k = 1')).first().v, reads);
  }
}

async function metadata(session) {
  await session.execute('CREATE TYPE IF NOT EXISTS point (x int, y int)');
  await session.execute('CREATE TABLE described (a int, b text, c int, d timeuuid, s text static, '
    + 'm map<int, frozen<list<text>>>, p frozen<point>, PRIMARY KEY ((a, b), c, d)) '
    + "WITH CLUSTERING ORDER BY (c DESC, d ASC) AND comment = 'it''s' AND gc_grace_seconds = 99");
  const table = await session.metadata.getTable('nodejs', 'described');
  const names = columns => columns.map(column => column.name);
  assert.deepStrictEqual([names(table.partitionKeys), names(table.clusteringKeys)], [['a', 'b'], ['c', 'd']]);
  assert.deepStrictEqual(table.clusteringOrder, ['DESC', 'ASC']);
  assert.strictEqual(table.columnsByName.s.isStatic, true);
  assert.strictEqual(table.columnsByName.m.type.code, types.dataTypes.map);
  assert.deepStrictEqual([table.gcGraceSeconds, table.comment], [99, "it's"]);
  const point = await session.metadata.getUdt('nodejs', 'point');
  assert.deepStrictEqual(point.fields.map(field => field.name), ['x', 'y']);
  assert.strictEqual(session.metadata.getReplicas('nodejs', Buffer.from([0, 0, 0, 1])).length, 1);
  assert.ok(session.metadata.getTokenRanges().size > 0, 'no token ranges');
}

/** This driver has no listeners; its metadata must follow what another session changes, told by events. */
async function events(version) {
  const [listening, changing] = [client(version), client(version)];
  try {
    await listening.connect();
    const follows = async (text, holds) => {
      await changing.execute(text);
      for (let tries = 0; tries < 400; tries++) {
        if (await holds()) {
          return;
        }
        await new Promise(resolve => setTimeout(resolve, 50));
      }
      assert.fail(`not told of ${text}`);
    };
    await changing.execute('DROP KEYSPACE IF EXISTS nodejs_events');
    const table = () => listening.metadata.getTable('nodejs_events', 'told');
    await follows(`CREATE KEYSPACE nodejs_events WITH ${REPLICATION}`, () => listening.metadata.keyspaces.nodejs_events);
    await follows('CREATE TABLE nodejs_events.told (k int PRIMARY KEY)', async () => await table() !== null);
    await follows('ALTER TABLE nodejs_events.told ADD v int', async () => (await table()).columnsByName.v);
    await follows('DROP TABLE nodejs_events.told', async () => await table() === null);
    await follows('DROP KEYSPACE nodejs_events', () => !listening.metadata.keyspaces.nodejs_events);
    assert.strictEqual(listening.hosts.length, 1);
  } finally {
    await listening.shutdown();
    await changing.shutdown();
  }
}

async function paging(session) {
  await session.execute('CREATE TABLE pages (k bigint, c int, v text, PRIMARY KEY (k, c))');
  let next = 0;
  const writer = async () => {
    while (next < ROWS) {
      const i = next++;
      const values = [types.Long.fromNumber(Math.floor(i / 100)), i % 100, `value ${i}`];
      await session.execute('INSERT INTO pages (k, c, v) VALUES (?, ?, ?)', values, { prepare: true });
    }
  };
  await Promise.all(Array.from({ length: 256 }, writer));
  for (const fetchSize of [5000, 997]) {
    const seen = new Set();
    let last = [-1, -1];
    const stream = session.stream('SELECT k, c, v FROM pages', [], { prepare: true, autoPage: true, fetchSize });
    for await (const row of stream) {
      const i = row.k.toNumber() * 100 + row.c;
      assert.ok(!seen.has(i) && row.v === `value ${i}`, `row ${i} came twice or as ${row.v}`);
      assert.ok(row.k.toNumber() !== last[0] || row.c > last[1], `row ${i} is out of order`);
      seen.add(i);
      last = [row.k.toNumber(), row.c];
    }
    assert.strictEqual(seen.size, ROWS);
  }
  const first = await session.execute('SELECT k, c FROM pages', [], { fetchSize: 10 });
  assert.strictEqual(first.rows.length, 10);
  const second = await session.execute('SELECT k, c FROM pages', [], { fetchSize: 10, pageState: first.pageState });
  const twenty = await session.execute('SELECT k, c FROM pages LIMIT 20');
  assert.deepStrictEqual([...first.rows, ...second.rows].map(String), twenty.rows.map(String));
  return `${ROWS} rows`;
}

async function clientCertificate(version) {
  const connect = async own => {
    const pem = own && fs.readFileSync(env[own]);
    const sslOptions = { ca: [fs.readFileSync(env.NODE_AUTHORITY)], host: env.NODE_HOST, rejectUnauthorized: true, cert: pem, key: pem };
    const options = { sslOptions, socketOptions: { readTimeout: 10000, connectTimeout: 10000 } };
    const session = client(version, { port: env.NODE_MUTUAL_PORT, options });
    try {
      await session.connect();
      assert.strictEqual((await session.execute('SELECT key FROM system.local')).rows.length, 1);
    } finally {
      await session.shutdown();
    }
  };
  await connect('NODE_CLIENT');
  await assert.rejects(connect('NODE_IMPOSTOR'), errors.NoHostAvailableError);
  await assert.rejects(connect(undefined), errors.NoHostAvailableError);
}

async function secure(version) {
  const open = async (authority, user, password) => {
    // The driver does not notice that a refused connection was closed, and waits.
    const options = { socketOptions: { readTimeout: 10000, connectTimeout: 10000 } };
    if (user) {
      options.authProvider = new auth.PlainTextAuthProvider(user, password);
    }
    if (authority) {
      options.sslOptions = { ca: [fs.readFileSync(env[authority])], host: env.NODE_HOST, rejectUnauthorized: true };
    }
    const session = client(version, { port: env.NODE_SECURE_PORT, options });
    try {
      await session.connect();
      return session;
    } catch (error) {
      await session.shutdown();
      throw error.innerErrors ? Object.values(error.innerErrors)[0] : error;
    }
  };
  const root = await open('NODE_AUTHORITY', 'cassandra', 'cassandra');
  await root.execute("CREATE ROLE IF NOT EXISTS nodejs WITH PASSWORD = 'it''s secret' AND LOGIN = true");
  await root.shutdown();
  const session = await open('NODE_AUTHORITY', 'nodejs', "it's secret");
  assert.strictEqual((await session.execute('SELECT key FROM system.local')).rows.length, 1);
  await session.shutdown();
  const refused = (error, arguments_) => assert.rejects(open(...arguments_), error);
  await refused(errors.AuthenticationError, ['NODE_AUTHORITY', 'nodejs', 'wrong']);
  await refused(errors.AuthenticationError, ['NODE_AUTHORITY', 'nobody', "it's secret"]);
  await refused(errors.AuthenticationError, ['NODE_AUTHORITY']);
  await refused(/certificate/, ['NODE_STRANGER', 'nodejs', "it's secret"]);
  await refused(Error, [null, 'nodejs', "it's secret"]);
}

main().catch(error => {
  console.error(error);
  process.exit(1);
});
