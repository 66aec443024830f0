/* texts.c: see texts.h. */
#include "codegen/cuda/texts.h"

#include <string.h>

void hn_cuda_put_undefs(hn_strbuf *text) {
    hn_strbuf names;
    hn_strbuf_init(&names);
    for (const char *at = text->ptr; at && (at = strstr(at, "#define "));) {
        at += strlen("#define ");
        hn_strbuf_printf(&names, "#undef %.*s\n", (int)strcspn(at, " ("), at);
    }
    hn_strbuf_append(text, names.ptr ? names.ptr : "", names.len);
    text->failed |= names.failed;
    hn_strbuf_deinit(&names);
}

/* ---- lists of kernels ---- */

/* The text between its words. */
static hn_status write_text(const hn_cuda_list *list, hn_cuda_text from, hn_kernel_code *out) {
    hn_strbuf text;
    hn_strbuf_init(&text);
    hn_strbuf_puts(&text, list->words);
    hn_strbuf_append(&text, from.begin, (size_t)(from.end - from.begin));
    hn_cuda_put_undefs(&text);
    hn_status status = hn_strbuf_status(&text);
    char *kept = status ? NULL : hn_arena_strndup(list->arena, text.ptr, text.len);
    if (kept) hn_kernel_code_name(out, (hn_str){kept, text.len});
    else if (!status) status = HN_ERROR(HN_OUT_OF_MEMORY, "no memory for the text of a kernel");
    hn_strbuf_deinit(&text);
    return status;
}

static hn_status write_arguments(const hn_cuda_list *list, const hn_cuda_kernel *kernel,
                                 hn_kernel_code *out) {
    const uint32_t count = kernel->operand_count + kernel->has_workspace;
    hn_buf *buffers;
    hn_expr *offsets, *sizes;
    bool *written;
    uint64_t *over;
    HN_NEW(list->arena, buffers, count);
    HN_NEW(list->arena, offsets, count);
    HN_NEW(list->arena, written, count);
    HN_NEW(list->arena, over, count);
    HN_NEW(list->arena, sizes, kernel->param_count);
    for (uint32_t k = 0; k < kernel->operand_count; k++) {
        buffers[k] = list->call->operands[kernel->operands[k]].buffer;
        offsets[k] = list->call->operands[kernel->operands[k]].offset_elems;
        written[k] = list->call->operands[kernel->operands[k]].written;
    }
    if (kernel->has_workspace) written[count - 1] = true;
    memcpy(sizes, kernel->params, kernel->param_count * sizeof *sizes);
    out->buffers = buffers;
    out->offsets = offsets;
    out->written = written;
    out->over = over;
    out->buffer_count = count;
    out->sizes = sizes;
    out->size_count = kernel->param_count;
    return NULL;
}

hn_status hn_cuda_list_add(hn_cuda_list *list, const hn_cuda_kernel *kernel) {
    hn_kernel_code *code = list->first;
    if (list->last) HN_NEW(list->arena, code, 1);
    HN_TRY(write_text(list, kernel->text, code));
    HN_TRY(write_arguments(list, kernel, code));
    code->extent = kernel->groups;
    code->threads = kernel->threads;
    code->shared_bytes = kernel->shared_bytes;
    code->workspace_bytes = list->workspace_bytes;
    if (list->last) list->last->next = code;
    list->last = code;
    return NULL;
}

hn_status hn_cuda_list_add_call(hn_cuda_list *list, hn_cuda_text text, hn_expr groups,
                                uint32_t threads) {
    static const uint8_t operands[] = {0, 1, 2, 3, 4, 5};
    return hn_cuda_list_add(list, &(hn_cuda_kernel){.text = text,
                                                    .operands = operands,
                                                    .operand_count = list->call->operand_count,
                                                    .params = list->call->params,
                                                    .param_count = list->call->param_count,
                                                    .groups = groups,
                                                    .threads = threads});
}
