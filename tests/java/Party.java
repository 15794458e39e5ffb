import com.mongodb.client.MongoClients;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.net.URI;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.HashMap;
import java.util.Map;
import java.util.Optional;
import java.util.TimeZone;
import javax.sql.DataSource;
import net.javacrumbs.shedlock.core.ClockProvider;
import net.javacrumbs.shedlock.core.LockConfiguration;
import net.javacrumbs.shedlock.core.LockProvider;
import net.javacrumbs.shedlock.core.SimpleLock;
import net.javacrumbs.shedlock.provider.jdbc.JdbcLockProvider;
import net.javacrumbs.shedlock.provider.jdbctemplate.JdbcTemplateLockProvider;
import net.javacrumbs.shedlock.provider.mongo.MongoLockProvider;
import net.javacrumbs.shedlock.provider.redis.spring.RedisLockProvider;
import net.javacrumbs.shedlock.provider.zookeeper.curator.ZookeeperCuratorLockProvider;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.retry.RetryOneTime;
import org.springframework.data.redis.connection.RedisStandaloneConfiguration;
import org.springframework.data.redis.connection.jedis.JedisConnectionFactory;
import org.springframework.jdbc.core.JdbcTemplate;
import org.springframework.jdbc.datasource.SingleConnectionDataSource;

/**
 * An application that uses the Java library ShedLock, and does what a test tells it: a line of requests is answered by a line.
 * It ends with its input.
 */
class Party {
    private final LockProvider provider;
    private final Map<String, SimpleLock> locks = new HashMap<>();

    private Party(LockProvider provider) {
        this.provider = provider;
    }

    /** Usage: Party PROVIDER MODE URL, the URL being the one that shedlock has. */
    public static void main(String[] arguments) throws Exception {
        // Whatever the locale, names are UTF-8.
        var requests = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        var answers = new PrintStream(System.out, true, StandardCharsets.UTF_8);
        var party = new Party(switch (arguments[0]) {
            case "jdbc-template" -> jdbcTemplate(arguments[1], URI.create(arguments[2]));
            case "jdbc" -> new JdbcLockProvider(database(URI.create(arguments[2]), ""));
            case "mongodb" -> mongoDb(URI.create(arguments[2]));
            case "spring-redis" -> springRedis(arguments[1], URI.create(arguments[2]));
            case "zookeeper" -> ZooKeeper.provider(URI.create(arguments[2]));
            default -> throw new IllegalArgumentException(arguments[0]);
        });
        answers.println("ready");
        for (String request; (request = requests.readLine()) != null; ) {
            String answer;
            try {
                answer = party.answer(request.split("\t"));
            } catch (Exception error) {
                answer = "error " + String.valueOf(error).replace('\n', ' ');
            }
            answers.println(answer);
        }
    }

    @SuppressWarnings("removal")
    private static LockProvider jdbcTemplate(String time, URI url) {
        var settings = time.equals("session-zone") ? "?sessionVariables=time_zone='+02:00'" : "";
        var database = new JdbcTemplate(database(url, settings));
        var configuration = JdbcTemplateLockProvider.Configuration.builder().withJdbcTemplate(database);
        return new JdbcTemplateLockProvider(switch (time) {
            case "database-time", "session-zone" -> configuration.usingDbTime().build();
            case "forced-utc" -> configuration.forceUtcTimeZone().build();
            case "zone-utc" -> configuration.withTimeZone(TimeZone.getTimeZone("UTC")).build();
            case "own-time" -> configuration.build();
            default -> throw new IllegalArgumentException(time);
        });
    }

    private static DataSource database(URI url, String settings) {
        var driver = url.getScheme().equals("mysql") ? "mariadb" : "postgresql";
        var address = "jdbc:%s://%s:%d%s%s".formatted(driver, url.getHost(), url.getPort(), url.getPath(), settings);
        return new SingleConnectionDataSource(address, url.getUserInfo(), "", true);
    }

    private static LockProvider mongoDb(URI url) {
        var server = MongoClients.create("mongodb://%s:%d".formatted(url.getHost(), url.getPort()));
        return new MongoLockProvider(server.getDatabase(url.getPath().substring(1)));
    }

    private static LockProvider springRedis(String mode, URI url) {
        var server = new RedisStandaloneConfiguration(url.getHost(), url.getPort());
        server.setDatabase(Integer.parseInt(url.getPath().substring(1)));
        var connections = new JedisConnectionFactory(server);
        connections.afterPropertiesSet();
        connections.start();
        var builder = new RedisLockProvider.Builder(connections).keyPrefix(url.getQuery().replace("prefix=", ""));
        return builder.safeUpdate(mode.equals("safe")).build();
    }

    /** Apart, since Java loads what is named here when it verifies the class, and it is there for ZooKeeper only. */
    private static class ZooKeeper {
        static LockProvider provider(URI url) {
            var address = "%s:%d%s".formatted(url.getHost(), url.getPort(), url.getPath());
            var client = CuratorFrameworkFactory.newClient(address, new RetryOneTime(1000));
            client.start();
            return new ZookeeperCuratorLockProvider(client);
        }
    }

    private String answer(String[] words) throws Exception {
        return switch (words[0]) {
            case "lock" -> lock(words[1], millis(words[2]), millis(words[3])) ? "granted" : "held";
            case "unlock" -> unlock(words[1]);
            case "extend" -> extend(words[1], millis(words[2]), millis(words[3]));
            case "count" -> count(words[1], Path.of(words[2]), Integer.parseInt(words[3]));
            default -> "error " + words[0] + " is not known";
        };
    }

    private boolean lock(String name, Duration atMost, Duration atLeast) {
        Optional<SimpleLock> lock = provider.lock(new LockConfiguration(ClockProvider.now(), name, atMost, atLeast));
        lock.ifPresent(taken -> locks.put(name, taken));
        return lock.isPresent();
    }

    private String unlock(String name) {
        locks.remove(name).unlock();
        return "unlocked";
    }

    private String extend(String name, Duration atMost, Duration atLeast) {
        Optional<SimpleLock> lock = locks.remove(name).extend(atMost, atLeast);
        lock.ifPresent(extended -> locks.put(name, extended));
        return lock.isPresent() ? "extended" : "lost";
    }

    /** Adds to a number in a file, which nothing but the lock protects. */
    private String count(String name, Path file, int rounds) throws Exception {
        for (int round = 0; round < rounds; round++) {
            while (!lock(name, Duration.ofMinutes(1), Duration.ZERO)) {
                Thread.sleep(5);
            }
            int number = Integer.parseInt(Files.readString(file).strip());
            Files.writeString(file, number + 1 + "\n");
            unlock(name);
        }
        return "counted";
    }

    private static Duration millis(String text) {
        return Duration.ofMillis(Long.parseLong(text));
    }
}
