/* variants.c: what it costs that kernels have variants: the look-up when a shape is bound, and a
 * call of a shape that is.
 *
 *     variants [KERNELS]
 *
 * Two programs of KERNELS (1,000) calls of a kernel that does nothing, one thread: in one of them
 * each call has three variants, and a table of eight ranges over two sizes, the last of which is
 * the right one. Prints one JSON object: nanoseconds for each call in both, least of many rounds
 * that take turns. */
#include "base/trace.h"
#include "henry/kernel.h"
#include "henry/module.h"
#include "wrapper/to_bundle.h"

#include <stdio.h>
#include <stdlib.h>

enum { ROUNDS = 200, SIZES = 32 /* more than a context remembers */ };

#define KERNEL(name)                                                                               \
    "int " name                                                                                    \
    "(void *const *b, const long long *s, long long begin, long long end, void *scratch) {"        \
    " return 0; }\n"
static const char source[] = KERNEL("a") KERNEL("b") KERNEL("c");

static const char plain[] = "call k1(b1 f32, out b2 f32) params [s0, s1] extent(s0) grain 8 ";
static const char varied[] =
    "call k1(b1 f32, out b2 f32) params [s0, s1] extent(s0) grain 8 form \"a\" "
    "or k2 params [s0, s1] extent(s0) grain 8 form \"b\" or k3 params [s0, s1] extent(s0) grain 8 form \"c\" "
    "choose [s0, s1] else 0 [1 in [1, 1] and [1, none], 2 in [2, 2] and [1, none], 1 in [3, 3] and [1, none], "
    "2 in [4, 4] and [1, none], 1 in [5, 5] and [1, none], 2 in [6, 6] and [1, none], 1 in [7, 7] and [1, none], "
    "2 in [8, 4096] and [1, none]] ";

typedef struct program {
    hn_strbuf image;
    hn_module *module;
    double bind_ns, call_ns; /* the least so far, of all calls */
} program;

static hn_status compile(hn_service *service, hn_scope **out_scope, hn_artifact **out) {
    static const char *const entries[] = {"a", "b", "c"};
    hn_future *future;
    HN_TRY(hn_scope_create(service, out_scope));
    HN_TRY(hn_compile_submit(*out_scope,
                             &(hn_source){.name = "variants",
                                          .language = "c",
                                          .text = source,
                                          .text_len = sizeof source - 1,
                                          .entries = entries,
                                          .entry_count = 3},
                             &future));
    return hn_future_wait(future, -1, out);
}

static void write_text(const char *call, int count, hn_strbuf *out) {
    hn_strbuf_puts(
        out, "wrapper { symbol size s0 in [1, none] symbol size s1 in [1, none] "
             "buffer b1 : input f32[s0, s1] source 0 buffer b2 : output f32[s0] bytes(4*s0) "
             "kernel k1 : object 0 name \"a\" kernel k2 : object 0 name \"b\" "
             "kernel k3 : object 0 name \"c\" input \"x\" : f32[s0, s1] strides [s1, 1] in b1 ");
    for (int k = 0; k < count; k++) hn_strbuf_puts(out, call);
    hn_strbuf_puts(out, "output tensor \"y\" : f32[s0] strides [1] in b2 }");
}

static hn_status print_image(const char *call, int count, hn_artifact *code, hn_strbuf *out) {
    hn_arena arena;
    hn_sym *sym;
    hn_wrapper *w;
    hn_memory_plan plan;
    hn_strbuf text;
    hn_bundle_object object = {.name = HN_STR("kernels")};
    object.bytes = hn_artifact_bytes(code, &object.len);
    hn_arena_init(&arena);
    hn_strbuf_init(&text);
    write_text(call, count, &text);
    hn_status status = hn_sym_create(&arena, &sym);
    if (!status) status = hn_wrapper_parse(&arena, sym, hn_strbuf_str(&text), &w);
    if (!status) status = hn_wrapper_plan(w, &plan);
    if (!status) status = hn_wrapper_verify(w);
    if (!status)
        status = hn_wrapper_to_bundle(w, &plan, &(hn_bundle_objects){.items = &object, .count = 1},
                                      &(hn_to_bundle_options){.cpu_features = {"", 0}}, out);
    hn_strbuf_deinit(&text);
    hn_arena_deinit(&arena);
    return status;
}

static hn_status load(program *p, const char *call, int count, hn_artifact *code) {
    *p = (program){.bind_ns = 1e30, .call_ns = 1e30};
    hn_strbuf_init(&p->image);
    HN_TRY(print_image(call, count, code, &p->image));
    return hn_module_load_memory(p->image.ptr, p->image.len, false,
                                 &(hn_module_options){.threads = 1}, &p->module);
}

/* A call with a shape that the context does not remember, and one right behind it. */
static hn_status measure(program *p, int64_t rows) {
    static float x[SIZES * 64];
    const int64_t sizes[] = {8 + rows, 4};
    const hn_tensor_desc desc = {.type = HN_F32, .rank = 2, .sizes = sizes, .data = x};
    hn_tensor *in, *out = NULL;
    HN_TRY(hn_tensor_create(&desc, &in));
    for (int k = 0; k < 2; k++) {
        double *least = k ? &p->call_ns : &p->bind_ns;
        const int64_t begin = hn_now_ns();
        hn_status status = hn_module_run(p->module, &in, 1, &out, 1);
        const double ns = (double)(hn_now_ns() - begin);
        hn_tensor_release(out);
        out = NULL;
        if (status) {
            hn_tensor_release(in);
            return status;
        }
        if (ns < *least) *least = ns;
    }
    hn_tensor_release(in);
    return NULL;
}

static hn_status run(hn_artifact *code, int count, program programs[2]) {
    HN_TRY(load(&programs[0], plain, count, code));
    HN_TRY(load(&programs[1], varied, count, code));
    for (int round = 0; round < ROUNDS; round++)
        for (int64_t rows = 0; rows < SIZES; rows++)
            for (int k = 0; k < 2; k++) HN_TRY(measure(&programs[(k + round) % 2], rows));
    for (int k = 0; k < 2; k++) programs[k].bind_ns /= count, programs[k].call_ns /= count;
    printf("{\"calls\": %d, \"bind_plain_ns\": %.1f, \"bind_ns\": %.1f, \"pick_ns\": %.1f, "
           "\"call_plain_ns\": %.2f, \"call_ns\": %.2f, \"per_call_ns\": %.2f}\n",
           count, programs[0].bind_ns, programs[1].bind_ns,
           programs[1].bind_ns - programs[0].bind_ns, programs[0].call_ns, programs[1].call_ns,
           programs[1].call_ns - programs[0].call_ns);
    return NULL;
}

int main(int argc, char **argv) {
    const int count = argc > 1 ? atoi(argv[1]) : 1000;
    program programs[2] = {{.bind_ns = 0}, {.bind_ns = 0}};
    hn_service *service = NULL;
    hn_scope *scope = NULL;
    hn_artifact *code = NULL;
    hn_status status =
        count > 0 ? NULL : HN_ERROR(HN_INVALID_ARGUMENT, "the number of calls must be positive");
    if (!status) status = hn_service_create(&(hn_service_options){.cache_dir = ""}, &service);
    if (!status) status = compile(service, &scope, &code);
    if (!status) status = run(code, count, programs);
    if (status) fprintf(stderr, "variants: %s\n", hn_status_message(status));
    const int failed = status != NULL;
    hn_status_free(status);
    for (int k = 0; k < 2; k++) {
        hn_module_release(programs[k].module);
        if (programs[k].image.ptr) hn_strbuf_deinit(&programs[k].image);
    }
    hn_artifact_release(code);
    hn_scope_destroy(scope);
    hn_service_destroy(service);
    return failed;
}
