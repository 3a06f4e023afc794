//! Facts that a result depends on besides the programs under test: the machine, the kernel, PostgreSQL and its
//! settings. Facts that cannot be read are left out; nothing is guessed.

pub mod negotiated;

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;

use crate::process::run_to_end;

/// Facts of one kind, by name.
pub type Section = BTreeMap<String, String>;

/// Sections by name, as [`crate::record::Run::environment`] has them.
pub type Environment = BTreeMap<String, Section>;

/// Files of a single line to read: section, name, path.
const FILES: &[(&str, &str, &str)] = &[
    (
        "cpu",
        "governor",
        "/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor",
    ),
    (
        "cpu",
        "driver",
        "/sys/devices/system/cpu/cpu0/cpufreq/scaling_driver",
    ),
    (
        "cpu",
        "no turbo",
        "/sys/devices/system/cpu/intel_pstate/no_turbo",
    ),
    ("cpu", "boost", "/sys/devices/system/cpu/cpufreq/boost"),
    ("cpu", "smt", "/sys/devices/system/cpu/smt/active"),
    ("cpu", "online", "/sys/devices/system/cpu/online"),
    ("cpu", "numa nodes", "/sys/devices/system/node/online"),
    (
        "memory",
        "huge pages",
        "/sys/kernel/mm/transparent_hugepage/enabled",
    ),
    ("memory", "swappiness", "/proc/sys/vm/swappiness"),
    ("kernel", "release", "/proc/sys/kernel/osrelease"),
    ("kernel", "version", "/proc/sys/kernel/version"),
    (
        "kernel",
        "clock source",
        "/sys/devices/system/clocksource/clocksource0/current_clocksource",
    ),
    ("kernel", "load average", "/proc/loadavg"),
    (
        "kernel",
        "autogroup",
        "/proc/sys/kernel/sched_autogroup_enabled",
    ),
    ("network", "somaxconn", "/proc/sys/net/core/somaxconn"),
    (
        "network",
        "local ports",
        "/proc/sys/net/ipv4/ip_local_port_range",
    ),
    (
        "network",
        "TIME_WAIT reuse",
        "/proc/sys/net/ipv4/tcp_tw_reuse",
    ),
    ("cgroup", "CPU quota", "/sys/fs/cgroup/cpu.max"),
    ("cgroup", "memory limit", "/sys/fs/cgroup/memory.max"),
    ("host", "product", "/sys/class/dmi/id/product_name"),
    ("host", "hypervisor", "/sys/hypervisor/type"),
];

/// Returns facts about the machine and its system.
#[must_use]
pub fn machine() -> Environment {
    let mut found = Environment::new();
    let mut put = |section: &str, name: &str, value: Option<String>| {
        if let Some(value) = value.filter(|value| !value.is_empty()) {
            let section = found.entry(section.to_owned()).or_default();
            section.insert(name.to_owned(), value);
        }
    };
    for (section, name, path) in FILES {
        put(section, name, line(path));
    }
    let cpuinfo = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    put("cpu", "model", cpu_model(&cpuinfo));
    let cpus = std::thread::available_parallelism().ok();
    put("cpu", "usable", cpus.map(|count| count.to_string()));
    put("cpu", "virtual", hypervisor(&cpuinfo));
    put("cpu", "mitigations", mitigations());
    let boot = fs::read_to_string("/proc/cmdline").unwrap_or_default();
    put("kernel", "boot options", Some(boot_options(&boot)));
    let meminfo = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    put("memory", "total", field(&meminfo, "MemTotal"));
    put("memory", "available", field(&meminfo, "MemAvailable"));
    let files = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
    put("kernel", "open files", files.map(|limit| limit.to_string()));
    let release = fs::read_to_string("/etc/os-release").unwrap_or_default();
    put("host", "system", pretty_name(&release));
    found
}

/// Returns facts about a PostgreSQL server. `query` returns psql's unaligned rows, with `|` between columns.
pub fn postgres(query: impl Fn(&str) -> Option<String>) -> Environment {
    let mut found = Environment::new();
    if let Some(version) = query("SELECT version()") {
        let section = Section::from([("version".to_owned(), version)]);
        found.insert("postgres".to_owned(), section);
    }
    for (section, sql) in [("postgres settings", SETTINGS), ("postgres sizes", SIZES)] {
        let rows = query(sql).unwrap_or_default();
        let pairs = rows.lines().filter_map(|row| row.split_once('|'));
        let pairs: Section = pairs
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .collect();
        if !pairs.is_empty() {
            found.insert(section.to_owned(), pairs);
        }
    }
    found
}

/// Excludes paths and ports, which say nothing and change from run to run.
const SETTINGS: &str = "SELECT name, current_setting(name) FROM pg_settings \
    WHERE source NOT IN ('default', 'override') AND category NOT LIKE 'File%' \
    AND name NOT IN ('port', 'unix_socket_directories', 'ssl_cert_file', 'ssl_key_file', 'application_name') \
    ORDER BY name";
const SIZES: &str = "SELECT relname, pg_size_pretty(pg_total_relation_size(oid)) FROM pg_class \
    WHERE relkind = 'r' AND relname LIKE 'pgbench%' ORDER BY relname";

/// Returns the model of the first CPU in `/proc/cpuinfo`.
#[must_use]
pub fn cpu_model(cpuinfo: &str) -> Option<String> {
    field(cpuinfo, "model name")
}

/// Runs a program with a flag such as `--version` and returns the first line that it prints to either stream.
#[must_use]
pub fn version(program: &Path, arguments: &[String]) -> Option<String> {
    let output = Command::new(program).args(arguments).output().ok()?;
    let text = [output.stdout, output.stderr].concat();
    let text = String::from_utf8_lossy(&text);
    let line = text.lines().map(str::trim).find(|line| !line.is_empty())?;
    Some(line.to_owned())
}

/// Returns the commit of the sources around `directory`, marked if they have changes since.
#[must_use]
pub fn commit(directory: impl AsRef<Path>) -> Option<String> {
    let mut command = Command::new("git");
    command.current_dir(directory);
    command.args(["describe", "--always", "--dirty", "--abbrev=12"]);
    let text = run_to_end(&mut command).ok()?;
    Some(text.trim().to_owned())
}

/// Returns the options of the kernel's command line that affect performance (kernel-parameters.txt). The rest is
/// private and left out, because reports are made to be published.
fn boot_options(command_line: &str) -> String {
    let words = command_line.split_whitespace();
    let decides = words.take_while(|word| *word != "--").filter(|word| {
        let name = word.split('=').next().unwrap_or_default();
        BOOT_OPTIONS.contains(&name)
    });
    decides.collect::<Vec<_>>().join(" ")
}

const BOOT_OPTIONS: &[&str] = &[
    "amd_pstate",
    "clocksource",
    "default_hugepagesz",
    "hugepages",
    "idle",
    "intel_idle.max_cstate",
    "intel_pstate",
    "isolcpus",
    "maxcpus",
    "mem",
    "mitigations",
    "nohz",
    "nohz_full",
    "nosmt",
    "nospectre_v2",
    "numa_balancing",
    "preempt",
    "processor.max_cstate",
    "pti",
    "rcu_nocbs",
    "spectre_v2",
    "threadirqs",
    "transparent_hugepage",
    "tsc",
];

fn line(path: &str) -> Option<String> {
    let text = fs::read_to_string(path).ok()?;
    Some(text.split_whitespace().collect::<Vec<_>>().join(" "))
}

/// Returns the value of the first `key : value` line with this key.
fn field(text: &str, key: &str) -> Option<String> {
    let mut pairs = text.lines().filter_map(|line| line.split_once(':'));
    let (_, value) = pairs.find(|(found, _)| found.trim() == key)?;
    Some(value.trim().to_owned())
}

fn hypervisor(cpuinfo: &str) -> Option<String> {
    let flags = field(cpuinfo, "flags")?;
    let virtual_ = flags.split(' ').any(|flag| flag == "hypervisor");
    Some(if virtual_ { "yes" } else { "no" }.to_owned())
}

fn pretty_name(release: &str) -> Option<String> {
    let line = release
        .lines()
        .find_map(|line| line.strip_prefix("PRETTY_NAME="))?;
    Some(line.trim_matches('"').to_owned())
}

/// Returns the active mitigations of CPU vulnerabilities; those that do not affect this CPU are left out.
fn mitigations() -> Option<String> {
    let directory = fs::read_dir("/sys/devices/system/cpu/vulnerabilities").ok()?;
    let mut found: Vec<String> = directory
        .filter_map(|entry| {
            let entry = entry.ok()?;
            let text = fs::read_to_string(entry.path()).ok()?;
            let text = text.trim();
            let name = entry.file_name().to_string_lossy().into_owned();
            (text != "Not affected").then(|| format!("{name}: {text}"))
        })
        .collect();
    found.sort_unstable();
    Some(found.join("; "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_model_is_found_among_other_keys() {
        let text = "vendor_id\t: X\nmodel name\t: Fast CPU\nflags\t: fpu hypervisor\n";
        assert_eq!(cpu_model(text).as_deref(), Some("Fast CPU"));
        assert_eq!(hypervisor(text).as_deref(), Some("yes"));
        assert_eq!(cpu_model(""), None);
    }

    #[test]
    fn of_the_kernels_command_line_only_what_makes_it_fast_or_slow_is_told() {
        let line = "root=UUID=1 quiet mitigations=auto isolcpus=2,3 token=secret -- --mem=1\n";
        assert_eq!(boot_options(line), "mitigations=auto isolcpus=2,3");
        assert!(BOOT_OPTIONS.is_sorted());
    }

    #[test]
    fn the_system_is_named_without_quotes() {
        let name = pretty_name("ID=x\nPRETTY_NAME=\"Some Linux 12\"\n");
        assert_eq!(name.as_deref(), Some("Some Linux 12"));
    }

    #[test]
    fn this_machine_says_at_least_its_kernel_and_cpus() {
        let found = machine();
        assert!(found["kernel"].contains_key("release"), "{found:?}");
        assert!(found["cpu"].contains_key("usable"), "{found:?}");
        for section in found.values() {
            assert!(section.values().all(|value| !value.is_empty()));
        }
    }

    #[test]
    fn rows_of_postgresql_become_pairs_and_silence_none() {
        let found = postgres(|sql| {
            let answer = match sql {
                SETTINGS => "fsync|off\nssl|on",
                SIZES => return None,
                _ => "PostgreSQL 15",
            };
            Some(answer.to_owned())
        });
        assert_eq!(found["postgres"]["version"], "PostgreSQL 15");
        assert_eq!(found["postgres settings"]["ssl"], "on");
        assert!(!found.contains_key("postgres sizes"));
    }

    #[test]
    fn a_version_is_the_first_line_on_either_stream() {
        let arguments = ["-c", "echo >&2; echo >&2 Pooler 4.5; echo more >&2"].map(str::to_owned);
        let found = version(Path::new("/bin/sh"), &arguments);
        assert_eq!(found.as_deref(), Some("Pooler 4.5"));
    }
}
