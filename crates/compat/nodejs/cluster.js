'use strict';
// Load on a cluster whose nodes come and go, as python/cluster_load.py makes it: `cluster.js load FIRST`.

const fs = require('fs');
const readline = require('readline');
const { Client, policies, types } = require('cassandra-driver');

const env = process.env;
const IN_FLIGHT = Number(env.CLUSTER_IN_FLIGHT);
const SEEN_WITHIN_MS = 30000;

function valueOf(key) {
  return `${key}:`.repeat(5 + (key % 20));
}

const sleep = ms => new Promise(done => setTimeout(done, ms));

async function main(first) {
  const client = new Client({
    contactPoints: env.CLUSTER_NODES.split(','),
    localDataCenter: env.CLUSTER_DC,
    keyspace: 'load',
    protocolOptions: { port: Number(env.NODE_PORT) },
    socketOptions: { readTimeout: 15000, connectTimeout: 10000 },
    policies: {
      retry: new policies.retry.FallthroughRetryPolicy(),
      reconnection: new policies.reconnection.ConstantReconnectionPolicy(200),
    },
    queryOptions: { consistency: types.consistencies[env.CLUSTER_LEVEL.toLowerCase().replace(/_(.)/, (_, c) => c.toUpperCase())] },
  });
  await client.connect();
  const begin = Date.now();
  const told = { next: first, writes: 0, reads: 0, wrong: [], errors: {} };
  const acked = [];
  let stopped = false;

  async function step(key) {
    const known = acked.length && key % 2 ? acked[(key * 7919) % acked.length] : undefined;
    try {
      if (known === undefined) {
        const values = [types.Long.fromNumber(key), valueOf(key)];
        await client.execute('INSERT INTO load.rows (k, v) VALUES (?, ?)', values, { prepare: true });
        acked.push(key);
        told.writes++;
        return;
      }
      const values = [types.Long.fromNumber(known)];
      const result = await client.execute('SELECT v FROM load.rows WHERE k = ?', values, { prepare: true });
      told.reads++;
      if (result.rowLength !== 1 || result.first().v !== valueOf(known)) {
        told.wrong.push(known);
      }
    } catch (error) {
      const code = Object.keys(types.responseErrorCodes).find(name => types.responseErrorCodes[name] === error.code);
      // What a host said is inside of what says that no host is left.
      const inner = Object.values(error.innerErrors || {}).map(inner => inner.constructor.name).join('+');
      const name = `${known === undefined ? 'write' : 'read'} ${code || error.constructor.name}${inner && ` of ${inner}`}`;
      (told.errors[name] = told.errors[name] || []).push((Date.now() - begin) / 1000);
    }
  }

  async function obey() {
    for await (const line of readline.createInterface({ input: process.stdin })) {
      const [word, table] = line.split(' ');
      if (word === 'CREATE') {
        try {
          await client.execute(`CREATE TABLE load.${table} (k bigint PRIMARY KEY, v text)`);
          console.log(`CREATED ${table}`);
        } catch (error) {
          console.log(`FAILED ${error.message}`);
        }
      } else if (word === 'SEES') {
        const end = Date.now() + SEEN_WITHIN_MS;
        while (!(await client.metadata.getTable('load', table)) && Date.now() < end) {
          await sleep(20);
        }
        console.log(`${(await client.metadata.getTable('load', table)) ? 'SEES' : 'BLIND'} ${table}`);
      } else {
        break;
      }
    }
    stopped = true;
  }

  const obeying = obey();
  console.log('STARTED');
  await Promise.all(Array.from({ length: IN_FLIGHT }, async () => {
    while (!stopped) {
      await step(told.next++);
      // So that standard input has its turn, too.
      await new Promise(setImmediate);
    }
  }));
  await obeying;
  fs.appendFileSync(env.CLUSTER_ACKED, acked.map(key => `${key}\n`).join(''));
  console.log(`DONE\n${JSON.stringify(told)}`);
  await client.shutdown();
}

main(Number(process.argv[3])).then(() => process.exit(0), error => {
  console.error(error);
  process.exit(1);
});
