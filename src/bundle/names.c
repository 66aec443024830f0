/* names.c: names of the numbers in a bundle. */
#include "bundle/internal.h"

#include "henry/abi/extern_abi.h"
#include "henry/tensor.h"

static const struct {
    const char *name;
    uint32_t bytes;
} dtypes[HN_SCALAR_TYPE_COUNT] = {
    [HN_NO_TYPE] = {"none", 0}, [HN_F64] = {"f64", 8},   [HN_F32] = {"f32", 4},
    [HN_F16] = {"f16", 2},      [HN_BF16] = {"bf16", 2}, [HN_I64] = {"i64", 8},
    [HN_I32] = {"i32", 4},      [HN_I16] = {"i16", 2},   [HN_I8] = {"i8", 1},
    [HN_U8] = {"u8", 1},        [HN_BOOL] = {"bool", 1},
};

#define NAME(kind, name, operands, needed, written, params) [kind] = name,
static const char *const externs[HN_EXTERN_KIND_COUNT] = {[HN_EXTERN_NONE] = "none",
                                                          HN_EXTERN_KINDS(NAME)};
#undef NAME

const char *const hn_bundle_value_kinds[HNB_VALUE_KIND_COUNT] = {"tensor", "int",    "float",
                                                                 "bool",   "string", "none"};
const char *const hn_bundle_relations[HNB_RELATION_COUNT] = {"==", "!=", "<", "<="};
const char *const hn_bundle_buffer_kinds[HNB_BUFFER_KIND_COUNT] = {
    "none", "input", "constant", "temp", "output", "slot", "pool"};
const char *const hn_bundle_places[HNB_STORAGE_WHERE_COUNT] = {"blob", "weights",  "file",
                                                               "made", "computed", "outer"};
const char *const hn_bundle_target_kinds[HNB_TARGET_KIND_COUNT] = {"none", "cpu", "cuda", "opencl"};

static const struct {
    const char *name;
    hnb_target_kind target;
} object_kinds[HNB_OBJECT_KIND_COUNT] = {
    [HNB_OBJECT_ELF] = {"elf", HNB_TARGET_CPU},
    [HNB_OBJECT_CUBIN] = {"cubin", HNB_TARGET_CUDA},
    [HNB_OBJECT_PTX] = {"ptx", HNB_TARGET_CUDA},
    [HNB_OBJECT_OPENCL] = {"opencl", HNB_TARGET_OPENCL},
};

const char *hn_bundle_buffer_kind_name(uint32_t kind) {
    return kind < HNB_BUFFER_KIND_COUNT ? hn_bundle_buffer_kinds[kind] : "none";
}

const char *hn_bundle_step_kind_name(uint32_t kind) {
    static const char *const kinds[HNB_STEP_KIND_COUNT] = {
        "none", "kernel", "extern", "copy", "assert", "cond", "define", "wait", "loop", "zero"};
    return kind < HNB_STEP_KIND_COUNT ? kinds[kind] : "none";
}

const char *hn_bundle_object_kind_name(uint32_t kind) {
    return kind < HNB_OBJECT_KIND_COUNT ? object_kinds[kind].name : "none";
}

hnb_target_kind hn_bundle_object_target(uint32_t kind) { return object_kinds[kind].target; }

hn_device_kind hn_bundle_target_device(uint32_t kind) {
    static const hn_device_kind devices[HNB_TARGET_KIND_COUNT] = {
        /* else the CPU */
        [HNB_TARGET_CUDA] = HN_DEVICE_CUDA,
        [HNB_TARGET_OPENCL] = HN_DEVICE_OPENCL};
    return devices[kind];
}

const hn_bundle_words *hn_bundle_words_of(hn_device_kind device) {
    static const hn_bundle_words cpu = {HNB_TARGET_CPU, HNB_OBJECT_ELF, HNB_OBJECT_ELF};
    static const hn_bundle_words cuda = {HNB_TARGET_CUDA, HNB_OBJECT_CUBIN, HNB_OBJECT_PTX};
    static const hn_bundle_words opencl = {HNB_TARGET_OPENCL, HNB_OBJECT_OPENCL, HNB_OBJECT_OPENCL};
    static const hn_bundle_words *const words[HN_DEVICE_KIND_COUNT] = {
        [HN_DEVICE_CPU] = &cpu, [HN_DEVICE_CUDA] = &cuda, [HN_DEVICE_OPENCL] = &opencl};
    return device < HN_DEVICE_KIND_COUNT ? words[device] : NULL;
}

uint32_t hn_bundle_workspace(const hn_bundle *b, uint32_t device) {
    for (uint32_t k = 0; k < b->workspaces_count; k++)
        if (b->workspaces[k].device == device) return b->workspaces[k].bytes;
    return 0;
}

const char *hn_bundle_target_kind_name(uint32_t kind) {
    return hn_bundle_target_kinds[kind < HNB_TARGET_KIND_COUNT ? kind : HNB_TARGET_NONE];
}

double hn_bundle_double(uint64_t bits) {
    double value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

uint64_t hn_bundle_storage_bytes(const hn_bundle *b) {
    uint64_t sum = 0;
    for (uint32_t i = 1; i < b->storages_count; i++)
        if (b->storages[i].where < HNB_STORAGE_MADE) sum += b->storages[i].bytes;
    return sum;
}

const char *hn_bundle_dtype_name(uint32_t dtype) {
    return dtypes[dtype < HN_SCALAR_TYPE_COUNT ? dtype : 0].name;
}
uint32_t hn_bundle_dtype_bytes(uint32_t dtype) {
    return dtypes[dtype < HN_SCALAR_TYPE_COUNT ? dtype : 0].bytes;
}
const char *hn_bundle_extern_name(uint32_t kind) {
    return externs[kind < HN_EXTERN_KIND_COUNT ? kind : 0];
}
