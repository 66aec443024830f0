/* job.c: see job.h. */
#include "service/job.h"

#include "base/trace.h"
#include "cache/record.h"

#include <limits.h>
#include <stdlib.h>

static hn_status add_list(hn_strbuf *out, const char *name, const char *const *items,
                          size_t count) {
    hn_strbuf list;
    hn_strbuf_init(&list);
    for (size_t i = 0; i < count; i++) {
        if (!items[i]) {
            hn_strbuf_deinit(&list);
            return HN_ERROR(HN_INVALID_ARGUMENT, "cannot submit a job: item %zu of its %s is NULL",
                            i, name);
        }
        hn_list_add(&list, items[i]);
    }
    hn_record_add(out, name, hn_strbuf_str(&list));
    hn_status status = hn_strbuf_status(&list);
    hn_strbuf_deinit(&list);
    return status;
}

void hn_job_environment(const hn_toolchain_row *row, hn_strbuf *out) {
    for (const char *const *name = row->env_names; *name; name++) {
        const char *value = getenv(*name);
        if (!value) continue;
        hn_strbuf_printf(out, "%s=%s", *name, value);
        hn_strbuf_append(out, "", 1);
    }
}

static hn_status add_environment(const hn_toolchain_row *row, hn_strbuf *out) {
    hn_strbuf list;
    hn_strbuf_init(&list);
    hn_job_environment(row, &list);
    hn_record_add(out, "env", hn_strbuf_str(&list));
    hn_status status = hn_strbuf_status(&list);
    hn_strbuf_deinit(&list);
    return status;
}

/* A job may set what changes a result and can neither run a program, nor name a file that nobody
 * knows of, nor change the language of the messages, by which failures are told apart. */
static hn_status check_variable(const hn_source *source, const char *item) {
    static const char *const allowed[] = {"SOURCE_DATE_EPOCH=", "LD_RUN_PATH=", NULL};
    for (int i = 0; item && allowed[i]; i++)
        if (strncmp(item, allowed[i], strlen(allowed[i])) == 0) return NULL;
    return HN_ERROR(
        HN_INVALID_ARGUMENT,
        "cannot submit '%s' with environment '%s': a job may set only SOURCE_DATE_EPOCH=VALUE and LD_RUN_PATH=VALUE; "
        "directories of headers and libraries are flags (-I, -L)",
        source->name, item ? item : "(null)");
}

/* In the order of the names: who gives the same variables means the same. */
static int by_text(const void *a, const void *b) {
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static hn_status add_own_environment(const hn_source *source, hn_strbuf *out) {
    const char *items[HN_JOB_VARIABLES];
    if (!source->env_count) return NULL; /* no field at all: keys are what they were */
    if (source->env_count > HN_JOB_VARIABLES)
        return HN_ERROR(HN_INVALID_ARGUMENT,
                        "cannot submit '%s' with %zu environment variables, at most %d",
                        source->name, source->env_count, HN_JOB_VARIABLES);
    for (size_t i = 0; i < source->env_count; i++) {
        HN_TRY(check_variable(source, source->env[i]));
        items[i] = source->env[i];
    }
    qsort(items, source->env_count, sizeof(*items), by_text);
    return add_list(out, "job_env", items, source->env_count);
}

static hn_status add_target(const hn_source *source, const hn_toolchain_row *row, hn_strbuf *out) {
    hn_strbuf list;
    for (size_t i = 0; i < source->target_count; i++)
        if (!source->target[i])
            return HN_ERROR(HN_INVALID_ARGUMENT,
                            "cannot submit a job: item %zu of its target is NULL", i);
    hn_strbuf_init(&list);
    hn_status status = hn_target_canonical(row, source->target, source->target_count, &list);
    hn_record_add(out, "target", hn_strbuf_str(&list));
    hn_strbuf_deinit(&list);
    return status;
}

hn_status hn_job_key_record(const hn_source *source, const hn_toolchain *toolchain,
                            hn_strbuf *out) {
    hn_strbuf identity;
    hn_strbuf_init(&identity);
    hn_toolchain_identity_print(toolchain, &identity);
    hn_record_add_i64(out, "job_revision", HN_JOB_REVISION);
    hn_record_add(out, "language", hn_str_of(toolchain->row->language));
    hn_record_add(out, "toolchain", hn_strbuf_str(&identity));
    hn_status status = hn_strbuf_status(&identity);
    hn_strbuf_deinit(&identity);
    if (status) return status;
    HN_TRY(add_list(out, "flags", source->flags, source->flag_count));
    HN_TRY(add_target(source, toolchain->row, out));
    HN_TRY(add_list(out, "entries", source->entries, source->entry_count));
    HN_TRY(add_own_environment(source, out));
    HN_TRY(add_environment(toolchain->row, out));
    hn_record_add(out, "text", (hn_str){source->text, source->text_len});
    return hn_strbuf_status(out);
}

void hn_job_request_write(hn_str key_record, hn_str toolchain_record, const hn_job_limits *limits,
                          hn_strbuf *out) {
    hn_record_add(out, "key_record", key_record);
    hn_record_add(out, "toolchain_record", toolchain_record);
    hn_record_add(out, "source_path", limits->source_path);
    hn_record_add(out, "scratch_dir", limits->scratch_dir);
    hn_record_add(out, "pch_dir", limits->pch_dir);
    hn_record_add_i64(out, "timeout_ms", limits->timeout_ms);
    hn_record_add_i64(out, "memory_bytes", (int64_t)limits->memory_bytes);
    hn_record_add_i64(out, "cpu_seconds", (int64_t)limits->cpu_seconds);
    hn_record_add_i64(out, "processes", limits->processes);
    hn_record_add_i64(out, "own_group", limits->own_group);
    hn_record_add_i64(out, "no_standby", limits->no_standby);
    hn_record_add_i64(out, "log_pid", limits->log_pid);
}

uint32_t hn_job_request_processes(hn_str request) {
    hn_status status = hn_record_check(request);
    int64_t processes = status ? 0 : hn_record_find_i64(request, "processes", 0);
    hn_status_free(status); /* running it will tell */
    return processes > 0 && processes < UINT32_MAX / 2 ? (uint32_t)processes : 0;
}

void hn_job_outcome_init(hn_job_outcome *outcome) {
    *outcome = (hn_job_outcome){.code = HN_OK};
    hn_strbuf_init(&outcome->message);
    hn_strbuf_init(&outcome->bytes);
    hn_strbuf_init(&outcome->headers);
}

void hn_job_outcome_deinit(hn_job_outcome *outcome) {
    hn_strbuf_deinit(&outcome->message);
    hn_strbuf_deinit(&outcome->bytes);
    hn_strbuf_deinit(&outcome->headers);
}

void hn_job_outcome_fail(hn_job_outcome *outcome, hn_status status) {
    outcome->code = hn_status_code(status);
    hn_strbuf_reset(&outcome->message);
    hn_strbuf_puts(&outcome->message, hn_status_message(status));
    hn_status_free(status);
}

static hn_status compile_request(hn_str key_record, hn_str toolchain_record,
                                 const hn_toolchain_job *job, hn_job_outcome *out) {
    hn_str language;
    const hn_toolchain_row *row;
    hn_toolchain toolchain;
    hn_record_find(key_record, "language", &language);
    HN_TRY(hn_toolchain_row_find(language, &row));
    HN_TRY(hn_toolchain_from_record(row, toolchain_record, &toolchain));
    hn_toolchain_result result;
    hn_status status = hn_toolchain_compile(&toolchain, job, &result);
    hn_strbuf_deinit(&out->bytes);
    hn_strbuf_deinit(&out->headers);
    out->bytes = result.bytes;
    out->headers = result.headers;
    out->is_deterministic = result.is_deterministic;
    out->is_unlisted = result.is_unlisted;
    hn_toolchain_deinit(&toolchain);
    return status;
}

static hn_status check_request(hn_str request, hn_str *key_record, hn_str *toolchain_record) {
    HN_TRY(hn_record_check(request));
    hn_record_find(request, "key_record", key_record);
    hn_record_find(request, "toolchain_record", toolchain_record);
    HN_TRY(hn_record_check(*key_record));
    HN_TRY(hn_record_check(*toolchain_record));
    if (hn_record_find_i64(*key_record, "job_revision", 0) == HN_JOB_REVISION) return NULL;
    return HN_ERROR(HN_TOOLCHAIN,
                    "the worker program that was found is of another version of Henry; "
                    "set HENRY_WORKER to that of this one");
}

/* A path of the request; NULL where it is empty. */
static const char *read_path(hn_str request, const char *field, char storage[PATH_MAX]) {
    hn_str path = HN_STR("");
    hn_record_find(request, field, &path);
    snprintf(storage, PATH_MAX, HN_STR_FMT, HN_STR_ARG(path));
    return path.len ? storage : NULL;
}

/* The job's own variables, then those of the host that its compiler may read. */
static hn_status read_environment(hn_str key_record, hn_strbuf *out) {
    hn_str own = HN_STR(""), host = HN_STR("");
    hn_record_find(key_record, "job_env", &own);
    hn_record_find(key_record, "env", &host);
    hn_strbuf_append(out, own.ptr, own.len);
    hn_strbuf_append(out, host.ptr, host.len);
    return hn_strbuf_status(out);
}

static hn_status run_request(hn_str request, const hn_job_context *context, hn_job_outcome *out) {
    static const hn_job_context nothing = {.standby = NULL};
    const hn_job_context *c = context ? context : &nothing;
    char source[PATH_MAX], scratch[PATH_MAX], pch[PATH_MAX];
    hn_str key_record = HN_STR(""), toolchain_record = HN_STR("");
    hn_strbuf env;
    HN_TRY(check_request(request, &key_record, &toolchain_record));
    hn_toolchain_job job = {
        .source_path = read_path(request, "source_path", source),
        .scratch_dir = read_path(request, "scratch_dir", scratch),
        .pch_dir = read_path(request, "pch_dir", pch),
        .timeout_ms = hn_record_find_i64(request, "timeout_ms", 0),
        .memory_bytes = (uint64_t)hn_record_find_i64(request, "memory_bytes", 0),
        .cpu_seconds = (uint64_t)hn_record_find_i64(request, "cpu_seconds", 0),
        .standby = hn_record_find_i64(request, "no_standby", 0) ? NULL : c->standby,
        .messages_fd = c->messages_fd,
        .cancel_fd = c->cancel_fd,
        .guard = c->guard,
        .own_group = hn_record_find_i64(request, "own_group", 0) != 0,
        .log = {.fd = c->log_fd, .pid = (int)hn_record_find_i64(request, "log_pid", 0)},
    };
    hn_record_find(key_record, "text", &job.text);
    hn_record_find(key_record, "flags", &job.flags);
    hn_record_find(key_record, "target", &job.target);
    hn_record_find(key_record, "entries", &job.entries);
    hn_strbuf_init(&env);
    hn_status status = read_environment(key_record, &env);
    job.env = hn_strbuf_str(&env);
    if (!status) status = compile_request(key_record, toolchain_record, &job, out);
    hn_strbuf_deinit(&env);
    return status;
}

void hn_job_request_run(hn_str request, const hn_job_context *context, hn_job_outcome *out) {
    int64_t start_ns = hn_now_ns();
    hn_status status = run_request(request, context, out);
    if (status) hn_job_outcome_fail(out, status);
    out->service_ns = hn_now_ns() - start_ns;
}

void hn_job_outcome_write(const hn_job_outcome *outcome, hn_strbuf *out) {
    hn_record_add_i64(out, "code", outcome->code);
    hn_record_add(out, "message", hn_strbuf_str(&outcome->message));
    hn_record_add(out, "bytes", hn_strbuf_str(&outcome->bytes));
    hn_record_add(out, "headers", hn_strbuf_str(&outcome->headers));
    hn_record_add_i64(out, "is_deterministic", outcome->is_deterministic);
    hn_record_add_i64(out, "is_unlisted", outcome->is_unlisted);
    hn_record_add_i64(out, "needs_replacement", outcome->needs_replacement);
    hn_record_add_i64(out, "service_ns", outcome->service_ns);
}

hn_status hn_job_outcome_read(hn_str bytes, hn_job_outcome *out) {
    HN_TRY(hn_record_check(bytes));
    int64_t code = hn_record_find_i64(bytes, "code", -1);
    if (code < 0 || code >= HN_CODE_COUNT)
        return HN_ERROR(HN_CORRUPT, "outcome of a job without a known code");
    hn_str value;
    out->code = (hn_code)code;
    hn_record_find(bytes, "message", &value);
    hn_strbuf_append(&out->message, value.ptr, value.len);
    hn_record_find(bytes, "bytes", &value);
    hn_strbuf_append(&out->bytes, value.ptr, value.len);
    hn_record_find(bytes, "headers", &value);
    hn_strbuf_append(&out->headers, value.ptr, value.len);
    out->is_deterministic = hn_record_find_i64(bytes, "is_deterministic", 0) != 0;
    out->is_unlisted = hn_record_find_i64(bytes, "is_unlisted", 0) != 0;
    out->needs_replacement = hn_record_find_i64(bytes, "needs_replacement", 0) != 0;
    out->service_ns = hn_record_find_i64(bytes, "service_ns", 0);
    HN_TRY(hn_strbuf_status(&out->message));
    HN_TRY(hn_strbuf_status(&out->headers));
    return hn_strbuf_status(&out->bytes);
}

void hn_frame_write(hn_strbuf *out, hn_frame_kind kind, uint64_t job, hn_str payload) {
    const hn_frame_header header = {HN_FRAME_MAGIC, (uint32_t)kind, job, payload.len};
    hn_strbuf_append(out, (const char *)&header, sizeof(header));
    hn_strbuf_append(out, payload.ptr, payload.len);
}

hn_status hn_frame_read(hn_str in, bool *out_whole, hn_frame_header *out_header,
                        hn_str *out_payload, size_t *out_used) {
    *out_whole = false;
    if (in.len < sizeof(*out_header)) return NULL;
    memcpy(out_header, in.ptr, sizeof(*out_header));
    if (out_header->magic != HN_FRAME_MAGIC || out_header->len > HN_FRAME_LIMIT_BYTES)
        return HN_ERROR(HN_CORRUPT,
                        "bytes between a compile worker and its pool that are no message");
    size_t used = sizeof(*out_header) + (size_t)out_header->len;
    if (in.len < used) return NULL;
    *out_whole = true;
    *out_payload = (hn_str){in.ptr + sizeof(*out_header), (size_t)out_header->len};
    *out_used = used;
    return NULL;
}
