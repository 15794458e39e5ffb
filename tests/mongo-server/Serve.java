import de.bwaldvogel.mongo.MongoServer;
import de.bwaldvogel.mongo.MongoVersion;
import de.bwaldvogel.mongo.backend.h2.H2Backend;
import de.bwaldvogel.mongo.bson.Document;
import de.bwaldvogel.mongo.wire.message.MongoMessage;
import io.netty.handler.ssl.ClientAuth;
import io.netty.handler.ssl.SslContextBuilder;
import java.io.File;
import java.util.List;

/**
 * Serves as MongoDB 5.0: ADDRESS PORT FILE [CERTIFICATE KEY [AUTHORITY]]. The file keeps the data. With a certificate it
 * speaks TLS, and with an authority it wants a certificate from its clients.
 */
public class Serve {
    public static void main(String[] arguments) throws Exception {
        MongoServer server = new MongoServer(new Lasting(arguments[2]).version(new Version()));
        if (arguments.length > 3) {
            SslContextBuilder tls = SslContextBuilder.forServer(new File(arguments[3]), new File(arguments[4]));
            if (arguments.length > 5) {
                tls.trustManager(new File(arguments[5])).clientAuth(ClientAuth.REQUIRE);
            }
            // The server's own method takes no authority.
            var context = MongoServer.class.getDeclaredField("sslContext");
            context.setAccessible(true);
            context.set(server, tls.build());
        }
        server.bind(arguments[0], Integer.parseInt(arguments[1]));
    }

    /** What it has answered outlives the process; otherwise the file would be a second behind. */
    private static class Lasting extends H2Backend {
        Lasting(String file) {
            super(file);
        }

        @Override
        public Document handleMessage(MongoMessage message) {
            Document answer = super.handleMessage(message);
            commit();
            return answer;
        }
    }

    /** The server calls itself older than what it understands. */
    private static class Version implements MongoVersion {
        @Override
        public int getWireVersion() {
            return 13;
        }

        @Override
        public List<Integer> getVersionArray() {
            return List.of(5, 0, 0);
        }

        @Override
        public String toVersionString() {
            return "5.0.0";
        }
    }
}
