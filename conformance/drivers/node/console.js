// node-postgres and postgres.js and the administration console: connection by PG* environment variables.
'use strict';

const assert = require('node:assert/strict');
const pg = require('pg');
const postgres = require('postgres');

const checkPools = (pools) => {
  assert.equal(pools.length, 2);
  for (const pool of pools) assert.equal(typeof pool.cl_active, 'number');
};

const steps = {
  async nodePostgres() {
    const client = new pg.Client();
    await client.connect();
    checkPools((await client.query('SHOW POOLS')).rows);
    for (let i = 0; i < 3; i++) {
      checkPools((await client.query({ name: 'pools', text: 'SHOW POOLS' })).rows);
    }
    assert.equal((await client.query({ name: 'pause', text: 'PAUSE' })).command, 'PAUSE');
    assert.equal((await client.query({ text: 'RESUME', queryMode: 'extended' })).command, 'RESUME');
    await assert.rejects(client.query({ text: 'RESUME', queryMode: 'extended' }), /pooler is not paused\/suspended/);
    checkPools((await client.query({ name: 'pools', text: 'SHOW POOLS' })).rows);
    await client.end();
  },

  async postgresJs() {
    // Types are looked up in a catalogue that the console does not have.
    const sql = postgres({ max: 1, fetch_types: false });
    for (let i = 0; i < 3; i++) checkPools(await sql`SHOW POOLS`);
    await sql`PAUSE`;
    await sql`RESUME`;
    await assert.rejects(async () => await sql`RESUME`, /pooler is not paused\/suspended/);
    checkPools(await sql`SHOW POOLS`);
    await sql.end();
  },
};

(async () => {
  let failures = 0;
  for (const [name, step] of Object.entries(steps)) {
    try {
      await step();
      console.log(`ok ${name}`);
    } catch (error) {
      failures += 1;
      console.log(`FAIL ${name}: ${String(error.stack).replaceAll('\n', ' ')}`);
    }
  }
  process.exit(failures === 0 ? 0 : 1);
})();
