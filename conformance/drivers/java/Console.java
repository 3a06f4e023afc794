// pgjdbc and the administration console: connection by PG* environment variables.

import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.Statement;
import java.util.Properties;

public final class Console {
    private static int failures;

    public static void main(String[] arguments) {
        for (String mode : new String[] {"extended", "extendedForPrepared", "simple"}) {
            try (Connection conn = connect(mode)) {
                readsAndOrders(conn);
                System.out.println("ok " + mode);
            } catch (Throwable error) {
                failures++;
                System.out.println("FAIL " + mode + ": " + error.toString().replace('\n', ' '));
            }
        }
        System.exit(failures == 0 ? 0 : 1);
    }

    private static Connection connect(String mode) throws SQLException {
        Properties properties = new Properties();
        properties.setProperty("user", System.getenv("PGUSER"));
        properties.setProperty("password", System.getenv("PGPASSWORD"));
        properties.setProperty("sslmode", "disable");
        properties.setProperty("gssEncMode", "disable");
        properties.setProperty("connectTimeout", "20");
        properties.setProperty("preferQueryMode", mode);
        return DriverManager.getConnection("jdbc:postgresql://" + System.getenv("PGHOST") + ":"
            + System.getenv("PGPORT") + "/" + System.getenv("PGDATABASE"), properties);
    }

    private static void readsAndOrders(Connection conn) throws SQLException {
        check(conn.isValid(10), "valid");
        // Beyond the fifth time the driver uses a named statement and binary results.
        try (PreparedStatement pools = conn.prepareStatement("SHOW POOLS")) {
            for (int round = 0; round < 8; round++) {
                int count = 0;
                try (ResultSet rows = pools.executeQuery()) {
                    while (rows.next()) {
                        check(rows.getInt("cl_active") >= 0, "cl_active");
                        check(rows.getInt("maxwait_us") >= 0, "maxwait_us");
                        count++;
                    }
                }
                check(count == 2, count + " pools");
            }
        }
        try (Statement statement = conn.createStatement()) {
            statement.execute("PAUSE");
            statement.execute("RESUME");
            try {
                statement.execute("RESUME");
                throw new AssertionError("no error");
            } catch (SQLException error) {
                check(error.getMessage().contains("pooler is not paused/suspended"), error.getMessage());
            }
            try (ResultSet rows = statement.executeQuery("SHOW STATS")) {
                rows.next();
                check(rows.getLong("total_query_count") >= 0, "total_query_count");
            }
        }
    }

    private static void check(boolean condition, String what) {
        if (!condition) throw new AssertionError(what);
    }
}
