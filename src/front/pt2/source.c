/* source.c: the line of the user's model that a node comes from. The trace is looked at as it
 * stands in the JSON, escapes and all, and from its end: most nodes need only the last frames. */
#include "front/pt2/import.h"

#include "base/compiler.h"

/* One frame as the trace is escaped in JSON: `File \"/a/model.py\", line 12, in forward`. `p` is
 * behind the first quote. False for frames of PyTorch itself and of generated code. */
static bool frame_read(const char *p, const char *end, hn_str *out_file, hn_str *out_line) {
    static const char *const internal[] = {"-packages/torch/", "<"};
    static const char behind[] = "\\\", line ";
    const size_t behind_len = sizeof behind - 1;
    const char *close = memchr(p, '\\', (size_t)(end - p)); /* the backslash of the closing \" */
    if (!close || (size_t)(end - close) < behind_len || memcmp(close, behind, behind_len) != 0)
        return false;
    hn_str file = {p, (size_t)(close - p)};
    for (size_t k = 0; k < HN_COUNT_OF(internal); k++)
        if (memmem(file.ptr, file.len, internal[k], strlen(internal[k]))) return false;
    const char *slash = memrchr(file.ptr, '/', file.len);
    *out_file = slash ? (hn_str){slash + 1, (size_t)(close - slash - 1)} : file;
    const char *line = close + behind_len, *q = line;
    while (q < end && *q >= '0' && *q <= '9') q++;
    *out_line = (hn_str){line, (size_t)(q - line)};
    return q > line && q - line < 10;
}

/* The innermost frame of the user's own code, searched from the end. */
static bool user_frame(hn_str trace, hn_str *out_file, hn_str *out_line) {
    static const char mark[] = "File \\\"";
    const size_t mark_len = sizeof mark - 1;
    const char *begin = trace.ptr, *end = trace.ptr + trace.len, *p = end;
    while ((p = memrchr(begin, 'F', (size_t)(p - begin)))) {
        if ((size_t)(end - p) > mark_len && memcmp(p, mark, mark_len) == 0 &&
            frame_read(p + mark_len, end, out_file, out_line))
            return true;
    }
    return false;
}

hn_status hn_pt2_source_find(hn_pt2_importer *im, hn_str trace, hn_str *out) {
    hn_str file, line;
    *out = HN_STR("");
    if (!trace.len || !user_frame(trace, &file, &line)) return NULL;
    char *text = hn_arena_alloc(im->scratch, file.len + line.len + 2);
    if (!text) return HN_ERROR(HN_OUT_OF_MEMORY, "no memory for a source line");
    memcpy(text, file.ptr, file.len);
    text[file.len] = ':';
    memcpy(text + file.len + 1, line.ptr, line.len);
    *out = (hn_str){text, file.len + line.len + 1};
    return NULL;
}
