// pgjdbc with every targetServerType at every target in the arguments (`label=port/database`).

import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.Statement;
import java.util.Properties;

public final class Targets {
    private static final String[] VALUES = {"any", "primary", "secondary", "preferSecondary", "preferPrimary"};

    public static void main(String[] arguments) {
        for (String argument : arguments) {
            String label = argument.substring(0, argument.indexOf('='));
            String target = argument.substring(argument.indexOf('=') + 1);
            for (String value : VALUES) {
                System.out.println("outcome " + label + " " + value + " " + attempt(target, value));
            }
        }
    }

    private static String attempt(String target, String value) {
        Properties properties = new Properties();
        properties.setProperty("user", "postgres");
        properties.setProperty("sslmode", "disable");
        properties.setProperty("gssEncMode", "disable");
        properties.setProperty("connectTimeout", "20");
        properties.setProperty("targetServerType", value);
        // It remembers the role of an address otherwise.
        properties.setProperty("hostRecheckSeconds", "0");
        String url = "jdbc:postgresql://127.0.0.1:" + target;
        try (Connection conn = DriverManager.getConnection(url, properties);
                Statement statement = conn.createStatement();
                ResultSet rows = statement.executeQuery("select 7")) {
            return rows.next() && rows.getInt(1) == 7 ? "accepted" : "broken";
        } catch (SQLException error) {
            System.err.println(error);
            return "refused";
        }
    }
}
