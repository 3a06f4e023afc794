//! Random programs.

#![allow(
    clippy::indexing_slicing,
    reason = "a panic in a test is a failure, and is wanted"
)]

use weir_conformance::random::Random;

use crate::program::Act;
use crate::program::Data;
use crate::program::Item;
use crate::program::Part;
use crate::program::Program;
use crate::program::Step;
use crate::statements;
use crate::topics;
use crate::topics::Topic;

/// Maximum of steps of a program.
const STEPS_MAX: usize = 60;

/// Pool sizes and numbers of workers.
const SIZES: [(u32, u32); 6] = [(1, 1), (1, 2), (2, 1), (2, 2), (3, 2), (3, 4)];

/// Program of a seed.
pub(crate) fn program(seed: u64, of: &[Topic]) -> Program {
    let mut random = Random::new(seed);
    // Consecutive seeds have similar first values.
    random.next_u64();
    let topics = topics::some(&mut random, of);
    let mut generator = Generator { random, topics };
    generator.program()
}

pub(crate) struct Generator {
    pub(crate) random: Random,
    pub(crate) topics: Vec<Topic>,
}

impl Generator {
    fn program(&mut self) -> Program {
        let (pool, workers) = self.pick(&SIZES);
        let user = if self.random.chance(80) {
            "app"
        } else {
            "postgres"
        };
        let count = 2 + self.random.below(4);
        let mut clients: Vec<_> = (0..count).map(|_| self.start(user)).collect();
        if self.random.chance(15) {
            let other = if user == "app" { "postgres" } else { "app" };
            clients.push(self.start(other));
        }
        let count = clients.len();
        let length = 10 + self.random.below(STEPS_MAX - 10);
        let mut steps = Vec::new();
        let mut client = 0;
        while steps.len() < length {
            // A client does several steps in a row, so that it reaches interesting states.
            if self.random.chance(45) {
                client = self.random.below(count);
            }
            steps.extend(self.steps(client));
        }
        Program {
            pool,
            workers,
            clients,
            steps,
        }
    }

    fn start(&mut self, user: &str) -> Vec<(String, String)> {
        let mut start = vec![("user".to_owned(), user.to_owned())];
        if !self.has(Topic::Startup) {
            return start;
        }
        for (name, values) in statements::REPORTED {
            if self.random.chance(25) {
                start.push((name.to_owned(), self.pick(&values).to_owned()));
            }
        }
        if self.random.chance(40) {
            let mut options = vec![
                "-c work_mem=9MB -c app.x=start",
                "-c search_path=one -c extra_float_digits=0",
                "-c app.tenant=c -c statement_timeout=3h",
            ];
            // RESET SESSION AUTHORIZATION ends such a role, as documented.
            let resets = [Topic::Roles, Topic::Discard, Topic::Privileges];
            if !resets.iter().any(|topic| self.has(*topic)) {
                options.push("-c role=ra -c work_mem=8MB");
            }
            start.push(("options".to_owned(), self.pick(&options).to_owned()));
        }
        start
    }

    /// Returns a client's next steps, sometimes also a step of the administrator.
    fn steps(&mut self, client: usize) -> Vec<Step> {
        let of_client = |act| Step {
            who: Some(client),
            act,
        };
        if let Some(sql) = self.administration() {
            return vec![Step {
                who: None,
                act: Act::Query(vec![sql]),
            }];
        }
        let mut steps = vec![of_client(self.act())];
        if self.random.chance(25) {
            let part = self.part();
            steps.push(of_client(Act::Ask(part)));
        }
        steps
    }

    fn part(&mut self) -> Part {
        match self.random.below(10) {
            0..6 => Part::Settings,
            6..8 => Part::Names,
            _ => self.pick(&Part::ALL),
        }
    }

    fn administration(&mut self) -> Option<String> {
        if self.has(Topic::Privileges) && self.random.chance(7) {
            return Some(self.privilege());
        }
        if self.has(Topic::Ddl) && self.random.chance(6) {
            return Some(self.ddl());
        }
        None
    }

    fn act(&mut self) -> Act {
        let roll = self.random.below(100);
        match roll {
            0..4 if self.has(Topic::Leaving) => match self.random.chance(60) {
                true => Act::Leave,
                false => Act::Vanish,
            },
            4..8 if self.has(Topic::Cancels) => match self.random.chance(70) {
                true => self.cancel(),
                false => Act::Stray,
            },
            8..16 if self.has(Topic::Copy) => self.copy(),
            16..34 if self.has(Topic::Prepared) => Act::Batch(self.prepared()),
            34..50 if self.has(Topic::Types) => Act::Batch(self.typed()),
            50..60 if self.has(Topic::Pipelines) => Act::Batch(self.pipeline()),
            60..76 => {
                let count = 2 + self.random.below(3);
                Act::Query((0..count).map(|_| self.statement()).collect())
            }
            76..86 => {
                let sql = self.statement();
                Act::Batch(Self::once(&sql))
            }
            _ => Act::Query(vec![self.statement()]),
        }
    }

    /// Cancels a text. The statement before the sleep sends nothing to the client until the end.
    fn cancel(&mut self) -> Act {
        let mut texts = Vec::new();
        if self.random.chance(50) {
            texts.push(self.assignment());
        }
        let waits = [
            "select pg_sleep(60)",
            "select pg_sleep(60), set_config('work_mem', '12MB', false)",
            "do $$ begin perform pg_sleep(60); end $$",
            "set local lock_timeout = 0 ;; update t set v = 'waited' where k = 1",
            "set local lock_timeout = 0 ;; select pg_advisory_xact_lock(1)",
        ];
        texts.extend(self.pick(&waits).split(" ;; ").map(str::to_owned));
        if self.random.chance(30) {
            texts.push(self.assignment());
        }
        Act::Cancel(texts)
    }

    fn copy(&mut self) -> Act {
        let queries = [
            "copy t from stdin with (format csv)",
            "copy d1 (k, v) from stdin with (format csv)",
            "copy tt from stdin with (format csv)",
            "copy no_such_table from stdin",
            "begin; copy one.t from stdin with (format csv); commit",
            "set app.x = 'copied'; copy t from stdin with (format csv); select 1",
            "copy (select * from t order by k, v) to stdout",
            "copy (select coalesce(current_setting('app.tenant', true), ''), current_user) to stdout",
        ];
        let rows = ["3,x", "4,4.5", "5,2020-01-02 03:04:05", "bad", "7"];
        let count = self.random.below(4);
        let sql = match self.has(Topic::Functions) && self.random.chance(30) {
            true => "copy trig from stdin with (format csv)",
            false => self.pick(&queries),
        };
        Act::Copy {
            sql: sql.to_owned(),
            data: Data {
                rows: (0..count).map(|_| self.pick(&rows).to_owned()).collect(),
                fails: self.random.chance(20),
            },
        }
    }

    /// Runs a text with the unnamed statement.
    fn once(sql: &str) -> Vec<Item> {
        vec![
            Item::Parse {
                name: String::new(),
                types: Vec::new(),
                sql: sql.to_owned(),
            },
            Item::Bind {
                portal: String::new(),
                statement: String::new(),
                values: Vec::new(),
            },
            Item::Describe(b'P', String::new()),
            Item::Execute(String::new(), 0),
            Item::Sync,
        ]
    }

    pub(crate) fn has(&self, topic: Topic) -> bool {
        self.topics.contains(&topic)
    }

    pub(crate) fn pick<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.random.below(of.len())]
    }
}
