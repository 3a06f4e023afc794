// postgres.js: changes by `subscribe`. Arguments: port, database.

'use strict';

const postgres = require('postgres');

async function main() {
  const [port, database] = process.argv.slice(2);
  const options = {
    host: '127.0.0.1', port: Number(port), database, username: 'postgres', ssl: false, onnotice: () => {},
    publications: 'by_node',
  };
  const sql = postgres(options);

  await sql`drop publication if exists by_node`;
  await sql`drop table if exists by_node`;
  await sql`create table by_node (id int primary key, text text)`;
  await sql`create publication by_node for table by_node`;

  const seen = [];
  let done;
  const all = new Promise(resolve => { done = resolve });
  const { unsubscribe } = await sql.subscribe('*', (row, { command }) => {
    seen.push(`${command} ${row?.id ?? ''} ${row?.text?.length ?? ''}`);
    if (command === 'delete') done();
  });

  for (let row = 0; row < 300; row++) {
    await sql`insert into by_node values (${row}, ${'x'.repeat(row)})`;
  }
  // Longer than any time limit of the pooler.
  await new Promise(resolve => setTimeout(resolve, 3000));
  await sql`update by_node set text = 'last' where id < 3`;
  await sql`delete from by_node where id = 7`;
  await all;
  await unsubscribe();
  console.log(seen.join('\n'));
  await sql.end({ timeout: 5 });
  process.exit(0);
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});
