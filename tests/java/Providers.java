import com.mongodb.client.MongoClients;
import java.net.URI;
import java.util.List;
import java.util.TimeZone;
import javax.sql.DataSource;
import net.javacrumbs.shedlock.core.LockProvider;
import net.javacrumbs.shedlock.provider.jdbc.JdbcLockProvider;
import net.javacrumbs.shedlock.provider.jdbctemplate.JdbcTemplateLockProvider;
import net.javacrumbs.shedlock.provider.mongo.MongoLockProvider;
import net.javacrumbs.shedlock.provider.redis.jedis4.JedisLockProvider;
import net.javacrumbs.shedlock.provider.redis.spring.RedisLockProvider;
import net.javacrumbs.shedlock.provider.zookeeper.curator.ZookeeperCuratorLockProvider;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.retry.RetryOneTime;
import org.springframework.data.redis.connection.RedisConnectionFactory;
import org.springframework.data.redis.connection.RedisStandaloneConfiguration;
import org.springframework.data.redis.connection.jedis.JedisConnectionFactory;
import org.springframework.data.redis.connection.lettuce.LettuceConnectionFactory;
import org.springframework.jdbc.core.JdbcTemplate;
import org.springframework.jdbc.datasource.SingleConnectionDataSource;
import redis.clients.jedis.JedisPool;

/** The library's providers, each set up as an application does it. */
class Providers {
    private Providers() {}

    /** The URL is the one that shedlock has. What is opened is added to the connections. */
    static LockProvider open(String provider, String mode, URI url, List<AutoCloseable> connections) throws Exception {
        return switch (provider) {
            case "jdbc-template" -> Sql.template(mode, url, connections);
            case "jdbc" -> Jdbc.provider(url, connections);
            case "jooq", "exposed" -> Replay.sql(provider, Sql.database(url, mode, connections), url);
            case "etcd" -> Replay.etcd(url);
            case "mongodb" -> Mongo.provider(url, connections);
            case "spring-jedis", "spring-lettuce" -> SpringRedis.provider(provider, mode, url, connections);
            case "jedis" -> OwnJedis.provider(url, connections);
            case "zookeeper" -> ZooKeeper.provider(url, connections);
            default -> throw new IllegalArgumentException(provider);
        };
    }

    // Each apart: Java loads what a class names when it verifies it, and not each process has all libraries.

    private static class Sql {
        @SuppressWarnings("removal")
        static LockProvider template(String mode, URI url, List<AutoCloseable> connections) {
            var database = new JdbcTemplate(database(url, mode, connections));
            var configuration = JdbcTemplateLockProvider.Configuration.builder().withJdbcTemplate(database);
            // The mode is the time, and what else is said after it is the connection's.
            return new JdbcTemplateLockProvider(switch (mode.split(" ")[0]) {
                case "database-time" -> configuration.usingDbTime().build();
                case "forced-utc" -> configuration.forceUtcTimeZone().build();
                case "zone-utc" -> configuration.withTimeZone(TimeZone.getTimeZone("UTC")).build();
                case "own-time" -> configuration.build();
                default -> throw new IllegalArgumentException(mode);
            });
        }

        static DataSource database(URI url, String mode, List<AutoCloseable> connections) {
            var driver = !url.getScheme().equals("mysql") ? "postgresql" : mode.contains("connector-j") ? "mysql" : "mariadb";
            var settings = "";
            if (mode.contains(" session ")) {
                settings = "?sessionVariables=time_zone='" + mode.replaceFirst(".* ", "") + "'";
            } else if (mode.contains(" forced ")) {
                var zone = mode.replaceFirst(".* ", "").replace("+", "%2B");
                settings = "?forceConnectionTimeZoneToSession=true&connectionTimeZone=" + zone;
            }
            var address = "jdbc:%s://%s:%d%s%s".formatted(driver, url.getHost(), url.getPort(), url.getPath(), settings);
            var source = new SingleConnectionDataSource(address, url.getUserInfo(), "", true);
            connections.add(source::destroy);
            return source;
        }
    }

    private static class Jdbc {
        static LockProvider provider(URI url, List<AutoCloseable> connections) {
            return new JdbcLockProvider(Sql.database(url, "", connections));
        }
    }

    private static class Mongo {
        static LockProvider provider(URI url, List<AutoCloseable> connections) {
            var server = MongoClients.create("mongodb://%s:%d".formatted(url.getHost(), url.getPort()));
            connections.add(server);
            return new MongoLockProvider(server.getDatabase(url.getPath().substring(1)));
        }
    }

    private static class SpringRedis {
        static LockProvider provider(String client, String mode, URI url, List<AutoCloseable> connections) {
            var server = new RedisStandaloneConfiguration(url.getHost(), url.getPort());
            server.setDatabase(Integer.parseInt(url.getPath().substring(1)));
            RedisConnectionFactory factory;
            if (client.equals("spring-lettuce")) {
                var lettuce = new LettuceConnectionFactory(server);
                lettuce.afterPropertiesSet();
                lettuce.start();
                connections.add(lettuce::destroy);
                factory = lettuce;
            } else {
                var jedis = new JedisConnectionFactory(server);
                jedis.afterPropertiesSet();
                jedis.start();
                connections.add(jedis::destroy);
                factory = jedis;
            }
            var builder = new RedisLockProvider.Builder(factory).keyPrefix(url.getQuery().replace("prefix=", ""));
            return builder.safeUpdate(mode.equals("safe")).build();
        }
    }

    private static class OwnJedis {
        static LockProvider provider(URI url, List<AutoCloseable> connections) {
            var pool = new JedisPool(URI.create("redis://" + url.getAuthority() + url.getPath()));
            connections.add(pool);
            return new JedisLockProvider(pool);
        }
    }

    private static class ZooKeeper {
        static LockProvider provider(URI url, List<AutoCloseable> connections) {
            var address = "%s:%d%s".formatted(url.getHost(), url.getPort(), url.getPath());
            var client = CuratorFrameworkFactory.newClient(address, new RetryOneTime(1000));
            client.start();
            connections.add(client);
            return new ZookeeperCuratorLockProvider(client);
        }
    }
}
