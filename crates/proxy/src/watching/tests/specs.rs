//! Descriptions of clusters, as the configuration makes them.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use weir_auth::stored::StoredSecret;
use weir_auth::userlist::UserList;
use weir_config::HostAddr;
use weir_watch::{Configured, SplitBrain};

use crate::global::Clusters;
use crate::hosts::Hosts;
use crate::settled::{Access, Settled, Setup};
use crate::transport::Transport;
use crate::watching::ClusterSpec;
use crate::watching::spec::specs;

const DATABASES: &str = "plain = host=10.0.0.1,10.0.0.2\n\
    shop = host=10.0.0.1 port=5433 dbname=store replicas=10.0.0.2,db.example:5434 watch_user=ann\n\
    * = host=10.0.0.9 replicas=10.0.0.8 watch_user=bob watch_password=own watch_dbname=postgres\n";

/// Settles these databases, with these lines of a global section and behind it.
fn settled(databases: &str, lines: &str) -> Settled {
    let text = format!(
        "[databases]\n{databases}[pgbouncer]\nlisten_addr = 127.0.0.1\nauth_type = trust\n\
         auth_file = users\n{lines}\n"
    );
    let mut read = |_: &Path| Ok(text.clone());
    let loaded = weir_config::load("weir.ini".as_ref(), &mut read, std::iter::empty());
    let setup = Setup {
        settings: Arc::new(loaded.unwrap().settings),
        users: Arc::new(UserList::parse(b"\"ann\" \"listed\"\n").unwrap()),
        access: Access::default(),
        transport: Arc::new(Transport::default()),
    };
    Settled::new(setup, None)
}

fn password(spec: &ClusterSpec) -> &[u8] {
    match &spec.login.secret {
        Some(StoredSecret::Plain(secret)) => secret.expose(),
        _ => panic!("no password"),
    }
}

#[test]
fn entries_with_several_hosts_are_watched_and_no_others() {
    let settled = settled(
        DATABASES,
        "server_tls_sslmode = disable\nprobe_interval = 2\nprobe_timeout = 3\nprobe_fall = 4\n\
         probe_rise = 5\nmax_lag = 4096\nmax_staleness = 6\nreplica_slow_start = 7\n\
         split_brain = refuse\nfailover_hold = 8\n[hosts]\n\
         shop/10.0.0.2:5433 = role=replica weight=50 az=b reads=false",
    );
    let (hosts, clusters) = (Hosts::new(16), Clusters::default());
    let specs = specs(&settled, &hosts, &clusters);
    let names: Vec<_> = specs.iter().map(|spec| &*spec.database).collect();
    assert_eq!(names, ["*", "shop"]);
    let [any, shop] = &specs[..] else { panic!() };
    let names = |spec: &ClusterSpec| {
        let names = spec.hosts.iter().map(|it| it.host.name.to_string());
        names.collect::<Vec<_>>()
    };
    assert_eq!(names(any), ["10.0.0.9:5432", "10.0.0.8:5432"]);
    assert_eq!(
        names(shop),
        ["10.0.0.1:5433", "10.0.0.2:5433", "db.example:5434"]
    );
    let named = &shop.hosts[2];
    assert_eq!(named.address, HostAddr::Name("db.example".to_owned()));
    assert_eq!(named.host.id, hosts.id_of(Some(&named.address), 5434));
    let replica = &shop.hosts[1].host;
    assert_eq!((replica.role, replica.weight), (Configured::Replica, 50));
    assert_eq!((&*replica.az, replica.reads), ("b", false));
    let seconds = Duration::from_secs;
    let rules = &shop.rules;
    assert_eq!(
        (rules.probe_interval, rules.probe_timeout),
        (seconds(2), seconds(3))
    );
    assert_eq!((rules.fall, rules.rise, rules.max_lag), (4, 5, Some(4096)));
    assert_eq!(
        (rules.max_staleness, rules.slow_start),
        (Some(seconds(6)), seconds(7))
    );
    assert_eq!(
        (rules.split_brain, rules.hold),
        (SplitBrain::Refuse, seconds(8))
    );
    assert!(Arc::ptr_eq(&shop.cluster, &clusters.of("shop")));
}

#[test]
fn the_login_is_that_of_the_watch_user() {
    let settled = settled(DATABASES, "server_tls_sslmode = disable");
    let specs = specs(&settled, &Hosts::new(16), &Clusters::default());
    let [any, shop] = &specs[..] else { panic!() };
    let login = |spec: &ClusterSpec| (spec.login.user.clone(), spec.login.dbname.clone());
    assert_eq!(login(shop), ("ann".to_owned(), "store".to_owned()));
    assert_eq!(password(shop), b"listed");
    assert_eq!(login(any), ("bob".to_owned(), "postgres".to_owned()));
    assert_eq!(password(any), b"own");
    assert!(matches!(shop.login.outgoing, Ok(None)));
}

#[test]
fn tls_settings_without_material_are_no_reason_to_go_without_tls() {
    // The transport of the test knows no settings at all.
    let settled = settled(DATABASES, "server_tls_sslmode = require");
    let specs = specs(&settled, &Hosts::new(16), &Clusters::default());
    assert!(specs.iter().all(|spec| spec.login.outgoing.is_err()));
}

#[test]
fn a_reload_without_changes_continues_every_cluster() {
    let (hosts, clusters) = (Hosts::new(16), Clusters::default());
    let made = |lines: &str| {
        let databases = DATABASES.replace("replicas=10.0.0.8", lines);
        specs(&settled(&databases, ""), &hosts, &clusters)
    };
    let before = made("replicas=10.0.0.8");
    let continues = |after: &[ClusterSpec]| {
        let pairs = before.iter().zip(after);
        pairs
            .map(|(one, other)| one.continues(other))
            .collect::<Vec<_>>()
    };
    assert_eq!(continues(&made("replicas=10.0.0.8")), [true, true]);
    assert_eq!(continues(&made("replicas=10.0.0.7")), [false, true]);
    // What is known is kept when a fence comes or goes.
    let fence = "replicas=10.0.0.8 failover_hints=patroni:http://127.0.0.1:1 fence=patroni";
    let fenced = made(fence);
    assert_eq!(continues(&fenced), [true, true]);
    let are_fenced =
        |specs: &[ClusterSpec]| specs.iter().map(|it| it.is_fenced).collect::<Vec<_>>();
    assert_eq!(are_fenced(&before), [false, false]);
    assert_eq!(are_fenced(&fenced), [true, false]);
    assert_eq!(
        continues(&made("replicas=10.0.0.8 split_brain=keep")),
        [false, true]
    );
}
