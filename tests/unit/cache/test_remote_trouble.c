/* test_remote_trouble.c: servers that are dead, hung, slow, full or talk nonsense: always the right
 * bytes or a miss, within a bounded time. */
#include "support/cache_stack.h"

#include <arpa/inet.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>

/* ---- servers in trouble ---- */

/* A full server: what is there is still found, what is refused is not sent again at once. */
TEST(a_full_server_still_answers) {
    static const char *const options[4] = {"--maxmemory", "3mb", "--maxmemory-policy",
                                           "noeviction"};
    if (!begin(options)) return;
    stack a, b;
    size_t len = 1 << 20;
    char *big = calloc(1, len);
    stack_open(&a, server.url);
    stack_open(&b, server.url);
    put(&a, 1, "abc", 3);
    hn_log_configure("off");
    for (int n = 10; n < 20; n++) put(&a, n, big, len);
    hn_log_configure(NULL);
    hn_remote_stats stats = stats_of(&a);
    EXPECT(stats.refused >= 1); /* once in a second */
    EXPECT(stats.skipped > 0);
    EXPECT_INT(stats.puts + stats.refused + stats.skipped, 11);
    EXPECT_INT(find(&a, 19, big, len), HN_LEVEL_DISK);
    EXPECT_INT(find(&b, 1, "abc", 3), HN_LEVEL_REMOTE);
    hn_digest key = key_of(50);
    hn_lease lease;
    EXPECT_INT(hn_lease_try(a.cache.leases, HN_STORE_KERNEL, &key, true, &lease), HN_LEASE_MINE);
    hn_lease_release(a.cache.leases, lease);
    free(big);
    stack_close(&a);
    stack_close(&b);
    redis_end(&server);
}

TEST(a_dead_server_costs_one_attempt_for_a_while) {
    if (!begin(NULL)) return;
    stack a, b;
    stack_open(&a, server.url);
    stack_open(&b, server.url);
    put(&a, 1, "abc", 3);
    EXPECT_INT(find(&b, 7, "", 0), HN_LEVEL_NONE); /* a connection stands */
    redis_kill(&server);
    hn_log_configure("off");
    int64_t begin_ns = hn_now_ns();
    for (int n = 0; n < 1000; n++) EXPECT_INT(find(&b, 1, "abc", 3), HN_LEVEL_NONE);
    for (int n = 0; n < 100; n++) put(&b, 100 + n, "x", 1);
    EXPECT(ms_since(begin_ns) < 500);
    hn_remote_stats stats = stats_of(&b);
    EXPECT(stats.failures >= 1 && stats.failures <= 2); /* the second when a second has passed */
    EXPECT(stats.skipped >= 1098);
    /* It comes back: after the pause everything is as before. */
    EXPECT(redis_start(&server, NULL));
    pause_ms(1100);
    EXPECT_INT(find(&b, 1, "abc", 3), HN_LEVEL_NONE); /* it has forgotten */
    EXPECT(stats_of(&b).misses >= 2);
    hn_log_configure(NULL);
    put(&b, 1, "abc", 3);
    EXPECT_INT(stats_of(&b).puts, 1);
    stack_close(&a);
    stack_close(&b);
    redis_end(&server);
}

/* A server that was restarted between two commands: the second one connects anew and succeeds. */
TEST(a_restart_is_not_noticed) {
    if (!begin(NULL)) return;
    stack a;
    stack_open(&a, server.url);
    put(&a, 1, "abc", 3);
    redis_kill(&server);
    EXPECT(redis_start(&server, NULL));
    put(&a, 2, "abc", 3);
    hn_remote_stats stats = stats_of(&a);
    EXPECT_INT(stats.puts, 2);
    EXPECT_INT(stats.failures, 0);
    EXPECT_INT(stats.connects, 2);
    stack_close(&a);
    redis_end(&server);
}

TEST(a_hung_server_costs_its_time_limit_once) {
    if (!begin(NULL)) return;
    stack a;
    char url[PATH_MAX + 128];
    url_with(url, "command_ms=300&connect_ms=100");
    stack_open(&a, url);
    put(&a, 1, "abc", 3);
    kill(server.pid, SIGSTOP);
    hn_log_configure("off");
    int64_t begin_ns = hn_now_ns();
    EXPECT_INT(find(&a, 2, "", 0), HN_LEVEL_NONE);
    int64_t first_ms = ms_since(begin_ns);
    EXPECT(first_ms >= 290 && first_ms < 450);
    begin_ns = hn_now_ns();
    for (int n = 0; n < 100; n++) EXPECT_INT(find(&a, 2, "", 0), HN_LEVEL_NONE);
    EXPECT(ms_since(begin_ns) < 200);
    pause_ms(1000);
    begin_ns = hn_now_ns();
    EXPECT_INT(find(&a, 2, "", 0), HN_LEVEL_NONE); /* the next attempt has the shorter limit */
    int64_t second_ms = ms_since(begin_ns);
    EXPECT(second_ms >= 90 && second_ms < 250);
    EXPECT_INT(stats_of(&a).failures, 2);
    hn_log_configure(NULL);
    kill(server.pid, SIGCONT);
    stack_close(&a);
    redis_end(&server);
}

/* ---- servers that are none ---- */

typedef struct fake_server {
    int listen_fd;
    const char *answer; /* to whatever is asked */
    size_t answer_len;
    int delay_ms;   /* before an answer */
    int dribble_ms; /* between the bytes of an answer */
    bool goes_on;   /* sends the last byte again and again */
    bool hangs_up;  /* after the answer */
    atomic_bool is_over;
    pthread_t thread;
    char url[128];
} fake_server;

static bool send_byte(int fd, char c) { return send(fd, &c, 1, MSG_NOSIGNAL) == 1; }

static void fake_talk(fake_server *fake, int fd) {
    char question[4096];
    while (!atomic_load(&fake->is_over)) {
        struct pollfd poll_fd = {.fd = fd, .events = POLLIN};
        if (poll(&poll_fd, 1, 20) == 0) continue;
        if (recv(fd, question, sizeof(question), 0) <= 0) return;
        pause_ms(fake->delay_ms);
        bool ok = true;
        if (!fake->dribble_ms) ok = send(fd, fake->answer, fake->answer_len, MSG_NOSIGNAL) > 0;
        for (size_t i = 0;
             fake->dribble_ms && ok && i < fake->answer_len && !atomic_load(&fake->is_over); i++) {
            ok = send_byte(fd, fake->answer[i]);
            pause_ms(fake->dribble_ms);
        }
        char block[4096];
        memset(block, fake->answer[fake->answer_len - 1], sizeof(block));
        while (fake->goes_on && ok && !atomic_load(&fake->is_over))
            ok = send(fd, block, sizeof(block), MSG_NOSIGNAL) > 0;
        if (!ok || fake->hangs_up) return;
    }
}

static void *fake_main(void *argument) {
    fake_server *fake = argument;
    while (!atomic_load(&fake->is_over)) {
        struct pollfd poll_fd = {.fd = fake->listen_fd, .events = POLLIN};
        if (poll(&poll_fd, 1, 20) <= 0) continue;
        int fd = accept(fake->listen_fd, NULL, NULL);
        if (fd < 0) continue;
        fake_talk(fake, fd);
        close(fd);
    }
    return NULL;
}

static void fake_start(fake_server *fake) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof(address);
    fake->listen_fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    EXPECT(bind(fake->listen_fd, (struct sockaddr *)&address, len) == 0 &&
           listen(fake->listen_fd, 16) == 0);
    EXPECT(getsockname(fake->listen_fd, (struct sockaddr *)&address, &len) == 0);
    snprintf(fake->url, sizeof(fake->url), "redis://127.0.0.1:%d?command_ms=100&max_bytes=100000",
             ntohs(address.sin_port));
    pthread_create(&fake->thread, NULL, fake_main, fake);
}

static void fake_end(fake_server *fake) {
    atomic_store(&fake->is_over, true);
    pthread_join(fake->thread, NULL);
    close(fake->listen_fd);
}

/* Whatever such a server says: a miss, soon, and the next one is not even tried. */
static void check_fake(fake_server fake, int64_t limit_ms) {
    stack a;
    if (!fake.answer_len) fake.answer_len = strlen(fake.answer);
    fake_start(&fake);
    stack_open(&a, fake.url);
    int64_t begin_ns = hn_now_ns();
    EXPECT_INT(find(&a, 1, "abc", 3), HN_LEVEL_NONE);
    put(&a, 1, "abc", 3);
    EXPECT_INT(find(&a, 1, "abc", 3), HN_LEVEL_DISK);
    EXPECT_INT(find(&a, 2, "abc", 3), HN_LEVEL_NONE);
    int64_t spent_ms = ms_since(begin_ns);
    if (spent_ms > limit_ms) HN_TEST_FAIL("'%s' took %lld ms", fake.answer, (long long)spent_ms);
    hn_remote_stats stats = stats_of(&a);
    EXPECT_INT(stats.hits, 0);
    EXPECT(stats.failures + stats.damaged + stats.refused >= 1);
    stack_close(&a);
    fake_end(&fake);
}

TEST(nonsense_is_a_miss) {
    static const char *const answers[] = {"HTTP/1.1 400 Bad Request\r\n\r\n",
                                          "*1000000000\r\n",
                                          "*-1\r\n",
                                          "$999999999999999999\r\n",
                                          "$-5\r\nabc\r\n",
                                          "$abc\r\n",
                                          ":abc\r\n",
                                          "-ERR go away\r\n",
                                          "-LOADING\r\n",
                                          "+OK\r\n",
                                          "+\r\n",
                                          "\r\n",
                                          "$3\r\nabc\r\n",
                                          "$3\r\nabcdef\r\n",
                                          "$0\r\n\r\n",
                                          ":1\r\n",
                                          "$3\r\nab",
                                          "_\r\n",
                                          "%1\r\n",
                                          "+PONG\r\n+PONG\r\n",
                                          "$5\r\nab\r\n"};
    hn_log_configure("off");
    for (size_t k = 0; k < sizeof(answers) / sizeof(answers[0]); k++)
        for (int hangs_up = 0; hangs_up < 2; hangs_up++)
            check_fake((fake_server){.answer = answers[k], .hangs_up = hangs_up}, 700);
    hn_log_configure(NULL);
}

TEST(an_endless_answer_is_cut_off) {
    hn_log_configure("off");
    check_fake((fake_server){.answer = "+a", .goes_on = true}, 700);
    check_fake((fake_server){.answer = "$100000000\r\na", .goes_on = true}, 700);
    hn_log_configure(NULL);
}

/* Bytes that come one by one never reset the limit. */
TEST(a_dribbling_answer_is_cut_off) {
    hn_log_configure("off");
    check_fake(
        (fake_server){.answer = "$1000\r\naaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
                      .dribble_ms = 20},
        700);
    hn_log_configure(NULL);
}

/* Answers that are right but late: three of them, then none is asked for. */
TEST(a_slow_server_is_left_alone) {
    fake_server fake = {.answer = "$-1\r\n", .answer_len = 5, .delay_ms = 60};
    stack a;
    fake_start(&fake);
    stack_open(&a, fake.url);
    hn_log_configure("off");
    int64_t begin_ns = hn_now_ns();
    for (int n = 0; n < 100; n++) EXPECT_INT(find(&a, n, "", 0), HN_LEVEL_NONE);
    EXPECT(ms_since(begin_ns) < 600);
    hn_log_configure(NULL);
    EXPECT_INT(stats_of(&a).misses, 3);
    EXPECT_INT(stats_of(&a).skipped, 97);
    stack_close(&a);
    fake_end(&fake);
}

int main(int argc, char **argv) { return stack_main(argc, argv); }
