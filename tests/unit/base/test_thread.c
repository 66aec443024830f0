/* test_thread.c: threads of the library's own take no signal of the host's. */
#include "unit/harness.h"

#include "base/thread.h"

#include <signal.h>

static void *blocked(void *out) {
    pthread_sigmask(SIG_SETMASK, NULL, out);
    return NULL;
}

TEST(all_signals_are_blocked_in_it_and_none_more_in_the_caller) {
    sigset_t before, after, there;
    pthread_t thread;
    pthread_sigmask(SIG_SETMASK, NULL, &before);
    EXPECT_INT(hn_thread_start(&thread, NULL, blocked, &there), 0);
    pthread_join(thread, NULL);
    pthread_sigmask(SIG_SETMASK, NULL, &after);
    for (int signal = 1; signal < 32; signal++) { /* the next two are the C library's */
        if (signal != SIGKILL && signal != SIGSTOP) EXPECT(sigismember(&there, signal) == 1);
        EXPECT_INT(sigismember(&after, signal), sigismember(&before, signal));
    }
}

TEST(attributes_are_the_threads) {
    pthread_attr_t attr;
    pthread_t thread;
    sigset_t there;
    pthread_attr_init(&attr);
    EXPECT_INT(pthread_attr_setstacksize(&attr, 256 << 10), 0);
    EXPECT_INT(hn_thread_start(&thread, &attr, blocked, &there), 0);
    pthread_join(thread, NULL);
    pthread_attr_destroy(&attr);
    EXPECT(sigismember(&there, SIGTERM) == 1);
}

TEST_MAIN
