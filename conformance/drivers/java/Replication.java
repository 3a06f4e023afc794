// pgjdbc's replication stream, used as Debezium does: a temporary slot of pgoutput, read with pauses, with positions that are
// confirmed, and a keepalive each second. Arguments: target (`port/database`), name of the slot.

import java.nio.ByteBuffer;
import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.Statement;
import java.util.Properties;
import java.util.concurrent.TimeUnit;
import org.postgresql.PGConnection;
import org.postgresql.PGProperty;
import org.postgresql.replication.PGReplicationStream;

public final class Replication {
    private static final int ROWS = 500;

    public static void main(String[] arguments) throws Exception {
        String url = "jdbc:postgresql://127.0.0.1:" + arguments[0];
        String slot = arguments[1];
        try (Connection writer = DriverManager.getConnection(url, properties());
                Connection reader = DriverManager.getConnection(url, replicating())) {
            try (Statement statement = writer.createStatement()) {
                statement.execute("drop publication if exists by_jdbc");
                statement.execute("drop table if exists by_jdbc");
                // An analysis by autovacuum would have the server describe the table once more, in one of two runs.
                statement.execute("create table by_jdbc (id int primary key, text text) with (autovacuum_enabled = off)");
                statement.execute("create publication by_jdbc for table by_jdbc");
            }
            identify(reader);
            reader.unwrap(PGConnection.class)
                    .getReplicationAPI()
                    .createReplicationSlot()
                    .logical()
                    .withSlotName(slot)
                    .withOutputPlugin("pgoutput")
                    .withTemporaryOption()
                    .make();
            stream(writer, reader, slot);
            // The connection goes on after the stream.
            identify(reader);
        }
    }

    private static Properties properties() {
        Properties properties = new Properties();
        properties.setProperty("user", "postgres");
        properties.setProperty("sslmode", "disable");
        properties.setProperty("gssEncMode", "disable");
        return properties;
    }

    private static Properties replicating() {
        Properties properties = properties();
        PGProperty.REPLICATION.set(properties, "database");
        PGProperty.ASSUME_MIN_SERVER_VERSION.set(properties, "9.4");
        PGProperty.PREFER_QUERY_MODE.set(properties, "simple");
        return properties;
    }

    private static void identify(Connection reader) throws SQLException {
        try (Statement statement = reader.createStatement();
                ResultSet rows = statement.executeQuery("IDENTIFY_SYSTEM")) {
            System.out.println("identified " + rows.next() + " " + rows.getString("dbname"));
        }
    }

    private static void stream(Connection writer, Connection reader, String slot) throws Exception {
        PGReplicationStream stream = reader.unwrap(PGConnection.class)
                .getReplicationAPI()
                .replicationStream()
                .logical()
                .withSlotName(slot)
                .withSlotOption("proto_version", 1)
                .withSlotOption("publication_names", "by_jdbc")
                .withStatusInterval(1, TimeUnit.SECONDS)
                .start();
        try (Statement statement = writer.createStatement()) {
            for (int row = 0; row < ROWS; row++) {
                statement.execute("insert into by_jdbc values (" + row + ", repeat('" + row + "', 1000))");
            }
            // Longer than any time limit of the pooler.
            Thread.sleep(3_000);
            statement.execute("update by_jdbc set text = 'last' where id < 3");
            statement.execute("delete from by_jdbc where id = 7");
        }
        StringBuilder kinds = new StringBuilder();
        long bytes = 0;
        while (kinds.length() == 0 || kinds.indexOf("D") < 0 || kinds.charAt(kinds.length() - 1) != 'C') {
            ByteBuffer message = stream.readPending();
            if (message == null) {
                TimeUnit.MILLISECONDS.sleep(10);
                continue;
            }
            char kind = (char) message.get();
            // A server whose caches were reset, as on a busy machine, describes a table once more.
            if (kind != 'R' || kinds.indexOf("R") < 0) {
                kinds.append(kind);
                bytes += message.remaining();
            }
            stream.setAppliedLSN(stream.getLastReceiveLSN());
            stream.setFlushedLSN(stream.getLastReceiveLSN());
        }
        stream.forceUpdateStatus();
        System.out.println("received " + kinds.length() + " messages, " + bytes + " bytes, " + kinds.substring(0, 8));
        stream.close();
    }
}
