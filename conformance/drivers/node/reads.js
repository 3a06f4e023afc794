// node-postgres writes rows and reads them, each time at once and then many times (`ok MODE READS`).
'use strict';

const assert = require('node:assert/strict');
const pg = require('pg');

const ROUNDS = 3;
// Enough to outlast the time for which a session that has written reads from the primary.
const READS = 600;

async function main() {
  const pool = new pg.Pool({ max: 3 });
  for (const mode of ['node', 'node-named']) {
    for (let round = 0; round < ROUNDS; round++) {
      const client = await pool.connect();
      const written = await client.query(`/* ${mode}-write. */ insert into t (name) values ($1) returning id`, [mode]);
      const { id } = written.rows[0];
      for (let turn = 0; turn < READS; turn++) {
        const text = `/* ${mode}. */ select name from t where id = $1`;
        const query = mode === 'node' ? { text, values: [id] } : { name: 'by id', text, values: [id] };
        const { rows } = await client.query(query);
        assert.deepEqual(rows, [{ name: mode }], `read ${turn} of row ${id}`);
      }
      client.release();
    }
    console.log('ok', mode, ROUNDS * READS);
  }
  await pool.end();
}

main().catch((error) => {
  console.log('FAIL', String(error).replaceAll('\n', ' '));
  process.exit(1);
});
