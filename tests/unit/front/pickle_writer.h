/* pickle_writer.h: pickled state dicts for tests, opcode by opcode. */
#ifndef HN_TESTS_PICKLE_WRITER_H
#define HN_TESTS_PICKLE_WRITER_H

#include <stdint.h>
#include <stdio.h>
#include <string.h>

/* A stream under construction. */
typedef struct stream {
    char bytes[4096];
    size_t len;
} stream;

static inline void raw(stream *s, const char *bytes, size_t len) {
    memcpy(s->bytes + s->len, bytes, len);
    s->len += len;
}
#define OPS(s, literal) raw((s), literal, sizeof(literal) - 1)
static inline void text(stream *s, const char *value) {
    uint32_t len = (uint32_t)strlen(value);
    OPS(s, "X");
    raw(s, (const char *)&len, 4);
    raw(s, value, len);
}
static inline void global(stream *s, const char *module, const char *name) {
    s->len += (size_t)sprintf(s->bytes + s->len, "c%s\n%s\n", module, name);
}

/* ('storage', module.class, key, 'cpu', 48) as a persistent id */
static inline void storage(stream *s, const char *module, const char *class_name, const char *key) {
    OPS(s, "(");
    text(s, "storage");
    global(s, module, class_name);
    text(s, key);
    text(s, "cpu");
    OPS(s, "K\x30tQ");
}

/* key: _rebuild_tensor_v2(storage 7, offset, (rows, cols), (row_step, col_step), False,
 * OrderedDict()) */
static inline void entry_of(stream *s, const char *key, const char numbers[5]) {
    text(s, key);
    global(s, "torch._utils", "_rebuild_tensor_v2");
    OPS(s, "(");
    storage(s, "torch", "FloatStorage", "7");
    char ops[] = {'K', numbers[0], 'K', numbers[1], 'K',    numbers[2], '\x86',
                  'K', numbers[3], 'K', numbers[4], '\x86', '\x89'};
    raw(s, ops, sizeof ops);
    global(s, "collections", "OrderedDict");
    OPS(s, ")RtR");
}

#endif
