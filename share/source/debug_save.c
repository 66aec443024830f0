/* debug_save.c: tensors as numbered .npy files, and manifest.json, which says what they are: as
 * `henry run --debug-tensors save,to=DIR` writes them, and `--compare DIR` reads them. */
#include "debug.h"

#ifdef MODEL_DEBUG
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "runtime/copy.h"

static const char tail[] = "\n]}\n";

/* --- the folder --- */

static void make_folders(const char *path) {
    char part[600];
    snprintf(part, sizeof part, "%s", path);
    for (char *at = part + 1; (at = strchr(at, '/')); at++) {
        *at = '\0';
        (void)mkdir(part, 0777);
        *at = '/';
    }
    (void)mkdir(part, 0777);
}

/* Whoever makes the manifest has the folder: several models of a process have one each. */
static int open_folder(model *m) {
    static const char head[] =
        "{\"format\": \"henry tensors\", \"version\": 1, \"tensors\": [\n]}\n";
    struct debug *d = m->debug;
    char wanted[600], path[640];
    int file = -1;
    if (!d->wanted.to) return fail(m, "saving tensors needs a folder: save,to=DIR");
    snprintf(wanted, sizeof wanted, "%s", d->wanted.to);
    snprintf(d->folder, sizeof d->folder, "%s", wanted);
    for (int k = 1; file < 0 && k < 1000; k++) {
        if (k > 1) snprintf(d->folder, sizeof d->folder, "%.590s.%d", wanted, k);
        make_folders(d->folder);
        snprintf(path, sizeof path, "%s/manifest.json", d->folder);
        file = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        if (file < 0 && errno != EEXIST)
            return fail(m, "cannot save tensors: cannot create '%.400s': %s", path,
                        strerror(errno));
    }
    d->manifest = file < 0 ? NULL : fdopen(file, "w");
    if (!d->manifest) return fail(m, "cannot save tensors in '%.400s'", wanted);
    fputs(head, d->manifest);
    fflush(d->manifest);
    d->end = (long)(sizeof head - sizeof tail);
    return 0;
}

/* --- one file --- */

/* What .npy files have for a type; bf16 becomes f32, which holds all of it. */
static const struct {
    const char *name, *descr;
    size_t bytes, wide; /* in memory, in the file */
} types[] = {
    [MODEL_F64] = {"f64", "<f8", 8, 8}, [MODEL_F32] = {"f32", "<f4", 4, 4},
    [MODEL_F16] = {"f16", "<f2", 2, 2}, [MODEL_BF16] = {"bf16", "<f4", 2, 4},
    [MODEL_I64] = {"i64", "<i8", 8, 8}, [MODEL_I32] = {"i32", "<i4", 4, 4},
    [MODEL_I16] = {"i16", "<i2", 2, 2}, [MODEL_I8] = {"i8", "|i1", 1, 1},
    [MODEL_U8] = {"u8", "|u1", 1, 1},   [MODEL_BOOL] = {"bool", "|b1", 1, 1},
};

/* The elements in row-major order, as a file has them; NULL without memory. */
static uint8_t *pack(const debug_tensor *t, size_t *out_bytes) {
    const uint32_t rank = t->operand->rank, type = t->operand->type;
    int64_t count = 1, strides[MODEL_MAX_RANK];
    for (uint32_t d = rank; d-- > 0; count *= t->sizes[d]) strides[d] = count;
    *out_bytes = (size_t)count * types[type].wide;
    uint8_t *elements = malloc(*out_bytes + 1);
    if (!elements || !count) return elements;
    hn_copy_strided(elements, strides, t->data, t->strides, t->sizes, rank, types[type].bytes);
    for (int64_t k = count; type == MODEL_BF16 && k-- > 0;) { /* backwards: they overlap */
        uint16_t narrow;
        memcpy(&narrow, elements + k * 2, sizeof narrow);
        const uint32_t wide = (uint32_t)narrow << 16;
        memcpy(elements + k * 4, &wide, sizeof wide);
    }
    return elements;
}

static uint64_t digest_of(const uint8_t *bytes, size_t count) {
    uint64_t digest = 14695981039346656037u; /* FNV-1a */
    for (size_t k = 0; k < count; k++) digest = (digest ^ bytes[k]) * 1099511628211u;
    return digest;
}

/* "000012_add_1.npy" */
static void name_file(uint64_t number, const debug_operand *o, char *out, size_t bytes) {
    const char *label = *o->node ? o->node : o->name;
    size_t len = (size_t)snprintf(out, bytes, "%06" PRIu64 "_", number);
    if (!*label) len += (size_t)snprintf(out + len, bytes - len, "b%u", o->buffer);
    for (size_t k = 0; label[k] && k < 80; k++) {
        const char c = label[k];
        const bool is_plain = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') ||
                              (c >= 'A' && c <= 'Z') || c == '_' || c == '-';
        out[len++] = is_plain ? c : '_';
    }
    snprintf(out + len, bytes - len, ".npy");
}

static void put_header(FILE *file, const debug_tensor *t) {
    char text[1024];
    FILE *out = fmemopen(text, sizeof text, "w");
    if (!out) return;
    fprintf(out, "{'descr': '%s', 'fortran_order': False, 'shape': (",
            types[t->operand->type].descr);
    for (uint32_t d = 0; d < t->operand->rank; d++)
        fprintf(out, "%s%" PRId64, d ? ", " : "", t->sizes[d]);
    fprintf(out, "%s), }", t->operand->rank == 1 ? "," : "");
    const int len = (int)ftell(out), padded = (len + 1 + 10 + 63) / 64 * 64 - 10;
    fclose(out);
    fprintf(file, "\x93NUMPY%c%c%c%c%-*.*s\n", 1, 0, padded & 255, padded >> 8, padded - 1, len,
            text);
}

static bool write_file(const char *path, const debug_tensor *t, const uint8_t *elements,
                       size_t bytes) {
    FILE *file = fopen(path, "wb");
    if (!file) return false;
    put_header(file, t);
    const bool is_whole = fwrite(elements, 1, bytes, file) == bytes;
    return fclose(file) == 0 && is_whole;
}

/* --- the manifest --- */

static void put_text(FILE *out, const char *key, const char *text) {
    fprintf(out, ", \"%s\": \"", key);
    for (; *text; text++) {
        const unsigned char c = (unsigned char)*text;
        if (c == '"' || c == '\\') fprintf(out, "\\%c", c);
        else if (c < 32) fprintf(out, "\\u%04x", c);
        else fputc(c, out);
    }
    fputc('"', out);
}

static void put_dims(FILE *out, const char *key, uint32_t rank, const int64_t *dims) {
    fprintf(out, ", \"%s\": [", key);
    for (uint32_t d = 0; d < rank; d++) fprintf(out, "%s%" PRId64, d ? ", " : "", dims[d]);
    fputc(']', out);
}

static bool add_entry(const model *m, const debug_tensor *t, const char *name) {
    static const char *const whens[] = {"input", "before", "after"};
    struct debug *d = m->debug;
    const debug_operand *o = t->operand;
    FILE *out = d->manifest;
    if (fseek(out, d->end, SEEK_SET) != 0) return false;
    const bool has_step = t->when != DEBUG_INPUT;
    fprintf(out, "%s{\"call\": %" PRIu64, d->entries++ ? ",\n" : "\n", m->calls);
    if (has_step) fprintf(out, ", \"step\": %u", t->step->number);
    put_text(out, "when", whens[t->when]);
    put_text(out, "kernel", has_step ? t->step->name : "");
    put_text(out, "kernel_node", has_step ? t->step->node : "");
    put_text(out, "source", has_step ? t->step->source : "");
    fprintf(out, ", \"operand\": \"b%u\"", o->buffer);
    put_text(out, "name", o->name);
    put_text(out, "node", o->node);
    put_text(out, "dtype", types[o->type].name);
    put_dims(out, "shape", o->rank, t->sizes);
    put_dims(out, "strides", o->rank, t->strides);
    fprintf(out, ", \"complete\": %s", o->is_partial ? "false" : "true");
    put_text(out, "file", name);
    fputc('}', out);
    d->end = ftell(out);
    fputs(tail, out);
    return fflush(out) == 0;
}

/* A tensor that a call has written is saved in any case. */
static bool save(const model *m, const debug_tensor *t, const uint8_t *elements, size_t bytes) {
    struct debug *d = m->debug;
    debug_file *last = &d->files[t->operand->buffer];
    const uint64_t digest = digest_of(elements, bytes);
    char name[128], path[800];
    const bool is_known =
        t->when != DEBUG_AFTER && last->number && last->call == m->calls && last->digest == digest;
    const uint64_t number = is_known ? last->number : ++d->saved;
    name_file(number, t->operand, name, sizeof name);
    snprintf(path, sizeof path, "%s/%s", d->folder, name);
    if (!is_known && !write_file(path, t, elements, bytes)) return false;
    *last = (debug_file){m->calls, digest, number};
    return add_entry(m, t, name);
}

int debug_save(model *m, const debug_tensor *t) {
    size_t bytes;
    if (!m->debug->manifest) TRY(open_folder(m));
    uint8_t *elements = pack(t, &bytes);
    if (!elements || !save(m, t, elements, bytes))
        fprintf(stderr, "call %" PRIu64 " %s, node '%s': b%u cannot be saved: %s\n", m->calls,
                t->step->name, t->step->node, t->operand->buffer, strerror(errno));
    free(elements);
    return 0;
}
#else
typedef int debug_save_is_off; /* C wants something in a file */
#endif
