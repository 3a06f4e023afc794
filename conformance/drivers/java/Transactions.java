// pgjdbc in transaction pooling: several clients run the same steps at the same time; what each of them was told is
// printed client by client. Lines that begin with # are remarks; FAIL marks what the program itself holds to be wrong.

import java.io.ByteArrayInputStream;
import java.sql.BatchUpdateException;
import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.Savepoint;
import java.sql.Statement;
import java.sql.Types;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashSet;
import java.util.List;
import java.util.Properties;
import java.util.Set;
import java.util.concurrent.Callable;
import java.util.concurrent.CyclicBarrier;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import org.postgresql.PGConnection;
import org.postgresql.PGNotification;
import org.postgresql.copy.CopyManager;
import org.postgresql.largeobject.LargeObject;
import org.postgresql.largeobject.LargeObjectManager;
import org.postgresql.xa.PGXADataSource;

public final class Transactions {
    static final int CLIENTS = 6;
    /** Servers that a client can reach: a scenario that shows a change of servers asks until it has seen as many. */
    static final int SERVERS = Integer.parseInt(System.getenv().getOrDefault("TX_SERVERS", "1"));
    private static boolean good = true;
    private static List<String> chosen;

    interface Scenario {
        void run(Client client) throws Exception;
    }

    /** One client of a scenario, with its own lines. */
    static final class Client {
        final String scenario;
        final int number;
        final CyclicBarrier barrier;
        final List<String> lines = new ArrayList<>();

        Client(String scenario, int number, CyclicBarrier barrier) {
            this.scenario = scenario;
            this.number = number;
            this.barrier = barrier;
        }

        void say(String step, Object... values) {
            StringBuilder line = new StringBuilder(scenario + "[" + number + "] " + step + ":");
            for (Object value : values) line.append(' ').append(value);
            lines.add(line.toString().replace("\n", " | "));
        }

        /** The SQLSTATE that was to come. */
        void fails(String step, Callable<?> action) throws Exception {
            try {
                action.call();
            } catch (SQLException error) {
                say(step, error.getClass().getSimpleName(), error.getSQLState());
                return;
            }
            throw new AssertionError(step + ": no error");
        }

        /** Waits until every client is here. */
        void meet() throws Exception {
            barrier.await(60, TimeUnit.SECONDS);
        }
    }

    public static void main(String[] arguments) throws Exception {
        chosen = Arrays.asList(arguments);
        scenario("moves", Transactions::moves);
        scenario("prepared", Transactions::prepared);
        scenario("prepared_from_the_start", Transactions::preparedFromTheStart);
        scenario("after_ddl", Transactions::afterDdl);
        scenario("transactions", Transactions::transactions);
        scenario("autosave", Transactions::autosave);
        scenario("batches", Transactions::batches);
        scenario("cursors", Transactions::cursors);
        scenario("session_methods", Transactions::sessionMethods);
        scenario("settings", Transactions::settings);
        scenario("large_objects", Transactions::largeObjects);
        scenario("copies", Transactions::copies);
        scenario("notifications", Transactions::notifications);
        scenario("two_phases", Transactions::twoPhases);
        scenario("metadata", Transactions::metadata);
        scenario("temporary_and_locks", Transactions::temporaryAndLocks);
        scenario("timeouts", Transactions::timeouts);
        System.out.flush();
        // Threads that hang must not hold up the end.
        Runtime.getRuntime().halt(good ? 0 : 1);
    }

    /** Runs a scenario by CLIENTS threads unless the arguments leave it out. */
    private static void scenario(String name, Scenario steps) {
        boolean alone = chosen.stream().anyMatch(one -> !one.startsWith("-"));
        if (chosen.contains("-" + name) || alone && !chosen.contains(name)) return;
        CyclicBarrier barrier = new CyclicBarrier(CLIENTS);
        ExecutorService threads = Executors.newFixedThreadPool(CLIENTS);
        List<Client> clients = new ArrayList<>();
        List<Future<?>> runs = new ArrayList<>();
        for (int number = 0; number < CLIENTS; number++) {
            Client client = new Client(name, number, barrier);
            clients.add(client);
            runs.add(threads.submit(() -> {
                steps.run(client);
                return null;
            }));
        }
        for (int number = 0; number < CLIENTS; number++) {
            try {
                runs.get(number).get(120, TimeUnit.SECONDS);
            } catch (Exception error) {
                good = false;
                Throwable cause = error.getCause() == null ? error : error.getCause();
                List<StackTraceElement> where = Arrays.stream(cause.getStackTrace())
                    .filter(at -> at.getClassName().startsWith("Transactions")).toList();
                clients.get(number).lines.add(("FAIL " + name + "[" + number + "] " + cause + " " + where).replace("\n", " | "));
                barrier.reset();
            }
        }
        threads.shutdownNow();
        for (Client client : clients) client.lines.forEach(System.out::println);
        System.out.println("done " + name);
    }

    private static Connection connect(String... options) throws SQLException {
        Properties properties = new Properties();
        properties.setProperty("user", System.getenv("PGUSER"));
        properties.setProperty("password", System.getenv("PGPASSWORD"));
        properties.setProperty("sslmode", "disable");
        properties.setProperty("gssEncMode", "disable");
        for (int i = 0; i < options.length; i += 2) properties.setProperty(options[i], options[i + 1]);
        return DriverManager.getConnection("jdbc:postgresql://" + System.getenv("PGHOST") + ":"
            + System.getenv("PGPORT") + "/" + System.getenv("PGDATABASE"), properties);
    }

    private static String one(Connection conn, String sql) throws SQLException {
        try (Statement statement = conn.createStatement(); ResultSet rows = statement.executeQuery(sql)) {
            rows.next();
            return rows.getString(1);
        }
    }

    private static List<String> all(Connection conn, String sql) throws SQLException {
        try (Statement statement = conn.createStatement(); ResultSet rows = statement.executeQuery(sql)) {
            List<String> found = new ArrayList<>();
            while (rows.next()) {
                StringBuilder row = new StringBuilder();
                for (int i = 1; i <= rows.getMetaData().getColumnCount(); i++) row.append(i > 1 ? "," : "").append(rows.getString(i));
                found.add(row.toString());
            }
            return found;
        }
    }

    private static void execute(Connection conn, String sql) throws SQLException {
        try (Statement statement = conn.createStatement()) {
            statement.execute(sql);
        }
    }

    private static int number(Connection conn, String sql, int parameter) throws SQLException {
        try (PreparedStatement statement = conn.prepareStatement(sql)) {
            statement.setInt(1, parameter);
            try (ResultSet rows = statement.executeQuery()) {
                rows.next();
                return rows.getInt(1);
            }
        }
    }

    /** Asks until servers have changed, without which nothing here means much. */
    private static void moves(Client client) throws SQLException {
        try (Connection conn = connect()) {
            Set<String> servers = new HashSet<>();
            while (servers.size() < SERVERS) servers.add(one(conn, "select pg_backend_pid()"));
            client.lines.add("# servers " + servers.size());
        }
    }

    /** Named from the fifth execution on, then in binary too. */
    private static void prepared(Client client) throws Exception {
        try (Connection conn = connect()) {
            try (PreparedStatement common = conn.prepareStatement("select ?::int * 2, ?::text, ?::bytea, ?::timestamp");
                PreparedStatement own = conn.prepareStatement("select ?::int + " + client.number)) {
                for (int i = 0; i < 14; i++) {
                    common.setInt(1, i);
                    common.setString(2, "text " + i);
                    common.setBytes(3, new byte[] {(byte) i, 0});
                    common.setTimestamp(4, java.sql.Timestamp.valueOf("2026-02-03 04:05:06"));
                    try (ResultSet rows = common.executeQuery()) {
                        rows.next();
                        client.say("common", rows.getInt(1), rows.getString(2), Arrays.toString(rows.getBytes(3)), rows.getTimestamp(4));
                    }
                    own.setInt(1, i);
                    try (ResultSet rows = own.executeQuery()) {
                        rows.next();
                        client.say("own", rows.getInt(1));
                    }
                }
            }
            for (int i = 0; i < 10; i++) client.say("pooled by the driver", number(conn, "select ?::int + 7", i));
            client.fails("error", () -> number(conn, "select 1 / ?", 0));
            client.say("after", number(conn, "select 1 / ?", 1));
        }
    }

    /** prepareThreshold=-1 names and describes at once; a small cache closes what it drops. */
    private static void preparedFromTheStart(Client client) throws Exception {
        for (String mode : List.of("extended", "extendedForPrepared", "extendedCacheEverything", "simple")) {
            try (Connection conn = connect("prepareThreshold", "-1", "preparedStatementCacheQueries", "3", "preferQueryMode", mode)) {
                for (int i = 0; i < 15; i++) client.say(mode, number(conn, "select ?::int * " + i % 5, client.number), one(conn, "select " + i));
            }
        }
    }

    /** A table that changes under prepared statements; in auto-commit the driver tries again by itself. */
    private static void afterDdl(Client client) throws Exception {
        try (Connection conn = connect("prepareThreshold", "1", "autosave", "conservative")) {
            String table = "ddl_" + client.number;
            execute(conn, "create table " + table + " as select 1 as a");
            for (int i = 0; i < 3; i++) {
                for (int turn = 0; turn < 3; turn++) {
                    try (PreparedStatement statement = conn.prepareStatement("select * from " + table); ResultSet rows = statement.executeQuery()) {
                        rows.next();
                        client.say("columns", rows.getMetaData().getColumnCount(), rows.getString(rows.getMetaData().getColumnCount()));
                    }
                }
                execute(conn, "alter table " + table + " add b" + i + " int default " + i);
            }
            execute(conn, "drop table " + table);
        }
    }

    private static void transactions(Client client) throws Exception {
        try (Connection conn = connect()) {
            String table = "tx_" + client.number;
            execute(conn, "create table " + table + " (i int)");
            conn.setAutoCommit(false);
            execute(conn, "insert into " + table + " values (1)");
            Savepoint savepoint = conn.setSavepoint("mine");
            execute(conn, "set application_name to 'undone'");
            client.fails("error", () -> one(conn, "select 1/0"));
            client.fails("failed", () -> one(conn, "select 1"));
            conn.rollback(savepoint);
            client.say("name", one(conn, "show application_name"));
            conn.commit();
            execute(conn, "insert into " + table + " values (2)");
            execute(conn, "set work_mem to '8MB'");
            conn.rollback();
            client.say("rows", all(conn, "select i from " + table), one(conn, "show work_mem"));
            conn.commit();
            conn.setAutoCommit(true);
            execute(conn, "drop table " + table);
        }
    }

    /** autosave=always puts a savepoint in front of every statement. */
    private static void autosave(Client client) throws Exception {
        for (String mode : List.of("always", "conservative")) {
            try (Connection conn = connect("autosave", mode, "cleanupSavepoints", "true")) {
                String table = "autosave_" + client.number;
                execute(conn, "create table " + table + " (i int primary key)");
                conn.setAutoCommit(false);
                for (int i = 0; i < 6; i++) number(conn, "insert into " + table + " values (?) returning i", i);
                client.fails("duplicate", () -> number(conn, "insert into " + table + " values (?) returning i", 3));
                if (mode.equals("always")) client.say("goes on", one(conn, "select count(*) from " + table));
                else conn.rollback();
                conn.commit();
                conn.setAutoCommit(true);
                client.say("kept", one(conn, "select count(*) from " + table));
                execute(conn, "drop table " + table);
            }
        }
    }

    private static void batches(Client client) throws Exception {
        for (String rewrite : List.of("false", "true")) {
            try (Connection conn = connect("reWriteBatchedInserts", rewrite)) {
                String table = "batch_" + client.number;
                execute(conn, "create table " + table + " (i int primary key, w text)");
                try (PreparedStatement statement = conn.prepareStatement("insert into " + table + " values (?, ?)")) {
                    for (int round = 0; round < 3; round++) {
                        for (int i = 0; i < 100; i++) {
                            statement.setInt(1, round * 100 + i);
                            statement.setString(2, "w" + i);
                            statement.addBatch();
                        }
                        client.say("batch", statement.executeBatch().length);
                    }
                    for (int i : new int[] {1000, 1001, 7, 1002}) {
                        statement.setInt(1, i);
                        statement.setString(2, "x");
                        statement.addBatch();
                    }
                    try {
                        statement.executeBatch();
                        throw new AssertionError("no error");
                    } catch (BatchUpdateException error) {
                        client.say("duplicate", error.getSQLState());
                    }
                }
                client.say("count", one(conn, "select count(*), sum(i) from " + table));
                try (Statement statement = conn.createStatement()) {
                    statement.addBatch("update " + table + " set w = 'y' where i < 10");
                    statement.addBatch("delete from " + table + " where i > 250");
                    client.say("statements", Arrays.toString(statement.executeBatch()));
                }
                try (PreparedStatement statement = conn.prepareStatement("insert into " + table + " values (?, 'k')", new String[] {"i"})) {
                    for (int i = 5000; i < 5005; i++) {
                        statement.setInt(1, i);
                        statement.addBatch();
                    }
                    statement.executeBatch();
                    List<Integer> keys = new ArrayList<>();
                    try (ResultSet rows = statement.getGeneratedKeys()) {
                        while (rows.next()) keys.add(rows.getInt(1));
                    }
                    client.say("keys", keys);
                }
                execute(conn, "drop table " + table);
            }
        }
    }

    /** setFetchSize reads a portal piece by piece; several of them at once; one held over the commit. */
    private static void cursors(Client client) throws Exception {
        try (Connection conn = connect()) {
            conn.setAutoCommit(false);
            for (int round = 0; round < 7; round++) {
                try (PreparedStatement outer = conn.prepareStatement("select i from generate_series(1, ?) i");
                    PreparedStatement inner = conn.prepareStatement("select i * 2 from generate_series(1, ?) i")) {
                    outer.setInt(1, 30);
                    outer.setFetchSize(7);
                    long sum = 0;
                    try (ResultSet rows = outer.executeQuery()) {
                        while (rows.next()) {
                            sum += rows.getInt(1);
                            if (rows.getInt(1) % 10 != 0) continue;
                            inner.setInt(1, 9);
                            inner.setFetchSize(4);
                            try (ResultSet more = inner.executeQuery()) {
                                while (more.next()) sum += more.getInt(1) * 1000L;
                            }
                        }
                    }
                    client.say("sum", sum);
                }
                conn.commit();
            }
            conn.setAutoCommit(true);
            try (Statement statement = conn.createStatement(ResultSet.TYPE_SCROLL_INSENSITIVE, ResultSet.CONCUR_READ_ONLY, ResultSet.HOLD_CURSORS_OVER_COMMIT)) {
                statement.setFetchSize(5);
                try (ResultSet rows = statement.executeQuery("select generate_series(1, 20)")) {
                    rows.absolute(13);
                    client.say("scrolled", rows.getInt(1));
                }
            }
            execute(conn, "begin; declare held scroll cursor with hold for select generate_series(1, 9); commit");
            for (int i = 0; i < 3; i++) client.say("held", all(conn, "fetch 2 from held"));
            execute(conn, "close held");
        }
    }

    /** What java.sql.Connection itself keeps in the session. */
    private static void sessionMethods(Client client) throws Exception {
        try (Connection conn = connect("ApplicationName", "jdbc " + client.number, "readOnlyMode", "always")) {
            execute(conn, "create schema own_" + client.number);
            execute(conn, "create table own_" + client.number + ".here as select " + client.number + " as it");
            conn.setSchema("own_" + client.number);
            for (int i = 0; i < 7; i++) client.say("schema", conn.getSchema(), number(conn, "select it from here where it <> ?", -1));
            conn.setReadOnly(true);
            client.say("read only", conn.isReadOnly(), one(conn, "show transaction_read_only"));
            client.fails("read only", () -> {
                execute(conn, "insert into here values (1)");
                return null;
            });
            conn.setAutoCommit(false);
            client.say("read only", one(conn, "show transaction_read_only"));
            conn.commit();
            conn.setAutoCommit(true);
            conn.setReadOnly(false);
            client.say("read only", one(conn, "show transaction_read_only"));
            for (int level : new int[] {Connection.TRANSACTION_SERIALIZABLE, Connection.TRANSACTION_REPEATABLE_READ, Connection.TRANSACTION_READ_COMMITTED}) {
                conn.setTransactionIsolation(level);
                for (int i = 0; i < 2; i++) client.say("isolation", conn.getTransactionIsolation() == level, one(conn, "show transaction_isolation"));
            }
            conn.setNetworkTimeout(Executors.newSingleThreadExecutor(work -> {
                Thread thread = new Thread(work);
                thread.setDaemon(true);
                return thread;
            }), 30_000);
            client.say("network", conn.getNetworkTimeout(), conn.isValid(5));
            conn.setClientInfo("ApplicationName", "renamed " + client.number);
            for (int i = 0; i < 3; i++) client.say("name", one(conn, "show application_name"), conn.getClientInfo("ApplicationName"));
            execute(conn, "drop schema own_" + client.number + " cascade");
        }
    }

    private static void settings(Client client) throws Exception {
        try (Connection conn = connect("options", "-c statement_timeout=" + (20000 + client.number) + " -c app.own=o" + client.number,
            "currentSchema", "tenant_" + client.number + ",public")) {
            String[] names = {"statement_timeout", "app.own", "search_path", "extra_float_digits", "datestyle", "client_encoding", "lock_timeout"};
            for (String change : new String[] {"select 1", "set lock_timeout to '3s'", "select set_config('app.own', 'set " + client.number + "', false)",
                "set statement_timeout to '22s'; set search_path to elsewhere", "begin; set lock_timeout to '9s'; rollback",
                "begin; set local lock_timeout to '9s'; commit", "reset statement_timeout", "reset all", "discard all"}) {
                execute(conn, change);
                for (int turn = 0; turn < 2; turn++) {
                    List<String> shown = new ArrayList<>();
                    for (String name : names) shown.add(one(conn, "show " + name));
                    client.say(change, shown, conn.unwrap(PGConnection.class).getParameterStatus("DateStyle"));
                }
            }
            client.fails("encoding", () -> {
                execute(conn, "set datestyle to 'German'");
                return null;
            });
        }
    }

    /** The fast-path function calls of the large object API. */
    private static void largeObjects(Client client) throws Exception {
        try (Connection conn = connect()) {
            conn.setAutoCommit(false);
            LargeObjectManager manager = conn.unwrap(PGConnection.class).getLargeObjectAPI();
            for (int round = 0; round < 3; round++) {
                long oid = manager.createLO(LargeObjectManager.READWRITE);
                try (LargeObject object = manager.open(oid, LargeObjectManager.READWRITE)) {
                    object.write(("large of " + client.number + " " + round).getBytes());
                    object.seek(6);
                    client.say("read", new String(object.read(100)), object.tell(), object.size());
                    object.truncate(5);
                }
                conn.commit();
                try (LargeObject object = manager.open(oid, LargeObjectManager.READ)) {
                    client.say("later", new String(object.read(100)));
                }
                manager.unlink(oid);
                conn.commit();
            }
        }
    }

    private static void copies(Client client) throws Exception {
        try (Connection conn = connect()) {
            String table = "copy_" + client.number;
            execute(conn, "create table " + table + " (i int, w text)");
            CopyManager copies = conn.unwrap(PGConnection.class).getCopyAPI();
            client.say("in", copies.copyIn("copy " + table + " from stdin", new ByteArrayInputStream("1\ta\n2\tb\n".getBytes())));
            client.fails("bad", () -> copies.copyIn("copy " + table + " from stdin", new ByteArrayInputStream("x\ty\n".getBytes())));
            java.io.StringWriter out = new java.io.StringWriter();
            client.say("out", copies.copyOut("copy " + table + " to stdout", out), out.toString());
            execute(conn, "drop table " + table);
        }
    }

    private static void notifications(Client client) throws Exception {
        try (Connection conn = connect(); Connection other = connect()) {
            execute(conn, "listen of_" + client.number);
            execute(conn, "listen for_all");
            client.meet();
            for (int i = 0; i < 3; i++) execute(other, "notify of_" + (client.number + 1) % CLIENTS + ", '" + i + "'");
            told(client, conn, 3);
            client.meet();
            if (client.number == 2) execute(other, "notify for_all, 'hello'");
            told(client, conn, 1);
            execute(conn, "notify of_" + client.number + ", 'myself'");
            told(client, conn, 1);
            client.meet();
            execute(conn, "unlisten *");
            client.say("channels", one(conn, "select count(*) from pg_listening_channels()"));
        }
    }

    private static void told(Client client, Connection conn, int count) throws SQLException {
        List<String> told = new ArrayList<>();
        for (int turn = 0; turn < 120 && told.size() < count; turn++) {
            for (PGNotification one : conn.unwrap(PGConnection.class).getNotifications(500)) told.add(one.getName() + " " + one.getParameter());
        }
        client.say("told", told);
    }

    /** XA, as a transaction manager uses it. */
    private static void twoPhases(Client client) throws Exception {
        PGXADataSource source = new PGXADataSource();
        source.setUrl("jdbc:postgresql://" + System.getenv("PGHOST") + ":" + System.getenv("PGPORT") + "/" + System.getenv("PGDATABASE") + "?sslmode=disable&gssEncMode=disable");
        source.setUser(System.getenv("PGUSER"));
        source.setPassword(System.getenv("PGPASSWORD"));
        var xa = source.getXAConnection();
        Connection conn = xa.getConnection();
        execute(conn, "create table phases_" + client.number + " (i int)");
        for (int turn = 0; turn < 3; turn++) {
            byte[] id = (System.getenv("PGDATABASE") + client.number + "." + turn).getBytes();
            var xid = new javax.transaction.xa.Xid() {
                public int getFormatId() {
                    return 7;
                }

                public byte[] getGlobalTransactionId() {
                    return id;
                }

                public byte[] getBranchQualifier() {
                    return new byte[] {1};
                }
            };
            xa.getXAResource().start(xid, javax.transaction.xa.XAResource.TMNOFLAGS);
            execute(conn, "insert into phases_" + client.number + " values (" + turn + ")");
            xa.getXAResource().end(xid, javax.transaction.xa.XAResource.TMSUCCESS);
            xa.getXAResource().prepare(xid);
            if (turn == 1) xa.getXAResource().rollback(xid);
            else xa.getXAResource().commit(xid, false);
            client.say("rows", all(conn, "select i from phases_" + client.number + " order by i"));
        }
        execute(conn, "drop table phases_" + client.number);
        xa.close();
    }

    /** The queries behind DatabaseMetaData, and types of the user's own. */
    private static void metadata(Client client) throws Exception {
        try (Connection conn = connect()) {
            String schema = "meta_" + client.number;
            execute(conn, "create schema " + schema + "; create type " + schema + ".mood as enum ('sad', 'glad'); create table " + schema
                + ".t (id serial primary key, m " + schema + ".mood, a int[])");
            try (ResultSet rows = conn.getMetaData().getColumns(null, schema, "t", "%")) {
                while (rows.next()) client.say("column", rows.getString("COLUMN_NAME"), rows.getString("TYPE_NAME").replace(schema, "S"), rows.getInt("DATA_TYPE"));
            }
            try (ResultSet rows = conn.getMetaData().getPrimaryKeys(null, schema, "t")) {
                while (rows.next()) client.say("key", rows.getString("COLUMN_NAME"));
            }
            try (PreparedStatement statement = conn.prepareStatement("insert into " + schema + ".t (m, a) values (?, ?)", Statement.RETURN_GENERATED_KEYS)) {
                for (int i = 0; i < 7; i++) {
                    statement.setObject(1, i % 2 == 0 ? "sad" : "glad", Types.OTHER);
                    statement.setArray(2, conn.createArrayOf("int4", new Integer[] {i, 2}));
                    statement.executeUpdate();
                    try (ResultSet keys = statement.getGeneratedKeys()) {
                        keys.next();
                        client.say("inserted", keys.getInt(1), keys.getString(2), keys.getArray(3));
                    }
                }
            }
            client.say("isolation", conn.getMetaData().getDefaultTransactionIsolation());
            execute(conn, "drop schema " + schema + " cascade");
        }
    }

    private static void temporaryAndLocks(Client client) throws Exception {
        try (Connection conn = connect("prepareThreshold", "1")) {
            execute(conn, "create temporary table mine (i int)");
            for (int i = 0; i < 4; i++) {
                number(conn, "insert into mine values (?) returning i", client.number * 10 + i);
                client.say("rows", all(conn, "select i from mine order by i"));
            }
            execute(conn, "drop table mine");
            client.say("lock", one(conn, "select pg_try_advisory_lock(" + client.number + ")"));
            for (int i = 0; i < 3; i++) client.say("held", one(conn, "select count(*) from pg_locks where locktype = 'advisory' and pid = pg_backend_pid()"));
            client.say("unlock", one(conn, "select pg_advisory_unlock(" + client.number + ")"));
        }
    }

    private static void timeouts(Client client) throws Exception {
        try (Connection conn = connect(); Statement statement = conn.createStatement()) {
            statement.setQueryTimeout(1);
            client.fails("timeout", () -> statement.execute("select pg_sleep(20)"));
            client.say("after", one(conn, "select " + client.number));
        }
    }
}
