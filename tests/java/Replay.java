import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.nio.charset.StandardCharsets;
import java.sql.SQLException;
import java.sql.SQLIntegrityConstraintViolationException;
import java.time.Duration;
import java.time.Instant;
import java.util.Base64;
import java.util.Optional;
import java.util.regex.Pattern;
import javax.sql.DataSource;
import net.javacrumbs.shedlock.core.AbstractSimpleLock;
import net.javacrumbs.shedlock.core.ClockProvider;
import net.javacrumbs.shedlock.core.LockConfiguration;
import net.javacrumbs.shedlock.core.LockProvider;
import net.javacrumbs.shedlock.core.SimpleLock;
import net.javacrumbs.shedlock.support.AbstractStorageAccessor;
import net.javacrumbs.shedlock.support.StorageBasedLockProvider;

/**
 * Providers of the library that cannot be fetched: what they send is sent here, by the library's core where they use it.
 * Those for jOOQ and Exposed go by the time of the session, which has the zone of the JVM (PostgreSQL) or of the server (MySQL).
 */
class Replay {
    private Replay() {}

    static LockProvider sql(String provider, DataSource database, URI url) {
        boolean isMySql = url.getScheme().equals("mysql");
        return new StorageBasedLockProvider(new Statements(database, isMySql, provider.equals("jooq"))) {};
    }

    static LockProvider etcd(URI url) {
        return new Etcd("http://" + url.getAuthority() + "/v3/", url.getQuery().replace("environment=", ""));
    }

    /** The statements that jOOQ and Exposed make for these two providers. */
    private static class Statements extends AbstractStorageAccessor {
        private final DataSource database;
        private final boolean isMySql;
        private final boolean isJooq;
        private final String now;

        Statements(DataSource database, boolean isMySql, boolean isJooq) {
            this.database = database;
            this.isMySql = isMySql;
            this.isJooq = isJooq;
            this.now = isMySql || isJooq ? "current_timestamp(6)" : "CURRENT_TIMESTAMP";
        }

        @Override
        public boolean insertRecord(LockConfiguration lock) {
            String insert = "into shedlock (name, lock_until, locked_at, locked_by) values (?, "
                    + plus(now, lock.getLockAtMostFor()) + ", " + now + ", ?)";
            if (isJooq) {
                String text = isMySql ? "insert ignore " + insert : "insert " + insert + " on conflict do nothing";
                return execute(text, lock.getName(), getHostname());
            }
            if (isMySql) {
                return execute("insert " + insert, lock.getName(), getHostname());
            }
            return execute("insert " + insert + " on conflict (name) do update set lock_until = "
                    + plus(now, lock.getLockAtMostFor()) + ", locked_at = " + now + ", locked_by = ? where (shedlock.name = ?) "
                    + "and (shedlock.lock_until <= " + now + ")", lock.getName(), getHostname(), getHostname(), lock.getName());
        }

        @Override
        public boolean updateRecord(LockConfiguration lock) {
            return execute("update shedlock set lock_until = " + plus(now, lock.getLockAtMostFor()) + ", locked_at = " + now
                    + ", locked_by = ? where (shedlock.name = ? and shedlock.lock_until <= " + now + ")",
                    getHostname(), lock.getName());
        }

        @Override
        public void unlock(LockConfiguration lock) {
            String end = plus("shedlock.locked_at", lock.getLockAtLeastFor());
            execute("update shedlock set lock_until = case when " + end + " > " + now + " then " + end + " else " + now
                    + " end where (shedlock.name = ? and shedlock.locked_by = ?)", lock.getName(), getHostname());
        }

        @Override
        public boolean extend(LockConfiguration lock) {
            return execute("update shedlock set lock_until = " + plus(now, lock.getLockAtMostFor())
                    + " where (shedlock.name = ? and shedlock.locked_by = ? and shedlock.lock_until > " + now + ")",
                    lock.getName(), getHostname());
        }

        private String plus(String time, Duration duration) {
            double seconds = duration.toMillis() / 1000.0;
            if (!isJooq) {
                return "(%s + interval '%s' second)".formatted(time, seconds);
            }
            return isMySql
                    ? "date_add(%s, interval '%s' second_microsecond)".formatted(time, seconds)
                    : "(%s + cast('%s secs' as interval day to second))".formatted(time, seconds);
        }

        private boolean execute(String sql, String... values) {
            try (var statement = database.getConnection().prepareStatement(sql)) {
                for (int index = 0; index < values.length; index++) {
                    statement.setString(index + 1, values[index]);
                }
                return statement.executeUpdate() > 0;
            } catch (SQLIntegrityConstraintViolationException exists) {
                return false;
            } catch (SQLException error) {
                throw new IllegalStateException(sql, error);
            }
        }
    }

    /** The requests of the provider for jetcd, to the gateway instead of gRPC. It extends nothing. */
    private record Etcd(HttpClient client, String address, String environment) implements LockProvider {
        Etcd(String address, String environment) {
            this(HttpClient.newHttpClient(), address, environment);
        }

        @Override
        public Optional<SimpleLock> lock(LockConfiguration configuration) {
            String key = encoded("shedlock:%s:%s".formatted(environment, configuration.getName()));
            String value = encoded("ADDED:%s@java.example".formatted(ClockProvider.now()));
            String lease = grant(configuration.getLockAtMostUntil());
            String answer = ask("kv/txn", """
                    {"compare": [{"key": "%s", "target": "VERSION", "result": "EQUAL", "version": "0"}],
                     "success": [{"request_put": {"key": "%s", "value": "%s", "lease": "%s"}}],
                     "failure": [{"request_range": {"key": "%s"}}]}""".formatted(key, key, value, lease, key));
            if (!answer.contains("\"succeeded\":true")) {
                revoke(lease);
                return Optional.empty();
            }
            return Optional.of(new AbstractSimpleLock(configuration) {
                @Override
                protected void doUnlock() {
                    Instant end = lockConfiguration.getLockAtLeastUntil();
                    if (seconds(end) > 0) {
                        String put = "{\"key\": \"%s\", \"value\": \"%s\", \"lease\": \"%s\"}";
                        ask("kv/put", put.formatted(key, value, grant(end)));
                    }
                    revoke(lease);
                }
            });
        }

        private String grant(Instant end) {
            String answer = ask("lease/grant", "{\"TTL\": \"%d\"}".formatted(seconds(end)));
            var id = Pattern.compile("\"ID\":\"(\\d+)\"").matcher(answer);
            if (!id.find()) {
                throw new IllegalStateException(answer);
            }
            return id.group(1);
        }

        private static long seconds(Instant end) {
            return (long) Math.ceil(Duration.between(ClockProvider.now(), end).toMillis() / 1000.0);
        }

        private void revoke(String lease) {
            ask("lease/revoke", "{\"ID\": \"%s\"}".formatted(lease));
        }

        private String ask(String path, String body) {
            var request = HttpRequest.newBuilder(URI.create(address + path)).POST(HttpRequest.BodyPublishers.ofString(body));
            try {
                var answer = client.send(request.build(), HttpResponse.BodyHandlers.ofString());
                if (answer.statusCode() != 200) {
                    throw new IllegalStateException(answer.body());
                }
                return answer.body();
            } catch (java.io.IOException | InterruptedException error) {
                throw new IllegalStateException(error);
            }
        }

        private static String encoded(String text) {
            return Base64.getEncoder().encodeToString(text.getBytes(StandardCharsets.UTF_8));
        }
    }
}
