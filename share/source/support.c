/* support.c: opening a model, checking inputs, handing out outputs. */
#include "support.h"

#include "henry/tensor.h"
#include "runtime/copy.h"
#include "runtime/cpu.h"

#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static const program *const P = &model_program;

int fail(model *m, const char *format, ...) {
    va_list args;
    va_start(args, format);
    vsnprintf(m->error, sizeof m->error, format, args);
    va_end(args);
    return 1;
}

const char *model_error(const model *m) { return m->error; }

static size_t type_bytes(model_type type) {
    static const uint8_t bytes[] = {0, 8, 4, 2, 2, 8, 4, 2, 1, 1, 1};
    return type < sizeof bytes ? bytes[type] : 0;
}

/* What runtime/copy.c and the extern operations ask of the library that they come from. */
size_t hn_scalar_type_bytes(hn_scalar_type type) { return type_bytes((model_type)type); }
const char *hn_scalar_type_name(hn_scalar_type type) {
    static const char *const names[] = {"none", "f64", "f32", "f16", "bf16", "i64",
                                        "i32",  "i16", "i8",  "u8",  "bool"};
    return (unsigned)type <= MODEL_BOOL ? names[type] : names[0];
}

/* --- memory --- */

int reserve(model *m, memory *memory, int64_t bytes) {
    if (bytes < 0) return fail(m, "the inputs are too large: a size cannot be computed");
    if ((uint64_t)bytes <= memory->size && memory->bytes) return 0;
    if (bytes > INT64_MAX - 64) return fail(m, "out of memory");
    size_t size = ((size_t)bytes + 64) / 64 * 64;
    free(memory->bytes);
    memory->bytes = aligned_alloc(64, size);
    memory->size = memory->bytes ? size : 0;
    return memory->bytes ? 0 : fail(m, "out of memory: no %zu bytes", size);
}

static void memory_free(memory *list, uint32_t count) {
    for (uint32_t k = 0; list && k < count; k++) free(list[k].bytes);
    free(list);
}

static void *zeros(size_t count, size_t bytes) { return calloc(count + 1, bytes); }

/* --- opening --- */

/* The first bytes of the weights' file. */
typedef struct head {
    char magic[16];
    uint64_t bytes, id;
    char rest[32];
} head;

static int read_all(model *m, int fd, const char *path) {
    size_t size = m->map_bytes, at = 0;
    m->map_bytes = 0;
    m->map = aligned_alloc(64, (size + 63) / 64 * 64);
    if (!m->map) return fail(m, "out of memory for the weights: no %zu bytes", size);
    while (at < size) {
        ssize_t got = read(fd, (char *)m->map + at, size - at);
        if (got <= 0) return fail(m, "cannot read '%s'", path);
        at += (size_t)got;
    }
    return 0;
}

static int weights_map(model *m, const char *path) {
    struct stat st;
    int fd = open(path, O_RDONLY | O_CLOEXEC), failed = 0;
    if (fd < 0) return fail(m, "cannot open '%s'", path);
    if (fstat(fd, &st) != 0 || (uint64_t)st.st_size < sizeof(head)) {
        failed = fail(m, "'%s' holds no weights", path);
    } else {
        m->map_bytes = (size_t)st.st_size;
        m->map = mmap(NULL, m->map_bytes, PROT_READ, MAP_PRIVATE, fd, 0);
        if (m->map == MAP_FAILED) failed = read_all(m, fd, path);
    }
    close(fd);
    if (failed) return 1;
    const head *h = m->map;
    if (memcmp(h->magic, "henry weights 1", 16) != 0 || h->id != P->weights_id ||
        h->bytes != P->weights_bytes || (uint64_t)st.st_size != sizeof *h + P->weights_bytes)
        return fail(m, "'%s' is not the file that this model was written with", path);
    m->weights = (uint8_t *)m->map + sizeof *h;
    return 0;
}

static int owns_copy(model *m) {
    for (uint32_t k = 0; k < P->owns; k++) {
        if (P->device && P->places->owns[k]) continue;
        TRY(reserve(m, &m->owns[k], (int64_t)P->own[k].bytes));
        memcpy(m->owns[k].bytes, m->weights + P->own[k].offset, P->own[k].bytes);
    }
    return 0;
}

static int model_init(model *m, const char *path, int threads) {
    m->threads = threads > 0 ? threads : hn_team_default_threads();
    if (m->threads > HN_THREADS_MAX) m->threads = HN_THREADS_MAX;
    m->numbers = zeros(P->numbers, sizeof *m->numbers);
    m->inputs = zeros(P->inputs, sizeof *m->inputs);
    m->input_bytes = zeros(P->inputs, sizeof *m->input_bytes);
    m->laid_out = zeros(P->inputs, sizeof *m->laid_out);
    m->blocks = zeros(P->blocks, sizeof *m->blocks);
    m->own_blocks = zeros(P->blocks, sizeof *m->own_blocks);
    m->slots = zeros(P->slots, sizeof *m->slots);
    m->owns = zeros(P->owns, sizeof *m->owns);
    m->results = zeros(P->outputs, sizeof *m->results);
    m->staged = zeros(P->outputs, sizeof *m->staged);
    m->device_inputs = zeros(P->inputs, sizeof *m->device_inputs);
    m->fetched = zeros(P->outputs, sizeof *m->fetched);
    m->homes = zeros(P->outputs, sizeof *m->homes);
    if (!m->device_inputs || !m->fetched || !m->homes) return fail(m, "out of memory");
    if (!m->numbers || !m->inputs || !m->input_bytes || !m->laid_out || !m->blocks ||
        !m->own_blocks || !m->slots || !m->owns || !m->results || !m->staged)
        return fail(m, "out of memory");
    for (uint32_t k = 0; k < P->numbers; k++) m->numbers[k] = UNDEFINED;
    for (uint32_t k = 0; P->features[k]; k++)
        if (!hn_cpu_has(hn_str_of(P->features[k])))
            return fail(
                m,
                "this CPU lacks %s, which the kernels were written for; emit them for another --target-cpu",
                P->features[k]);
    TRY(weights_map(m, path));
    TRY(owns_copy(m));
    return P->device ? P->device->open(m) : 0;
}

int model_open(const char *weights_path, int threads, model **out, char *error,
               size_t error_bytes) {
    model *m = calloc(1, sizeof *m);
    *out = NULL;
    if (m && model_init(m, weights_path, threads) == 0) {
        *out = m;
        return 0;
    }
    if (error) snprintf(error, error_bytes, "%s", m ? m->error : "out of memory");
    model_close(m);
    return 1;
}

void model_close(model *m) {
    if (!m) return;
    if (m->externs) P->externs_close(m);
    debug_close(m);
    if (m->device) P->device->close(m); /* nothing of its memory is left behind this */
    if (m->map_bytes && m->map != MAP_FAILED) munmap(m->map, m->map_bytes);
    else if (!m->map_bytes) free(m->map);
    memory_free(m->laid_out, P->inputs);
    memory_free(m->own_blocks, P->blocks);
    free(m->blocks);
    memory_free(m->slots, P->slots);
    memory_free(m->owns, P->owns);
    memory_free(m->results, P->outputs);
    memory_free(m->staged, P->outputs);
    memory_free(m->fetched, P->outputs);
    free(m->device_inputs);
    free(m->homes);
    free(m->patch.bytes);
    free(m->seen.bytes);
    free(m->workspace.bytes);
    free(m->scratch.bytes);
    free(m->numbers);
    free(m->inputs);
    free(m->input_bytes);
    free(m);
}

/* --- numbers --- */

static int64_t value_of(const model *m, dim d) { return d.n ? m->numbers[d.n] : d.value; }

static void values_of(const model *m, const dim *dims, uint32_t count, int64_t *out) {
    for (uint32_t k = 0; k < count; k++) out[k] = value_of(m, dims[k]);
}

static int64_t given(const symbol *s, const model_array *inputs) {
    if (s->dimension >= 0) return inputs[s->input].sizes[s->dimension];
    return number_at(inputs[s->input].data, MODEL_I64);
}

int solve(model *m, const symbol *s, const model_array *inputs, int64_t rest, int64_t *out) {
    const char *name = model_inputs[s->input].name;
    char place[64] = "";
    if (s->dimension < 0 && !inputs[s->input].data)
        return fail(m, "input '%s' is missing: it is a number that must be given", name);
    if (s->dimension >= 0) snprintf(place, sizeof place, " dimension %d", s->dimension);
    int64_t d = given(s, inputs), value = rest ? n_add(d, n_mul(rest, -1)) : d;
    if (value == UNDEFINED || n_mod(value, s->coeff) != 0)
        return fail(m, "input '%s'%s is %" PRId64 ", must be %s", name, place, d, s->text);
    value = n_div(value, s->coeff);
    if (value < s->low || value > s->high)
        return fail(m, "input '%s'%s is %" PRId64 ", must be at %s %" PRId64 " (%s)", name, place,
                    d, value < s->low ? "least" : "most", value < s->low ? s->low : s->high,
                    s->name);
    *out = value;
    return 0;
}

static int check_constant(model *m, uint32_t k, const void *data) {
    const model_info *info = &model_inputs[k];
    double want, got;
    if (!data) return 0;
    if (info->kind == MODEL_TEXT || info->kind == MODEL_NONE)
        return fail(m, "input '%s' is no array: pass none for it", info->name);
    if (info->kind == MODEL_BOOLEAN && (*(const uint8_t *)data != 0) != (P->input[k].bits != 0))
        return fail(m, "input '%s' must be %s, as the model was exported", info->name,
                    P->input[k].bits ? "true" : "false");
    if (info->kind != MODEL_FLOAT) return 0;
    memcpy(&want, &P->input[k].bits, sizeof want);
    memcpy(&got, data, sizeof got);
    if (want == got || (isnan(want) && isnan(got))) return 0;
    return fail(m, "input '%s' is %g, but the model was exported for %g", info->name, got, want);
}

static int check_input(model *m, uint32_t k, const model_array *a) {
    const model_info *info = &model_inputs[k];
    if (info->kind == MODEL_INT) {
        int64_t want = value_of(m, P->input[k].value);
        if (!a->data || number_at(a->data, MODEL_I64) == want) return 0;
        return fail(m, "input '%s' is %" PRId64 ", must be %" PRId64, info->name,
                    number_at(a->data, MODEL_I64), want);
    }
    if (info->kind != MODEL_TENSOR) return check_constant(m, k, a->data);
    int64_t count = (int64_t)type_bytes(info->type);
    for (int d = 0; d < info->rank; d++) {
        int64_t want = value_of(m, P->input[k].sizes[d]);
        if (want == UNDEFINED || want != a->sizes[d])
            return fail(
                m, "input '%s' dimension %d is %" PRId64 ", must be %" PRId64 " (its shape is %s)",
                info->name, d, a->sizes[d], want, info->shape);
        count = n_mul(count, want > 0 ? want : 1);
    }
    return count == UNDEFINED ? fail(m, "input '%s' is too large", info->name) : 0;
}

int check_inputs(model *m, const model_array *inputs) {
    for (uint32_t k = 0; k < P->inputs; k++) TRY(check_input(m, k, &inputs[k]));
    return 0;
}

int check_sizes(model *m, const uint32_t *numbers, uint32_t count) {
    for (uint32_t k = 0; k < count; k++)
        if (m->numbers[numbers[k]] < 0)
            return fail(m, "the inputs are too large: a size cannot be computed");
    return 0;
}

int guard(model *m, int relation, int64_t a, int64_t b, const char *text) {
    bool holds = relation == GUARD_EQ   ? a == b
                 : relation == GUARD_NE ? a != b
                 : relation == GUARD_LT ? a < b
                                        : a <= b;
    if (holds && a != UNDEFINED && b != UNDEFINED) return 0;
    return fail(m, "the sizes break the constraint %s: %" PRId64 " and %" PRId64, text, a, b);
}

int64_t number_at(const void *element, model_type type) {
    int64_t i64;
    int32_t i32;
    int16_t i16;
    switch (type) {
    case MODEL_I32: memcpy(&i32, element, sizeof i32); return i32;
    case MODEL_I16: memcpy(&i16, element, sizeof i16); return i16;
    case MODEL_I8: return *(const int8_t *)element;
    case MODEL_U8: return *(const uint8_t *)element;
    case MODEL_BOOL: return *(const uint8_t *)element != 0;
    default: memcpy(&i64, element, sizeof i64); return i64;
    }
}

int define(model *m, const symbol *s, int64_t value, int64_t *number, bool *out_known,
           const char *where) {
    *out_known = *number != UNDEFINED;
    if (*out_known && *number != value)
        return fail(m, "%s: %s is %" PRId64 " here, but was %" PRId64 " before", where, s->name,
                    value, *number);
    if (value < s->low || value > s->high)
        return fail(m, "%s: %s, which depends on data, is %" PRId64 ", must be at %s %" PRId64,
                    where, s->name, value, value < s->low ? "least" : "most",
                    value < s->low ? s->low : s->high);
    *number = value;
    return 0;
}

/* --- layouts --- */

static void row_major(uint32_t rank, const int64_t *sizes, int64_t *out) {
    int64_t step = 1;
    for (uint32_t d = rank; d-- > 0; step = n_mul(step, sizes[d] > 0 ? sizes[d] : 1)) out[d] = step;
}

static bool is_empty(uint32_t rank, const int64_t *sizes) {
    for (uint32_t d = 0; d < rank; d++)
        if (sizes[d] == 0) return true;
    return false;
}

static bool same_layout(uint32_t rank, const int64_t *sizes, const int64_t *a, const int64_t *b) {
    for (uint32_t d = 0; d < rank; d++)
        if (sizes[d] > 1 && a[d] != b[d]) return false;
    return true;
}

/* From the first element to one past the last; UNDEFINED when that is too large. */
static int64_t extent(uint32_t rank, const int64_t *sizes, const int64_t *strides,
                      size_t elem_bytes) {
    int64_t last = 1;
    if (is_empty(rank, sizes)) return 0;
    for (uint32_t d = 0; d < rank; d++)
        if (sizes[d] > 1) last = n_add(last, n_mul(sizes[d] - 1, strides[d]));
    return n_mul(last, (int64_t)elem_bytes);
}

/* The caller's array, or a copy in the layout that the program was compiled for. */
static int take_input(model *m, uint32_t k, const model_array *a) {
    const model_info *info = &model_inputs[k];
    uint32_t rank = (uint32_t)info->rank;
    size_t elem = type_bytes(info->type);
    int64_t strides[MODEL_MAX_RANK], rows[MODEL_MAX_RANK];
    if (info->kind != MODEL_TENSOR) return 0;
    values_of(m, P->input[k].strides, rank, strides);
    row_major(rank, a->sizes, rows);
    m->input_bytes[k] = extent(rank, a->sizes, strides, elem);
    m->inputs[k] = a->data;
    if (!a->data && !is_empty(rank, a->sizes)) return fail(m, "input '%s' has no data", info->name);
    if (a->data && (uintptr_t)a->data % elem == 0 && same_layout(rank, a->sizes, strides, rows))
        return 0;
    TRY(reserve(m, &m->laid_out[k], m->input_bytes[k]));
    m->inputs[k] = m->laid_out[k].bytes;
    if (is_empty(rank, a->sizes)) return 0;
    if ((uintptr_t)a->data % elem)
        return fail(m, "input '%s' is not aligned to its elements", info->name);
    hn_copy_strided(m->inputs[k], strides, a->data, rows, a->sizes, rank, elem);
    return 0;
}

/* --- outputs --- */

static int64_t array_bytes(const model_info *info, const int64_t *sizes) {
    int64_t bytes = (int64_t)type_bytes(info->type);
    for (int d = 0; d < info->rank; d++) bytes = n_mul(bytes, sizes[d]);
    return bytes;
}

static bool overlap(const void *a, int64_t a_bytes, const void *b, int64_t b_bytes) {
    const uintptr_t x = (uintptr_t)a, y = (uintptr_t)b;
    return a && b && x < y + (uintptr_t)b_bytes && y < x + (uintptr_t)a_bytes;
}

/* Whether the program may compute an output where the caller wants it. */
static bool is_direct(const model *m, uint32_t output, int64_t bytes) {
    const output_facts *o = &P->output[output];
    void *data = m->wanted[o->output].data;
    int64_t sizes[MODEL_MAX_RANK], strides[MODEL_MAX_RANK], rows[MODEL_MAX_RANK];
    size_t elem = type_bytes((model_type)o->type);
    if (!data || (uintptr_t)data % elem) return false;
    values_of(m, o->sizes, o->rank, sizes);
    values_of(m, o->strides, o->rank, strides);
    row_major(o->rank, sizes, rows);
    if (!same_layout(o->rank, sizes, strides, rows) || bytes < 0 ||
        bytes > extent(o->rank, sizes, rows, elem))
        return false;
    for (uint32_t k = 0; k < P->inputs; k++)
        if (overlap(data, bytes, m->given[k].data,
                    array_bytes(&model_inputs[k], m->given[k].sizes)))
            return false;
    return true;
}

/* The caller's memory for the output that is the block; NULL: it is not to lie there. */
static uint8_t *wanted_block(const model *m, uint32_t block, int64_t bytes) {
    const int output = P->block_output[block];
    if (!m->wanted || output < 0 || (P->device && P->places->blocks[block]) ||
        !is_direct(m, (uint32_t)output, bytes))
        return NULL;
    return m->wanted[P->output[output].output].data;
}

int take_block(model *m, uint32_t block, int64_t bytes) {
    m->blocks[block] = wanted_block(m, block, bytes);
    if (m->blocks[block]) return 0;
    TRY(reserve(m, &m->own_blocks[block], bytes));
    m->blocks[block] = m->own_blocks[block].bytes;
    return 0;
}

int share_block(model *m, uint32_t block, uint32_t pool, int64_t offset, int64_t bytes) {
    m->blocks[block] = wanted_block(m, block, bytes);
    if (m->blocks[block]) return 0;
    if (offset < 0) return fail(m, "the inputs are too large: a size cannot be computed");
    m->blocks[block] = m->blocks[pool] + offset;
    return 0;
}

/* Nobody else may use memory that is given up. */
static int check_alone(model *m, uint32_t input, int64_t bytes) {
    const void *own = m->given[input].data;
    for (uint32_t k = 0; k < P->inputs; k++)
        if (k != input &&
            overlap(own, bytes, m->given[k].data, array_bytes(&model_inputs[k], m->given[k].sizes)))
            return fail(m, "input '%s' is given up, but input '%s' has the same memory",
                        model_inputs[input].name, model_inputs[k].name);
    for (uint32_t k = 0; k < P->outputs; k++) {
        const output_facts *o = &P->output[k];
        int64_t sizes[MODEL_MAX_RANK];
        if (o->output < 0 || o->kind != MODEL_TENSOR) continue;
        values_of(m, o->sizes, o->rank, sizes);
        const int64_t size = array_bytes(&model_outputs[o->output], sizes);
        /* below 0: only the data tells */
        if (overlap(own, bytes, m->wanted[o->output].data, size < 0 ? 1 : size))
            return fail(m, "input '%s' is given up, but output %d is wanted in the same memory",
                        model_inputs[input].name, o->output);
    }
    return 0;
}

int input_block(model *m, uint32_t block, uint32_t input, int64_t bytes) {
    const model_array *a = &m->given[input];
    if (!m->wanted || !a->donated || !a->data || (uintptr_t)a->data % 64 ||
        bytes > array_bytes(&model_inputs[input], a->sizes))
        return take_block(m, block, bytes);
    TRY(check_alone(m, input, bytes));
    m->blocks[block] = a->data;
    return 0;
}

static void write_scalar(const model *m, const output_facts *o, void *to) {
    int64_t value = value_of(m, o->value);
    if (o->kind == MODEL_INT) memcpy(to, &value, sizeof value);
    if (o->kind == MODEL_FLOAT) memcpy(to, &o->bits, sizeof o->bits);
    if (o->kind == MODEL_BOOLEAN) *(uint8_t *)to = o->bits != 0;
}

/* Whether the device has the content of an output. */
static bool is_remote(uint32_t k) { return P->device && P->places->outputs[k]; }

/* Where the host finds the content of an output, behind the steps. */
static uint8_t *content_of(model *m, uint32_t k) {
    return is_remote(k) ? m->homes[k] : P->content(m, k);
}

/* Whether the elements lie one behind the other. */
static bool is_dense(uint32_t rank, const int64_t *sizes, const int64_t *strides, size_t elem) {
    int64_t bytes = (int64_t)elem;
    for (uint32_t d = 0; d < rank; d++) bytes = n_mul(bytes, sizes[d]);
    return bytes == extent(rank, sizes, strides, elem);
}

/* A mutation that is a copy of bytes on the device. */
static bool is_device_copy(const model *m, uint32_t k) {
    const output_facts *o = &P->output[k];
    int64_t sizes[MODEL_MAX_RANK], strides[MODEL_MAX_RANK], target[MODEL_MAX_RANK];
    if (!is_remote(k) || o->target_own < 0 || o->in_place || !P->places->owns[o->target_own])
        return false;
    values_of(m, o->sizes, o->rank, sizes);
    values_of(m, o->strides, o->rank, strides);
    values_of(m, o->target_strides, o->rank, target);
    return same_layout(o->rank, sizes, strides, target) &&
           is_dense(o->rank, sizes, strides, type_bytes((model_type)o->type));
}

/* Brings the content of an output to the host: into the caller's memory, where that fits. */
static int fetch(model *m, uint32_t k) {
    const output_facts *o = &P->output[k];
    int64_t sizes[MODEL_MAX_RANK], strides[MODEL_MAX_RANK];
    if (!is_remote(k) || o->kind != MODEL_TENSOR || is_device_copy(m, k)) return 0;
    values_of(m, o->sizes, o->rank, sizes);
    values_of(m, o->strides, o->rank, strides);
    for (uint32_t d = 0; d < o->rank; d++)
        if (sizes[d] < 0) return 0; /* give_output says it */
    const int64_t bytes = extent(o->rank, sizes, strides, type_bytes((model_type)o->type));
    if (o->output >= 0 && is_direct(m, k, bytes)) {
        m->homes[k] = m->wanted[o->output].data;
    } else {
        TRY(reserve(m, &m->fetched[k], bytes));
        m->homes[k] = m->fetched[k].bytes;
    }
    return bytes ? P->device->copy_out(m, m->homes[k], P->content(m, k), bytes) : 0;
}

/* The end of the steps on the device. What a kernel has found wrong comes before what followed from
 * it. */
static int end_on_device(model *m, int failed) {
    for (uint32_t k = 0; k < P->outputs && !failed; k++) failed = fetch(m, k);
    const int late = P->device->wait(m);
    return failed | late;
}

static int give_output(model *m, uint32_t k, model_array *a) {
    const output_facts *o = &P->output[k];
    int64_t strides[MODEL_MAX_RANK], rows[MODEL_MAX_RANK];
    if (o->kind == MODEL_TEXT || o->kind == MODEL_NONE) return 0;
    if (o->kind != MODEL_TENSOR) {
        TRY(reserve(m, &m->results[k], 8));
        if (!a->data) a->data = m->results[k].bytes;
        write_scalar(m, o, a->data);
        return 0;
    }
    values_of(m, o->sizes, o->rank, a->sizes);
    for (uint32_t d = 0; d < o->rank; d++)
        if (a->sizes[d] < 0)
            return fail(m, "output %d depends on a number that nothing has defined", o->output);
    values_of(m, o->strides, o->rank, strides);
    row_major(o->rank, a->sizes, rows);
    uint8_t *content = content_of(m, k);
    size_t elem = type_bytes((model_type)o->type);
    if (!a->data && o->is_block && same_layout(o->rank, a->sizes, strides, rows)) {
        a->data = content;
        return 0;
    }
    if (!a->data) {
        TRY(reserve(m, &m->results[k], extent(o->rank, a->sizes, rows, elem)));
        a->data = m->results[k].bytes;
    }
    if (a->data != content && !is_empty(o->rank, a->sizes))
        hn_copy_strided(a->data, rows, content, strides, a->sizes, o->rank, elem);
    return 0;
}

/* New content that lies in an input or in a weight: another mutation may write there. */
static int stage_mutation(model *m, uint32_t k, uint8_t **out) {
    const output_facts *o = &P->output[k];
    int64_t sizes[MODEL_MAX_RANK], strides[MODEL_MAX_RANK];
    *out = content_of(m, k);
    if (!o->in_place || is_remote(k)) return 0; /* of the device's it is a copy */
    values_of(m, o->sizes, o->rank, sizes);
    values_of(m, o->strides, o->rank, strides);
    int64_t bytes = extent(o->rank, sizes, strides, type_bytes((model_type)o->type));
    TRY(reserve(m, &m->staged[k], bytes));
    if (bytes) memcpy(m->staged[k].bytes, *out, (size_t)bytes);
    *out = m->staged[k].bytes;
    return 0;
}

/* What `patch_end` is to write into a changing weight: its memory, or a copy of what the device
 * has. */
static int patch_begin(model *m, const output_facts *o, const int64_t *sizes,
                       const int64_t *strides, uint8_t **out) {
    const size_t elem = type_bytes((model_type)o->type);
    const int64_t bytes = extent(o->rank, sizes, strides, elem);
    uint8_t *at = m->owns[o->target_own].bytes + o->target_offset;
    *out = at;
    if (!P->device || !P->places->owns[o->target_own]) return 0;
    TRY(reserve(m, &m->patch, bytes));
    *out = m->patch.bytes;
    const int failed = P->device->read(m, m->patch.bytes, at, bytes);
    hn_team_end(&m->team);
    return failed;
}

static int patch_end(model *m, const output_facts *o, const int64_t *sizes,
                     const int64_t *strides) {
    if (!P->device || !P->places->owns[o->target_own]) return 0;
    TRY(P->device->copy_in(m, m->owns[o->target_own].bytes + o->target_offset, m->patch.bytes,
                           extent(o->rank, sizes, strides, type_bytes((model_type)o->type))));
    const int failed = P->device->wait(m);
    hn_team_end(&m->team);
    return failed;
}

/* Elements into the changing weight that the output has as its target. */
static int write_own(model *m, const output_facts *o, const int64_t *sizes, const uint8_t *from,
                     const int64_t *strides) {
    int64_t target[MODEL_MAX_RANK];
    uint8_t *to;
    values_of(m, o->target_strides, o->rank, target);
    TRY(patch_begin(m, o, sizes, target, &to));
    hn_copy_strided(to, target, from, strides, sizes, o->rank, type_bytes((model_type)o->type));
    return patch_end(m, o, sizes, target);
}

static int write_mutation(model *m, uint32_t k, const uint8_t *from, const model_array *inputs) {
    const output_facts *o = &P->output[k];
    const size_t elem = type_bytes((model_type)o->type);
    int64_t sizes[MODEL_MAX_RANK], strides[MODEL_MAX_RANK], rows[MODEL_MAX_RANK];
    values_of(m, o->sizes, o->rank, sizes);
    values_of(m, o->strides, o->rank, strides);
    if (is_empty(o->rank, sizes)) return 0;
    if (is_device_copy(m, k))
        return P->device->copy(m, m->owns[o->target_own].bytes + o->target_offset, P->content(m, k),
                               extent(o->rank, sizes, strides, elem));
    if (o->target_input < 0) return write_own(m, o, sizes, from, strides);
    row_major(o->rank, sizes, rows);
    hn_copy_strided(inputs[o->target_input].data, rows, from, strides, sizes, o->rank, elem);
    return 0;
}

static int finish(model *m, const model_array *inputs, model_array *outputs) {
    uint8_t **from = zeros(P->outputs, sizeof *from);
    int failed = from ? 0 : fail(m, "out of memory");
    for (uint32_t k = 0; k < P->outputs && !failed; k++)
        failed = P->output[k].output >= 0 ? give_output(m, k, &outputs[P->output[k].output])
                                          : stage_mutation(m, k, &from[k]);
    for (uint32_t k = 0; k < P->outputs && !failed; k++)
        if (P->output[k].output < 0) failed = write_mutation(m, k, from[k], inputs);
    free(from);
    if (P->device && !failed) failed = P->device->wait(m);
    return failed;
}

/* --- states --- */

/* State k with its sizes and strides; NULL after an error. `given`: sizes that it must have, or
 * NULL. */
static const output_facts *state_find(model *m, int k, const int64_t *given, int64_t *sizes,
                                      int64_t *strides) {
    const output_facts *o = k < 0 || k >= MODEL_BUFFERS ? NULL : &P->output[P->state_output[k]];
    if (!o) return fail(m, "there is no buffer %d", k), NULL;
    values_of(m, o->sizes, o->rank, sizes);
    values_of(m, o->target_strides, o->rank, strides);
    for (uint32_t d = 0; d < o->rank; d++) {
        if (sizes[d] < 0 || strides[d] < 0)
            return fail(m, "buffer '%s' has a size that is not known before a run",
                        model_buffers[k].name),
                   NULL;
        if (given && given[d] != sizes[d])
            return fail(m, "buffer '%s' dimension %u is %" PRId64 ", must be %" PRId64,
                        model_buffers[k].name, d, given[d], sizes[d]),
                   NULL;
    }
    return o;
}

int model_buffer_read(model *m, int k, model_array *out) {
    uint8_t *from;
    int64_t strides[MODEL_MAX_RANK], rows[MODEL_MAX_RANK];
    const output_facts *o = state_find(m, k, NULL, out->sizes, strides);
    if (!o) return 1;
    size_t elem = type_bytes((model_type)o->type);
    row_major(o->rank, out->sizes, rows);
    if (!out->data) {
        memory *own = &m->results[P->state_output[k]];
        TRY(reserve(m, own, extent(o->rank, out->sizes, rows, elem)));
        out->data = own->bytes;
    }
    if (is_empty(o->rank, out->sizes)) return 0;
    TRY(patch_begin(m, o, out->sizes, strides, &from));
    hn_copy_strided(out->data, rows, from, strides, out->sizes, o->rank, elem);
    return 0;
}

int model_buffer_write(model *m, int k, const model_array *state) {
    int64_t sizes[MODEL_MAX_RANK], strides[MODEL_MAX_RANK], rows[MODEL_MAX_RANK];
    const output_facts *o = state_find(m, k, state->sizes, sizes, strides);
    if (!o) return 1;
    if (is_empty(o->rank, sizes)) return 0;
    if (!state->data) return fail(m, "buffer '%s' has no data", model_buffers[k].name);
    row_major(o->rank, sizes, rows);
    return write_own(m, o, sizes, state->data, rows);
}

/* --- calls --- */

static int begin(model *m, const model_array *inputs, model_array *outputs) {
    for (uint32_t k = 0; k < P->numbers; k++) m->numbers[k] = UNDEFINED;
    m->given = inputs;
    m->wanted = outputs;
    return P->begin(m, inputs);
}

int model_output_sizes(model *m, const model_array *inputs, model_array *outputs) {
    TRY(begin(m, inputs, NULL));
    for (uint32_t k = 0; k < P->outputs; k++) {
        const output_facts *o = &P->output[k];
        for (uint32_t d = 0; o->output >= 0 && o->kind == MODEL_TENSOR && d < o->rank; d++) {
            int64_t size = value_of(m, o->sizes[d]);
            outputs[o->output].sizes[d] = size < 0 ? -1 : size;
        }
    }
    return 0;
}

int model_run(model *m, const model_array *inputs, model_array *outputs) {
    TRY(begin(m, inputs, outputs));
    for (uint32_t k = 0; k < P->inputs; k++) TRY(take_input(m, k, &inputs[k]));
    m->calls++;
    int failed = P->device ? P->device->begin(m) : 0;
    if (!failed) failed = P->steps(m);
    if (!failed) failed = debug_finish(m);
    if (P->device) failed = end_on_device(m, failed);
    hn_team_end(&m->team);
    if (!failed) failed = finish(m, inputs, outputs);
    if (P->device) P->device->end(m);
    return failed;
}

/* Parts of a kernel's range, each with scratch memory of its own. */
typedef struct chunk_job {
    kernel *run;
    void *const *buffers;
    const long long *params;
    int64_t extent, chunks, stride;
    uint8_t *scratch;
    int failed;
} chunk_job;

static void run_chunk(void *context, int k) {
    chunk_job *j = context;
    const int64_t part = j->extent / j->chunks, more = j->extent % j->chunks;
    const int64_t first = k * part + (k < more ? k : more), end = first + part + (k < more);
    if (j->run(j->buffers, j->params, first, end, j->scratch ? j->scratch + k * j->stride : NULL))
        __atomic_store_n(&j->failed, 1, __ATOMIC_RELAXED);
}

int kernel_run(model *m, kernel *run, void *const *buffers, const long long *params,
               uint32_t param_count, int64_t extent, int64_t grain, int64_t scratch_bytes,
               const char *where) {
    int failed = 0;
    if (extent < 0 || scratch_bytes < 0 || scratch_bytes > INT64_MAX / 4096)
        return fail(m, "%s: the inputs are too large", where);
    for (uint32_t k = 0; k < param_count; k++)
        if (params[k] == UNDEFINED) return fail(m, "%s: the inputs are too large", where);
    if (extent == 0) return 0;
    const int64_t stride = (scratch_bytes + 63) / 64 * 64;
    int64_t chunks = extent / grain;
    chunks = chunks < 2 ? 1 : chunks < m->threads ? chunks : m->threads;
    if (stride) TRY(reserve(m, &m->scratch, n_mul(stride, m->threads)));
    if (chunks == 1) {
        failed = run(buffers, params, 0, extent, m->scratch.bytes);
    } else {
        chunk_job job = {run, buffers, params, extent, chunks, stride, m->scratch.bytes, 0};
        hn_team_run(&m->team, (int)chunks, run_chunk, &job);
        failed = job.failed;
    }
    return failed ? fail(m, "%s: an index is out of bounds", where) : 0;
}
