/* failure.c: what is said of a job whose worker did not come back with an outcome: what the tool
 * had said until then, where the source is, and how to compile it alone. */
#include "service/core.h"

#include "cache/record.h"
#include "toolchain/driver.h"

enum { OUTPUT_BYTES = 600 };

void hn_job_failed_path(const hn_core *core, const hn_job *job, char *out, size_t bytes) {
    char hex[HN_DIGEST_HEX_BYTES];
    const char *dir = hn_store_dir(core->service->store);
    hn_digest_hex(&job->key, hex);
    out[0] = 0;
    if (dir[0]) snprintf(out, bytes, "%s/failed/%s%s", dir, hex, job->row->suffixes[0]);
}

static void add_command(const hn_job *job, const char *path, hn_strbuf *line) {
    hn_str record = hn_strbuf_str(&job->key_record);
    hn_job_command command = {.language = job->row->language, .path = path};
    hn_record_find(record, "entries", &command.entries);
    hn_record_find(record, "target", &command.target);
    hn_record_find(record, "flags", &command.flags);
    hn_record_find(record, "job_env", &command.env);
    hn_job_command_print(&command, line);
}

/* The end of what the tool said: that is where it stopped. Lines are joined. */
static void add_output(hn_str output, hn_strbuf *line) {
    while (output.len && (output.ptr[output.len - 1] == '\n' || output.ptr[output.len - 1] == ' '))
        output.len--;
    if (!output.len) {
        hn_strbuf_puts(line, "; its compiler had said nothing");
        return;
    }
    hn_strbuf_puts(line, "; its compiler had said: ");
    if (output.len > OUTPUT_BYTES) {
        hn_strbuf_puts(line, "...");
        output = (hn_str){output.ptr + (output.len - OUTPUT_BYTES), OUTPUT_BYTES};
    }
    for (size_t i = 0; i < output.len; i++)
        hn_strbuf_putc(line, (unsigned char)output.ptr[i] < ' ' ? ' ' : output.ptr[i]);
}

hn_status hn_job_failure(const hn_core *core, const hn_job *job, hn_str output, hn_status status) {
    char path[PATH_MAX + 128];
    hn_strbuf line;
    hn_strbuf_init(&line);
    hn_strbuf_puts(&line, hn_status_message(status));
    add_output(output, &line);
    hn_job_failed_path(core, job, path, sizeof(path));
    if (path[0]) {
        hn_strbuf_puts(&line, "; to compile it alone: ");
        add_command(job, path, &line);
    } else {
        hn_strbuf_puts(&line, "; its source is not kept without a cache directory");
    }
    if (!line.failed) {
        hn_status whole =
            HN_ERROR(hn_status_code(status), HN_STR_FMT, HN_STR_ARG(hn_strbuf_str(&line)));
        hn_status_free(status);
        status = whole;
    }
    hn_strbuf_deinit(&line);
    return status;
}
