// postgres.js (npm: postgres) in transaction pooling, by its defaults: it prepares everything and sends ahead.
'use strict';

const postgres = require('postgres');
const tx = require('./tx');

function connect(options) {
  return postgres({ max: 1, onnotice: () => {}, ...options });
}

function queue() {
  const told = [];
  let wake = () => {};
  return {
    told,
    put(text) {
      told.push(text);
      wake();
    },
    async next() {
      while (told.length === 0) await new Promise((resolve) => (wake = resolve));
      return told.shift();
    },
  };
}

tx.run({
  // Asks until servers have changed, without which nothing here means much.
  async moves(client) {
    const sql = connect();
    const servers = new Set();
    do servers.add((await sql`select pg_backend_pid() as pid`)[0].pid); while (servers.size < tx.SERVERS);
    client.remark(`servers ${servers.size}`);
    await sql.end();
  },

  async statements(client) {
    const sql = connect();
    for (let i = 0; i < 15; i++) {
      client.say('common', (await sql`select ${i}::int * 2 as it`)[0].it);
      client.say('own', (await sql.unsafe(`select $1::int + ${client.number} as it`, [i], { prepare: true }))[0].it);
      client.say('simple', await sql.unsafe('select 1 as a; select 2 as b'));
      client.say('helpers', await sql`select * from (values ${sql([[i, 'a'], [2, 'b']])}) as v (x, y) where y = any(${['a']})`);
    }
    await client.fails('error', sql`select 1 / ${0}::int`);
    client.say('after', (await sql`select 1 / ${1}::int as it`)[0].it);
    client.say('ahead', (await Promise.all(Array.from({ length: 40 }, (_, i) => sql`select ${i}::int as it`))).map((found) => found[0].it));
    const mixed = await Promise.allSettled([sql`select 1 as it`, sql`select 1 / ${0}::int as it`, sql`select ${3}::int as it`]);
    client.say('mixed', mixed.map((one) => one.value?.[0].it ?? one.reason.code));
    client.say('described', (await sql`select ${1}::int as a, ${'x'}::text as b`.describe()).columns.map((column) => column.name));
    await sql.end();
    const unprepared = connect({ prepare: false });
    for (let i = 0; i < 5; i++) client.say('unprepared', (await unprepared`select ${i}::int * 2 as it`)[0].it);
    await unprepared.end();
  },

  async transactions(client) {
    const sql = connect();
    const table = sql(`tx_${client.number}`);
    await sql`create table ${table} (i int)`;
    await sql.begin('isolation level serializable', async (sql) => {
      client.say('level', (await sql`show transaction_isolation`)[0].transaction_isolation);
      await sql`insert into ${table} ${sql([{ i: 1 }, { i: 2 }])}`;
      await client.fails('savepoint', sql.savepoint(async (sql) => {
        await sql`insert into ${table} values (3)`;
        await sql`select set_config('application_name', 'undone', false)`;
        await sql`select 1 / ${0}::int`;
      }));
      client.say('name', (await sql`show application_name`)[0].application_name);
    });
    await client.fails('undone', sql.begin(async (sql) => {
      await sql`delete from ${table}`;
      throw new Error('undo');
    }));
    const [first, second] = await sql.begin((sql) => [sql`select count(*)::int as n from ${table}`, sql`update ${table} set i = i + 10 returning i`]);
    client.say('pipelined', first, second);
    const reserved = await sql.reserve();
    client.say('reserved', await reserved`select i from ${table} order by i`);
    reserved.release();
    await sql`drop table ${table}`;
    await sql.end();
  },

  async cursors(client) {
    const sql = connect();
    let sum = 0;
    await sql`select i from generate_series(1, 100) i where i > ${client.number}`.cursor(9, (rows) => {
      for (const row of rows) sum += row.i;
    });
    client.say('cursor', sum);
    const seen = [];
    for await (const rows of sql`select i from generate_series(1, 100) i`.cursor(7)) {
      seen.push(rows.length);
      if (seen.length === 3) break;
    }
    client.say('left early', seen, (await sql`select ${client.number}::int as it`)[0].it);
    let count = 0;
    await sql`select i from generate_series(1, 50) i`.forEach(() => count++);
    client.say('forEach', count);
    await sql.end();
  },

  async settings(client) {
    const sql = connect({ connection: { application_name: `start${client.number}`, search_path: `own${client.number},public`, statement_timeout: 20000 + client.number, timezone: 'Asia/Tokyo' } });
    const show = async (step) => {
      for (let i = 0; i < 2; i++) {
        const shown = [];
        for (const name of ['application_name', 'search_path', 'statement_timeout', 'timezone', 'work_mem', 'client_min_messages'])
          shown.push((await sql`select current_setting(${name}) as it`)[0].it);
        client.say(step, shown, sql.parameters.TimeZone, sql.parameters.application_name);
      }
    };
    await show('begin');
    await sql`set work_mem to '7MB'`;
    await sql.unsafe(`set client_min_messages to error; set timezone to '${client.number % 2 ? 'UTC' : 'Asia/Kolkata'}'`);
    await show('set');
    await sql.begin(async (sql) => {
      await sql`set local search_path to nowhere`;
      await sql`select set_config('application_name', ${`kept ${client.number}`}, false)`;
    });
    await show('committed');
    await sql`reset all`;
    await show('reset');
    await sql.end();
  },

  // Its listen() takes a connection of its own for all channels.
  async notifications(client) {
    const sql = connect();
    const own = queue();
    const all = queue();
    const mine = await sql.listen(`of_${client.number}`, own.put);
    await sql.listen('for_all', all.put);
    await client.meet();
    for (let i = 0; i < 3; i++) await sql.notify(`of_${(client.number + 1) % tx.CLIENTS}`, `${i}`);
    for (let i = 0; i < 3; i++) client.say('told', await own.next());
    await client.meet();
    if (client.number === 5) await sql.begin((sql) => [sql`notify for_all, 'one'`, sql`select pg_notify('for_all', ${'two'})`]);
    for (let i = 0; i < 2; i++) client.say('all', await all.next());
    await client.meet();
    await mine.unlisten();
    await sql.notify(`of_${client.number}`, 'nobody');
    await sql.notify('for_all', `from ${client.number}`);
    const told = [];
    for (let i = 0; i < tx.CLIENTS; i++) told.push(await all.next());
    client.say('everybody', told.sort(), own.told);
    await client.meet();
    await sql.end();
  },

  async copies(client) {
    const sql = connect();
    const table = sql(`copy_${client.number}`);
    await sql`create table ${table} (i int, w text)`;
    const writable = await sql`copy ${table} from stdin`.writable();
    await new Promise((resolve, reject) => {
      writable.on('error', reject).on('finish', resolve);
      for (let i = 0; i < 300; i++) writable.write(`${i}\tword\n`);
      writable.end();
    });
    let size = 0;
    for await (const piece of await sql`copy ${table} to stdout`.readable()) size += piece.length;
    client.say('copied', size, (await sql`select count(*)::int as n from ${table}`)[0].n);
    await sql`drop table ${table}`;
    await sql.end();
  },

  // Types of arrays are asked for at the first connection; other ones come from the database too.
  async types(client) {
    const sql = connect();
    const schema = `types_${client.number}`;
    await sql.unsafe(`create schema ${schema}; create type ${schema}.mood as enum ('sad', 'glad'); create table ${schema}.moods (m ${schema}.mood, a int[], j jsonb)`);
    for (let i = 0; i < 4; i++) {
      await sql`insert into ${sql(schema)}.moods ${sql({ m: i % 2 ? 'sad' : 'glad', a: [i, 2], j: sql.json({ i }) })}`;
      client.say('rows', await sql`select * from ${sql(schema)}.moods where m = ${'glad'}`);
    }
    await sql.unsafe(`drop schema ${schema} cascade`);
    await sql.end();
  },

  async temporary_tables(client) {
    const sql = connect();
    await sql`create temp table mine (i int)`;
    for (let i = 0; i < 3; i++) {
      await sql`insert into mine values (${client.number * 10 + i})`;
      client.say('rows', await sql`select i from mine order by i`);
    }
    await sql`drop table mine`;
    await sql.end();
  },
});
