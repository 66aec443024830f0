/* main.c: an example: runs the model on .npy files or on zeros, says what came out, writes and
 * compares arrays.
 *
 *     example [-w weights.bin] [-t THREADS] [-n REPEAT] [-i F.npy]... [-o DIR] [-e F.npy]...
 *             [--donate K]... [--rtol X] [--atol X]
 *
 * -i in the order of the model's inputs ("-" keeps the zeros, or the number that the model was
 * exported with), of any sizes that the model takes; -e in the order of its outputs, exit status 1
 * when one differs. --donate: the run may use the memory of input K. DIR receives out_K.npy, and mutated_NAME.npy of every input and state that the
 * model changes. Arrays of BF16 are read from and written as float32. */
#include "model.h"

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { MAX_FILES = 128 };

typedef struct options {
    const char *weights, *folder, *inputs[MAX_FILES], *expects[MAX_FILES];
    bool donated[MODEL_INPUTS + 1], has_donated;
    int threads, repeat, input_count, expect_count;
    double rtol, atol;
} options;

static const struct {
    const char *name, *descr;
    size_t bytes;
} types[] = {
    [MODEL_F64] = {"f64", "<f8", 8}, [MODEL_F32] = {"f32", "<f4", 4},
    [MODEL_F16] = {"f16", "<f2", 2}, [MODEL_BF16] = {"bf16", "<f4", 2},
    [MODEL_I64] = {"i64", "<i8", 8}, [MODEL_I32] = {"i32", "<i4", 4},
    [MODEL_I16] = {"i16", "<i2", 2}, [MODEL_I8] = {"i8", "|i1", 1},
    [MODEL_U8] = {"u8", "|u1", 1},   [MODEL_BOOL] = {"bool", "|b1", 1},
};

static void die(const char *what, const char *which) {
    fprintf(stderr, "example: %s%s%s\n", what, *which ? ": " : "", which);
    exit(1);
}

/* Zeros at a multiple of 64. */
static void *allocate(size_t bytes) {
    const size_t whole = bytes / 64 * 64 + 64;
    void *memory = aligned_alloc(64, whole);
    if (!memory) die("out of memory", "");
    return memset(memory, 0, whole);
}

static int64_t count_of(const model_info *info, const model_array *a) {
    int64_t count = 1;
    for (int d = 0; d < info->rank; d++) count *= a->sizes[d];
    return count;
}

/* --- elements --- */

static double half(uint16_t bits) {
    int exponent = bits >> 10 & 31, fraction = bits & 1023;
    double value = exponent == 31 ? (fraction ? NAN : INFINITY)
                   : exponent     ? ldexp(1024 + fraction, exponent - 25)
                                  : ldexp(fraction, -24);
    return bits >> 15 ? -value : value;
}

static double brain(uint16_t bits) {
    uint32_t wide = (uint32_t)bits << 16;
    float value;
    memcpy(&value, &wide, sizeof value);
    return (double)value;
}

static double element(const void *data, model_type type, int64_t k) {
    switch (type) {
    case MODEL_F64: return ((const double *)data)[k];
    case MODEL_F32: return (double)((const float *)data)[k];
    case MODEL_F16: return half(((const uint16_t *)data)[k]);
    case MODEL_BF16: return brain(((const uint16_t *)data)[k]);
    case MODEL_I64: return (double)((const int64_t *)data)[k];
    case MODEL_I32: return ((const int32_t *)data)[k];
    case MODEL_I16: return ((const int16_t *)data)[k];
    case MODEL_I8: return ((const int8_t *)data)[k];
    default: return ((const uint8_t *)data)[k];
    }
}

/* --- .npy: version 1.0 as NumPy writes it, row-major --- */

typedef struct array {
    char descr[8];
    int rank;
    int64_t sizes[MODEL_MAX_RANK], count;
    char *data;
} array;

static void shape_parse(const char *path, const char *at, array *out) {
    for (out->count = 1, out->rank = 0; *at && *at != ')'; at += strspn(at, ", ")) {
        char *end;
        if (out->rank == MODEL_MAX_RANK) die("too many dimensions", path);
        out->sizes[out->rank] = strtoll(at, &end, 10);
        if (end == at || out->sizes[out->rank] < 0) die("bad shape", path);
        out->count *= out->sizes[out->rank++];
        at = end;
    }
}

static void npy_read(const char *path, array *out) {
    unsigned char head[10];
    FILE *file = fopen(path, "rb");
    if (!file || fread(head, 1, 10, file) != 10 || memcmp(head, "\x93NUMPY\x01", 7) != 0)
        die("no .npy file of version 1", path);
    size_t length = (size_t)head[8] | (size_t)head[9] << 8;
    char *text = allocate(length + 1), *descr, *shape;
    if (fread(text, 1, length, file) != length) die("cut off", path);
    descr = strstr(text, "'descr': '");
    shape = strstr(text, "'shape': (");
    if (!descr || !shape || strstr(text, "'fortran_order': True")) die("no row-major array", path);
    snprintf(out->descr, sizeof out->descr, "%.3s", descr + strlen("'descr': '"));
    shape_parse(path, shape + strlen("'shape': ("), out);
    size_t bytes = (size_t)out->count * (size_t)(out->descr[2] - '0');
    out->data = allocate(bytes);
    if (fread(out->data, 1, bytes, file) != bytes) die("cut off", path);
    free(text);
    fclose(file);
}

static void npy_write(const char *path, const model_info *info, const model_array *a) {
    char text[1024], shape[512] = "";
    FILE *file = fopen(path, "wb");
    if (!file) die("cannot write", path);
    for (int d = 0; d < info->rank; d++)
        snprintf(shape + strlen(shape), sizeof shape - strlen(shape), "%lld,",
                 (long long)a->sizes[d]);
    int len =
        snprintf(text, sizeof text, "{'descr': '%s', 'fortran_order': False, 'shape': (%s), }",
                 types[info->type].descr, shape);
    int padded = (len + 10 + 64) / 64 * 64 - 10;
    fprintf(file, "\x93NUMPY%c%c%c%c%-*s\n", 1, 0, padded & 255, padded >> 8, padded - 1, text);
    for (int64_t k = 0; k < count_of(info, a); k++) {
        float single = info->type == MODEL_BF16 ? (float)element(a->data, MODEL_BF16, k) : 0;
        if (info->type == MODEL_BF16) fwrite(&single, sizeof single, 1, file);
    }
    if (info->type != MODEL_BF16)
        fwrite(a->data, types[info->type].bytes, (size_t)count_of(info, a), file);
    if (fclose(file) != 0) die("cannot write", path);
}

/* --- inputs --- */

static void to_brain(array *a) {
    uint16_t *to = allocate((size_t)a->count * 2);
    for (int64_t k = 0; k < a->count; k++) {
        uint32_t bits;
        memcpy(&bits, a->data + 4 * k, sizeof bits);
        to[k] =
            (uint16_t)((bits & 0x7fffffff) > 0x7f800000 ? bits >> 16 | 64
                                                        : (bits + 0x7fff + (bits >> 16 & 1)) >> 16);
    }
    free(a->data);
    a->data = (char *)to;
}

static void input_read(const char *path, const model_info *info, model_array *out) {
    array a;
    npy_read(path, &a);
    if (strcmp(a.descr, types[info->type].descr) != 0)
        die("an array of another type than the model takes", path);
    if (a.rank != info->rank)
        die("an array with another number of dimensions than the model takes", path);
    if (info->type == MODEL_BF16) to_brain(&a);
    memcpy(out->sizes, a.sizes, sizeof out->sizes);
    out->data = a.data;
}

static void inputs_make(const options *o, model_array *inputs) {
    for (int k = 0; k < MODEL_INPUTS; k++) {
        const model_info *info = &model_inputs[k];
        const char *path = k < o->input_count ? o->inputs[k] : "-";
        memcpy(inputs[k].sizes, info->sizes, sizeof inputs[k].sizes);
        if (strcmp(path, "-") != 0) input_read(path, info, &inputs[k]);
        else if (info->kind == MODEL_TENSOR)
            inputs[k].data = allocate((size_t)count_of(info, &inputs[k]) * types[info->type].bytes);
        inputs[k].donated = o->donated[k];
    }
}

/* --- outputs --- */

static void summary(const char *what, const model_info *info, const model_array *a) {
    double sum = 0, low = INFINITY, high = -INFINITY;
    int64_t nans = 0, count = count_of(info, a);
    if (!a->data) {
        printf("%s: none\n", what);
        return;
    }
    printf("%s: %s[", what, types[info->type].name);
    for (int d = 0; d < info->rank; d++) printf("%s%lld", d ? ", " : "", (long long)a->sizes[d]);
    for (int64_t i = 0; i < count; i++) {
        double x = element(a->data, info->type, i);
        nans += isnan(x);
        if (isnan(x)) continue;
        sum += x;
        low = x < low ? x : low;
        high = x > high ? x : high;
    }
    printf("] sum %.6g min %.6g max %.6g, %lld not a number\n", sum, low, high, (long long)nans);
}

/* |got - want| <= atol + rtol * |want|; NaN equals NaN. */
static bool compare(const options *o, int k, const model_info *info, const model_array *a) {
    array want;
    double worst = 0;
    int64_t beyond = 0;
    npy_read(o->expects[k], &want);
    model_type type = info->type == MODEL_BF16 ? MODEL_F32 : info->type;
    bool same = a->data && want.rank == info->rank &&
                strcmp(want.descr, types[info->type].descr) == 0 &&
                memcmp(want.sizes, a->sizes, sizeof *a->sizes * (size_t)info->rank) == 0;
    for (int64_t i = 0; same && i < want.count; i++) {
        double x = element(a->data, info->type, i), y = element(want.data, type, i),
               difference = fabs(x - y);
        if (x == y || (isnan(x) && isnan(y))) continue;
        if (!(difference <= o->atol + o->rtol * fabs(y))) beyond++;
        if (!(difference <= worst)) worst = difference;
    }
    if (!same)
        fprintf(stderr, "example: output %d has another type or shape than '%s'\n", k,
                o->expects[k]);
    else if (beyond)
        fprintf(stderr, "example: output %d differs from '%s': %lld elements, by %g at most\n", k,
                o->expects[k], (long long)beyond, worst);
    free(want.data);
    return same && !beyond;
}

static bool outputs_judge(const options *o, const model_array *outputs) {
    bool good = true;
    for (int k = 0; k < MODEL_OUTPUTS; k++) {
        char path[4096], what[32];
        snprintf(what, sizeof what, "output %d", k);
        summary(what, &model_outputs[k], &outputs[k]);
        if (k < o->expect_count && strcmp(o->expects[k], "-") != 0)
            good = compare(o, k, &model_outputs[k], &outputs[k]) && good;
        if (!o->folder || !outputs[k].data) continue;
        snprintf(path, sizeof path, "%s/out_%d.npy", o->folder, k);
        npy_write(path, &model_outputs[k], &outputs[k]);
    }
    return good;
}

static void changed_show(const options *o, const char *kind, const model_info *info,
                         const model_array *a) {
    char path[4096], what[512];
    snprintf(what, sizeof what, "changed %s %s", kind, info->name);
    summary(what, info, a);
    if (!o->folder) return;
    snprintf(path, sizeof path, "%s/mutated_%s.npy", o->folder, info->name);
    npy_write(path, info, a);
}

static void changes_show(const options *o, model *m, const model_array *inputs) {
    for (int k = 0; k < MODEL_INPUTS; k++)
        if (model_inputs[k].is_changed) changed_show(o, "input", &model_inputs[k], &inputs[k]);
    for (int k = 0; k < MODEL_BUFFERS; k++) {
        model_array state = {0};
        if (model_buffer_read(m, k, &state)) die(model_error(m), "");
        changed_show(o, "buffer", &model_buffers[k], &state);
    }
}

/* --- options --- */

static void usage(FILE *to) {
    fprintf(
        to,
        "usage: example [-w weights.bin] [-t THREADS] [-n REPEAT] [-i F.npy]... [-o DIR] [-e F.npy]... [--donate K]... [--rtol X] [--atol X]\n");
    for (int k = 0; k < MODEL_INPUTS; k++)
        fprintf(to, "  input  %s: %s%s\n", model_inputs[k].name, types[model_inputs[k].type].name,
                model_inputs[k].shape);
    for (int k = 0; k < MODEL_OUTPUTS; k++)
        fprintf(to, "  output %s: %s%s\n", model_outputs[k].name, types[model_outputs[k].type].name,
                model_outputs[k].shape);
}

/* -1: there is no such input. */
static int input_number(const char *text) {
    char *end;
    const long k = strtol(text, &end, 10);
    return *text && !*end && k >= 0 && k < MODEL_INPUTS ? (int)k : -1;
}

static void options_parse(int argc, char **argv, options *o) {
    *o = (options){.weights = "weights.bin", .repeat = 1, .rtol = 1e-4, .atol = 1e-5};
    for (int k = 1; k < argc; k += 2) {
        const char *word = argv[k], *value = k + 1 < argc ? argv[k + 1] : NULL;
        if (strcmp(word, "--help") == 0) usage(stdout), exit(0);
        if (!value) usage(stderr), exit(2);
        if (strcmp(word, "-w") == 0) o->weights = value;
        else if (strcmp(word, "-o") == 0) o->folder = value;
        else if (strcmp(word, "-t") == 0) o->threads = atoi(value);
        else if (strcmp(word, "-n") == 0) o->repeat = atoi(value);
        else if (strcmp(word, "--rtol") == 0) o->rtol = atof(value);
        else if (strcmp(word, "--atol") == 0) o->atol = atof(value);
        else if (strcmp(word, "--donate") == 0 && input_number(value) >= 0)
            o->donated[input_number(value)] = o->has_donated = true;
        else if (strcmp(word, "-i") == 0 && o->input_count < MODEL_INPUTS &&
                 o->input_count < MAX_FILES)
            o->inputs[o->input_count++] = value;
        else if (strcmp(word, "-e") == 0 && o->expect_count < MODEL_OUTPUTS &&
                 o->expect_count < MAX_FILES)
            o->expects[o->expect_count++] = value;
        else usage(stderr), exit(2);
    }
}

static double now_ms(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

int main(int argc, char **argv) {
    options o;
    model *m;
    char error[600];
    static model_array inputs[MODEL_INPUTS + 1], outputs[MODEL_OUTPUTS + 1];
    double best = INFINITY;
    options_parse(argc, argv, &o);
    if (o.has_donated && o.repeat > 1) die("--donate is for one run", "");
    if (model_open(o.weights, o.threads, &m, error, sizeof error)) die(error, "");
    inputs_make(&o, inputs);
    for (int k = 0; k < o.repeat; k++) {
        double begin = now_ms();
        memset(outputs, 0, sizeof outputs);
        if (model_run(m, inputs, outputs)) die(model_error(m), "");
        double spent = now_ms() - begin;
        best = spent < best ? spent : best;
    }
    bool good = outputs_judge(&o, outputs);
    changes_show(&o, m, inputs);
    if (o.repeat > 1) printf("best of %d runs: %.3f ms\n", o.repeat, best);
    model_close(m);
    for (int k = 0; k < MODEL_INPUTS; k++) free(inputs[k].data);
    return !good;
}
