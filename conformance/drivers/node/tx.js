// Several clients run the same steps at the same time; what each of them was told is printed client by client. Lines
// that begin with # are remarks; FAIL marks what a program itself holds to be wrong.
'use strict';

const CLIENTS = 6;
const MILLISECONDS_MAX = 120_000;
// Servers that a client can reach: a scenario that shows a change of servers asks until it has seen as many.
const SERVERS = Number(process.env.TX_SERVERS ?? 1);

class Client {
  constructor(scenario, number, meeting) {
    Object.assign(this, { scenario, number, meeting, lines: [], cleanups: [] });
  }

  say(step, ...values) {
    const text = values.map((value) => (typeof value === 'string' ? value : JSON.stringify(value))).join(' ');
    this.lines.push(`${this.scenario}[${this.number}] ${step}: ${text}`.replaceAll('\n', ' | '));
  }

  remark(text) {
    this.lines.push(`# ${text}`);
  }

  // The SQLSTATE that was to come.
  async fails(step, promise) {
    try {
      await promise;
    } catch (error) {
      this.say(step, error.code ?? error.message);
      return;
    }
    throw new Error(`${step}: no error`);
  }

  // Waits until every client is here.
  meet() {
    return this.meeting.wait();
  }
}

class Meeting {
  constructor() {
    this.waiting = [];
  }

  wait() {
    return new Promise((resolve, reject) => {
      if (this.broken) return reject(this.broken);
      this.waiting.push({ resolve, reject });
      if (this.waiting.length === CLIENTS) for (const one of this.waiting.splice(0)) one.resolve();
    });
  }

  abort(error) {
    this.broken = error;
    for (const one of this.waiting.splice(0)) one.reject(error);
  }
}

function deadline(promise) {
  let timer;
  const late = new Promise((_, reject) => {
    timer = setTimeout(() => reject(new Error('hangs')), MILLISECONDS_MAX);
  });
  return Promise.race([promise, late]).finally(() => clearTimeout(timer));
}

function wanted(name) {
  const chosen = process.argv.slice(2);
  const alone = chosen.filter((one) => !one.startsWith('-'));
  return !chosen.includes(`-${name}`) && (alone.length === 0 || alone.includes(name));
}

// Runs each scenario by CLIENTS clients at a time, then ends the process.
async function run(scenarios) {
  let good = true;
  for (const [name, scenario] of Object.entries(scenarios).filter(([name]) => wanted(name))) {
    const meeting = new Meeting();
    const clients = Array.from({ length: CLIENTS }, (_, number) => new Client(name, number, meeting));
    await Promise.all(
      clients.map(async (client) => {
        try {
          await deadline(scenario(client));
        } catch (error) {
          good = false;
          client.lines.push(`FAIL ${name}[${client.number}] ${error.stack}`.replaceAll('\n', ' | '));
          meeting.abort(new Error('another client broke'));
        }
      }),
    );
    for (const client of clients) for (const line of client.lines) console.log(line);
    console.log(`done ${name}`);
  }
  process.exit(good ? 0 : 1);
}

module.exports = { CLIENTS, SERVERS, run };
