/* source_words.c: the files of share/source, with what differs from project to project filled
 * in. */
#include "wrapper/source_impl.h"

#include "henry/tensor.h"

#include <inttypes.h>
#include <string.h>

static void put_value(const hn_wnumbering *numbering, const hn_wvalue *v, hn_strbuf *out) {
    hn_source_comment(out, v->name);
    hn_strbuf_printf(out, ": %s", hn_scalar_type_name((hn_scalar_type)hn_source_type(v)));
    hn_source_shape(numbering, v, out);
    hn_strbuf_putc(out, '\n');
}

/* A line for each input and output: "   input   x: f32[s0, 64]". */
static void put_signature(const hn_to_source *s, const char *begin, hn_strbuf *out) {
    for (uint32_t k = 0; k < s->numbering->w->inputs.count; k++) {
        hn_strbuf_printf(out, "%sinput %u   ", begin, k);
        put_value(s->numbering, &s->numbering->inputs[k], out);
    }
    for (uint32_t k = 0, output = 0, state = 0; k < s->numbering->w->outputs.count; k++) {
        const hn_woutput *o = &s->numbering->w->outputs.items[k];
        if (hn_source_is_state(o)) hn_strbuf_printf(out, "%sstate %u   ", begin, state++);
        else if (hn_source_is_mutation(o)) hn_strbuf_printf(out, "%schanges   ", begin);
        else hn_strbuf_printf(out, "%soutput %u  ", begin, output++);
        put_value(s->numbering, &s->numbering->outputs[k], out);
    }
}

static uint32_t count_outputs(const hn_wrapper *w) {
    uint32_t count = 0;
    for (uint32_t k = 0; k < w->outputs.count; k++)
        count += !hn_source_is_mutation(&w->outputs.items[k]);
    return count;
}

static uint32_t count_states(const hn_wrapper *w) {
    uint32_t count = 0;
    for (uint32_t k = 0; k < w->outputs.count; k++)
        count += hn_source_is_state(&w->outputs.items[k]);
    return count;
}

static void put_files(const hn_str *files, uint32_t count, hn_strbuf *out) {
    for (uint32_t k = 0; k < count; k++)
        hn_strbuf_printf(out, "%s" HN_STR_FMT, k ? " " : "", HN_STR_ARG(files[k]));
}

static hn_status put_word(const hn_to_source *s, hn_str word, bool in_comment, hn_strbuf *out) {
    const hn_wrapper *w = s->numbering->w;
    if (hn_str_eq(word, HN_STR("NAME"))) hn_source_comment(out, s->model);
    else if (hn_str_eq(word, HN_STR("SIGNATURE")))
        put_signature(s, in_comment ? " *     " : "    ", out);
    else if (hn_str_eq(word, HN_STR("INPUTS"))) hn_strbuf_printf(out, "%u", w->inputs.count);
    else if (hn_str_eq(word, HN_STR("OUTPUTS"))) hn_strbuf_printf(out, "%u", count_outputs(w));
    else if (hn_str_eq(word, HN_STR("STATES"))) hn_strbuf_printf(out, "%u", count_states(w));
    else if (hn_str_eq(word, HN_STR("TARGET"))) hn_strbuf_append(out, s->target.ptr, s->target.len);
    else if (hn_str_eq(word, HN_STR("KERNEL_FLAGS")))
        hn_strbuf_append(out, s->kernel_flags.ptr, s->kernel_flags.len);
    else if (hn_str_eq(word, HN_STR("EXTERNS")))
        hn_strbuf_puts(out, hn_source_has_externs(w) ? "externs.c" : "");
    else if (hn_str_eq(word, HN_STR("DEVICE")))
        hn_strbuf_puts(
            out, hn_source_device(w) == HN_DEVICE_CPU ? "" : "device.c debug_device.c kernels.c");
    else if (hn_str_eq(word, HN_STR("CODE"))) put_files(s->code_files, s->code_count, out);
    else if (hn_str_eq(word, HN_STR("STATS_CODE")))
        put_files(s->stats_files, s->stats_files ? s->target_count : 0, out);
    else if (hn_str_eq(word, HN_STR("EXTERN_FLAGS")))
        hn_strbuf_append(out, s->extern_flags.ptr, s->extern_flags.len);
    else if (hn_str_eq(word, HN_STR("LIBRARY")))
        hn_strbuf_append(out, s->runtime_files.ptr, s->runtime_files.len);
    else if (hn_str_eq(word, HN_STR("WEIGHTS_BYTES")))
        hn_strbuf_printf(out, "%" PRIu64, s->weights_bytes);
    else if (hn_str_eq(word, HN_STR("KERNELS")))
        for (uint32_t k = 0; k < s->kernel_files; k++)
            hn_strbuf_printf(out, "%skernels_%u.c", k ? " " : "", k);
    else return HN_ERROR(HN_INTERNAL, "no word '" HN_STR_FMT "'", HN_STR_ARG(word));
    return NULL;
}

static size_t word_len(const char *at, const char *end) {
    size_t len = 0;
    while (at + len < end && ((at[len] >= 'A' && at[len] <= 'Z') || at[len] == '_')) len++;
    return at + len < end && at[len] == '@' ? len : 0;
}

hn_status hn_source_fill(const hn_to_source *source, hn_str text, hn_strbuf *out) {
    bool in_comment = hn_str_starts_with(text, HN_STR("/*"));
    for (const char *at = text.ptr, *end = text.ptr + text.len; at < end;) {
        size_t len = *at == '@' ? word_len(at + 1, end) : 0;
        if (!len) {
            hn_strbuf_putc(out, *at++);
            continue;
        }
        HN_TRY(put_word(source, (hn_str){at + 1, len}, in_comment, out));
        at += len + 2;
        /* it ends its own line */
        if (len == 9 && at < end && *at == '\n' && memcmp(at - 10, "SIGNATURE", 9) == 0) at++;
    }
    return hn_strbuf_status(out);
}
