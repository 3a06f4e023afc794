//! CPU time of process trees since the first reading, including processes that have ended since.

use std::collections::BTreeMap;
use std::fs;
use std::time::Duration;

use super::{cpu, machine, memory};

/// Figures of a tree since its first reading.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Reading {
    pub(super) cpu: Duration,
    pub(super) switches: Option<Switches>,
    pub(super) rss_bytes: Option<u64>,
    /// True if all root processes could be read. CPU time between a process's last reading and its end is not in
    /// `cpu`.
    pub(super) is_whole: bool,
}

/// Context switches.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Switches {
    pub(super) voluntary: u64,
    pub(super) involuntary: u64,
}

/// Maximum number of threads whose context switches are read. More would disturb the measurement: each costs three
/// files.
const SWITCHES_MAX: usize = 128;

/// Process trees below some roots.
#[derive(Debug, Default)]
pub(super) struct Tree {
    roots: Vec<u32>,
    descendants: bool,
    memory: bool,
    /// True after the first reading. Processes that exist by then have used time before it.
    begun: bool,
    alive: BTreeMap<u32, Seen>,
    /// Time of ended processes: used since the first reading, and used before it.
    ended: Duration,
    ended_before: Duration,
    /// Time of children that the roots had already waited for at the first reading.
    waited_before: Duration,
    switched: BTreeMap<u32, Switches>,
    switches_ended: Switches,
}

/// Process as of its last reading.
#[derive(Debug, Default)]
struct Seen {
    before: Duration,
    threads: BTreeMap<u32, Duration>,
    threads_ended: Duration,
}

impl Seen {
    fn total(&self) -> Duration {
        self.threads.values().sum::<Duration>() + self.threads_ended
    }
}

impl Tree {
    pub(super) fn of(roots: &[u32]) -> Self {
        Self {
            roots: roots.to_vec(),
            descendants: true,
            ..Self::default()
        }
    }

    /// Excludes the descendants of the roots.
    pub(super) fn alone(mut self) -> Self {
        self.descendants = false;
        self
    }

    pub(super) fn with_memory(mut self) -> Self {
        self.memory = true;
        self
    }

    /// Reads every process. A process that ends meanwhile counts as ended before.
    pub(super) fn read(&mut self) -> Reading {
        let pids = self.pids();
        let mut gone: Vec<u32> = self.alive.keys().copied().collect();
        gone.retain(|pid| !pids.contains(pid));
        for pid in gone {
            self.bury(pid);
        }
        let mut is_whole = !self.roots.is_empty();
        for &pid in &pids {
            let is_seen = self.see(pid);
            is_whole &= is_seen || !self.roots.contains(&pid);
        }
        let waited: Duration = self.roots.iter().filter_map(|&pid| waited(pid)).sum();
        if !self.begun {
            self.begun = true;
            self.waited_before = waited;
        }
        Reading {
            cpu: self.cpu(waited),
            switches: self.switches(),
            rss_bytes: if self.memory { rss(&pids) } else { None },
            is_whole,
        }
    }

    fn cpu(&self, waited: Duration) -> Duration {
        let alive: Duration = self
            .alive
            .values()
            .map(|seen| seen.total().saturating_sub(seen.before))
            .sum();
        // The kernel's sum over ended children includes processes between two readings. But it counts in ticks, and
        // whole lives.
        let told = if self.descendants {
            waited
                .saturating_sub(self.waited_before)
                .saturating_sub(self.ended_before)
        } else {
            Duration::ZERO
        };
        alive + self.ended.max(told)
    }

    /// Reads one process; returns false if it has ended.
    fn see(&mut self, pid: u32) -> bool {
        let Some(threads) = threads(pid) else {
            return false;
        };
        let new = !self.alive.contains_key(&pid);
        let seen = self.alive.entry(pid).or_default();
        let ended: Duration = seen
            .threads
            .iter()
            .filter(|(tid, _)| !threads.contains_key(tid))
            .map(|(_, time)| *time)
            .sum();
        seen.threads_ended += ended;
        seen.threads = threads;
        if new && !self.begun {
            seen.before = seen.total();
        }
        true
    }

    fn bury(&mut self, pid: u32) {
        if let Some(seen) = self.alive.remove(&pid) {
            self.ended += seen.total().saturating_sub(seen.before);
            self.ended_before += seen.before;
        }
    }

    fn pids(&self) -> Vec<u32> {
        let mut found = self.roots.clone();
        let mut next = 0;
        while self.descendants
            && let Some(&pid) = found.get(next)
        {
            next += 1;
            let children = children(pid);
            found.extend(children);
        }
        found.sort_unstable();
        found.dedup();
        found
    }

    fn switches(&mut self) -> Option<Switches> {
        let tasks: Vec<(u32, u32)> = self
            .alive
            .iter()
            .flat_map(|(&pid, seen)| seen.threads.keys().map(move |&tid| (pid, tid)))
            .collect();
        if tasks.len() > SWITCHES_MAX {
            return None;
        }
        let now: BTreeMap<u32, Switches> = tasks
            .into_iter()
            .filter_map(|(pid, tid)| Some((tid, switches(pid, tid)?)))
            .collect();
        for (tid, last) in &self.switched {
            if !now.contains_key(tid) {
                self.switches_ended.voluntary += last.voluntary;
                self.switches_ended.involuntary += last.involuntary;
            }
        }
        self.switched = now;
        let mut sum = self.switches_ended;
        for one in self.switched.values() {
            sum.voluntary += one.voluntary;
            sum.involuntary += one.involuntary;
        }
        Some(sum)
    }
}

/// Returns the resident memory: all pages of a single process; for several, shared pages count once.
fn rss(pids: &[u32]) -> Option<u64> {
    match pids {
        [pid] => memory::resident(*pid).ok(),
        _ => {
            let each: Vec<u64> = pids
                .iter()
                .filter_map(|&pid| memory::proportional(pid).ok())
                .collect();
            (!each.is_empty()).then(|| each.iter().sum())
        }
    }
}

fn numbers(directory: &str) -> Option<Vec<u32>> {
    let entries = fs::read_dir(directory).ok()?;
    let names = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    Some(names.collect())
}

fn threads(pid: u32) -> Option<BTreeMap<u32, Duration>> {
    let tids = numbers(&format!("/proc/{pid}/task"))?;
    let times = tids
        .into_iter()
        .filter_map(|tid| Some((tid, cpu::thread_time(pid, tid)?)));
    let times: BTreeMap<u32, Duration> = times.collect();
    (!times.is_empty()).then_some(times)
}

/// Returns the children of all threads (proc_tid_children(5)); none if the kernel does not list them.
fn children(pid: u32) -> Vec<u32> {
    let tids = numbers(&format!("/proc/{pid}/task")).unwrap_or_default();
    let list = |tid| fs::read_to_string(format!("/proc/{pid}/task/{tid}/children"));
    tids.into_iter()
        .filter_map(|tid| list(tid).ok())
        .flat_map(|text| {
            let pids: Vec<u32> = text
                .split_whitespace()
                .filter_map(|pid| pid.parse().ok())
                .collect();
            pids
        })
        .collect()
}

/// Returns the time of all children that `pid` has waited for: `cutime` and `cstime` of proc_pid_stat(5), fields 16
/// and 17.
fn waited(pid: u32) -> Option<Duration> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let ticks = waited_ticks(&stat)?;
    Some(Duration::from_secs_f64(ticks * machine::tick_us() / 1e6))
}

fn waited_ticks(stat: &str) -> Option<f64> {
    // Field 2, the name, is in parentheses and may hold anything.
    let (_, rest) = stat.rsplit_once(')')?;
    let mut fields = rest.split_whitespace().skip(13);
    let user: f64 = fields.next()?.parse().ok()?;
    let system: f64 = fields.next()?.parse().ok()?;
    Some((user + system).max(0.0))
}

fn switches(pid: u32, tid: u32) -> Option<Switches> {
    parse_switches(&fs::read_to_string(format!("/proc/{pid}/task/{tid}/status")).ok()?)
}

fn parse_switches(status: &str) -> Option<Switches> {
    let field = |key: &str| -> Option<u64> {
        let line = status.lines().find_map(|line| line.strip_prefix(key))?;
        line.trim().parse().ok()
    };
    Some(Switches {
        voluntary: field("voluntary_ctxt_switches:")?,
        involuntary: field("nonvoluntary_ctxt_switches:")?,
    })
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn the_time_of_waited_children_is_found_behind_any_name() {
        let stat = "7 (a) b (c) S 1 7 7 0 -1 4194560 1 2 3 4 5 6 70 80 20 0 1 0 9";
        assert_eq!(waited_ticks(stat), Some(150.0));
        assert_eq!(waited_ticks("7 (x"), None);
    }

    #[test]
    fn both_kinds_of_switches_are_read() {
        let status = "Name:\tx\nvoluntary_ctxt_switches:\t150\nnonvoluntary_ctxt_switches:\t545\n";
        let expected = Switches {
            voluntary: 150,
            involuntary: 545,
        };
        assert_eq!(parse_switches(status), Some(expected));
        assert_eq!(parse_switches("Name:\tx\n"), None);
    }

    /// A shell uses CPU in a child whenever a line arrives, waits for the child, and answers.
    #[test]
    fn a_child_that_came_and_went_between_looks_still_counts() {
        let burn = "while read line; do sh -c 'i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done'; echo done; done";
        let mut shell = Command::new("sh")
            .args(["-c", burn])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut tree = Tree::of(&[shell.id()]);
        let first = tree.read();
        let mut input = shell.stdin.take().unwrap();
        let mut answer = [0; 5];
        input.write_all(b"go\n").unwrap();
        std::io::Read::read_exact(shell.stdout.as_mut().unwrap(), &mut answer).unwrap();
        let second = tree.read();
        drop(input);
        shell.wait().unwrap();
        let used = second.cpu.saturating_sub(first.cpu);
        assert!(used >= Duration::from_millis(20), "{used:?}");
        // The time is kept when the whole tree has ended.
        assert!(tree.read().cpu >= Duration::ZERO);
    }

    #[test]
    fn a_process_is_seen_with_its_memory_and_switches() {
        let mut tree = Tree::of(&[std::process::id()]).alone().with_memory();
        let reading = tree.read();
        assert_eq!(reading.cpu, Duration::ZERO);
        assert!(reading.rss_bytes.unwrap() > 0);
        assert!(reading.switches.is_some());
    }
}
