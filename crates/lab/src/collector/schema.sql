-- Names with a leading underscore are ours, the others are PostgreSQL's own. Times are milliseconds since 1970.
CREATE TABLE run (id INTEGER PRIMARY KEY, kind TEXT NOT NULL, started INTEGER NOT NULL, command TEXT NOT NULL,
    weir_version TEXT NOT NULL, server TEXT NOT NULL, server_version TEXT NOT NULL, seed INTEGER NOT NULL, settings TEXT NOT NULL);
CREATE TABLE env (_run_id INTEGER NOT NULL REFERENCES run, section TEXT NOT NULL, name TEXT NOT NULL, value TEXT NOT NULL);
CREATE TABLE missing (_run_id INTEGER NOT NULL REFERENCES run, what TEXT NOT NULL, why TEXT NOT NULL);
CREATE TABLE cell (id INTEGER PRIMARY KEY, _run_id INTEGER NOT NULL REFERENCES run, workload TEXT NOT NULL,
    connections INTEGER NOT NULL, clients INTEGER NOT NULL, repetition INTEGER NOT NULL, place INTEGER NOT NULL,
    started INTEGER NOT NULL, bench_begin INTEGER, bench_end INTEGER, outcome TEXT, costs TEXT, oracle TEXT, failed TEXT);
CREATE TABLE snapshot (id INTEGER PRIMARY KEY, _run_id INTEGER NOT NULL REFERENCES run, _cell_id INTEGER NOT NULL REFERENCES cell,
    _collected_at INTEGER NOT NULL, _phase TEXT NOT NULL, took_us INTEGER NOT NULL);
CREATE TABLE pg_stat_activity (_snapshot_id INTEGER NOT NULL REFERENCES snapshot, _run_id INTEGER NOT NULL, _collected_at INTEGER NOT NULL,
    _phase TEXT NOT NULL, datid, datname, pid, leader_pid, usesysid, usename, application_name, client_addr, client_hostname,
    client_port, backend_start, xact_start, query_start, state_change, wait_event_type, wait_event, state, backend_xid,
    backend_xmin, query_id, query, backend_type);
CREATE INDEX pg_stat_activity_snapshot ON pg_stat_activity (_snapshot_id);
CREATE TABLE pg_counter (_snapshot_id INTEGER NOT NULL REFERENCES snapshot, _run_id INTEGER NOT NULL, _collected_at INTEGER NOT NULL,
    source TEXT NOT NULL, object TEXT NOT NULL, name TEXT NOT NULL, value REAL NOT NULL);
CREATE TABLE os_sample (_snapshot_id INTEGER NOT NULL REFERENCES snapshot, _run_id INTEGER NOT NULL, _collected_at INTEGER NOT NULL,
    name TEXT NOT NULL, value REAL NOT NULL);
CREATE INDEX os_sample_snapshot ON os_sample (_snapshot_id);
CREATE TABLE backend_switches (_snapshot_id INTEGER NOT NULL REFERENCES snapshot, _run_id INTEGER NOT NULL, _collected_at INTEGER NOT NULL,
    pid INTEGER NOT NULL, voluntary INTEGER NOT NULL, involuntary INTEGER NOT NULL);
