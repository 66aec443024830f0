/* naming.c: messages about a text that came from a file have the file's name. A job is known by its
 * text, whatever it is called, so what is remembered of it calls the text "kernel.c". */
#include "service/core.h"

#include <ctype.h>

static bool is_file_name(const char *name) { return strchr(name, '/') || strchr(name, '.'); }

/* Whether the word of `len` bytes at `at` stands alone, as in "kernel.c:2:" and "kernel.cu(2)". */
static bool stands_alone(const char *text, const char *at, size_t len) {
    char before = at > text ? at[-1] : ' ', after = at[len];
    return !isalnum((unsigned char)before) && !strchr("_-./", before) &&
           !isalnum((unsigned char)after) && !strchr("_-./", after ? after : ' ');
}

hn_status hn_core_failure(const hn_job *job, const char *name) {
    const char *message = job->message ? job->message : "no memory for the reason", *rest = message,
               *at;
    const char *end = strstr(message, HN_JOB_AGAIN);
    char own[32];
    size_t len = (size_t)snprintf(own, sizeof(own), "kernel%s", job->row->suffixes[0]);
    hn_strbuf text;
    if (!is_file_name(name))
        return HN_ERROR(job->code, "cannot compile kernel '%s': %s", name, message);
    hn_strbuf_init(&text);
    for (at = message; (at = strstr(at, own)) && (!end || at < end); at += len) {
        if (!stands_alone(message, at, len)) continue;
        hn_strbuf_append(&text, rest, (size_t)(at - rest));
        hn_strbuf_puts(&text, name);
        rest = at + len;
    }
    hn_strbuf_puts(&text, rest);
    hn_status status =
        HN_ERROR(job->code, "cannot compile '%s': %s", name, text.failed ? message : text.ptr);
    hn_strbuf_deinit(&text);
    return status;
}
