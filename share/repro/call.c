/* Runs one operation on the inputs that it had in a run of the model, compares what it writes with
 * what the reference computed, and times it. repro.h, written by henry, says what there is.
 *
 *     repro [RTOL]      exit status 0: equal within RTOL of the largest expected element */
#include "check.h"

#include "base/hash.h"
#include "henry/tensor.h"
#include "ops/cpu/ext.h"

static hn_team team;
static hn_ext_call call = {.kind = (hn_extern_kind)REPRO_KIND,
                           .threads = REPRO_THREADS,
                           .team = &team,
                           .param_count = sizeof sizes / sizeof *sizes - 1};
static int64_t params[sizeof sizes / sizeof *sizes];
static void *scratch;

/* Keys of packed weights: few and short, so a plain hash does (FNV-1a). */
uint64_t hn_hash64(const void *bytes, size_t len, uint64_t seed) {
    uint64_t hash = 0xcbf29ce484222325u ^ seed;
    for (size_t k = 0; k < len; k++) hash = (hash ^ ((const uint8_t *)bytes)[k]) * 0x100000001b3u;
    return hash ^ hash >> 29;
}

/* What the operations ask of the library that they come from. */
const char *hn_scalar_type_name(hn_scalar_type type) {
    static const char *const names[] = {"none", "f64", "f32", "f16", "bf16", "i64",
                                        "i32",  "i16", "i8",  "u8",  "bool"};
    return names[(unsigned)type < sizeof names / sizeof *names ? type : 0];
}

size_t hn_scalar_type_bytes(hn_scalar_type type) {
    static const unsigned char bytes[] = {0, 8, 4, 2, 2, 8, 4, 2, 1, 1, 1};
    return bytes[(unsigned)type < sizeof bytes ? type : 0];
}

static void check(hn_status status) {
    if (!status) return;
    printf("the operation refuses: %s\n", hn_status_message(status));
    exit(1);
}

/* Constants are there when it is prepared; they may be packed. */
static void prepare(void) {
    check(hn_ext_shared_create(&call.shared));
    for (uint32_t k = 0; k < call.param_count; k++) params[k] = sizes[k];
    call.params = params;
    for (int k = 0; k < COUNT; k++) {
        call.dtypes[k] = types[k];
        call.is_constant[k] = constants[k];
        if (constants[k]) call.operands[k] = memory[k] + operands[k].begin;
    }
    check(hn_ext_prepare(&call));
    scratch = call.scratch_bytes ? allocate((long long)call.scratch_bytes) : NULL;
    for (int k = 0; k < COUNT; k++)
        if (types[k]) call.operands[k] = memory[k] + operands[k].begin;
}

static void run(void) {
    check(hn_ext_run(&call, scratch));
    hn_team_end(&team);
}

static void measure(void) {
    static double times[RUNS_MAX];
    const double begin = now();
    char where[40];
    int runs = 0;
    while (runs < RUNS_MAX && (runs < RUNS_MIN || now() - begin < 1)) {
        const double start = now();
        run();
        times[runs++] = now() - start;
    }
    snprintf(where, sizeof where, "on %d threads", REPRO_THREADS);
    report_times(times, runs, where);
}

int main(int argc, char **argv) {
    const double rtol = argc > 1 ? atof(argv[1]) : 1e-4;
    load();
    prepare();
    run();
    const int good = compare_all(rtol);
    measure();
    puts(good ? "equal" : "DIFFERENT");
    return !good;
}
