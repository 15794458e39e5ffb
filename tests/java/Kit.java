import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.platform.engine.discovery.DiscoverySelectors.selectClass;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.concurrent.ExecutionException;
import java.util.function.Predicate;
import net.javacrumbs.shedlock.core.AbstractSimpleLock;
import net.javacrumbs.shedlock.core.LockConfiguration;
import net.javacrumbs.shedlock.core.SimpleLock;
import net.javacrumbs.shedlock.support.LockException;
import net.javacrumbs.shedlock.support.StorageBasedLockProvider;
import net.javacrumbs.shedlock.test.support.AbstractStorageBasedLockProviderIntegrationTest;
import net.javacrumbs.shedlock.test.support.FuzzTester;
import org.junit.jupiter.api.Assumptions;
import org.junit.jupiter.api.Test;
import org.junit.platform.engine.FilterResult;
import org.junit.platform.engine.TestExecutionResult;
import org.junit.platform.engine.TestSource;
import org.junit.platform.engine.support.descriptor.MethodSource;
import org.junit.platform.launcher.PostDiscoveryFilter;
import org.junit.platform.launcher.TestExecutionListener;
import org.junit.platform.launcher.TestIdentifier;
import org.junit.platform.launcher.core.LauncherDiscoveryRequestBuilder;
import org.junit.platform.launcher.core.LauncherFactory;

/**
 * Runs the tests that the Java library ShedLock has for its providers of locks, over a provider that calls shedlock. Prints a
 * line for each: `passed NAME`, `failed NAME: REASON` or `aborted NAME: REASON`.
 */
class Kit {
    /**
     * Usage: Kit LATER ROUNDS PROGRAM. A lock ends up to LATER ms late. Each thread of the fuzz test takes ROUNDS locks; with 0
     * it is not run.
     */
    public static void main(String[] arguments) {
        Tests.later = Duration.ofMillis(Long.parseLong(arguments[0]));
        Tests.rounds = Integer.parseInt(arguments[1]);
        Tests.provider = new Provider(arguments[2]);
        // Most of them wait, some at once. The one that takes all of the processors comes after them.
        run(name -> !name.equals("fuzzTestShouldPass"));
        run(name -> name.equals("fuzzTestShouldPass"));
        System.exit(0);
    }

    private static void run(Predicate<String> chosen) {
        var request = LauncherDiscoveryRequestBuilder.request()
            .selectors(selectClass(Tests.class))
            .filters((PostDiscoveryFilter) test -> FilterResult.includedIf(name(test.getSource()).map(chosen::test).orElse(true)))
            .configurationParameter("junit.jupiter.execution.parallel.enabled", "true")
            .configurationParameter("junit.jupiter.execution.parallel.mode.default", "concurrent")
            .configurationParameter("junit.jupiter.execution.parallel.config.strategy", "fixed")
            .configurationParameter("junit.jupiter.execution.parallel.config.fixed.parallelism", "6")
            .build();
        LauncherFactory.create().execute(request, new Lines());
    }

    private static Optional<String> name(Optional<TestSource> source) {
        return source.map(where -> where instanceof MethodSource method ? method.getMethodName() : null);
    }

    private static class Lines implements TestExecutionListener {
        @Override
        public void executionFinished(TestIdentifier test, TestExecutionResult result) {
            var why = result.getThrowable().map(thrown -> ": " + thrown.getMessage()).map(text -> text.strip().replaceAll("\\s+", " "));
            var outcome = switch (result.getStatus()) {
                case SUCCESSFUL -> "passed";
                case FAILED -> "failed";
                case ABORTED -> "aborted";
            };
            // A class or the whole run has a line only if something is wrong with it.
            if (test.isTest() || why.isPresent()) {
                System.out.println(outcome + " " + name(test.getSource()).orElse(test.getDisplayName()) + why.orElse(""));
            }
        }
    }

    /** The library's tests, with what they let a provider adapt: how exact the ends of its locks are. */
    static class Tests extends AbstractStorageBasedLockProviderIntegrationTest {
        static Duration later;
        static int rounds;
        static Provider provider;

        @Override
        protected Provider getLockProvider() {
            return provider;
        }

        @Override
        protected void assertLocked(String name) {
            assertEquals("held", provider.state(name));
        }

        @Override
        protected void assertUnlocked(String name) {
            assertEquals("free", provider.state(name));
        }

        @Test
        @Override
        public void shouldTimeout() throws InterruptedException {
            doTestTimeout(Provider.SHORTEST.plus(later));
        }

        @Test
        @Override
        public void shouldLockAtLeastFor() throws InterruptedException {
            doTestShouldLockAtLeastFor(100 + (int) later.toMillis());
        }

        @Test
        @Override
        public void fuzzTestShouldPass() throws ExecutionException, InterruptedException {
            Assumptions.assumeTrue(rounds > 0, "not run");
            new FuzzTester(provider, Duration.ofMillis(1), Duration.ofMinutes(5), rounds).doFuzzTest();
        }

        /** Waits for the end of a lock. */
        @Override
        protected void sleepFor(Duration duration) {
            super.sleepFor((duration.compareTo(Provider.SHORTEST) < 0 ? Provider.SHORTEST : duration).plus(later));
        }
    }

    /** A provider of locks that remembers nothing: each of its methods starts a shedlock. */
    private static class Provider extends StorageBasedLockProvider {
        /** shedlock takes no lock for less. */
        static final Duration SHORTEST = Duration.ofSeconds(1);

        private final String program;

        Provider(String program) {
            super(null);
            this.program = program;
        }

        @Override
        public void clearCache() {}

        @Override
        public Optional<SimpleLock> lock(LockConfiguration lock) {
            var words = new ArrayList<>(List.of("acquire", "--name", lock.getName(), "--at-most", atMost(lock)));
            if (!lock.getLockAtLeastFor().isZero()) {
                words.addAll(List.of("--at-least", millis(lock.getLockAtLeastFor())));
            }
            var answer = shedlock(words);
            return answer.isYes() ? Optional.of(new Lock(lock, answer.text)) : Optional.empty();
        }

        String state(String name) {
            return shedlock(List.of("status", "--exit-code", name)).isYes() ? "free" : "held";
        }

        private Answer shedlock(List<String> words) {
            var command = new ArrayList<>(List.of(program));
            command.addAll(words);
            try {
                var process = new ProcessBuilder(command).redirectErrorStream(true).start();
                var text = new String(process.getInputStream().readAllBytes(), StandardCharsets.UTF_8);
                return new Answer(process.waitFor(), text.strip());
            } catch (IOException | InterruptedException error) {
                throw new LockException("shedlock cannot be run", error);
            }
        }

        private static String atMost(LockConfiguration lock) {
            var atMost = lock.getLockAtMostFor();
            return millis(atMost.compareTo(SHORTEST) < 0 ? SHORTEST : atMost);
        }

        private static String millis(Duration duration) {
            return duration.toMillis() + "ms";
        }

        private record Answer(int code, String text) {
            boolean isYes() {
                if (code > 1) {
                    throw new LockException("shedlock exits with " + code + ": " + text);
                }
                return code == 0;
            }
        }

        private class Lock extends AbstractSimpleLock {
            private final String handle;

            Lock(LockConfiguration lock, String handle) {
                super(lock);
                this.handle = handle;
            }

            /** Releases it; the library's own providers do not say either that it was lost. */
            @Override
            protected void doUnlock() {
                shedlock(List.of("release", handle)).isYes();
            }

            /** Extends it, but not its at-least, which shedlock counts from the taking only. */
            @Override
            protected Optional<SimpleLock> doExtend(LockConfiguration extended) {
                var answer = shedlock(List.of("extend", atMost(extended), handle));
                return answer.isYes() ? Optional.of(new Lock(extended, handle)) : Optional.empty();
            }
        }
    }
}
