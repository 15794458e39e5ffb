import de.bwaldvogel.mongo.MongoServer;
import de.bwaldvogel.mongo.MongoVersion;
import de.bwaldvogel.mongo.backend.memory.MemoryBackend;
import java.util.List;

/** Serves as MongoDB 5.0 on 127.0.0.1 and the port that is named. */
public class Serve {
    public static void main(String[] arguments) {
        new MongoServer(new MemoryBackend().version(new Version())).bind("127.0.0.1", Integer.parseInt(arguments[0]));
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
