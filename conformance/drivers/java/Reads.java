// pgjdbc writes rows and reads them, each time at once and then many times (`ok MODE READS`).

import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.util.Properties;

public final class Reads {
    private static final int ROUNDS = 3;
    // Enough to outlast the time for which a session that has written reads from the primary.
    private static final int READS = 600;

    public static void main(String[] arguments) throws SQLException {
        for (String mode : new String[] {"pgjdbc", "pgjdbc-transaction", "pgjdbc-read-only"}) {
            try (Connection conn = connect()) {
                conn.setAutoCommit(mode.equals("pgjdbc"));
                for (int round = 0; round < ROUNDS; round++) {
                    run(conn, mode);
                }
            }
            System.out.println("ok " + mode + " " + ROUNDS * READS);
        }
    }

    private static Connection connect() throws SQLException {
        Properties properties = new Properties();
        properties.setProperty("user", System.getenv("PGUSER"));
        properties.setProperty("password", System.getenv("PGPASSWORD"));
        properties.setProperty("sslmode", "disable");
        return DriverManager.getConnection("jdbc:postgresql://" + System.getenv("PGHOST") + ":" + System.getenv("PGPORT")
            + "/" + System.getenv("PGDATABASE"), properties);
    }

    private static void run(Connection conn, String mode) throws SQLException {
        boolean isReadOnly = mode.equals("pgjdbc-read-only");
        if (isReadOnly) {
            conn.setReadOnly(false);
        }
        int id = Integer.parseInt(one(conn, "/* " + mode + "-write. */ insert into t (name) values ('" + mode
            + "') returning id", null));
        if (isReadOnly) {
            conn.setReadOnly(true);
        }
        for (int turn = 0; turn < READS; turn++) {
            String name = one(conn, "/* " + mode + ". */ select name from t where id = ?", id);
            if (!mode.equals(name)) {
                throw new SQLException("read " + turn + " does not show the row " + id);
            }
        }
    }

    private static String one(Connection conn, String sql, Integer parameter) throws SQLException {
        String value;
        try (PreparedStatement statement = conn.prepareStatement(sql)) {
            if (parameter != null) {
                statement.setInt(1, parameter);
            }
            try (ResultSet rows = statement.executeQuery()) {
                value = rows.next() ? rows.getString(1) : null;
            }
        }
        if (!conn.getAutoCommit()) {
            conn.commit();
        }
        return value;
    }
}
