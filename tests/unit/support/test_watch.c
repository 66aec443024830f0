/* Work in watched processes: whatever ends one is one failure, and the rest is done. */
#include "support/watch.h"
#include "unit/harness.h"

#include <signal.h>
#include <unistd.h>

enum { CASES = 10 };
typedef enum event { NOTHING, A_SIGNAL, AN_EXIT, NO_END, A_LOST_DEVICE, A_FAILURE } event;

typedef struct work {
    watch_board *board;
    event events[CASES]; /* what happens in each case */
    uint32_t batch;
    bool ends_at_once;
} work;

static hn_status one_case(event e) {
    if (e == A_SIGNAL) raise(SIGKILL);
    if (e == AN_EXIT) _exit(3);
    if (e == NO_END)
        for (;;) pause();
    if (e == A_LOST_DEVICE) return HN_ERROR(HN_DEVICE, "the device is lost");
    return e == A_FAILURE ? HN_ERROR(HN_INTERNAL, "wrong") : NULL;
}

static void do_cases(void *user) {
    work *w = user;
    if (w->ends_at_once) _exit(1);
    while (w->board->done < CASES) {
        const uint32_t from = w->board->done;
        const uint32_t size = from < w->board->alone_until ? 1 : w->batch;
        hn_status status = NULL;
        watch_begin(w->board, size, "case %u", from);
        for (uint32_t k = from; k < from + size && !status; k++) status = one_case(w->events[k]);
        if (size == 1) watch_end(w->board, !status, status != NULL, 0);
        watch_device(w->board, status);
        if (size > 1) watch_end(w->board, status ? 0 : size, status ? size : 0, 0);
        hn_status_free(status);
    }
}

static bool run(work *w, uint32_t seconds) {
    w->board = watch_board_create();
    if (!w->batch) w->batch = 1;
    return w->board && watch_run(w->board, seconds, do_cases, w);
}

TEST(the_rest_is_done_after_a_process_has_ended) {
    work w = {.events = {[2] = A_SIGNAL, [3] = A_LOST_DEVICE, [5] = A_FAILURE, [9] = AN_EXIT}};
    EXPECT(run(&w, 30));
    EXPECT_INT(w.board->passed, 6);
    EXPECT_INT(w.board->failed, 4);
    EXPECT_INT(w.board->done, CASES);
}

TEST(a_case_that_never_ends_is_ended) {
    work w = {.events = {[4] = NO_END}};
    EXPECT(run(&w, 1));
    EXPECT_INT(w.board->passed, 9);
    EXPECT_INT(w.board->failed, 1);
}

/* The second five: a failure together, then four that pass and one that fails. */
TEST(cases_of_an_item_that_ends_a_process_are_done_one_by_one) {
    work w = {.events = {[7] = A_LOST_DEVICE}, .batch = 5};
    EXPECT(run(&w, 30));
    EXPECT_INT(w.board->passed, 9);
    EXPECT_INT(w.board->failed, 2);
    w = (work){.events = {[7] = A_SIGNAL}, .batch = 5};
    EXPECT(run(&w, 30));
    EXPECT_INT(w.board->passed, 9);
    EXPECT_INT(w.board->failed, 2);
}

TEST(a_process_that_comes_to_no_case_ends_the_work) {
    work w = {.ends_at_once = true};
    EXPECT(!run(&w, 30));
    EXPECT_INT(w.board->done, 0);
}

TEST(without_a_limit_there_is_no_other_process) {
    work w = {.events = {[1] = A_LOST_DEVICE}};
    EXPECT(run(&w, 0));
    EXPECT_INT(w.board->passed, 9);
    EXPECT_INT(w.board->failed, 1);
}

TEST_MAIN
