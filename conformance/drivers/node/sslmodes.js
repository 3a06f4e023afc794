// node-postgres in every sslmode, as libpq means them, against every target in the arguments
// (`label=port/database[+cert]`).
'use strict';

const pg = require('pg');

const modes = ['disable', 'prefer', 'require', 'verify-ca', 'verify-full'];
const ways = modes.map((mode) => [mode, `sslmode=${mode}`]);
ways.push(['require_direct', 'sslmode=require&sslnegotiation=direct']);
ways.push(['verify-full_direct', 'sslmode=verify-full&sslnegotiation=direct']);

async function attempt(target, options) {
  const [address, certificate] = target.split('+');
  let url = `postgres://postgres@127.0.0.1:${address}?uselibpqcompat=true&sslrootcert=${process.env.ROOT}&${options}`;
  if (certificate) {
    url += `&sslcert=${process.env.CERT}&sslkey=${process.env.KEY}`;
  }
  const client = new pg.Client({ connectionString: url, connectionTimeoutMillis: 20000 });
  client.on('error', () => {});
  try {
    await client.connect();
    await client.query('select 1');
    return client.connection.stream.encrypted ? 'TLS' : 'clear';
  } catch (error) {
    console.error(String(error));
    return 'refused';
  } finally {
    // Not end(): after a failed handshake it waits for ever.
    client.connection.stream.destroy();
  }
}

async function main() {
  for (const argument of process.argv.slice(2)) {
    const [label, target] = argument.split('=');
    for (const [name, options] of ways) {
      console.log('outcome', label, name, await attempt(target, options));
    }
  }
}

main().then(() => process.exit(0));
