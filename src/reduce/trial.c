/* trial.c: one slice in a child process.
 *
 * A fork and no program of its own: the child then has the graph, the bytes of the weights and the
 * options, and nothing is written and read again. The process that forks has no other threads: it
 * imports and edits graphs, and leaves compiling and running to its children. */
#include "reduce/trial.h"

#include "base/oserror.h"
#include "base/process.h"
#include "base/process_tree.h"
#include "base/trace.h"
#include "bisect/subject.h"
#include "reduce/judge.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>

enum {
    SLICE_MS = 50, /* between looks at `stop` */
    REST_MS = 5000 /* until all that a child has left is gone */
};

const char *hn_failure_name(hn_failure_kind kind) {
    static const char *const names[] = {
        [HN_FAILURE_NONE] = "none",      [HN_FAILURE_DIFFERS] = "differs",
        [HN_FAILURE_NOT_FINITE] = "nan", [HN_FAILURE_ERROR] = "error",
        [HN_FAILURE_CRASH] = "crash",    [HN_FAILURE_HANG] = "hang",
        [HN_FAILURE_TEST] = "test",      [HN_FAILURE_CANCELLED] = "cancelled",
    };
    return names[kind];
}

/* Memory runs out wherever it does. */
bool hn_failure_same(const hn_failure *a, const hn_failure *b) {
    if (a->kind != b->kind || a->stage != b->stage || a->code != b->code) return false;
    if (a->kind != HN_FAILURE_ERROR || a->code == HN_OUT_OF_MEMORY) return true;
    return a->line == b->line && strcmp(a->where, b->where) == 0;
}

/* --- the child --- */

/* Written by the child, read by its parent. */
typedef struct report {
    volatile hn_trial_stage stage;
    volatile bool is_done;
    hn_failure failure;
} report;

typedef struct trial {
    const hn_slice *slice;
    const hn_trial_options *options;
    report *report;
    /* what the child does; its error is a failure of the slice */
    hn_status (*work)(struct trial *t);
    FILE *file; /* of hn_trial_record */
} trial;

static void limit(int what, uint64_t most) {
    struct rlimit r;
    if (!most || getrlimit(what, &r) != 0) return;
    if (r.rlim_max != RLIM_INFINITY && r.rlim_max < most) most = r.rlim_max;
    r.rlim_cur = most;
    (void)setrlimit(what, &r);
}

/* In a group of its own, which ends with its parent; what it says is in the report. */
static void settle(const hn_trial_options *o) {
    const int nothing = open("/dev/null", O_RDWR | O_CLOEXEC);
    const struct rlimit none = {0, 0};
    (void)setpgid(0, 0);
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    (void)setrlimit(RLIMIT_CORE, &none);
    limit(RLIMIT_DATA, o->memory_bytes);
    signal(SIGINT, SIG_DFL);
    signal(SIGTERM, SIG_DFL);
    if (nothing < 0) return;
    for (int fd = 0; fd <= 2; fd++) (void)dup2(nothing, fd);
}

static void note_error(report *r, hn_status status) {
    r->failure.kind = HN_FAILURE_ERROR;
    r->failure.code = (int)hn_status_code(status);
    snprintf(r->failure.where, sizeof r->failure.where, "%s",
             hn_status_where(status, &r->failure.line));
    snprintf(r->failure.text, sizeof r->failure.text, "%s", hn_status_message(status));
}

static _Noreturn void run_child(trial *t) {
    settle(t->options);
    hn_status status = t->work(t);
    if (status) note_error(t->report, status);
    t->report->is_done = true;
    _exit(0);
}

/* --- what a child does --- */

static hn_status open_subject(const trial *t, const hn_subject_options *options, hn_subject *s) {
    hn_slice *slice = (hn_slice *)t->slice; /* the child's own copy */
    HN_TRY(hn_subject_init_file(s, &slice->file, options));
    s->runs_programs = !t->options->interprets && slice->weight_bytes > HN_INTERPRETED_BYTES;
    return hn_slice_inputs(slice, &s->arena, &s->inputs, &s->input_count);
}

/* The graph that the reference can run. */
static hn_status evaluate(hn_subject *s, hn_arena *arena, hn_build *b, hn_results *out) {
    hn_limit no_fusion = {.most = 0};
    const hn_driver_limits limits = {.pass = hn_driver_pass_number("decompose"),
                                     .behind = &no_fusion};
    HN_TRY(hn_build_graph(s, &limits, b));
    return hn_build_evaluate(s, b, arena, out);
}

static hn_status compare_with_reference(trial *t) {
    const hn_driver_limits all = {.pass = hn_driver_last_pass()};
    const hn_subject_options options = {t->options->compile, t->options->load, t->options->rtol,
                                        t->options->atol};
    /* nothing is freed: the process ends */
    static hn_subject s;
    static hn_build whole, plain;
    static hn_arena arena;
    hn_results got, want;
    hn_arena_init(&arena);
    HN_TRY(open_subject(t, &options, &s));
    HN_TRY(hn_build_graph(&s, &all, &whole));
    HN_TRY(hn_build_module(&s, &whole));
    t->report->stage = HN_TRIAL_RUN;
    HN_TRY(hn_build_run(&s, &whole, &arena, &got));
    t->report->stage = HN_TRIAL_REFERENCE;
    HN_TRY(evaluate(&s, &arena, &plain, &want));
    hn_judge(&got, &want, t->options, &t->report->failure);
    t->report->stage = HN_TRIAL_RUN; /* where it differs */
    return NULL;
}

static hn_status write_slice(const trial *t) {
    hn_strbuf text;
    hn_strbuf_init(&text);
    hn_status status = hn_slice_write(t->slice, NULL, 0, &text);
    if (!status) status = hn_file_write_atomic(t->options->path, text.ptr, text.len, false);
    hn_strbuf_deinit(&text);
    return status;
}

/* The command takes the place of the child: its exit status is the verdict. */
static hn_status run_command(trial *t) {
    hn_strbuf line;
    t->report->stage = HN_TRIAL_COMMAND;
    hn_strbuf_init(&line);
    hn_strbuf_printf(&line, "%s \"$1\"", t->options->test);
    HN_TRY(hn_strbuf_status(&line));
    execl("/bin/sh", "sh", "-c", line.ptr, "sh", t->options->path, (char *)NULL);
    return HN_OS_ERROR(errno, "cannot start /bin/sh");
}

/* --- the parent --- */

static bool is_stopped(const hn_trial_options *o) { return o->stop && *o->stop; }

/* False: it was ended, since it was late or somebody asked to stop. */
static bool wait_for(hn_child *child, const hn_trial_options *o, int *out_exit) {
    const int64_t end = hn_now_ns() + o->limit_ms * 1000000;
    while (!is_stopped(o) && hn_now_ns() < end)
        if (hn_process_wait_for(child, SLICE_MS, out_exit)) return true;
    hn_process_signal_group(child, SIGKILL);
    hn_status_free(hn_process_wait(child, out_exit));
    return false;
}

static const char *stage_name(hn_trial_stage stage) {
    static const char *const names[] = {[HN_TRIAL_COMPILE] = "while it was compiled",
                                        [HN_TRIAL_RUN] = "in the run",
                                        [HN_TRIAL_REFERENCE] = "in the reference",
                                        [HN_TRIAL_COMMAND] = "in the command"};
    return names[stage];
}

static void judge_end(const trial *t, bool ended, int exit_status, hn_failure *out) {
    *out = t->report->failure;
    out->stage = t->report->stage;
    if (is_stopped(t->options)) {
        out->kind = HN_FAILURE_CANCELLED;
    } else if (!ended) {
        *out = (hn_failure){.kind = HN_FAILURE_HANG, .stage = t->report->stage};
        snprintf(out->text, sizeof out->text, "not done within %.1f s, %s",
                 (double)t->options->limit_ms / 1000, stage_name(out->stage));
    } else if (t->report->stage == HN_TRIAL_COMMAND && !t->report->is_done) {
        out->kind = exit_status ? HN_FAILURE_TEST : HN_FAILURE_NONE;
        out->code = exit_status;
        snprintf(out->text, sizeof out->text, "the command ends with status %d", exit_status);
    } else if (!t->report->is_done) {
        const bool by_signal = exit_status > 128;
        out->kind = HN_FAILURE_CRASH;
        out->code = by_signal ? exit_status - 128 : -exit_status;
        snprintf(out->text, sizeof out->text, "%s, %s",
                 by_signal ? strsignal(out->code) : "the process ended", stage_name(out->stage));
    }
}

/* A child ends as it is, also in the middle: its workers come here, and not to a process that might
 * never wait for them. What a command of the user's leaves is the user's. */
static void end_rest(const trial *t) {
    if (!t->options->test) (void)hn_process_tree_kill(getpid(), NULL, 0, REST_MS);
}

static hn_status fork_child(trial *t, hn_failure *out) {
    hn_child child;
    int exit_status = 0, takes_orphans = 0;
    (void)prctl(PR_GET_CHILD_SUBREAPER, &takes_orphans);
    if (!t->options->test) (void)prctl(PR_SET_CHILD_SUBREAPER, 1);
    fflush(NULL);
    const pid_t pid = fork();
    if (pid < 0) return HN_OS_ERROR(errno, "cannot start a process");
    if (pid == 0) run_child(t);
    (void)setpgid(pid, pid);
    hn_child_init(&child, pid);
    const bool ended = wait_for(&child, t->options, &exit_status);
    end_rest(t);
    (void)prctl(PR_SET_CHILD_SUBREAPER, takes_orphans);
    judge_end(t, ended, exit_status, out);
    return NULL;
}

static hn_status run_trial(trial *t, hn_failure *out) {
    t->report =
        mmap(NULL, sizeof *t->report, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (t->report == MAP_FAILED) return HN_OS_ERROR(errno, "no memory for a report");
    hn_status status = fork_child(t, out);
    (void)munmap(t->report, sizeof *t->report);
    return status;
}

hn_status hn_trial_run(const hn_slice *slice, const hn_trial_options *options, hn_failure *out) {
    trial t = {.slice = slice,
               .options = options,
               .work = options->test ? run_command : compare_with_reference};
    if (options->test) HN_TRY(write_slice(&t));
    return run_trial(&t, out);
}

/* --- recording --- */

static hn_status write_tensor(FILE *file, const hn_ref_tensor *tensor, hn_arena *arena) {
    const uint64_t bytes =
        (uint64_t)tensor->numel * (uint64_t)hn_dtype_facts(tensor->dtype)->size_bytes;
    const uint64_t head[2] = {tensor->rank, bytes};
    uint8_t *data;
    HN_TRY(hn_arena_array(arena, bytes + 1, 1, &data));
    hn_ref_tensor_store(tensor, data);
    const bool good =
        fwrite(head, sizeof head, 1, file) == 1 &&
        fwrite(tensor->sizes, sizeof *tensor->sizes, tensor->rank, file) == tensor->rank &&
        fwrite(data, 1, bytes, file) == bytes;
    return good ? NULL : HN_ERROR(HN_IO, "cannot write a tensor");
}

static hn_status record_values(trial *t) {
    const hn_subject_options options = {t->options->compile, t->options->load, -1, -1};
    static hn_subject s;
    static hn_build plain;
    static hn_arena arena;
    hn_results values;
    hn_arena_init(&arena);
    t->report->stage = HN_TRIAL_REFERENCE;
    HN_TRY(open_subject(t, &options, &s));
    HN_TRY(evaluate(&s, &arena, &plain, &values));
    for (uint32_t k = 0; k < values.count; k++)
        HN_TRY(write_tensor(t->file, &values.items[k], &arena));
    return fflush(t->file) == 0 ? NULL : HN_ERROR(HN_IO, "cannot write tensors");
}

static hn_status read_tensor(FILE *file, hn_arena *arena, const hn_example **out) {
    uint64_t head[2];
    hn_example *e;
    int64_t *sizes;
    uint8_t *bytes;
    if (fread(head, sizeof head, 1, file) != 1) return HN_ERROR(HN_CORRUPT, "a tensor is missing");
    HN_NEW(arena, e, 1);
    HN_NEW(arena, sizes, head[0] + 1);
    HN_TRY(hn_arena_array(arena, head[1] + 1, 1, &bytes));
    *e = (hn_example){(uint32_t)head[0], sizes, bytes, head[1]};
    if (fread(sizes, sizeof *sizes, head[0], file) != head[0] ||
        fread(bytes, 1, head[1], file) != head[1])
        return HN_ERROR(HN_CORRUPT, "a tensor is cut short");
    *out = e;
    return NULL;
}

/* Those of the outputs that the graph has anyway come first. */
static hn_status read_tensors(FILE *file, uint32_t skipped, uint32_t count, hn_arena *arena,
                              const hn_example **out) {
    const hn_example *ignored;
    rewind(file);
    for (uint32_t k = 0; k < skipped; k++) HN_TRY(read_tensor(file, arena, &ignored));
    for (uint32_t k = 0; k < count; k++) HN_TRY(read_tensor(file, arena, &out[k]));
    return NULL;
}

static hn_status count_watched(const hn_slice *slice, uint32_t *out_before, uint32_t *out_count) {
    hn_arena arena;
    hn_graph *graph;
    hn_slice plain = *slice;
    hn_arena_init(&arena);
    plain.is_watched = false;
    hn_status status = hn_slice_graph(&plain, &arena, &graph);
    if (!status) {
        *out_before = graph->outputs.count;
        hn_graph_deinit(graph);
        plain.is_watched = true;
        status = hn_slice_graph(&plain, &arena, &graph);
    }
    if (!status) {
        *out_count = graph->outputs.count - *out_before;
        hn_graph_deinit(graph);
    }
    hn_arena_deinit(&arena);
    return status;
}

hn_status hn_trial_record(hn_slice *slice, const hn_trial_options *options, hn_arena *arena,
                          const hn_example ***out, uint32_t *out_count) {
    hn_failure failure;
    uint32_t before = 0, count = 0;
    hn_slice watched = *slice;
    *out_count = 0;
    HN_TRY(count_watched(slice, &before, &count));
    HN_NEW(arena, *out, count + 1u);
    trial t = {.slice = &watched, .options = options, .work = record_values, .file = tmpfile()};
    if (!t.file) return HN_OS_ERROR(errno, "cannot make a temporary file");
    watched.is_watched = true;
    hn_status status = run_trial(&t, &failure);
    if (!status && failure.kind == HN_FAILURE_NONE) {
        status = read_tensors(t.file, before, count, arena, *out);
        *out_count = count;
    }
    fclose(t.file);
    return status;
}
