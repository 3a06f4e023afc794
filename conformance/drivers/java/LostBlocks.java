// pgjdbc loses its server in a transaction block and keeps its session; the argument is PostgreSQL's own port.

import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.Statement;
import java.util.Properties;

public final class LostBlocks {
    // The driver names its statements from the fifth execution on.
    private static final int ROUNDS = 24;

    public static void main(String[] arguments) throws Exception {
        int direct = Integer.parseInt(arguments[0]);
        try (Connection conn = connect(System.getenv("PGPORT")); Statement statement = conn.createStatement()) {
            statement.execute("drop table if exists lost_jdbc");
            statement.execute("create table lost_jdbc (round int)");
            conn.setAutoCommit(false);
            for (int round = 0; round < ROUNDS; round++) {
                endServer(direct, number(conn, "select pg_backend_pid()"));
                try {
                    if (round % 3 == 0) {
                        conn.commit();
                    } else {
                        insert(conn, -1);
                    }
                    throw new AssertionError("nothing has failed");
                } catch (SQLException error) {
                    if (!"40001".equals(error.getSQLState())) {
                        throw error;
                    }
                    conn.rollback();
                }
                insert(conn, round);
                conn.commit();
            }
            int rows = number(conn, "select count(*)::int from lost_jdbc where round >= 0");
            int all = number(conn, "select count(*)::int from lost_jdbc");
            if (rows != ROUNDS || all != ROUNDS) {
                throw new AssertionError(rows + " of " + all);
            }
        }
        System.out.println("ok pgjdbc");
    }

    private static Connection connect(String port) throws SQLException {
        Properties properties = new Properties();
        properties.setProperty("user", "postgres");
        properties.setProperty("sslmode", "disable");
        properties.setProperty("gssEncMode", "disable");
        return DriverManager.getConnection("jdbc:postgresql://127.0.0.1:" + port + "/" + System.getenv("PGDATABASE"), properties);
    }

    private static void insert(Connection conn, int round) throws SQLException {
        try (PreparedStatement insert = conn.prepareStatement("insert into lost_jdbc values (?)")) {
            insert.setInt(1, round);
            insert.executeUpdate();
        }
    }

    private static int number(Connection conn, String sql) throws SQLException {
        try (Statement statement = conn.createStatement(); ResultSet rows = statement.executeQuery(sql)) {
            rows.next();
            return rows.getInt(1);
        }
    }

    private static void endServer(int port, int pid) throws Exception {
        try (Connection conn = connect(Integer.toString(port))) {
            number(conn, "select pg_terminate_backend(" + pid + ")::int");
            while (number(conn, "select count(*)::int from pg_stat_activity where pid = " + pid) > 0) {
                Thread.sleep(10);
            }
        }
    }
}
