import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.engine.Constants.DEFAULT_PARALLEL_EXECUTION_MODE;
import static org.junit.jupiter.engine.Constants.DEFAULT_TEST_METHOD_TIMEOUT_PROPERTY_NAME;
import static org.junit.jupiter.engine.Constants.PARALLEL_CONFIG_FIXED_PARALLELISM_PROPERTY_NAME;
import static org.junit.jupiter.engine.Constants.PARALLEL_CONFIG_STRATEGY_PROPERTY_NAME;
import static org.junit.jupiter.engine.Constants.PARALLEL_EXECUTION_ENABLED_PROPERTY_NAME;
import static org.junit.platform.engine.discovery.DiscoverySelectors.selectClass;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.concurrent.ExecutionException;
import net.javacrumbs.shedlock.core.AbstractSimpleLock;
import net.javacrumbs.shedlock.core.LockConfiguration;
import net.javacrumbs.shedlock.core.SimpleLock;
import net.javacrumbs.shedlock.support.LockException;
import net.javacrumbs.shedlock.support.StorageBasedLockProvider;
import net.javacrumbs.shedlock.test.support.AbstractStorageBasedLockProviderIntegrationTest;
import net.javacrumbs.shedlock.test.support.FuzzTester;
import org.junit.jupiter.api.Assumptions;
import org.junit.jupiter.api.Test;
import org.junit.platform.engine.TestExecutionResult;
import org.junit.platform.engine.support.descriptor.MethodSource;
import org.junit.platform.launcher.TestExecutionListener;
import org.junit.platform.launcher.TestIdentifier;
import org.junit.platform.launcher.core.LauncherDiscoveryRequestBuilder;
import org.junit.platform.launcher.core.LauncherFactory;

/**
 * Runs the tests that the Java library ShedLock has for its providers of locks, over a provider that calls shedlock. Prints
 * a line for each: `passed NAME`, `failed NAME: REASON` or `aborted NAME: REASON`.
 */
class Kit {
    /**
     * Usage: Kit LATE ROUNDS PROGRAM. A lock ends up to LATE ms late. Each thread of the fuzz test takes ROUNDS locks; with
     * 0 it is not run.
     */
    public static void main(String[] arguments) {
        Tests.late = Duration.ofMillis(Long.parseLong(arguments[0]));
        Tests.rounds = Integer.parseInt(arguments[1]);
        Tests.program = arguments[2];
        // Most of them wait, and do so at once.
        var request = LauncherDiscoveryRequestBuilder.request()
            .selectors(selectClass(Tests.class))
            .configurationParameter(PARALLEL_EXECUTION_ENABLED_PROPERTY_NAME, "true")
            .configurationParameter(DEFAULT_PARALLEL_EXECUTION_MODE, "concurrent")
            .configurationParameter(PARALLEL_CONFIG_STRATEGY_PROPERTY_NAME, "fixed")
            .configurationParameter(PARALLEL_CONFIG_FIXED_PARALLELISM_PROPERTY_NAME, "6")
            .configurationParameter(DEFAULT_TEST_METHOD_TIMEOUT_PROPERTY_NAME, 60 + Tests.rounds + " s")
            .build();
        LauncherFactory.create().execute(request, new Lines());
        System.exit(0);
    }

    private static class Lines implements TestExecutionListener {
        @Override
        public void executionFinished(TestIdentifier test, TestExecutionResult result) {
            var why = result.getThrowable().map(thrown -> (": " + thrown.getMessage()).strip().replaceAll("\\s+", " "));
            var outcome = switch (result.getStatus()) {
                case SUCCESSFUL -> "passed";
                case FAILED -> "failed";
                case ABORTED -> "aborted";
            };
            // A class or the whole run has a line only if something is wrong with it.
            if (test.isTest() || why.isPresent()) {
                System.out.println(outcome + " " + name(test) + why.orElse(""));
            }
        }
    }

    private static String name(TestIdentifier test) {
        return test.getSource().orElse(null) instanceof MethodSource method ? method.getMethodName() : test.getDisplayName();
    }

    /** The library's tests, with what they let a provider adapt: how long its locks last. */
    static class Tests extends AbstractStorageBasedLockProviderIntegrationTest {
        static Duration late;
        static int rounds;
        static String program;

        /** A lock lasts a second at least, and processes on a busy machine take their time. */
        private static final Duration LONGER = Duration.ofSeconds(3);

        private final Provider provider = new Provider(program, LONGER);

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

        /** It waits twice as long as it asks the lock to last. */
        @Test
        @Override
        public void shouldTimeout() throws InterruptedException {
            doTestTimeout(LONGER.plus(late));
        }

        @Test
        @Override
        public void shouldLockAtLeastFor() throws InterruptedException {
            doTestShouldLockAtLeastFor(100 + (int) LONGER.plus(late).toMillis());
        }

        /** The locks keep to an at-least of some milliseconds. */
        @Test
        @Override
        public void fuzzTestShouldPass() throws ExecutionException, InterruptedException {
            Assumptions.assumeTrue(rounds > 0, "not run");
            var exact = new Provider(program, Duration.ZERO);
            new FuzzTester(exact, Duration.ofMillis(1), Duration.ofMinutes(5), rounds).doFuzzTest();
        }

        /** Waits for the end of a lock. */
        @Override
        protected void sleepFor(Duration duration) {
            super.sleepFor(duration.plus(LONGER).plus(late));
        }
    }

    /** A provider of locks that remembers nothing: each of its methods starts a shedlock. */
    private static class Provider extends StorageBasedLockProvider {
        private final String program;
        private final Duration longer;

        /** Its locks last longer than asked for by so much. */
        Provider(String program, Duration longer) {
            super(null);
            this.program = program;
            this.longer = longer;
        }

        @Override
        public void clearCache() {}

        @Override
        public Optional<SimpleLock> lock(LockConfiguration lock) {
            var atMost = longer(lock.getLockAtMostFor());
            var words = new ArrayList<>(List.of("acquire", "--name", lock.getName(), "--at-most", atMost));
            if (!lock.getLockAtLeastFor().isZero()) {
                words.addAll(List.of("--at-least", longer(lock.getLockAtLeastFor())));
            }
            var answer = shedlock(words);
            return answer.isYes() ? Optional.of(new Lock(lock, answer.text)) : Optional.empty();
        }

        private String longer(Duration duration) {
            return duration.plus(longer).toMillis() + "ms";
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
                var answer = shedlock(List.of("extend", longer(extended.getLockAtMostFor()), handle));
                return answer.isYes() ? Optional.of(new Lock(extended, handle)) : Optional.empty();
            }
        }
    }
}
