// pgjdbc in every sslmode against every target in the arguments (`label=port/database[+cert]`).

import java.lang.reflect.Field;
import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.SQLException;
import java.sql.Statement;
import java.util.Properties;
import javax.net.ssl.SSLSocket;
import org.postgresql.core.PGStream;
import org.postgresql.core.QueryExecutorBase;
import org.postgresql.jdbc.PgConnection;

public final class Sslmodes {
    private static final String[] MODES = {"disable", "allow", "prefer", "require", "verify-ca", "verify-full"};

    public static void main(String[] arguments) throws Exception {
        for (String argument : arguments) {
            String label = argument.substring(0, argument.indexOf('='));
            String target = argument.substring(argument.indexOf('=') + 1);
            for (String mode : MODES) {
                System.out.println("outcome " + label + " " + mode + " " + attempt(target, mode, "postgres"));
            }
            for (String mode : new String[] {"require", "verify-full"}) {
                System.out.println("outcome " + label + " " + mode + "_direct " + attempt(target, mode, "direct"));
            }
        }
    }

    private static String attempt(String target, String mode, String negotiation) throws Exception {
        Properties properties = new Properties();
        properties.setProperty("user", "postgres");
        properties.setProperty("gssEncMode", "disable");
        properties.setProperty("connectTimeout", "20");
        properties.setProperty("sslmode", mode);
        properties.setProperty("sslNegotiation", negotiation);
        properties.setProperty("sslrootcert", System.getenv("ROOT"));
        String[] parts = target.split("\\+");
        if (parts.length > 1) {
            properties.setProperty("sslcert", System.getenv("CERT"));
            // It wants PKCS #8 in DER.
            properties.setProperty("sslkey", System.getenv("KEY_DER"));
        }
        String url = "jdbc:postgresql://127.0.0.1:" + parts[0];
        try (Connection conn = DriverManager.getConnection(url, properties);
                Statement statement = conn.createStatement()) {
            statement.execute("select 1");
            return isInTls(conn) ? "TLS" : "clear";
        } catch (SQLException error) {
            System.err.println(error);
            return "refused";
        }
    }

    private static boolean isInTls(Connection conn) throws Exception {
        Object executor = conn.unwrap(PgConnection.class).getQueryExecutor();
        Field stream = QueryExecutorBase.class.getDeclaredField("pgStream");
        stream.setAccessible(true);
        return ((PGStream) stream.get(executor)).getSocket() instanceof SSLSocket;
    }
}
