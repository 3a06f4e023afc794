//! Verdicts about snapshots, and the parameters of a check.

use std::path::Path;

use weir_pool::{HostId, Moment};
use weir_watch::{Generation, State};

use super::*;

const KB: u64 = 1 << 10;

/// Returns a host that is up and takes reads.
fn view(host: u32, role: Role, lag_bytes: Option<u64>) -> HostView {
    HostView {
        host: HostId(host),
        name: format!("h{host}:5432").into(),
        az: "".into(),
        role,
        state: State::Up,
        since: Moment(1),
        generation: Generation(0),
        timeline: 1,
        fresh_to: Moment(1),
        fresh_to_async: Moment(1),
        replayed: None,
        lag_bytes,
        lag: None,
        takes_reads: true,
        weight: 100,
        probe_time: None,
        last_error: None,
    }
}

fn snapshot(writes: Writes, hosts: Vec<HostView>) -> Snapshot {
    Snapshot {
        writes,
        hosts,
        ..Snapshot::default()
    }
}

/// Checks the verdicts about writes, replicas and reads; a leading `!` stands for 503.
#[track_caller]
fn check(target: Target, snapshot: &Snapshot, expect: [&str; 3]) {
    let services = [Service::Writes, Service::Replica, Service::Reads];
    let found = services.map(
        |service| match judge_hosts(service, None, target, snapshot) {
            Ok(reason) => reason,
            Err(reason) => format!("!{reason}"),
        },
    );
    assert_eq!(found, expect);
}

#[test]
fn a_database_serves_what_its_hosts_take() {
    let both = vec![
        view(1, Role::Primary, None),
        view(2, Role::Replica, Some(0)),
    ];
    let healthy = snapshot(Writes::To(HostId(1)), both.clone());
    let expect = [
        "h1:5432 takes writes",
        "h2:5432 takes reads",
        "h1:5432 takes reads",
    ];
    check(Target::ReadWrite, &healthy, expect);

    // The primary is excluded from reads, and takes them if there is no replica.
    let mut lone = snapshot(Writes::To(HostId(1)), vec![view(1, Role::Primary, None)]);
    lone.hosts[0].takes_reads = false;
    let expect = [
        "h1:5432 takes writes",
        "!no replica takes reads",
        "h1:5432 takes writes",
    ];
    check(Target::ReadWrite, &lone, expect);

    let mut headless = snapshot(Writes::Held(Held::NoPrimary), both);
    headless.hosts[0].takes_reads = false;
    let expect = [
        "!no primary is known",
        "h2:5432 takes reads",
        "h2:5432 takes reads",
    ];
    check(Target::ReadWrite, &headless, expect);

    let split = snapshot(Writes::Held(Held::SplitBrain), Vec::new());
    let why = "!several hosts say that they are the primary";
    check(
        Target::ReadWrite,
        &split,
        [why, "!no replica takes reads", why],
    );

    let why = "!no host was probed yet";
    let expect = [why, "!no replica takes reads", why];
    check(Target::ReadWrite, &Snapshot::default(), expect);
}

#[test]
fn an_entry_for_replicas_takes_no_writes_and_does_not_read_from_the_primary() {
    let primary = snapshot(Writes::To(HostId(1)), vec![view(1, Role::Primary, None)]);
    let no_replica = "!no replica takes reads";
    let expect = [
        "!target = read-only: the entry takes no writes",
        no_replica,
        no_replica,
    ];
    check(Target::ReadOnly, &primary, expect);
    let expect = [
        "!target = standby: the entry takes no writes",
        no_replica,
        no_replica,
    ];
    check(Target::Standby, &primary, expect);
    let expect = [
        "!target = prefer-standby: the entry takes no writes",
        no_replica,
        "h1:5432 takes reads",
    ];
    check(Target::PreferStandby, &primary, expect);
    let expect = ["h1:5432 takes writes", no_replica, "h1:5432 takes reads"];
    check(Target::Any, &primary, expect);
}

#[test]
fn a_replica_of_unknown_or_larger_lag_does_not_count() {
    let check = |lag_bytes: Option<u64>, max: u64, expect: Result<&str, &str>| {
        let hosts = vec![
            view(1, Role::Primary, Some(0)),
            view(2, Role::Replica, lag_bytes),
        ];
        let snapshot = snapshot(Writes::To(HostId(1)), hosts);
        let found = judge_hosts(Service::Replica, Some(max), Target::ReadWrite, &snapshot);
        assert_eq!(found.as_deref().map_err(|why| &**why), expect);
    };
    check(Some(16 * KB), 16 * KB, Ok("h2:5432 takes reads"));
    let why = "no replica takes reads within 16384 bytes of lag";
    check(Some(16 * KB + 1), 16 * KB, Err(why));
    check(None, 16 * KB, Err(why));
}

#[test]
fn lag_has_the_units_of_patroni() {
    let cases = [
        ("0", Some(0)),
        ("1048576", Some(1 << 20)),
        ("16kB", Some(16 * KB)),
        ("10MB", Some(10 << 20)),
        ("1 GB", Some(1 << 30)),
        ("2TB", Some(2 << 40)),
        ("7B", Some(7)),
        ("", None),
        ("kB", None),
        ("-1", None),
        ("16KB", None),
        ("1.5MB", None),
        ("99999999999TB", None),
        ("99999999999999999999", None),
    ];
    for (text, expect) in cases {
        assert_eq!(lag(text), expect, "{text}");
    }
}

#[test]
fn unknown_parameters_are_refused() {
    let parse = |service, query| Wanted::parse(service, query);
    let wanted = parse(Service::Replica, "database=my%20shop&lag=10MB").unwrap();
    assert_eq!(wanted.database.as_deref(), Some("my shop"));
    assert_eq!(wanted.lag_max, Some(10 << 20));
    assert_eq!(parse(Service::Writes, ""), Ok(Wanted::default()));
    let why = parse(Service::Writes, "lag=1").unwrap_err();
    assert_eq!(why, "unknown parameter: lag");
    let why = parse(Service::Replica, "db=shop").unwrap_err();
    assert_eq!(why, "unknown parameter: db");
    let why = parse(Service::Replica, "lag=much").unwrap_err();
    assert_eq!(
        why,
        "lag = much is no number of bytes, such as 1048576, 16kB or 10MB"
    );
}

fn settings(databases: &str) -> Settings {
    let text = format!("[databases]\n{databases}\n[pgbouncer]\nauth_type = any\n");
    let mut read = |_: &Path| Ok(text.clone());
    let loaded = weir_config::load(Path::new("weir.ini"), &mut read, std::iter::empty());
    loaded.unwrap().settings
}

#[test]
fn the_name_may_be_left_out_if_it_is_clear_which_database_is_meant() {
    let check = |databases: &str, named: Option<&str>, expect: Result<&str, Status>| {
        let found = entry(&settings(databases), named);
        let found = found.as_ref().map(|pool| &*pool.database);
        assert_eq!(found.map_err(|(status, _)| *status), expect, "{databases}");
    };
    let shop = "shop = host=10.0.0.1 replicas=10.0.0.2 watch_user=weir";
    let two = format!("{shop}\nmail = host=10.0.0.3");
    check("mail = host=10.0.0.3", None, Ok("mail"));
    check(&two, None, Ok("shop"));
    check(&two, Some("mail"), Ok("mail"));
    check(&two, Some("other"), Err(Status::NotFound));
    check(&two, Some("pgbouncer"), Err(Status::NotFound));
    check("* = host=10.0.0.3", None, Ok("*"));
    check("* = host=10.0.0.3", Some("other"), Ok("other"));
    let three = format!("{two}\nnews = host=10.0.0.1 replicas=10.0.0.2 watch_user=weir");
    check(&three, None, Err(Status::BadRequest));
    check(
        "a = host=10.0.0.3\nb = host=10.0.0.3",
        None,
        Err(Status::BadRequest),
    );
}
