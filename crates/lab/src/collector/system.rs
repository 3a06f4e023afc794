//! Reads the kernel's figures about the machine and its processes. Figures that are not available are left out.

use std::fs;

/// Sector size of `/proc/diskstats`, whatever the disk's is (Linux, Documentation/admin-guide/iostats).
const SECTOR: f64 = 512.0;

/// Returns the machine's figures by name: times since boot in microseconds, counts, loads. `read` returns a file's
/// text.
pub(super) fn machine(read: &dyn Fn(&str) -> Option<String>) -> Vec<(String, f64)> {
    let mut found = Vec::new();
    if let Some(text) = read("/proc/stat") {
        processor(&text, &mut found);
    }
    if let Some(text) = read("/proc/loadavg") {
        let load = text.split(' ').next().and_then(|load| load.parse().ok());
        found.extend(load.map(|load: f64| ("load_1min".to_owned(), load)));
    }
    for resource in ["cpu", "io", "memory"] {
        if let Some(text) = read(&format!("/proc/pressure/{resource}")) {
            pressure(resource, &text, &mut found);
        }
    }
    if let Some(text) = read("/proc/diskstats") {
        disks(&text, &mut found);
    }
    if let Some(text) = read("/proc/net/dev") {
        networks(&text, &mut found);
    }
    found
}

/// Parses `/proc/stat`: `cpu user nice system idle iowait irq softirq steal ...` (proc_stat(5)), and one line per
/// count.
fn processor(text: &str, found: &mut Vec<(String, f64)>) {
    const NAMES: [&str; 8] = [
        "user", "nice", "system", "idle", "iowait", "irq", "softirq", "steal",
    ];
    let tick_us = tick_us();
    let cpus = text
        .lines()
        .filter(|line| line.starts_with("cpu") && !line.starts_with("cpu "))
        .count();
    found.push(("cpus".to_owned(), crate::statistics::float(cpus)));
    for line in text.lines() {
        let mut fields = line.split_whitespace();
        match fields.next() {
            Some("cpu") => {
                for (name, field) in NAMES.iter().zip(fields) {
                    if let Ok(ticks) = field.parse::<f64>() {
                        found.push((format!("cpu_{name}_us"), ticks * tick_us));
                    }
                }
            }
            Some(name @ ("ctxt" | "procs_running" | "procs_blocked" | "processes")) => {
                let value = fields.next().and_then(|field| field.parse().ok());
                found.extend(value.map(|value| (name.to_owned(), value)));
            }
            _ => {}
        }
    }
}

/// Returns the length of a clock tick in microseconds.
#[expect(clippy::cast_precision_loss, reason = "a hundred or so")]
fn tick_us() -> f64 {
    1e6 / rustix::param::clock_ticks_per_second() as f64
}

/// Parses `some avg10=0.00 avg60=0.00 avg300=0.00 total=1234` (Linux, Documentation/accounting/psi).
fn pressure(resource: &str, text: &str, found: &mut Vec<(String, f64)>) {
    for line in text.lines() {
        let kind = line.split(' ').next().unwrap_or_default();
        let total = line
            .rsplit_once("total=")
            .and_then(|(_, us)| us.parse().ok());
        found.extend(total.map(|us| (format!("pressure_{resource}_{kind}_us"), us)));
    }
}

/// Sums up whole disks; partitions and mappings would be counted twice.
fn disks(text: &str, found: &mut Vec<(String, f64)>) {
    let (mut read, mut written) = (0.0, 0.0);
    for line in text.lines() {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let (Some(name), Some(sectors_read), Some(sectors_written)) =
            (fields.get(2), fields.get(5), fields.get(9))
        else {
            continue;
        };
        if !is_whole_disk(name) {
            continue;
        }
        read += sectors_read.parse::<f64>().unwrap_or(0.0) * SECTOR;
        written += sectors_written.parse::<f64>().unwrap_or(0.0) * SECTOR;
    }
    found.push(("disk_read_bytes".to_owned(), read));
    found.push(("disk_written_bytes".to_owned(), written));
}

fn is_whole_disk(name: &str) -> bool {
    let plain = ["sd", "vd", "xvd", "hd"];
    if plain.iter().any(|kind| name.starts_with(kind)) {
        return !name.ends_with(|c: char| c.is_ascii_digit());
    }
    let numbered = name.starts_with("nvme") || name.starts_with("mmcblk");
    numbered && !name.contains('p')
}

/// Parses `eth0: bytes packets ... bytes ...` (proc_pid_net(5)) and sums up all interfaces but loopback.
fn networks(text: &str, found: &mut Vec<(String, f64)>) {
    let (mut received, mut sent) = (0.0, 0.0);
    for line in text.lines() {
        let Some((name, rest)) = line.split_once(':') else {
            continue;
        };
        if name.trim() == "lo" {
            continue;
        }
        let mut fields = rest.split_whitespace().map(|field| field.parse::<f64>());
        received += fields.next().and_then(Result::ok).unwrap_or(0.0);
        sent += fields.nth(7).and_then(Result::ok).unwrap_or(0.0);
    }
    found.push(("network_received_bytes".to_owned(), received));
    found.push(("network_sent_bytes".to_owned(), sent));
}

/// Returns the context switches of a process so far: process id, voluntary, involuntary.
pub(super) fn switches(pid: u32) -> Option<(u32, u64, u64)> {
    let text = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let field = |name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name))?;
        line.trim().parse().ok()
    };
    Some((
        pid,
        field("voluntary_ctxt_switches:")?,
        field("nonvoluntary_ctxt_switches:")?,
    ))
}

/// Returns the parent of a process.
pub(super) fn parent(pid: u32) -> Option<u32> {
    let text = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("PPid:"))?;
    line.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(found: &[(String, f64)], name: &str) -> Option<f64> {
        found
            .iter()
            .find(|(other, _)| other == name)
            .map(|(_, value)| *value)
    }

    #[test]
    fn every_book_gives_its_figures() {
        let found = machine(&|path| {
            let text = match path {
                "/proc/stat" => {
                    "cpu  1 0 2 3 4 0 0 5 0 0\ncpu0 1\ncpu1 1\nctxt 99\nprocs_running 3\n"
                }
                "/proc/loadavg" => "1.25 0 0 1/2 3\n",
                "/proc/pressure/io" => "some avg10=0.0 total=70\nfull avg10=0.0 total=7\n",
                "/proc/diskstats" => " 8 0 sda 1 0 10 0 1 0 20 0\n 8 1 sda1 1 0 10 0 1 0 20 0\n",
                "/proc/net/dev" => " lo: 9 0 0 0 0 0 0 0 9 0\n eth0: 5 0 0 0 0 0 0 0 6 0\n",
                _ => return None,
            };
            Some(text.to_owned())
        });
        let at = |name| value(&found, name);
        assert_eq!(at("cpus"), Some(2.0));
        assert_eq!(at("ctxt"), Some(99.0));
        assert_eq!(at("load_1min"), Some(1.25));
        assert_eq!(at("pressure_io_full_us"), Some(7.0));
        assert_eq!(at("disk_read_bytes"), Some(5120.0));
        assert_eq!(at("network_sent_bytes"), Some(6.0));
        assert_eq!(at("pressure_cpu_some_us"), None);
        assert!(at("cpu_steal_us") > at("cpu_iowait_us"));
    }

    #[test]
    fn partitions_are_not_counted_twice() {
        for (name, whole) in [
            ("sda", true),
            ("sda1", false),
            ("nvme0n1", true),
            ("nvme0n1p2", false),
            ("dm-0", false),
        ] {
            assert_eq!(is_whole_disk(name), whole, "{name}");
        }
    }

    #[test]
    fn this_process_has_switches_and_a_parent() {
        let pid = std::process::id();
        assert_eq!(switches(pid).unwrap().0, pid);
        assert!(parent(pid).unwrap() > 0);
    }
}
