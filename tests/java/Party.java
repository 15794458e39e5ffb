import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.net.URI;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collections;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.ScheduledExecutorService;
import net.javacrumbs.shedlock.core.ClockProvider;
import net.javacrumbs.shedlock.core.ExtensibleLockProvider;
import net.javacrumbs.shedlock.core.LockConfiguration;
import net.javacrumbs.shedlock.core.LockProvider;
import net.javacrumbs.shedlock.core.SimpleLock;
import net.javacrumbs.shedlock.support.KeepAliveLockProvider;

/**
 * An application that uses the Java library ShedLock, and does what a test tells it. A process has several at once, since it
 * takes long to start: the number of one comes first in each line, and the answer to a line is a line. It ends with its input.
 */
class Party {
    private final List<AutoCloseable> connections = new ArrayList<>();
    private final LockProvider provider;
    /** Has a connection of its own, since it is used by two threads. */
    private final LockProvider keeping;
    private final Map<String, SimpleLock> locks = new HashMap<>();
    private final ScheduledExecutorService keeper = Executors.newSingleThreadScheduledExecutor();

    private Party(String provider, String mode, URI url) throws Exception {
        this.provider = Providers.open(provider, mode, url, connections);
        this.keeping = keeping(Providers.open(provider, mode, url, connections));
    }

    public static void main(String[] arguments) throws Exception {
        // Whatever the locale, names are UTF-8.
        var requests = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        var answers = new PrintStream(System.out, true, StandardCharsets.UTF_8);
        var parties = Collections.synchronizedMap(new HashMap<String, Party>());
        var threads = new HashMap<String, ExecutorService>();
        for (String line; (line = requests.readLine()) != null; ) {
            var words = line.split("\t");
            var thread = threads.computeIfAbsent(words[0], number -> Executors.newSingleThreadExecutor());
            thread.execute(() -> answers.println(words[0] + "\t" + answer(parties, words)));
        }
        System.exit(0);
    }

    private static String answer(Map<String, Party> parties, String[] words) {
        try {
            switch (words[1]) {
                case "open" -> {
                    parties.put(words[0], new Party(words[2], words[3], URI.create(words[4])));
                    return "open";
                }
                case "close" -> {
                    parties.remove(words[0]).close();
                    return "closed";
                }
                default -> {
                    return parties.get(words[0]).answer(words);
                }
            }
        } catch (Throwable error) {
            return "error " + String.valueOf(error).replace('\n', ' ');
        }
    }

    private String answer(String[] words) throws Exception {
        return switch (words[1]) {
            case "lock" -> lock(provider, words[2], millis(words[3]), millis(words[4])) ? "granted" : "held";
            case "keep" -> lock(keeping, words[2], millis(words[3]), Duration.ZERO) ? "granted" : "held";
            case "kept" -> kept();
            case "unlock" -> unlock(words[2]);
            case "extend" -> extend(words[2], millis(words[3]), millis(words[4]));
            case "count" -> count(words[2], Path.of(words[3]), Integer.parseInt(words[4]));
            default -> "error " + words[1] + " is not known";
        };
    }

    private boolean lock(LockProvider provider, String name, Duration atMost, Duration atLeast) {
        Optional<SimpleLock> lock = provider.lock(new LockConfiguration(ClockProvider.now(), name, atMost, atLeast));
        lock.ifPresent(taken -> locks.put(name, taken));
        return lock.isPresent();
    }

    /** The library extends what lasts half a minute at least, except in its own tests. */
    private LockProvider keeping(LockProvider provider) throws ReflectiveOperationException {
        if (!(provider instanceof ExtensibleLockProvider)) {
            return provider;
        }
        var own = KeepAliveLockProvider.class.getDeclaredConstructor(
                ExtensibleLockProvider.class, ScheduledExecutorService.class, Duration.class);
        own.setAccessible(true);
        return own.newInstance(provider, keeper, Duration.ZERO);
    }

    /** Answers when each extension that was due has been tried: they have one thread, and come in the order of their times. */
    private String kept() throws Exception {
        keeper.submit(() -> {}).get();
        return "tried";
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
            while (!lock(provider, name, Duration.ofMinutes(1), Duration.ZERO)) {
                Thread.sleep(5);
            }
            int number = Integer.parseInt(Files.readString(file).strip());
            Files.writeString(file, number + 1 + "\n");
            unlock(name);
        }
        return "counted";
    }

    private void close() throws Exception {
        keeper.shutdownNow();
        for (AutoCloseable connection : connections) {
            connection.close();
        }
    }

    private static Duration millis(String text) {
        return Duration.ofMillis(Long.parseLong(text));
    }
}
