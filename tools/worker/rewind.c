/* rewind.c: see rewind.h.
 *
 * A process made by fork for each job costs cc1 5 ms of the 19 that all of a small kernel takes (gcc 12.2, an EPYC server): tables of
 * pages are copied, a thousand pages are faulted in one by one, most of them to be copied, and all is thrown away. Here the
 * same process goes on with the next job: what is kept, 5 MB, is compared with a copy, and what had changed is put back, in
 * half a millisecond; the code, the tables of pages and what lies in the processor's caches stay.
 *
 * Kept are all private writable mappings: data, heap, what was mapped, the used part of the stack. What a job asks the
 * system for comes from the end of the heap and from a pool, both of which are cleared for the next job and stay mapped; what
 * does not fit in there is mapped and unmapped as usual. Descriptors are duplicated, and their positions noted. */
#include "tools/worker/rewind.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <malloc.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define PAGE ((size_t)4096) /* the step of comparing; need not be the system's */

enum {
    PARTS_MAX = 256,
    FILES_MAX = 64,
    NOTES_MAX = 256,
    MAPS_BYTES = 64 << 10,
    KEPT_MAX_BYTES = 64 << 20, /* a tool that has more is not worth it */
    POOL_BYTES = 32 << 20,
    SLACK_BYTES = 16 << 20,
    STAY_BYTES = 4 << 20, /* of the pool, and of the end of the heap: what is beyond is given back after each job */
    GROWTH_BYTES = 64 << 20,
    ONE_THREAD = 3, /* links of /proc/self/task: itself, its parent, and the thread */
};

typedef struct part {
    char *at;
    size_t len;
    const char *copy;
} part;

typedef struct scratch {
    char *at;
    size_t len;
} scratch;

struct hn_rewind {
    part parts[PARTS_MAX];
    int part_count;
    size_t kept_bytes;
    scratch pool, slack; /* cleared, not kept */
    size_t pool_used;
    scratch notes[NOTES_MAX]; /* what the job mapped */
    int note_count;
    bool has_lost_count;
    char *heap_end;
    size_t mapped_pages;
    int copies[FILES_MAX]; /* of descriptors; -1: was not open */
    off_t offsets[FILES_MAX];
    bool closes_on_exec[FILES_MAX];
    int control_fd, last_fd;
    char maps[MAPS_BYTES];
};

void *hn_rewind_memory(size_t bytes) {
    size_t page = (size_t)sysconf(_SC_PAGESIZE), len = (bytes + page - 1) / page * page;
    char *all = mmap(NULL, len + 2 * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (all == MAP_FAILED) return NULL;
    return mprotect(all + page, len, PROT_READ | PROT_WRITE) == 0 ? all + page : NULL;
}

/* ---- facts from the system ---- */

/* The text of a small file of the kernel's; its length, 0 when it is not there or too long. */
static size_t read_text(const char *path, char *out, size_t bytes) {
    size_t len = 0;
    int fd = (int)syscall(SYS_openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return 0;
    for (ssize_t got; len < bytes && (got = read(fd, out + len, bytes - len)) > 0;) len += (size_t)got;
    close(fd);
    if (len == bytes) return 0;
    out[len] = 0;
    return len;
}

static bool has_one_thread(void) {
    struct stat info;
    return stat("/proc/self/task", &info) == 0 && info.st_nlink == ONE_THREAD;
}

static size_t mapped_pages(void) {
    char text[128];
    return read_text("/proc/self/statm", text, sizeof(text)) ? strtoull(text, NULL, 10) : 0;
}

/* ---- keeping ---- */

static bool add_part(hn_rewind *r, char *begin, char *end) {
    if (begin >= end) return true;
    if (r->part_count == PARTS_MAX) return false;
    r->parts[r->part_count++] = (part){.at = begin, .len = (size_t)(end - begin)};
    r->kept_bytes += (size_t)(end - begin);
    return true;
}

static bool is_within(const char *at, const void *begin, size_t len) {
    return at >= (const char *)begin && at < (const char *)begin + len;
}

/* One line of /proc/self/maps: "begin-end rwxp offset device inode name". */
static bool add_mapping(hn_rewind *r, const char *line, const char *stack_low) {
    char *at;
    char *begin = (char *)strtoull(line, &at, 16);
    char *end = (char *)strtoull(at + 1, &at, 16);
    const char *flags = at + 1;
    if (flags[1] != 'w') return true;
    if (flags[3] != 'p') return false; /* others may change it */
    if (is_within(begin, r, sizeof(*r)) || is_within(begin, r->pool.at, r->pool.len)) return true;
    char here; /* the caller's stack, from hn_rewind_memory */
    if (is_within(&here, begin, (size_t)(end - begin))) return true;
    if (is_within(stack_low, begin, (size_t)(end - begin))) begin = (char *)stack_low;
    if (is_within(r->slack.at, begin, (size_t)(end - begin))) end = r->slack.at;
    return add_part(r, begin, end);
}

static bool add_mappings(hn_rewind *r, const char *stack_low) {
    if (!read_text("/proc/self/maps", r->maps, sizeof(r->maps))) return false;
    for (const char *line = r->maps; *line; line = strchr(line, '\n') + 1)
        if (!add_mapping(r, line, stack_low)) return false;
    return true;
}

static bool copy_parts(hn_rewind *r) {
    char *copy = r->kept_bytes <= KEPT_MAX_BYTES ? hn_rewind_memory(r->kept_bytes) : NULL;
    if (!copy) return false;
    for (int i = 0; i < r->part_count; i++) {
        memcpy(copy, r->parts[i].at, r->parts[i].len);
        r->parts[i].copy = copy;
        copy += r->parts[i].len;
    }
    return true;
}

/* What malloc maps by itself it would unmap unnoticed. */
void hn_rewind_prepare(void) {
    mallopt(M_MMAP_MAX, 0);
    mallopt(M_TRIM_THRESHOLD, INT_MAX);
}

/* Memory of a job comes from the heap alone, which has some at its end. */
static bool add_slack(hn_rewind *r) {
    char *end = sbrk(0);
    void *block = malloc(SLACK_BYTES);
    if (!block) return false;
    free(block);
    r->heap_end = sbrk(0);
    r->slack = (scratch){.at = end, .len = (size_t)(r->heap_end - end)};
    return end != (char *)-1 && r->heap_end > end;
}

static bool keep_files(hn_rewind *r) {
    int last = 2;
    for (int fd = 0; fd < 1024; fd++)
        if (fcntl(fd, F_GETFD) >= 0) last = fd > last ? fd : last;
    if (last >= FILES_MAX) return false;
    r->last_fd = last;
    for (int fd = 0; fd < FILES_MAX; fd++) {
        int flags = fd <= last && fd != r->control_fd ? fcntl(fd, F_GETFD) : -1;
        r->copies[fd] = flags >= 0 ? fcntl(fd, F_DUPFD_CLOEXEC, last + 1) : -1;
        if (flags >= 0 && r->copies[fd] < 0) return false;
        if (r->copies[fd] > r->last_fd) r->last_fd = r->copies[fd];
        r->closes_on_exec[fd] = flags >= 0 && (flags & FD_CLOEXEC);
        r->offsets[fd] = flags >= 0 ? lseek(fd, 0, SEEK_CUR) : -1;
    }
    return true;
}

bool hn_rewind_keep(int control_fd, const void *stack_low, hn_rewind **out) {
    hn_rewind *r = hn_rewind_memory(sizeof(*r));
    if (!r) return false;
    r->control_fd = control_fd;
    r->pool = (scratch){.at = hn_rewind_memory(POOL_BYTES), .len = POOL_BYTES};
    *out = r; /* lies in memory that is kept: the copy must have it */
    if (!r->pool.at || !has_one_thread() || !add_slack(r) || !keep_files(r)) return false;
    if (!add_mappings(r, stack_low) || !copy_parts(r)) return false;
    r->mapped_pages = mapped_pages();
    return r->mapped_pages > 0;
}

/* ---- rewinding ---- */

bool hn_rewind_is_possible(const hn_rewind *r) {
    if (r->has_lost_count || !has_one_thread()) return false;
    if (waitpid(-1, NULL, WNOHANG | __WALL) != -1 || errno != ECHILD) return false;
    size_t noted = 0;
    for (int i = 0; i < r->note_count; i++) noted += r->notes[i].len;
    char *end = sbrk(0);
    if (end > r->heap_end) noted += (size_t)(end - r->heap_end);
    return mapped_pages() * PAGE <= r->mapped_pages * PAGE + noted + GROWTH_BYTES;
}

static void restore(const part *p) {
    for (size_t at = 0; at < p->len; at += PAGE) {
        size_t len = p->len - at < PAGE ? p->len - at : PAGE;
        if (memcmp(p->at + at, p->copy + at, len) != 0) memcpy(p->at + at, p->copy + at, len);
    }
}

/* What the system knows of `count` pages. All ones when it does not tell. */
static void read_pages(const char *begin, size_t page, size_t count, uint64_t *out) {
    int fd = (int)syscall(SYS_openat, AT_FDCWD, "/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
    ssize_t wanted = (ssize_t)(count * sizeof(*out));
    ssize_t got = fd >= 0 ? pread(fd, out, (size_t)wanted, (off_t)((uintptr_t)begin / page * sizeof(*out))) : -1;
    if (fd >= 0) close(fd);
    if (got != wanted) memset(out, 255, (size_t)wanted);
}

/* The next job finds zeros, as the first one did. Pages that were never touched stay so. */
static void clear(const scratch *s, size_t used) {
    static const uint64_t is_there = (uint64_t)3 << 62; /* in memory, or swapped out */
    uint64_t pages[STAY_BYTES / PAGE];
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    char *begin = (char *)(((uintptr_t)s->at + page - 1) & ~(uintptr_t)(page - 1));
    size_t skipped = (size_t)(begin - s->at);
    if (skipped) memset(s->at, 0, skipped < s->len ? skipped : s->len);
    if (used <= skipped) return;
    used -= skipped;
    size_t stay = used < STAY_BYTES ? used : STAY_BYTES;
    if (used > stay) madvise(begin + stay, used - stay, MADV_DONTNEED);
    read_pages(begin, page, (stay + page - 1) / page, pages);
    for (size_t at = 0; at < stay; at += page)
        if (pages[at / page] & is_there) memset(begin + at, 0, stay - at < page ? stay - at : page);
}

static void restore_files(const hn_rewind *r) {
    for (int fd = 0; fd <= r->last_fd; fd++) {
        bool is_ours = fd == r->control_fd;
        for (int i = 0; i < FILES_MAX; i++) is_ours |= r->copies[i] == fd;
        if (is_ours) continue;
        int copy = fd < FILES_MAX ? r->copies[fd] : -1;
        if (copy >= 0)
            dup3(copy, fd, r->closes_on_exec[fd] ? O_CLOEXEC : 0);
        else
            close(fd);
        if (copy >= 0 && r->offsets[fd] >= 0) lseek(fd, r->offsets[fd], SEEK_SET);
    }
    if (syscall(SYS_close_range, (unsigned)r->last_fd + 1, ~0u, 0u) == 0) return;
    for (int fd = r->last_fd + 1; fd < 1024; fd++) close(fd);
}

void hn_rewind_go(hn_rewind *r) {
    for (int i = 0; i < r->note_count; i++) munmap(r->notes[i].at, r->notes[i].len);
    r->note_count = 0;
    if (sbrk(0) != (void *)r->heap_end) syscall(SYS_brk, r->heap_end); /* what malloc knows of it is put back below */
    for (int i = 0; i < r->part_count; i++) restore(&r->parts[i]);
    clear(&r->slack, r->slack.len);
    clear(&r->pool, r->pool_used);
    r->pool_used = 0;
    restore_files(r);
}

/* ---- memory of a job ---- */

void *hn_rewind_take(hn_rewind *r, size_t bytes) {
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    if (!bytes || bytes > r->pool.len - r->pool_used) return NULL;
    size_t len = (bytes + page - 1) / page * page;
    if (len > r->pool.len - r->pool_used) return NULL;
    char *at = r->pool.at + r->pool_used;
    r->pool_used += len;
    return at;
}

void hn_rewind_note(hn_rewind *r, void *at, size_t bytes) {
    if (r->note_count == NOTES_MAX)
        r->has_lost_count = true;
    else
        r->notes[r->note_count++] = (scratch){.at = at, .len = bytes};
}

bool hn_rewind_owns(const hn_rewind *r, const void *at) {
    if (is_within(at, r->pool.at, r->pool.len)) return true;
    for (int i = 0; i < r->part_count; i++)
        if (is_within(at, r->parts[i].at, r->parts[i].len)) return true;
    return false;
}

uint64_t hn_rewind_extra_bytes(const hn_rewind *r) { return r->kept_bytes + r->pool.len + r->slack.len + sizeof(*r); }
