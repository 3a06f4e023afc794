// node-postgres with pg-cursor and pg-query-stream, in transaction pooling.
'use strict';

const pg = require('pg');
const Cursor = require('pg-cursor');
const QueryStream = require('pg-query-stream');
const { pipeline } = require('node:stream/promises');
const { Readable } = require('node:stream');
const copyStreams = require('pg-copy-streams');
const tx = require('./tx');

async function connect(options) {
  const client = new pg.Client(options);
  await client.connect();
  return client;
}

async function value(conn, ...query) {
  return Object.values((await conn.query(...query)).rows[0])[0];
}

async function rows(conn, ...query) {
  return (await conn.query(...query)).rows;
}

// As many messages as wanted, waited for.
function listener(conn) {
  const told = [];
  let wake = () => {};
  conn.on('notification', ({ channel, payload }) => {
    told.push(`${channel} ${payload}`);
    wake();
  });
  return {
    told,
    async next() {
      while (told.length === 0) await new Promise((resolve) => (wake = resolve));
      return told.shift();
    },
  };
}

tx.run({
  // Asks until servers have changed, without which nothing here means much.
  async moves(client) {
    const conn = await connect();
    const servers = new Set();
    do servers.add(await value(conn, 'select pg_backend_pid()')); while (servers.size < tx.SERVERS);
    client.remark(`servers ${servers.size}`);
    await conn.end();
  },

  // The same names by all clients, for other texts.
  async named_statements(client) {
    const conn = await connect();
    for (let i = 0; i < 24; i++) {
      const text = `select $1::int + ${(i % 5) * 100 + client.number} as sum`;
      client.say('named', await value(conn, { name: `s${i % 5}`, text, values: [i] }));
      client.say('unnamed', await value(conn, 'select $1::text', [`u${i}`]), await value(conn, 'select 1'));
    }
    await client.fails('bad', conn.query({ name: 'bad', text: 'select no_such_column' }));
    client.say('again', await value(conn, { name: 's1', text: `select $1::int + ${100 + client.number} as sum`, values: [1] }));
    client.say('queued', await Promise.all(Array.from({ length: 20 }, (_, i) => value(conn, { name: `q${i % 3}`, text: `select $1::int * ${i % 3}`, values: [i] }))));
    await conn.end();
  },

  // Portals read piece by piece, in and outside of transactions.
  async cursors(client) {
    const conn = await connect();
    for (const inside of [true, false]) {
      if (inside) await conn.query('begin');
      const cursor = conn.query(new Cursor('select i from generate_series(1, 100) i where i > $1', [client.number]));
      const first = await cursor.read(10);
      const second = await cursor.read(3);
      client.say('read', first.length, second);
      await cursor.close();
      if (inside) await conn.query('commit');
      client.say('after', await value(conn, 'select $1::int', [client.number]));
    }
    let sum = 0;
    for await (const row of conn.query(new QueryStream('select i from generate_series(1, $1) i', [500], { batchSize: 50 }))) sum += row.i;
    client.say('stream', sum);
    const early = conn.query(new QueryStream('select i from generate_series(1, 100000) i', [], { batchSize: 10 }));
    for await (const row of early) if (row.i === 25) break;
    client.say('left early', await value(conn, 'select 2'));
    await conn.end();
  },

  async transactions(client) {
    const conn = await connect();
    const table = `tx_${client.number}`;
    await conn.query(`create table ${table} (i int); insert into ${table} values (0)`);
    for (const begin of ['begin', 'begin isolation level serializable read only deferrable', 'start transaction isolation level repeatable read']) {
      await conn.query(begin);
      client.say('level', await value(conn, 'show transaction_isolation'), await value(conn, 'show transaction_read_only'));
      await conn.query('commit');
    }
    await conn.query('begin');
    await conn.query(`insert into ${table} values ($1)`, [1]);
    await conn.query('savepoint one');
    await conn.query("set application_name to 'undone'");
    await client.fails('inside', conn.query(`insert into ${table} values (1 / $1::int)`, [0]));
    await client.fails('failed', conn.query('select 1'));
    await conn.query('rollback to one');
    client.say('name', await value(conn, 'show application_name'));
    await conn.query('commit');
    client.say('rows', await rows(conn, `select i from ${table} order by i`));
    await conn.query(`drop table ${table}`);
    await conn.end();
  },

  async settings(client) {
    const conn = await connect({ application_name: `start${client.number}`, statement_timeout: 20000 + client.number, options: `-c search_path=own${client.number},public`, lock_timeout: 3000 });
    const show = async (step) => {
      for (let i = 0; i < 2; i++) {
        const shown = [];
        for (const name of ['application_name', 'statement_timeout', 'search_path', 'lock_timeout', 'timezone', 'client_encoding', 'datestyle'])
          shown.push(await value(conn, 'select current_setting($1)', [name]));
        client.say(step, ...shown);
      }
    };
    await show('begin');
    await conn.query("set timezone = 'Asia/Tokyo'; set datestyle to 'ISO, DMY'");
    await conn.query(`set search_path to elsewhere_${client.number}`);
    await show('set');
    client.say('time', await value(conn, "select '2026-07-01 12:00:00+00'::timestamptz"), await value(conn, "select '2026-07-01 12:00:00+00'::timestamptz::text"));
    await conn.query("begin; set local timezone to 'UTC'; set application_name to 'gone'");
    client.say('inside', await value(conn, 'show timezone'), await value(conn, 'show application_name'));
    await conn.query('rollback');
    await show('rolled back');
    await conn.query('discard all');
    await show('discarded');
    await conn.end();
  },

  // A pool whose connections get their settings in the connect event.
  async pools(client) {
    const pool = new pg.Pool({ max: 2 });
    pool.on('connect', (conn) => conn.query(`set search_path to tenant_${client.number}`));
    for (let i = 0; i < 6; i++) {
      client.say('path', await Promise.all([value(pool, 'show search_path'), value(pool, 'select $1::int', [i])]));
    }
    const conn = await pool.connect();
    await conn.query('begin');
    client.say('borrowed', await value(conn, 'show search_path'));
    await conn.query('rollback');
    conn.release();
    await pool.end();
  },

  async copies(client) {
    const conn = await connect();
    const table = `copy_${client.number}`;
    await conn.query(`create table ${table} (i int, w text)`);
    const lines = Array.from({ length: 500 }, (_, i) => `${i}\tword\n`);
    await pipeline(Readable.from(lines), conn.query(copyStreams.from(`copy ${table} from stdin`)));
    let size = 0;
    for await (const piece of conn.query(copyStreams.to(`copy ${table} to stdout`))) size += piece.length;
    client.say('copied', size);
    await client.fails('bad', pipeline(Readable.from(['x\ty\n']), conn.query(copyStreams.from(`copy ${table} from stdin`))));
    client.say('count', await value(conn, `select count(*) from ${table}`));
    await conn.query(`drop table ${table}`);
    await conn.end();
  },

  async notifications(client) {
    const conn = await connect();
    const other = await connect();
    const heard = listener(conn);
    await conn.query(`listen of_${client.number}; listen for_all`);
    await client.meet();
    for (let i = 0; i < 3; i++) await other.query('select pg_notify($1, $2)', [`of_${(client.number + 1) % tx.CLIENTS}`, `${i}`]);
    for (let i = 0; i < 3; i++) client.say('told', await heard.next());
    await client.meet();
    if (client.number === 4) await other.query("begin; notify for_all, 'one'; commit; begin; notify for_all, 'never'; rollback; notify for_all, 'two'");
    for (let i = 0; i < 2; i++) client.say('all', await heard.next());
    await conn.query(`notify of_${client.number}, 'myself'`);
    client.say('myself', await heard.next());
    await client.meet();
    await conn.query('unlisten *');
    client.say('channels', await value(conn, 'select count(*) from pg_listening_channels()'), heard.told);
    await conn.end();
    await other.end();
  },

  async temporary_and_locks(client) {
    const conn = await connect();
    await conn.query('create temp table mine (i int)');
    for (let i = 0; i < 3; i++) {
      await conn.query({ name: 'put', text: 'insert into mine values ($1)', values: [client.number * 10 + i] });
      client.say('rows', await rows(conn, 'select i from mine order by i'));
    }
    await conn.query('drop table mine');
    client.say('lock', await value(conn, 'select pg_try_advisory_lock($1)', [client.number]));
    for (let i = 0; i < 3; i++) client.say('held', await value(conn, "select count(*) from pg_locks where locktype = 'advisory' and pid = pg_backend_pid()"));
    client.say('unlock', await value(conn, 'select pg_advisory_unlock($1)', [client.number]));
    await conn.query('declare held cursor with hold for select generate_series(1, 5) as i');
    for (let i = 0; i < 3; i++) client.say('fetch', await rows(conn, 'fetch 2 from held'));
    await conn.query('close held');
    await conn.end();
  },
});
