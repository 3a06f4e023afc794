// What pgjdbc, and HikariCP above it, make of errors. Connection by PG* environment variables.

import com.zaxxer.hikari.HikariConfig;
import com.zaxxer.hikari.HikariDataSource;
import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.SQLException;
import java.sql.Statement;

public final class Errors {
    // "codes CODE...": prints "CODE yes" if HikariCP closes a connection after an error with this code. "events EVENT...": each
    // is NAME/PORT/DATABASE/STEP;STEP..., as for psycopg.
    public static void main(String[] arguments) throws Exception {
        if (arguments[0].equals("codes")) {
            codes(arguments);
            return;
        }
        for (int i = 1; i < arguments.length; i++) {
            String[] parts = arguments[i].split("/", 4);
            System.out.println(parts[0] + " " + event(parts[1], parts[2], parts[3].split(";")));
        }
    }

    private static String url(String port, String database) {
        return "jdbc:postgresql://" + System.getenv("PGHOST") + ":" + port + "/" + database + "?user=" + System.getenv("PGUSER")
            + "&password=" + System.getenv("PGPASSWORD") + "&sslmode=disable&gssEncMode=disable&preferQueryMode=simple";
    }

    private static HikariDataSource pool(String port, String database) {
        HikariConfig config = new HikariConfig();
        config.setJdbcUrl(url(port, database));
        config.setMaximumPoolSize(1);
        config.setMinimumIdle(0);
        config.setConnectionTimeout(6000);
        // The pool begins without a connection, as that of an application which was started before its database.
        config.setInitializationFailTimeout(-1);
        return new HikariDataSource(config);
    }

    private static void codes(String[] arguments) throws SQLException {
        try (HikariDataSource pool = pool(System.getenv("PGPORT"), System.getenv("PGDATABASE"))) {
            for (int i = 1; i < arguments.length; i++) {
                try (Connection conn = pool.getConnection()) {
                    try {
                        execute(conn, "do $$ begin raise exception 'told' using errcode = '" + arguments[i] + "'; end $$");
                    } catch (SQLException told) {
                        System.out.println(arguments[i] + " " + (conn.isClosed() ? "yes" : "no"));
                    }
                }
            }
        }
    }

    private static String event(String port, String database, String[] steps) throws Exception {
        try (HikariDataSource pool = pool(port, database); Connection conn = pool.getConnection()) {
            for (String step : steps) {
                if (step.startsWith("\\sleep ")) {
                    Thread.sleep((long) (Double.parseDouble(step.substring(7)) * 1000));
                } else if (step.startsWith("\\console ")) {
                    try (Connection console = DriverManager.getConnection(url(port, "pgbouncer"))) {
                        execute(console, step.substring(9));
                    }
                } else {
                    execute(conn, step);
                }
            }
            return "none";
        } catch (SQLException error) {
            SQLException cause = error;
            while (cause.getCause() instanceof SQLException) {
                cause = (SQLException) cause.getCause();
            }
            return error.getClass().getSimpleName() + " " + cause.getSQLState();
        }
    }

    private static void execute(Connection conn, String sql) throws SQLException {
        try (Statement statement = conn.createStatement()) {
            statement.execute(sql);
        }
    }
}
