/* watch.c: see the header. */
#include "support/watch.h"

#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { CHILDREN_MAX = 64, POLLS_PER_SECOND = 50 };

static bool is_child;

watch_board *watch_board_create(void) {
    void *p =
        mmap(NULL, sizeof(watch_board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    return p == MAP_FAILED ? NULL : p;
}

void watch_begin(watch_board *board, uint32_t size, const char *format, ...) {
    va_list args;
    va_start(args, format);
    vsnprintf(board->item, sizeof board->item, format, args);
    va_end(args);
    board->size = size;
}

void watch_end(watch_board *board, uint32_t passed, uint32_t failed, uint32_t unsupported) {
    board->passed += passed;
    board->failed += failed;
    board->unsupported += unsupported;
    board->done += passed + failed + unsupported;
    board->size = 0;
}

/* The item at work has ended its process. That is a failure also of several cases together of which
 * each one passes alone. */
static void count_end(watch_board *board) {
    board->failed++;
    if (board->size > 1) board->alone_until = board->done + board->size;
    else board->done++;
    board->size = 0;
}

/* _exit: the driver's own functions for the end of a process may wait for the lost device. */
void watch_device(watch_board *board, hn_status outcome) {
    if (!is_child || !outcome || hn_status_code(outcome) != HN_DEVICE) return;
    if (board->size > 0) count_end(board);
    board->is_lost = true;
    fflush(NULL);
    _exit(0);
}

/* ---- the parent ---- */

/* Waits for the child and kills it when the board does not change for `seconds`. */
static int wait_for(pid_t child, const watch_board *board, uint32_t seconds, bool *out_is_late) {
    const struct timespec pause = {.tv_nsec = 1000000000 / POLLS_PER_SECOND};
    uint32_t seen = board->done, polls = 0;
    int state = 0;
    *out_is_late = false;
    while (waitpid(child, &state, WNOHANG) == 0) {
        if (seen != board->done) seen = board->done, polls = 0;
        if (++polls > seconds * POLLS_PER_SECOND) {
            *out_is_late = true;
            kill(child, SIGKILL);
            waitpid(child, &state, 0);
            break;
        }
        nanosleep(&pause, NULL);
    }
    return state;
}

static void print_end(const watch_board *board, int state, bool is_late, uint32_t seconds) {
    const char *item = board->size ? board->item : "before the next item";
    if (is_late) fprintf(stderr, "%s: not done after %u s\n", item, seconds);
    else if (WIFSIGNALED(state))
        fprintf(stderr, "%s: the process was ended by signal %d (%s)\n", item, WTERMSIG(state),
                strsignal(WTERMSIG(state)));
    else fprintf(stderr, "%s: the process ended with status %d\n", item, WEXITSTATUS(state));
}

static pid_t start(void (*work)(void *user), void *user) {
    fflush(NULL);
    pid_t child = fork();
    if (child != 0) return child;
    is_child = true;
    work(user);
    fflush(NULL);
    _exit(0);
}

bool watch_run(watch_board *board, uint32_t seconds, void (*work)(void *user), void *user) {
    if (!seconds) return work(user), true;
    for (int k = 0; k < CHILDREN_MAX; k++) {
        bool is_late;
        board->is_lost = false;
        board->size = 0;
        pid_t child = start(work, user);
        if (child < 0) return perror("fork"), false;
        int state = wait_for(child, board, seconds, &is_late);
        if (state == 0 && !board->is_lost) return true;
        if (board->is_lost) continue;
        print_end(board, state, is_late, seconds);
        if (board->size == 0) return false;
        count_end(board);
    }
    fprintf(stderr, "given up: %d processes ended before the work did\n", CHILDREN_MAX);
    return false;
}
