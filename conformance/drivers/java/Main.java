// pgjdbc from the outside: connection by PG* environment variables.

import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.math.BigDecimal;
import java.sql.BatchUpdateException;
import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.Statement;
import java.sql.Timestamp;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Properties;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import org.postgresql.PGConnection;
import org.postgresql.copy.CopyManager;
import org.postgresql.largeobject.LargeObject;
import org.postgresql.largeobject.LargeObjectManager;

public final class Main {
    interface Step {
        void run(Connection conn) throws Exception;
    }

    private static int failures;

    public static void main(String[] arguments) {
        step("connects", conn -> check(one(conn, "select 1").equals("1"), "select 1"));
        step("parametrised query", Main::parametrisedQuery);
        step("transaction", Main::transaction);
        step("batch", Main::batch);
        step("error then usable", Main::errorThenUsable);
        step("copy", Main::copy);
        step("cancel", Main::cancel);
        step("query timeout", Main::queryTimeout);
        step("fetch size", Main::fetchSize);
        step("large object", Main::largeObject);
        step("concurrent", Main::concurrent);
        step("large", Main::large);
        System.exit(failures == 0 ? 0 : 1);
    }

    private static void step(String name, Step step) {
        try (Connection conn = connect()) {
            step.run(conn);
            System.out.println("ok " + name);
        } catch (Throwable error) {
            failures++;
            System.out.println("FAIL " + name + ": " + error.toString().replace('\n', ' ') + " "
                + Arrays.stream(error.getStackTrace()).filter(at -> at.getClassName().equals("Main")).toList());
        }
    }

    private static Connection connect() throws SQLException {
        Properties properties = new Properties();
        properties.setProperty("user", System.getenv("PGUSER"));
        properties.setProperty("password", System.getenv("PGPASSWORD"));
        properties.setProperty("sslmode", "disable");
        properties.setProperty("gssEncMode", "disable");
        properties.setProperty("connectTimeout", "20");
        return DriverManager.getConnection("jdbc:postgresql://" + System.getenv("PGHOST") + ":"
            + System.getenv("PGPORT") + "/" + System.getenv("PGDATABASE"), properties);
    }

    private static void check(boolean condition, String what) {
        if (!condition) throw new AssertionError(what);
    }

    private static String one(Connection conn, String sql) throws SQLException {
        try (Statement statement = conn.createStatement(); ResultSet rows = statement.executeQuery(sql)) {
            rows.next();
            return rows.getString(1);
        }
    }

    private static void execute(Connection conn, String sql) throws SQLException {
        try (Statement statement = conn.createStatement()) {
            statement.execute(sql);
        }
    }

    private static void fails(String state, Callable<?> action) throws Exception {
        try {
            action.call();
        } catch (SQLException error) {
            check(state.equals(error.getSQLState()), error.getSQLState() + " instead of " + state + ": " + error);
            return;
        }
        throw new AssertionError("no error, wanted " + state);
    }

    private static void parametrisedQuery(Connection conn) throws SQLException {
        String sql = "select ?::int, ?::text, ?::text, ?::numeric, ?::bool, ?::timestamptz, ?::bytea, ?::int[]";
        Timestamp day = Timestamp.valueOf("2026-02-03 04:05:06");
        for (int i = 0; i < 100; i++) {
            try (PreparedStatement statement = conn.prepareStatement(sql)) {
                statement.setInt(1, i);
                statement.setString(2, "text " + i);
                statement.setString(3, null);
                statement.setBigDecimal(4, new BigDecimal("1.50"));
                statement.setBoolean(5, true);
                statement.setTimestamp(6, day);
                statement.setBytes(7, new byte[] {0, -1});
                statement.setArray(8, conn.createArrayOf("int4", new Integer[] {1, 2}));
                ResultSet rows = statement.executeQuery();
                check(rows.next() && rows.getInt(1) == i && rows.getString(2).equals("text " + i), "round " + i);
                check(rows.getString(3) == null && rows.getBigDecimal(4).equals(new BigDecimal("1.50")), "null");
                check(rows.getBoolean(5) && rows.getTimestamp(6).equals(day), "bool and time");
                check(Arrays.equals(rows.getBytes(7), new byte[] {0, -1}), "bytes");
                check(Arrays.equals((Object[]) rows.getArray(8).getArray(), new Integer[] {1, 2}), "array");
            }
        }
    }

    private static void transaction(Connection conn) throws Exception {
        execute(conn, "drop table if exists jdbc_t; create table jdbc_t (i int)");
        conn.setAutoCommit(false);
        execute(conn, "insert into jdbc_t values (1)");
        conn.rollback();
        execute(conn, "insert into jdbc_t values (2)");
        var savepoint = conn.setSavepoint();
        fails("22012", () -> one(conn, "select 1/0"));
        fails("25P02", () -> one(conn, "select 1"));
        conn.rollback(savepoint);
        execute(conn, "insert into jdbc_t values (3)");
        conn.commit();
        conn.setAutoCommit(true);
        check(one(conn, "select string_agg(i::text, ',' order by i) from jdbc_t").equals("2,3"), "kept rows");
    }

    private static void batch(Connection conn) throws Exception {
        execute(conn, "drop table if exists jdbc_b; create table jdbc_b (i int primary key)");
        try (PreparedStatement statement = conn.prepareStatement("insert into jdbc_b values (?)")) {
            for (int i = 0; i < 1000; i++) {
                statement.setInt(1, i);
                statement.addBatch();
            }
            check(statement.executeBatch().length == 1000, "batch");
            statement.setInt(1, 2000);
            statement.addBatch();
            statement.setInt(1, 5);
            statement.addBatch();
            try {
                statement.executeBatch();
                throw new AssertionError("no error");
            } catch (BatchUpdateException error) {
                check("23505".equals(error.getSQLState()), "state " + error.getSQLState());
            }
        }
        check(one(conn, "select count(*) from jdbc_b where i < 1000").equals("1000"), "rows");
    }

    private static void errorThenUsable(Connection conn) throws Exception {
        for (int i = 0; i < 10; i++) {
            fails("42703", () -> one(conn, "select no_such_column"));
            check(one(conn, "select 1").equals("1"), "after the error");
        }
    }

    private static void copy(Connection conn) throws Exception {
        execute(conn, "drop table if exists jdbc_c; create table jdbc_c (i int, w text)");
        CopyManager copies = conn.unwrap(PGConnection.class).getCopyAPI();
        StringBuilder text = new StringBuilder();
        for (int i = 0; i < 10000; i++) text.append(i).append("\tword").append(i).append('\n');
        byte[] bytes = text.toString().getBytes();
        check(copies.copyIn("copy jdbc_c from stdin", new ByteArrayInputStream(bytes)) == 10000, "copy in");
        ByteArrayOutputStream out = new ByteArrayOutputStream();
        check(copies.copyOut("copy jdbc_c to stdout", out) == 10000, "copy out");
        check(Arrays.equals(out.toByteArray(), bytes), "copied bytes");
        fails("22P02", () -> copies.copyIn("copy jdbc_c from stdin", new ByteArrayInputStream("x\ty\n".getBytes())));
        var half = copies.copyIn("copy jdbc_c from stdin");
        half.writeToCopy("1\tx\n".getBytes(), 0, 4);
        half.cancelCopy();
        check(one(conn, "select count(*) from jdbc_c").equals("10000"), "copy that failed");
    }

    private static void cancel(Connection conn) throws Exception {
        try (Statement statement = conn.createStatement()) {
            Thread canceller = new Thread(() -> {
                try {
                    TimeUnit.MILLISECONDS.sleep(300);
                    statement.cancel();
                } catch (Exception error) {
                    error.printStackTrace();
                }
            });
            canceller.start();
            fails("57014", () -> statement.execute("select pg_sleep(30)"));
            canceller.join();
        }
        check(one(conn, "select 1").equals("1"), "after the cancel");
    }

    private static void queryTimeout(Connection conn) throws Exception {
        try (Statement statement = conn.createStatement()) {
            statement.setQueryTimeout(1);
            fails("57014", () -> statement.execute("select pg_sleep(30)"));
        }
        check(one(conn, "select 1").equals("1"), "after the timeout");
    }

    private static void fetchSize(Connection conn) throws SQLException {
        conn.setAutoCommit(false);
        try (PreparedStatement statement = conn.prepareStatement("select i from generate_series(1, ?) i")) {
            for (int round = 0; round < 10; round++) {
                statement.setInt(1, 1000);
                statement.setFetchSize(100);
                long sum = 0;
                try (ResultSet rows = statement.executeQuery()) {
                    while (rows.next()) sum += rows.getInt(1);
                }
                check(sum == 500500, "sum " + sum);
            }
        }
        conn.commit();
    }

    private static void largeObject(Connection conn) throws Exception {
        conn.setAutoCommit(false);
        LargeObjectManager manager = conn.unwrap(PGConnection.class).getLargeObjectAPI();
        long oid = manager.createLO(LargeObjectManager.READWRITE);
        byte[] bytes = new byte[1_000_000];
        for (int i = 0; i < bytes.length; i++) bytes[i] = (byte) (i * 31);
        try (LargeObject object = manager.open(oid, LargeObjectManager.READWRITE)) {
            object.write(bytes);
            object.seek(0);
            check(Arrays.equals(object.read(bytes.length), bytes), "bytes");
            check(object.tell() == bytes.length, "position");
            object.truncate(10);
            check(object.size() == 10, "size");
        }
        manager.unlink(oid);
        conn.commit();
        conn.setAutoCommit(true);
        check(one(conn, "select 1").equals("1"), "after the object");
    }

    private static void concurrent(Connection ignored) throws Exception {
        ExecutorService threads = Executors.newFixedThreadPool(50);
        List<Future<?>> all = new ArrayList<>();
        for (int client = 0; client < 50; client++) {
            int tag = client;
            all.add(threads.submit(() -> {
                try (Connection conn = connect(); PreparedStatement statement = conn.prepareStatement("select ?")) {
                    for (int i = 0; i < 20; i++) {
                        statement.setInt(1, tag * 1000 + i);
                        ResultSet rows = statement.executeQuery();
                        check(rows.next() && rows.getInt(1) == tag * 1000 + i, "foreign row");
                    }
                }
                return null;
            }));
        }
        threads.shutdown();
        for (Future<?> one : all) one.get(60, TimeUnit.SECONDS);
    }

    private static void large(Connection conn) throws SQLException {
        check(one(conn, "select repeat('x', 10000000)").length() == 10_000_000, "result");
        try (PreparedStatement statement = conn.prepareStatement("select length(?)")) {
            statement.setString(1, "z".repeat(5_000_000));
            ResultSet rows = statement.executeQuery();
            check(rows.next() && rows.getInt(1) == 5_000_000, "parameter");
        }
    }
}
