//! Use of all CPUs of the machine, from `/proc/stat`. The unit is a clock tick, so the figures are only good for
//! shares over seconds.

use std::fs;
use std::path::Path;

use crate::error::{Error, Result};

/// Time of all CPUs together, in microseconds since some moment.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Times {
    pub(super) cpus: u32,
    pub(super) busy_us: f64,
    pub(super) idle_us: f64,
    pub(super) iowait_us: f64,
    pub(super) steal_us: f64,
}

impl Times {
    pub(super) fn all_us(&self) -> f64 {
        self.busy_us + self.idle_us + self.iowait_us + self.steal_us
    }
}

/// Reads the current figures.
pub(super) fn read() -> Result<Times> {
    let path = Path::new("/proc/stat");
    let text = fs::read_to_string(path).map_err(Error::file("read", path))?;
    parse(&text, tick_us()).ok_or_else(|| Error::Unexpected {
        what: "/proc/stat".to_owned(),
        text: text.lines().next().unwrap_or_default().to_owned(),
    })
}

/// Returns the length of a clock tick in microseconds.
#[expect(clippy::cast_precision_loss, reason = "a hundred or so")]
pub(super) fn tick_us() -> f64 {
    1e6 / rustix::param::clock_ticks_per_second() as f64
}

/// Parses `cpu user nice system idle iowait irq softirq steal guest guest_nice` (proc_stat(5)). The guests' time is
/// included in `user`.
fn parse(text: &str, tick_us: f64) -> Option<Times> {
    let mut lines = text.lines();
    let mut fields = lines.next()?.strip_prefix("cpu ")?.split_whitespace();
    let mut next = || Some(fields.next()?.parse::<f64>().ok()? * tick_us);
    let (user, nice, system) = (next()?, next()?, next()?);
    let (idle, iowait, irq, softirq) = (next()?, next()?, next()?, next()?);
    let cpus = lines.take_while(|line| line.starts_with("cpu")).count();
    Some(Times {
        cpus: u32::try_from(cpus).ok()?,
        busy_us: user + nice + system + irq + softirq,
        idle_us: idle,
        iowait_us: iowait,
        steal_us: next().unwrap_or(0.0),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn busy_and_idle_are_told_apart() {
        let text = "cpu  10 2 3 100 5 1 4 7 0 0\ncpu0 1 1 1 1\ncpu1 1 1 1 1\nintr 5\n";
        let times = parse(text, 10.0).unwrap();
        let expected = Times {
            cpus: 2,
            busy_us: 200.0,
            idle_us: 1000.0,
            iowait_us: 50.0,
            steal_us: 70.0,
        };
        assert_eq!(times, expected);
        assert_eq!(parse("intr 5\n", 10.0), None);
    }

    #[test]
    fn this_machine_has_cpus_and_spends_time() {
        let times = read().unwrap();
        assert!(times.cpus >= 1 && times.all_us() > 0.0, "{times:?}");
    }
}
