//! Rows of the global section, in the order of the reference page.

use std::time::Duration;

use super::{
    Field, Kind, Opt, Unit, flag, int, list, of_kind, pool_size, ranged, seconds, section, size,
    text, timeout, word,
};
use crate::network::Network;
use crate::options::LAG_MAX;
use crate::routing::{ReadConsistency, ReadFallback, ReadWriteSplit, SplitBegin, SplitBrain};
use crate::state::{FunctionName, StateCheck};
use crate::types::{
    AuthType, ChannelBinding, Io, ListenAddr, ListenPoint, LogFormat, MaxPinned, PgBouncerVersion,
    PoolMode, PoolSize, Secret, SequenceValues, SessionState, SizingGoal, SizingMode, SslMode,
    SslNegotiation, SyslogFacility,
};
use crate::value::Value;

/// PgBouncer's default `auth_query`: no login after VALID UNTIL (CVE-2025-2291).
pub const AUTH_QUERY: &str = "SELECT rolname, CASE WHEN rolvaliduntil < now() THEN NULL ELSE rolpassword END \
    FROM pg_authid WHERE rolname=$1 AND rolcanlogin";

section! {
    /// Global options. Times are exact; `None` in a time means off.
    Global, GLOBAL {
        /// Log file, opened for append; empty logs to standard error only.
        logfile: String = text("");
        /// File that holds the process id while the process runs; empty writes none.
        pidfile: String = text("").fixed();
        /// Addresses to listen on, separated by commas; `*` is every address, empty means no TCP.
        listen_addr: Vec<ListenAddr> = of_kind(Kind::Listen, "").fixed();
        /// TCP port, and suffix of the unix socket.
        listen_port: u16 = ranged("6432", 1, 65_535).fixed();
        /// Length of the queue of connections not yet accepted, for listen(2).
        listen_backlog: u32 = ranged("128", 1, 1_000_000).fixed();
        /// Directory of the unix socket `.s.PGSQL.<port>`; `@name` is an abstract one, empty means none.
        unix_socket_dir: String = text("/tmp").fixed();
        /// Permissions of the unix socket.
        unix_socket_mode: u32 = Opt::new(Kind::Mode, "0777", 0, 0o7777).fixed();
        /// Group of the unix socket; empty leaves it.
        unix_socket_group: String = text("").fixed();
        /// Operating system user to become when started as root; empty stays who started it.
        user: String = text("").fixed();
        /// When a server goes back to its pool.
        pool_mode: PoolMode = word(PoolMode::NAMES, "session");
        /// Treatment of session state in transaction and statement pooling: `track` lets settings follow the client and keeps it on its server while it holds state that cannot move, `pin` keeps it there from its first change on, `refuse` lets settings follow and refuses the rest, `off` looks at nothing, as PgBouncer.
        session_state: SessionState = word(SessionState::NAMES, "track");
        /// Frequency with which a server is asked before its release for state that no statement showed; such state is treated as if a statement had shown it, counted and logged.
        session_state_check: StateCheck = of_kind(Kind::StateCheck, "off");
        /// Functions that change session state from within, so that a statement which calls one keeps the client on its server.
        session_state_functions: Vec<FunctionName> = of_kind(Kind::Functions, "");
        /// Results of `lastval()` and `currval()` in transaction and statement pooling with `session_state = track`: `learn` pins the clients of applications that were seen to read beyond the transaction, so that an application's first read may fail (55000); `pin` keeps a client on its server from its first `INSERT`, `COPY`, `MERGE` or `nextval` on; `refuse` refuses both functions and keeps no server for them.
        sequence_values: SequenceValues = word(SequenceValues::NAMES, "learn");
        /// Interval at which a server is asked if functions, triggers or views that may change session state have changed; 0 = such code is not looked at.
        catalogue_refresh: Option<Duration> = timeout("15");
        /// Clients of a pool that may keep their server beyond the transaction; one more is ended. `auto` = all servers of the pool but one, where a client may be pinned beyond that for a minute; 0 = no limit.
        max_pinned: MaxPinned = pool_size("auto");
        /// Clients of a pool that may wait for a server at once; one more is told so at once, and its session continues. 0 = no limit.
        max_waiting: u32 = int("0");
        /// Clients over all databases.
        max_client_conn: u32 = ranged("100", 1, 10_000_000);
        /// Servers per (database, user); 0 = unlimited, `auto` = the pool finds its size by itself while it works. Session pools always have a fixed size.
        default_pool_size: PoolSize = pool_size("20");
        /// Mode of pools with `pool_size = auto`: `on` finds the size and holds it, `advise` tries sizes within a quarter of `pool_size_start`, comes back and says what it would do, `off` stays there.
        pool_size_mode: SizingMode = word(SizingMode::NAMES, "on");
        /// Gain that a larger pool must bring: `throughput` wants the last per cent, `latency` short tails, `balanced` nearly all throughput with short tails.
        pool_size_goal: SizingGoal = word(SizingGoal::NAMES, "balanced");
        /// Assigned servers with which a pool with `pool_size = auto` begins.
        pool_size_start: u32 = ranged("20", 1, 1_000_000);
        /// A pool with `pool_size = auto` never assigns fewer servers at once than this, if clients want them.
        pool_size_min: u32 = ranged("1", 1, 1_000_000);
        /// A pool with `pool_size = auto` never has more servers than this.
        pool_size_max: u32 = ranged("100", 1, 1_000_000);
        /// Servers to keep open per pool that is in use or has a forced user.
        min_pool_size: u32 = int("0");
        /// Extra servers per pool once a client has waited `reserve_pool_timeout`.
        reserve_pool_size: u32 = int("0");
        /// Time that a client waits before the reserve is used; 0 = the reserve is never used.
        reserve_pool_timeout: Option<Duration> = timeout("5");
        /// Servers per database over all its pools; 0 = unlimited.
        max_db_connections: u32 = int("0");
        /// Clients per database; 0 = unlimited.
        max_db_client_connections: u32 = int("0");
        /// Servers per user over all databases; 0 = unlimited.
        max_user_connections: u32 = int("0");
        /// Clients per user over all databases; 0 = unlimited.
        max_user_client_connections: u32 = int("0");
        /// Pools, that is pairs of database and user, at most.
        max_pools: u32 = ranged("10000", 1, 10_000_000);
        /// Use the servers of a pool in turn instead of the last used first.
        server_round_robin: bool = flag("0");
        /// Server parameters to follow per client beside the standard ones.
        track_extra_parameters: Vec<String> = list("IntervalStyle").fixed().without_effect("Every parameter that a server reports follows its client, named here or not; with `session_state` also those that it does not report.");
        /// Startup parameters to accept and drop.
        ignore_startup_parameters: Vec<String> = list("");
        /// Own id among `[peers]`; 0 = no peering.
        peer_id: u32 = ranged("0", 0, 16_383);
        /// Refuse the simple query protocol.
        disable_pqexec: bool = flag("0").fixed();
        /// Append the client's address to application_name.
        application_name_add_host: bool = flag("0");
        /// Path of the configuration file that a reload reads.
        conffile: String = text("");
        /// Name of the Windows service.
        job_name: String = text("pgbouncer").fixed().alias(&["service_name"]).without_effect("Windows only, in PgBouncer too.");
        /// Period over which averages are taken and statistics logged.
        stats_period: Duration = Opt::new(Kind::Duration(Unit::Seconds), "60", 1, 86_400);
        /// Prepared statements kept per server in transaction and statement pooling; 0 = no support for them.
        max_prepared_statements: u32 = ranged("200", 0, 1_000_000);
        /// Treat an unnamed statement whose parameter types the client declares as a named one, which servers keep, once its text has come so often; 0 = never.
        prepare_unnamed_after: u32 = ranged("0", 0, 1_000_000);
        /// Notifications that wait for a client at most; one more ends the client with an error; 0 = only their bytes count.
        listen_queue_size: u32 = ranged("0", 0, 1_000_000);
        /// Bytes of notifications that wait for a client at most; one more ends the client with an error.
        listen_queue_bytes: u64 = size("67108864", 16_384, 0x4000_0000);
        /// Iterations for SCRAM verifiers made from clear text passwords.
        scram_iterations: u32 = ranged("4096", 1, 10_000_000);
        /// SCRAM iterations that a server may ask for; a server that wants more is not logged in to.
        scram_iterations_max: u32 = ranged("100000", 4096, 10_000_000);
        /// Notice sent to each client after its login; empty sends none.
        login_notify_message: String = text("");
        /// Method by which clients authenticate.
        auth_type: AuthType = word(AuthType::NAMES, "md5").native("scram-sha-256");
        /// File of user names and secrets.
        auth_file: String = text("");
        /// Refuse the configuration if `auth_file` cannot be read, or if others may read a private key. Without it both are
        /// warnings, as in PgBouncer.
        strict_files: bool = flag("0").native("1");
        /// HBA file for `auth_type` hba.
        auth_hba_file: String = text("");
        /// Ident map file for the HBA file's `map=`.
        auth_ident_file: String = text("");
        /// User that runs `auth_query` for users not in `auth_file`; empty never runs it.
        auth_user: String = text("").longest(127);
        /// Query that gives name and secret of the user `$1`.
        auth_query: String = text(AUTH_QUERY);
        /// Database of `[databases]` that `auth_query` runs in; empty uses the client's.
        auth_dbname: String = text("").longest(63);
        /// Time for which an answer of `auth_query` is kept, never beyond the secret's own end; 0 = asked at each login.
        auth_query_cache_ttl: Option<Duration> = timeout("0");
        /// Time before a client learns that its login failed; other clients do not wait.
        auth_failure_delay: Duration = Opt::new(Kind::Duration(Unit::Seconds), "0.25", 0, 60);
        /// Failed logins per minute from one address before that address has to wait; 0 = no limit.
        auth_failures_per_minute: u32 = ranged("600", 0, 1_000_000);
        /// Cancel requests per second from one address that are sent on to peers, more are dropped; 0 = no limit. Keys of own
        /// clients are never limited.
        cancel_requests_per_second: u32 = ranged("20", 0, 1_000_000);
        /// LDAP options for `auth_type` ldap, as an HBA line has them; may hold a password, so never shown.
        auth_ldap_options: Secret = of_kind(Kind::Secret, "");
        /// Log each login.
        log_connections: bool = flag("1");
        /// Log each end of a connection, with the reason.
        log_disconnections: bool = flag("1");
        /// Log errors sent to clients.
        log_pooler_errors: bool = flag("1");
        /// Addresses with ports, such as `127.0.0.1:9127`, that answer `/metrics`, `/healthz`, `/readyz` and the health checks of load balancers over HTTP to everybody who can reach them; empty means none.
        metrics_listen: Vec<ListenPoint> = of_kind(Kind::ListenPoints, "").fixed();
        /// Addresses with ports, such as `127.0.0.1:9128`, of the dashboard for browsers; loopback is served over HTTP, every other address over TLS with the certificate of `client_tls_cert_file`; empty means none.
        dashboard_listen: Vec<ListenPoint> = of_kind(Kind::ListenPoints, "").fixed();
        /// Further names by which browsers may reach the dashboard, without ports; a request with any other Host is refused.
        dashboard_hosts: Vec<String> = list("");
        /// Let users of `admin_users` pause, resume, reload, end clients and switch rules in the dashboard.
        dashboard_actions: bool = flag("0");
        /// Addresses and networks of proxies, such as `10.0.0.7, 10.1.0.0/24`, whose TCP connections begin with a PROXY protocol v2 header that names the client's address; a connection from there without the header is refused; empty means none.
        proxy_protocol_from: Vec<Network> = of_kind(Kind::Networks, "");
        /// Log statistics every `stats_period`.
        log_stats: bool = flag("1");
        /// Additional log detail.
        verbose: u32 = ranged("0", 0, 100);
        /// Shape of the log lines.
        log_format: LogFormat = word(LogFormat::NAMES, "text").fixed();
        /// Log to syslog (`/dev/log`) too.
        syslog: bool = flag("0");
        /// Program name in syslog.
        syslog_ident: String = text("pgbouncer");
        /// Facility in syslog.
        syslog_facility: SyslogFacility = word(SyslogFacility::NAMES, "daemon");
        /// Users who may do everything in the console.
        admin_users: Vec<String> = list("");
        /// Users who may look at everything in the console.
        stats_users: Vec<String> = list("");
        /// Version of PgBouncer whose console Weir shows: names and order of columns, words for states, and `SHOW VERSION`. Columns of later versions follow, then Weir's own; commands of later versions work too.
        pgbouncer_compat: PgBouncerVersion = word(PgBouncerVersion::NAMES, "1.25");
        /// Statement that cleans a server between clients in session pooling; empty sends none.
        server_reset_query: String = text("DISCARD ALL");
        /// Run `server_reset_query` in all pool modes.
        server_reset_query_always: bool = flag("0");
        /// Check a server that was idle for longer before it is used again; 0 = always check.
        server_check_delay: Duration = seconds("30");
        /// Statement of that check; `<empty>` is an empty query, no text at all means no check.
        server_check_query: String = text("<empty>");
        /// Before a new client's first transaction, ask PostgreSQL whether the role and its defaults (`ALTER ROLE … SET`, `ALTER DATABASE … SET`) are still those that the pool's servers began with, if the last answer is older; servers that began with others are replaced. 0 = never ask.
        role_check_delay: Option<Duration> = timeout("1");
        /// In session pooling, close servers that must go after their transaction instead of after the session; the client is told.
        server_fast_close: bool = flag("0");
        /// Close an unused server that is older; 0 = close after each use.
        server_lifetime: Duration = seconds("3600");
        /// Servers live longer or shorter than `server_lifetime` by a random time up to this; 0 = off, they live up to a tenth longer.
        server_lifetime_jitter: Option<Duration> = timeout("0");
        /// Close a server unused for longer; 0 = never.
        server_idle_timeout: Option<Duration> = timeout("600");
        /// Time for connecting and logging in to a server; 0 = no limit.
        server_connect_timeout: Option<Duration> = timeout("15");
        /// Wait after a failed login before the next; clients are refused meanwhile.
        server_login_retry: Duration = seconds("15");
        /// Server logins in progress at once, per host.
        server_connect_concurrency: u32 = ranged("16", 1, 10_000);
        /// Availability zone of this Weir; reads prefer replicas with the same `az`. Empty means no preference.
        az: String = text("").longest(63);
        /// Interval at which each host of a database with several hosts is asked for its role and its position; Weir asks more often while it suspects a failover.
        probe_interval: Duration = Opt::new(Kind::Duration(Unit::Seconds), "1", 0, 3600);
        /// Time for a host to answer such a question.
        probe_timeout: Duration = Opt::new(Kind::Duration(Unit::Seconds), "1", 0, 3600);
        /// Unanswered questions in a row after which a host counts as down.
        probe_fall: u32 = ranged("3", 1, 100);
        /// Answered questions in a row after which a host that was down counts as up.
        probe_rise: u32 = ranged("2", 1, 100);
        /// Time over which a replica that is new or came back gets its full share of reads; 0 = at once.
        replica_slow_start: Duration = Opt::new(Kind::Duration(Unit::Seconds), "30", 0, 86_400);
        /// Reads on replicas, for databases with several hosts: `off` sends everything to the host that `target` names, `hint` sends transactions to replicas that ask for it (`READ ONLY`, hints), `auto` also statements that are proved to read. Needs `pool_mode` transaction or statement.
        read_write_split: ReadWriteSplit = word(ReadWriteSplit::NAMES, "off");
        /// Reads hints in comments of statements, such as `/* weir: role=replica max_staleness=5s timeout=2s */ SELECT`. Whoever can write a statement's comment then chooses its host, and the time after which it is cancelled.
        comment_hints: bool = flag("0");
        /// Host for a `BEGIN` without `READ ONLY`: `conservative` uses the primary, `until-write` begins on a replica if the transaction is READ COMMITTED, and moves to the primary with the first statement that is not a plain read.
        split_begin: SplitBegin = word(SplitBegin::NAMES, "conservative");
        /// Commits that a read on a replica must see: `session` those of its own session, `global` those of all clients of this Weir, `eventual` none in particular; `primary` keeps reads on the primary.
        read_consistency: ReadConsistency = word(ReadConsistency::NAMES, "session");
        /// Age of its data above which a replica gets no reads; 0 = no limit.
        max_staleness: Option<Duration> = timeout("10");
        /// Bytes of WAL that a replica may lack before it gets no reads; 0 = no limit.
        max_lag: u64 = size("16777216", 0, LAG_MAX);
        /// Time for which a read waits for a replica that is fresh enough before `read_fallback` applies.
        read_wait: Duration = seconds("0");
        /// Lets a replica whose position was too old at the last probe compare it again itself, in front of a read and in the same write; if it is still too old, the read runs on the primary.
        read_guard: bool = flag("0");
        /// Treatment of a read for which there is no replica: `primary` runs it there, `error` refuses it.
        read_fallback: ReadFallback = word(ReadFallback::NAMES, "primary");
        /// Share of the primary's pool that such reads may use, in per cent.
        fallback_max_share: u32 = ranged("100", 1, 100);
        /// Choice between two hosts that both accept writes, if no third host decides within `failover_hold`: `newest` uses the higher timeline, `keep` the primary of before, `refuse` neither.
        split_brain: SplitBrain = word(SplitBrain::NAMES, "newest");
        /// Time for which clients wait for a new primary, or for the only host of their database after it has gone, before their statements fail; 0 = they fail at once, also if the host was never reached.
        failover_hold: Duration = Opt::new(Kind::Duration(Unit::Seconds), "60", 0, 86_400);
        /// An outage that begins sooner than this after the end of the one before lets nobody wait.
        min_time_between_holds: Duration = Opt::new(Kind::Duration(Unit::Seconds), "60", 0, 86_400);
        /// Keeps clients in transaction pooling that lose their server in a transaction block: the request fails with 40001, and the session goes on.
        keep_client: bool = flag("0");
        /// Counts statements that differ in literals only (`SHOW DIGESTS`).
        digests: bool = flag("1");
        /// Number of such statements that each worker counts apart, each in about 2 KiB; the least expensive ones are counted together.
        digest_max: u32 = ranged("2000", 10, 100_000);
        /// Number of such statements on the metrics page, those that take the most time; 0 = none.
        digest_metrics: u32 = ranged("0", 0, 1000);
        /// Directory of query rules, relative to the working directory: all files `*.toml` there, in the order of their names, have nothing but `[[rules]]`, which come behind those of weir.toml. Empty = none.
        rules_dir: String = text("");
        /// Directory of the lists for `statement_policy`, relative to the working directory: each file `*.toml` there has the statements that one user may run, as `weir statements export` writes them. Empty = none.
        statement_list_dir: String = text("");
        /// User of the connection that watches each host; empty uses the forced user of the database, else its `auth_user`.
        watch_user: String = text("").longest(127);
        /// Password of `watch_user`; without it the one in `auth_file` is used.
        watch_password: Secret = of_kind(Kind::Secret, "").longest(65_530);
        /// Time for a client to log in; 0 = no limit.
        client_login_timeout: Option<Duration> = timeout("60");
        /// Drop a database made from `*` when unused for longer; 0 = never.
        autodb_idle_timeout: Option<Duration> = timeout("3600");
        /// Drop a pool when unused for longer; 0 = never.
        pool_idle_timeout: Option<Duration> = timeout("0");
        /// Time for which a resolved name is kept.
        dns_max_ttl: Duration = seconds("15");
        /// Time for which a failed resolution is kept, and for which the last addresses are used while nobody answers.
        dns_nxdomain_ttl: Duration = seconds("15");
        /// Interval of checks of the serial of DNS zones; 0 = never.
        dns_zone_check_period: Option<Duration> = timeout("0").without_effect("Names are resolved by the system, which does not tell about zones; `dns_max_ttl` bounds how long a change goes unnoticed. PgBouncer needs a build with c-ares for it.");
        /// Resolver configuration instead of /etc/resolv.conf.
        resolv_conf: String = text("").fixed().without_effect("Names are resolved by the system, with all that `nsswitch.conf` and `resolv.conf` say. PgBouncer needs a build with c-ares for it.");
        /// Longest time a query may run; 0 = no limit.
        query_timeout: Option<Duration> = timeout("0");
        /// Longest time a client waits for a server; 0 = no limit.
        query_wait_timeout: Option<Duration> = timeout("120");
        /// Tell a client by a notice that it waits after this time; 0 = never.
        query_wait_notify: Option<Duration> = timeout("5");
        /// Longest time a cancel request waits for a server connection; 0 = no limit.
        cancel_wait_timeout: Option<Duration> = timeout("10");
        /// Longest time a client may be idle outside a transaction; 0 = no limit.
        client_idle_timeout: Option<Duration> = timeout("0");
        /// Longest time a client may be idle inside a transaction; 0 = no limit.
        idle_transaction_timeout: Option<Duration> = timeout("0");
        /// Longest time a transaction may take; 0 = no limit.
        transaction_timeout: Option<Duration> = timeout("0");
        /// Time that SUSPEND waits for buffers to empty; 0 = no limit.
        suspend_timeout: Option<Duration> = timeout("10");
        /// Time that a shutdown by signal waits for transactions to end; 0 = not at all.
        drain_timeout: Duration = seconds("25");
        /// Time that clients who cannot move may stay with the old process after an online upgrade (TLS, pinned, `LISTEN`); 0 = until they leave.
        upgrade_drain_timeout: Option<Duration> = timeout("0");
        /// Worker threads; 0 = one per core.
        workers: u32 = ranged("0", 0, 1024).fixed();
        /// Interface to the kernel through which workers use their sockets: `epoll`, `io_uring` (Linux 6.1 and later; where the kernel refuses it, `epoll` and a line in the log), or `auto`, which chooses. `SHOW STATE` names the one in use and the reason.
        io: Io = word(Io::NAMES, "auto").fixed();
        /// Time for which a worker polls for events before it sleeps, in microseconds; 0 = it sleeps at once. Lowers the latency of a few clients by the time that the kernel needs to wake a thread, and costs up to this much processor time at each pause: for machines with cores to spare.
        spin: Duration = Opt::new(Kind::Duration(Unit::Microseconds), "0", 0, 10_000);
        /// TLS towards clients: `allow` and `prefer` take it from those that ask, `require` refuses the others, `verify-ca` and `verify-full` also demand a certificate from `client_tls_ca_file`.
        client_tls_sslmode: SslMode = word(SslMode::NAMES, "disable");
        /// Private key shown to clients, PEM.
        client_tls_key_file: String = text("");
        /// Certificate shown to clients, PEM, with the intermediate ones after it.
        client_tls_cert_file: String = text("");
        /// Certificates that clients' certificates must come from, PEM; below `verify-ca` a certificate is asked for and may be missing.
        client_tls_ca_file: String = text("");
        /// Revoked client certificates, PEM; empty checks none.
        client_tls_crl_file: String = text("");
        /// TLS versions towards clients: `secure`, `tlsv1.2`, `tlsv1.3`, by comma.
        client_tls_protocols: String = text("secure");
        /// Ciphers towards clients, TLS 1.2: `default`, or OpenSSL names by colon.
        client_tls_ciphers: String = text("default");
        /// Ciphers towards clients, TLS 1.3: names by colon; empty is all.
        client_tls13_ciphers: String = text("");
        /// Curve of the key exchange with clients; `auto` offers all.
        client_tls_ecdhcurve: String = text("auto");
        /// DHE parameters of the key exchange with clients.
        client_tls_dheparams: String = text("auto").without_effect("There is no key exchange with DHE parameters here, only with curves.");
        /// TLS towards servers. `allow` and `prefer` both ask for it and go on without where the server has none.
        server_tls_sslmode: SslMode = word(SslMode::NAMES, "prefer");
        /// Private key shown to servers, PEM.
        server_tls_key_file: String = text("");
        /// Certificate shown to servers, PEM.
        server_tls_cert_file: String = text("");
        /// Certificates that servers' certificates must come from, PEM; `system` is what this machine trusts, for `verify-full` only, and its default there.
        server_tls_ca_file: String = text("");
        /// Revoked server certificates, PEM; empty checks none.
        server_tls_crl_file: String = text("");
        /// TLS versions towards servers: `secure`, `tlsv1.2`, `tlsv1.3`, by comma.
        server_tls_protocols: String = text("secure");
        /// Ciphers towards servers, TLS 1.2: `default`, or OpenSSL names by colon.
        server_tls_ciphers: String = text("default");
        /// Ciphers towards servers, TLS 1.3: names by colon; empty is all.
        server_tls13_ciphers: String = text("");
        /// Start of TLS on a server connection: `postgres` asks first, `direct` begins at once, which PostgreSQL 17 and later understand and `require` or more allows.
        server_tls_sslnegotiation: SslNegotiation = word(SslNegotiation::NAMES, "postgres");
        /// SCRAM bound to the TLS connection on the server side: `require` logs in to a server in no other way.
        server_channel_binding: ChannelBinding = word(ChannelBinding::NAMES, "prefer");
        /// Size of PgBouncer's packet buffers.
        pkt_buf: u64 = size("4096", 32, 1 << 30).fixed().without_effect("A worker has one receive buffer of 64 KiB for all its connections, so an idle connection has none and a larger one would save nothing.");
        /// Largest message let through, in either direction; PostgreSQL itself takes 1 GiB.
        max_packet_size: u64 = size("2147483647", 1024, 0x7fff_ffff);
        /// Reads from one connection before the others get their turn; 0 = no limit.
        sbuf_loopcnt: u32 = int("5").without_effect("A connection is read once per turn of the loop, so none can keep the others waiting.");
        /// Set SO_REUSEPORT, so that several processes share a port.
        so_reuseport: bool = flag("0").fixed();
        /// TCP_DEFER_ACCEPT in seconds; 0 = off.
        tcp_defer_accept: u32 = int("1").without_effect("The kernel would only spare one wake-up per connection; who connects and says nothing is ended by `client_login_timeout` either way.");
        /// TCP keepalive on all connections.
        tcp_keepalive: bool = flag("1");
        /// Lost keepalive probes before a connection counts as dead; 0 = the system's default.
        tcp_keepcnt: u32 = ranged("0", 0, 127);
        /// Idle time before the first keepalive probe; 0 = the system's default.
        tcp_keepidle: Option<Duration> = timeout("0");
        /// Time between keepalive probes; 0 = the system's default.
        tcp_keepintvl: Option<Duration> = timeout("0");
        /// Size of the kernel's socket buffers; 0 = the system's default.
        tcp_socket_buffer: u64 = size("0", 0, 1 << 30);
        /// TCP_USER_TIMEOUT, how long sent data may stay unacknowledged; 0 = the system's default.
        tcp_user_timeout: Option<Duration> = {
            let mut opt = timeout("0");
            opt.kind = Kind::Duration(Unit::Milliseconds);
            opt
        };
    }
}
