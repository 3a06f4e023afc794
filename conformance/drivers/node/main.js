// node-postgres from the outside: connection by PG* environment variables.
'use strict';

const assert = require('node:assert/strict');
const { pipeline } = require('node:stream/promises');
const { Readable } = require('node:stream');
const pg = require('pg');
const copyStreams = require('pg-copy-streams');
const Cursor = require('pg-cursor');

async function withClient(run) {
  const client = new pg.Client();
  await client.connect();
  try {
    await run(client);
  } finally {
    await client.end();
  }
}

const steps = {
  async connects(client) {
    assert.equal((await client.query('select 1 as one')).rows[0].one, 1);
  },

  async parametrisedQuery(client) {
    const day = new Date(Date.UTC(2026, 1, 3, 4, 5, 6));
    const text =
      'select $1::int as a, $2::text as b, $3::text as c, $4::numeric as d, $5::bool as e, $6::timestamptz as f, $7::bytea as g, $8::int[] as h';
    for (let i = 0; i < 100; i++) {
      const values = [i, `text ${i}`, null, '1.50', true, day, Buffer.from([0, 255]), [1, 2]];
      const { rows } = await client.query({ text, values, rowMode: 'array' });
      assert.deepEqual(rows[0], values);
    }
  },

  async namedStatements(client) {
    for (let i = 0; i < 100; i++) {
      const { rows } = await client.query({ name: `s${i % 7}`, text: `select $1::int + ${i % 7} as sum`, values: [i] });
      assert.equal(rows[0].sum, i + (i % 7));
    }
  },

  async transaction(client) {
    await client.query('drop table if exists node_t; create table node_t (i int)');
    await client.query('begin');
    await client.query('insert into node_t values ($1)', [1]);
    await client.query('rollback');
    await client.query('begin');
    await client.query('insert into node_t values ($1)', [2]);
    await assert.rejects(client.query('select 1/0'), { code: '22012' });
    await assert.rejects(client.query('select 1'), { code: '25P02' });
    await client.query('rollback');
    await client.query('begin');
    await client.query('insert into node_t values ($1)', [3]);
    await client.query('commit');
    assert.deepEqual((await client.query('select i from node_t')).rows, [{ i: 3 }]);
  },

  async queuedBatch(client) {
    const answers = await Promise.all(Array.from({ length: 200 }, (_, i) => client.query('select $1::int as i', [i])));
    answers.forEach((answer, i) => assert.equal(answer.rows[0].i, i));
  },

  async errorThenUsable(client) {
    for (let i = 0; i < 10; i++) {
      await assert.rejects(client.query('select no_such_column where $1', [true]), { code: '42703' });
      assert.equal((await client.query('select 1 as one')).rows[0].one, 1);
    }
  },

  async copy(client) {
    await client.query('drop table if exists node_c; create table node_c (i int, w text)');
    const lines = Array.from({ length: 10000 }, (_, i) => `${i}\tword${i}\n`);
    await pipeline(Readable.from(lines), client.query(copyStreams.from('copy node_c from stdin')));
    let size = 0;
    for await (const piece of client.query(copyStreams.to('copy node_c to stdout'))) size += piece.length;
    assert.equal(size, lines.join('').length);
    const bad = pipeline(Readable.from(['x\ty\n']), client.query(copyStreams.from('copy node_c from stdin')));
    await assert.rejects(bad, { code: '22P02' });
    assert.equal((await client.query('select count(*)::int as n from node_c')).rows[0].n, 10000);
  },

  // node-postgres cancels through a second client that knows the key of the first.
  async cancel(client) {
    const sleeping = client.query('select pg_sleep(30)');
    const expected = assert.rejects(sleeping, { code: '57014' });
    await new Promise((done) => setTimeout(done, 300));
    const canceller = new pg.Client();
    const connection = canceller.connection;
    connection.on('connect', () => connection.cancel(client.processID, client.secretKey));
    connection.on('error', () => {});
    connection.connect(Number(process.env.PGPORT), process.env.PGHOST);
    await expected;
    assert.equal((await client.query('select 1 as one')).rows[0].one, 1);
  },

  async cursor(client) {
    await client.query('begin');
    const cursor = client.query(new Cursor('select i from generate_series(1, 1000) i where i <> $1', [0]));
    let sum = 0;
    for (let rows = await cursor.read(100); rows.length; rows = await cursor.read(100))
      for (const row of rows) sum += row.i;
    await cursor.close();
    await client.query('commit');
    assert.equal(sum, 500500);
  },

  async concurrent() {
    const one = (tag) =>
      withClient(async (client) => {
        for (let i = 0; i < 20; i++) {
          const value = tag * 1000 + i;
          assert.equal((await client.query('select $1::int as v', [value])).rows[0].v, value);
        }
      });
    await Promise.all(Array.from({ length: 50 }, (_, tag) => one(tag)));
  },

  async large(client) {
    assert.equal((await client.query("select repeat('x', 10000000) as x")).rows[0].x.length, 10000000);
    assert.equal((await client.query("select repeat('y', 1000) from generate_series(1, 10000)")).rows.length, 10000);
    const { rows } = await client.query('select length($1::text) as n', ['z'.repeat(5000000)]);
    assert.equal(rows[0].n, 5000000);
  },
};

async function main() {
  let failures = 0;
  for (const [name, step] of Object.entries(steps)) {
    try {
      await withClient(step);
      console.log(`ok ${name}`);
    } catch (error) {
      failures++;
      console.log(`FAIL ${name}: ${error.stack}`.replaceAll('\n', ' | '));
    }
  }
  process.exit(failures ? 1 : 0);
}

main();
