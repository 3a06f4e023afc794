//! Runs one cell: fresh processes, a login, the load, and its costs.

use std::path::Path;
use std::time::Duration;

use super::candidates::{Candidate, Candidates};
use super::directory::{Directory, redact};
use super::flags::{Wanted, flags};
use super::plan::Planned;
use super::stage::Stage;
use super::{Error, Options};
use crate::clock;
use crate::environment::negotiated;
use crate::error::Error as SystemError;
use crate::experiment::{Design, Experiment, GeneratorKind, Tls, Work};
use crate::generator::{Generator, Job, Loaded, Watch};
use crate::interrupt::Interrupt;
use crate::load_process::LoadProcess;
use crate::meter::Groups;
use crate::pgbench::Pgbench;
use crate::postgres::Programs;
use crate::process::Process;
use crate::record::{Cell, Costs, Flag, FlagKind};
use crate::target::{Deployment, Found, Request, Server, Site, StartError};
use crate::template;

/// Allowance for connections of the lab itself, besides those of the load.
const CLIENTS_BESIDE: u32 = 20;
/// Factor for loads that reconnect: until a pooler notices that a client has left, others connect in its place.
const LEAVING: u32 = 10;

/// Context of a cell.
pub(super) struct Bench<'a> {
    pub(super) experiment: &'a Experiment,
    pub(super) design: &'a Design,
    pub(super) stage: &'a Stage,
    pub(super) candidates: &'a Candidates,
    pub(super) programs: &'a Programs,
    pub(super) options: &'a Options,
    pub(super) interrupt: &'a Interrupt,
}

/// A cell that was run.
pub(super) struct Done {
    pub(super) record: Cell,
    /// TLS of its connections, if they have TLS.
    pub(super) negotiated: Option<String>,
}

/// Failure that concerns only this cell.
#[derive(Debug, thiserror::Error)]
enum Failure {
    #[error(transparent)]
    System(#[from] SystemError),
    #[error(transparent)]
    Start(#[from] StartError),
    #[error(transparent)]
    Template(#[from] template::Error),
    #[error("{0}")]
    Other(String),
}

impl Failure {
    /// Returns the words of a record: the reason, and for a target that does not start where its files are.
    fn words(&self, planned: &Planned, candidates: &Candidates, configurations: &str) -> String {
        let Self::Start(error) = self else {
            return self.to_string();
        };
        let mut words = format!(
            "{error}\nIts configuration and whole logs are in {configurations} of the result."
        );
        if let Some(file) = candidates.file_of(&planned.target) {
            words.push_str(&format!(
                " To try another configuration, change targets/{file} there and give it with --target-file."
            ));
        }
        words
    }
}

/// Results of a measurement, before they become a record.
struct Measured {
    loaded: Loaded,
    costs: Costs,
    on_replicas: Option<f64>,
    flags: Vec<Flag>,
    negotiated: Option<String>,
}

/// Processes between the clients and the servers of a cell. Fields drop in this order: the part nearest to the
/// clients stops first.
struct Chain {
    front: Option<Deployment>,
    proxies: Vec<Deployment>,
    host: String,
    port: u16,
}

impl Bench<'_> {
    /// Runs the cell. Its failure is in the record.
    ///
    /// # Errors
    /// The result directory cannot be written.
    pub(super) fn run(
        &self,
        planned: &Planned,
        rate: Option<f64>,
        directory: &Directory,
    ) -> Result<Done, Error> {
        let Planned {
            experiment,
            target,
            block,
            order,
            ..
        } = planned;
        let (configurations, path) = directory.of_cell(experiment, *block, *order, target)?;
        let started = clock::since_epoch();
        let measured = self.measure(planned, rate, &path);
        if let Some(secret) = self.stage.secret() {
            redact(&path, secret)?;
        }
        let generator = self.generator().name().to_owned();
        let mut record = Cell {
            experiment: experiment.clone(),
            target: target.clone(),
            block: *block,
            order: *order,
            factors: planned.factors.clone(),
            generator,
            command: Vec::new(),
            configurations,
            outcome: None,
            failed: None,
            costs: Costs::default(),
            on_replicas: None,
            flags: Vec::new(),
            started_unix_s: started.as_secs(),
        };
        let mut negotiated = None;
        match measured {
            Ok(measured) => {
                record.command = measured.loaded.command;
                record.outcome = Some(measured.loaded.outcome);
                record.costs = measured.costs;
                record.on_replicas = measured.on_replicas;
                record.flags = measured.flags;
                negotiated = measured.negotiated;
            }
            Err(failure) => {
                let words = failure.words(planned, self.candidates, &record.configurations);
                record.failed = Some(match self.stage.secret() {
                    Some(secret) => words.replace(secret, "***"),
                    None => words,
                });
            }
        }
        Ok(Done { record, negotiated })
    }

    fn measure(
        &self,
        planned: &Planned,
        rate: Option<f64>,
        directory: &Path,
    ) -> Result<Measured, Failure> {
        let (candidate, found) = found(self.candidates.get(&planned.target), &planned.target)?;
        let mut work = self
            .experiment
            .work(&planned.factors, self.design.scale)
            .map_err(|error| Failure::Other(error.to_string()))?;
        let instance = &candidate.instance;
        let request = self.request(&work);
        if let Some(reason) = instance.refusal(&found.version, request)? {
            return Err(Failure::Other(reason));
        }
        let mut flags_before = Vec::new();
        let instead = instance.substitute(&found.version, request)?;
        if let Some((protocol, reason)) = instead {
            work.protocol = protocol;
            flags_before.push(Flag {
                kind: FlagKind::Substituted,
                detail: reason,
            });
        }
        let commits = self.stage.commits()?;
        let mut chain = self.start(candidate, found, &work, directory)?;
        let negotiated = self.negotiated(&chain, &work);
        let measured = self.load(planned, rate, &work, &chain, directory);
        // Logs are most needed after a failure.
        for (index, proxy) in chain.proxies.iter().enumerate() {
            proxy.keep(&directory.join(of_proxy(index)))?;
        }
        if let Some(front) = &chain.front {
            front.keep(&directory.join(FRONT))?;
        }
        let (loaded, costs, mut flags) = measured?;
        if !chain.proxies.iter_mut().all(Deployment::is_alive) {
            let what = "a process of the target ended while it was measured; see its logs";
            return Err(Failure::Other(what.to_owned()));
        }
        if loaded.outcome.transactions == 0 && !work.idle {
            let said = loaded.outcome.first_error.as_deref();
            let said = said.map(|text| format!("; the first failure: {text}"));
            return Err(Failure::Other(format!(
                "no transaction was over in the measured time{}",
                said.unwrap_or_default()
            )));
        }
        flags.extend(flags_before);
        flags.sort_by_key(|flag| flag.kind);
        // Stops the processes, which closes their connections to the servers.
        drop(chain);
        let on_replicas = share_on_replicas(commits, self.stage.commits()?);
        Ok(Measured {
            loaded,
            costs,
            on_replicas,
            flags,
            negotiated,
        })
    }

    fn request<'w>(&self, work: &'w Work) -> Request<'w> {
        Request {
            auth: self.stage.login().auth,
            protocol: &work.protocol,
            client_tls: work.tls != Tls::None,
            server_tls: work.tls == Tls::Both,
        }
    }

    /// Starts the target and the program in front of it. The files of one that does not start are kept in
    /// `directory`.
    fn start(
        &self,
        candidate: &Candidate,
        found: &Found,
        work: &Work,
        directory: &Path,
    ) -> Result<Chain, Failure> {
        let pooler = &self.experiment.pooler;
        let servers = self.stage.servers();
        let mut chain = Chain {
            front: None,
            proxies: Vec::new(),
            host: String::new(),
            port: 0,
        };
        let mut listening = servers.clone();
        if !candidate.instance.is_direct() {
            listening.clear();
            for index in 0..pooler.proxies {
                let own = usize::try_from(index).unwrap_or_default() % servers.len().max(1);
                let mut site = self.site(work, servers.clone(), own);
                site.clients_max = clients_max(work, pooler.proxies);
                let kept = directory.join(of_proxy(chain.proxies.len()));
                let instance = &candidate.instance;
                let proxy = Deployment::start(instance, found, &site, self.programs, &kept)?;
                listening.push(server(&proxy));
                chain.proxies.push(proxy);
            }
        }
        if let Some(name) = &pooler.front {
            let (front, found) = self::found(self.candidates.front(name), name)?;
            let site = self.site(work, listening, 0);
            let (instance, kept) = (&front.instance, directory.join(FRONT));
            let front = Deployment::start(instance, found, &site, self.programs, &kept)?;
            listening = vec![server(&front)];
            chain.front = Some(front);
        }
        if let Some(first) = listening.into_iter().next() {
            chain.host = first.host;
            chain.port = first.port;
        }
        Ok(chain)
    }

    fn site(&self, work: &Work, servers: Vec<Server>, own: usize) -> Site {
        let login = self.stage.login();
        let (certificate, key, authority) = self.stage.files();
        Site {
            servers,
            own,
            database: login.database,
            user: login.user,
            password: login.password,
            secret: login.secret,
            auth: login.auth,
            client_tls: work.tls != Tls::None,
            server_tls: work.tls == Tls::Both,
            certificate,
            key,
            authority,
            pool_size: self.experiment.pooler.pool_size,
            clients_max: clients_max(work, 1),
            cpus: self.options.pooler_cpus.clone(),
            answers: self.experiment.server.null.is_none(),
        }
    }

    fn load(
        &self,
        planned: &Planned,
        rate: Option<f64>,
        work: &Work,
        chain: &Chain,
        directory: &Path,
    ) -> Result<(Loaded, Costs, Vec<Flag>), Failure> {
        let login = self.stage.login();
        let threads = work.clients.min(self.experiment.threads_max);
        let job = Job {
            host: chain.host.clone(),
            port: chain.port,
            user: login.user,
            password: login.password,
            database: login.database,
            tls: work.tls != Tls::None,
            work,
            rate,
            threads,
            warm_up: Duration::from_secs_f64(self.design.warm_up_s),
            measure: Duration::from_secs_f64(self.design.measure_s),
            seed: planned.seed,
            directory,
        };
        let storm = self.load_process();
        let mut storm = (work.storm > 0)
            .then(|| storm.storm(&job, work.storm))
            .transpose()?;
        let front = chain.front.iter().flat_map(Deployment::pids);
        let groups = Groups {
            pooler: chain.proxies.iter().flat_map(Deployment::pids).collect(),
            server: self.stage.pids(),
            generator: Vec::new(),
            others: front.chain(storm.iter().map(Process::pid)).collect(),
        };
        let mut watch = Watch::new(groups, self.interrupt);
        let loaded = self.generator().run(&job, &mut watch)?;
        let costs = watch.costs(loaded.window, &loaded.outcome)?;
        if let Some(storm) = &mut storm
            && storm.try_wait()?.is_some()
        {
            let what = "nobody could log in meanwhile; storm.jsonl says why";
            return Err(Failure::Other(what.to_owned()));
        }
        let wanted = Wanted {
            clients: work.clients,
            threads,
            closed: rate.is_none() && !work.reconnect && !work.idle,
            stay: !work.reconnect,
            idle: work.idle,
        };
        let flags = flags(wanted, &loaded.outcome, &costs);
        Ok((loaded, costs, flags))
    }

    fn generator(&self) -> Box<dyn Generator> {
        match self.experiment.generator {
            GeneratorKind::Pgbench => Box::new(Pgbench {
                // Without pgbench, PostgreSQL could not have been set up.
                program: self
                    .programs
                    .path("pgbench")
                    .unwrap_or_else(|_| "pgbench".into()),
            }),
            GeneratorKind::Weir => Box::new(self.load_process()),
        }
    }

    fn load_process(&self) -> LoadProcess {
        LoadProcess {
            command: [&self.options.program[..], &["load".to_owned()]].concat(),
        }
    }

    /// Observes the connections' TLS, if they have it. A failure to do so is ignored.
    fn negotiated(&self, chain: &Chain, work: &Work) -> Option<String> {
        if work.tls == Tls::None {
            return None;
        }
        let login = self.stage.login();
        let address = format!("{}:{}", chain.host, chain.port).parse().ok()?;
        let access = crate::access::Access {
            tls: true,
            password: true,
        };
        let (user, database) = (&login.user, &login.database);
        let seen = negotiated::observe(self.programs, address, user, database, &access);
        let seen = seen.ok()?;
        Some(format!("client {}; server {}", seen.client, seen.server))
    }
}

/// Name of the directory with the files of the program in front.
const FRONT: &str = "front";

/// Returns the name of the directory with the files of one instance of the target.
fn of_proxy(index: usize) -> String {
    format!("target-{index}")
}

/// Returns the share of the servers' transactions that replicas have run between two readings.
fn share_on_replicas(before: Option<Vec<u64>>, after: Option<Vec<u64>>) -> Option<f64> {
    let (before, after) = (before?, after?);
    let pairs = after.into_iter().zip(before);
    let counts: Vec<u64> = pairs
        .map(|(after, before)| after.saturating_sub(before))
        .collect();
    let all: u64 = counts.iter().sum();
    let on_replicas: u64 = counts.iter().skip(1).sum();
    #[expect(
        clippy::cast_precision_loss,
        reason = "transactions of a cell are far below 2^52"
    )]
    (all > 0).then(|| on_replicas as f64 / all as f64)
}

fn clients_max(work: &Work, proxies: u32) -> u32 {
    let each = work.clients.div_ceil(proxies.max(1));
    let at_once = if work.reconnect { each * LEAVING } else { each };
    at_once + work.storm * LEAVING + CLIENTS_BESIDE
}

fn found<'a>(
    candidate: Option<&'a Candidate>,
    name: &str,
) -> Result<(&'a Candidate, &'a Found), Failure> {
    let candidate =
        candidate.ok_or_else(|| Failure::Other(format!("there is no target `{name}`")))?;
    match &candidate.found {
        Ok(found) => Ok((candidate, found)),
        Err(reason) => Err(Failure::Other(reason.clone())),
    }
}

fn server(deployment: &Deployment) -> Server {
    Server {
        host: deployment.address.ip().to_string(),
        port: deployment.address.port(),
        primary: true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_on_replicas_is_that_of_the_time_between_two_readings() {
        let share = share_on_replicas(Some(vec![100, 7, 0]), Some(vec![200, 157, 150]));
        assert_eq!(share, Some(0.75));
        assert_eq!(
            share_on_replicas(Some(vec![5, 5]), Some(vec![5, 5])),
            None,
            "nothing has run"
        );
        assert_eq!(share_on_replicas(None, None), None, "no replicas");
    }
}
