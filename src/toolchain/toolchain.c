/* toolchain.c: the table of languages, and what is the same for all of them. */
#include "toolchain/toolchain.h"

#include "cache/record.h"
#include "toolchain/driver.h"

#define DECLARE(row) extern const hn_toolchain_row row;
#define ADDRESS(row) &row,

HN_TOOLCHAIN_ROW_LIST(DECLARE)

static const hn_toolchain_row *const rows[HN_TOOLCHAIN_ROWS] = {HN_TOOLCHAIN_ROW_LIST(ADDRESS)};

const hn_toolchain_row *hn_toolchain_row_at(uint32_t idx) {
    return idx < HN_TOOLCHAIN_ROWS ? rows[idx] : NULL;
}

uint32_t hn_toolchain_row_index(const hn_toolchain_row *row) {
    uint32_t idx = 0;
    while (idx < HN_TOOLCHAIN_ROWS && rows[idx] != row) idx++;
    return idx;
}

hn_status hn_toolchain_row_find(hn_str language, const hn_toolchain_row **out_row) {
    for (uint32_t i = 0; i < HN_TOOLCHAIN_ROWS; i++) {
        if (!hn_str_eq(language, hn_str_of(rows[i]->language))) continue;
        *out_row = rows[i];
        return NULL;
    }
    hn_strbuf known;
    hn_strbuf_init(&known);
    for (uint32_t i = 0; i < HN_TOOLCHAIN_ROWS; i++)
        hn_strbuf_printf(&known, "%s'%s'", i ? ", " : "", rows[i]->language);
    hn_status status =
        HN_ERROR(HN_UNSUPPORTED, "cannot compile language '" HN_STR_FMT "'; known: " HN_STR_FMT,
                 HN_STR_ARG(language), HN_STR_ARG(hn_strbuf_str(&known)));
    hn_strbuf_deinit(&known);
    return status;
}

hn_status hn_toolchain_probe(const hn_toolchain_row *row, hn_store *store, hn_toolchain *out) {
    *out = (hn_toolchain){.row = row};
    hn_strbuf_init(&out->record);
    hn_status status = row->probe(store, out);
    if (!status) status = hn_strbuf_status(&out->record);
    if (status) hn_strbuf_deinit(&out->record);
    return status;
}

hn_status hn_toolchain_from_record(const hn_toolchain_row *row, hn_str record, hn_toolchain *out) {
    *out = (hn_toolchain){.row = row};
    hn_strbuf_init(&out->record);
    hn_strbuf_append(&out->record, record.ptr, record.len);
    hn_status status = hn_strbuf_status(&out->record);
    if (status) hn_strbuf_deinit(&out->record);
    return status;
}

void hn_toolchain_identity_print(const hn_toolchain *toolchain, hn_strbuf *out) {
    char hex[HN_DIGEST_HEX_BYTES];
    hn_str title;
    hn_digest_hex(&toolchain->identity, hex);
    if (hn_record_find(hn_strbuf_str(&toolchain->record), "title", &title) && title.len > 1)
        hn_strbuf_printf(out, "%.*s (%s)", (int)title.len - 1, title.ptr, hex);
    else hn_strbuf_puts(out, hex);
}

void hn_toolchain_deinit(hn_toolchain *toolchain) { hn_strbuf_deinit(&toolchain->record); }

/* Each failure to compile says how to see it again: with the tool's own command, which its row
 * knows, or with the job's, added here. Takes `status`. */
static hn_status add_command(const hn_toolchain *toolchain, const hn_toolchain_job *job,
                             hn_status status) {
    hn_code code = hn_status_code(status);
    if (code != HN_TOOLCHAIN && code != HN_TIMEOUT && code != HN_OUT_OF_MEMORY) return status;
    if (strstr(hn_status_message(status), HN_JOB_AGAIN)) return status;
    hn_strbuf command;
    hn_strbuf_init(&command);
    hn_job_command_print(&(hn_job_command){toolchain->row->language, job->source_path, job->entries,
                                           job->target, job->flags, job->env},
                         &command);
    hn_status whole = NULL;
    if (!command.failed)
        whole = HN_ERROR(code, "%s" HN_JOB_AGAIN HN_STR_FMT, hn_status_message(status),
                         HN_STR_ARG(hn_strbuf_str(&command)));
    hn_strbuf_deinit(&command);
    if (!whole) return status;
    hn_status_free(status);
    return whole;
}

hn_status hn_toolchain_compile(const hn_toolchain *toolchain, const hn_toolchain_job *job,
                               hn_toolchain_result *out) {
    *out = (hn_toolchain_result){.is_deterministic = false};
    hn_strbuf_init(&out->bytes);
    hn_strbuf_init(&out->headers);
    hn_status status = toolchain->row->compile(toolchain, job, out);
    if (!status) status = hn_strbuf_status(&out->bytes);
    if (!status) status = hn_strbuf_status(&out->headers);
    if (!status) return NULL;
    hn_strbuf_reset(&out->bytes);
    return add_command(toolchain, job, status);
}

void hn_toolchain_result_deinit(hn_toolchain_result *result) {
    hn_strbuf_deinit(&result->bytes);
    hn_strbuf_deinit(&result->headers);
}

bool hn_list_next(hn_str *rest, const char **out_item) {
    const char *end = rest->len ? memchr(rest->ptr, 0, rest->len) : NULL;
    if (!end) return false;
    *out_item = rest->ptr;
    size_t used = (size_t)(end - rest->ptr) + 1;
    *rest = (hn_str){rest->ptr + used, rest->len - used};
    return true;
}

void hn_list_add(hn_strbuf *list, const char *item) {
    hn_strbuf_append(list, item, strlen(item) + 1);
}
