/* facts.c: the processors of facts.h. */
#include "kernel/facts.h"

#include <math.h>

const hn_gpu_facts hn_gpu_facts_common = {
    .limits = {.operations = NULL,
               .prologue_max_ops = 4,
               .prologue_max_loads = 2,
               .split_min_elems = 131072,
               .split_rows = 200,
               .split_strips = 200,
               .split_parts_max = 64,
               .scan_min_elems = 131072,
               .scan_piece_elems = 1024,
               .column_strip = 32,
               .column_min_steps = 256,
               .long_row_elems = 32768,
               .local_max_elems = 8192, /* f32 in `shared_bytes` */
               .long_row_again_ops = 16,
               .mixed_slabs = 64,
               .mixed_slab_elems = 4096,
               .mixed_slabs_factor = 4,
               .mixed_min_elems = 4 << 20,
               .mixed_min_rows = 8,
               .mixed_slab_rows = 8,
               .mixed_columns_max = 8192,
               .mixed_all_columns_max = 8192,
               .mixed_shares_slabs = true,
               .remade_min_bytes = 4 << 10,
               .again_min_bytes = 1 << 20,
               /* 1024 bytes, of which a memory takes 16: what every device has */
               .segment_arguments_max = 62,
               .segment_waiting_bytes = 64 << 10,
               .segment_vector_elems = 8},
    .warp = 32,
    .shuffle = 1,
    .threads_max = 256,
    .blocks_max = 1,
    .shared_bytes = 32 << 10,
    .shared_all_bytes = 64 << 10,
    .registers = 65536,
    .registers_thread = 128,
    .vector_bytes = 16,
    .atomic_bytes = 4, /* OpenCL 1.2 without extensions */
    .multiprocessors = 32,
    .resident = 1024,
    .groups = 16,
    .bytes_per_ns = 400,
    .cache_bytes_per_ns = 1200,
    .latency_ns = 600,
    .flight_bytes = 8 << 10,
    .ops_per_ns = 5000,
    .barrier_ns = 20,
    .launch_ns = 5000,
};

/* ---- NVIDIA's ---- */

static bool is_at_most(const hn_sym *sym, hn_expr e, int64_t most) {
    int64_t value;
    return hn_sym_is_int(sym, e, &value) && value > 0 && value <= most;
}

/* Groups of few channels are loops: a product of tiles would be padding, mostly. */
static bool takes_conv(const hn_sym *sym, const hn_extern *call) {
    enum { CHANNELS_MIN = 8 };
    int64_t outputs, groups;
    return hn_sym_is_value(sym, call->params[HN_CONV_TRANSPOSED], 0) &&
           hn_sym_is_int(sym, call->params[HN_CONV_O], &outputs) &&
           hn_sym_is_int(sym, call->params[HN_CONV_GROUPS], &groups) && groups > 0 &&
           outputs / groups >= CHANNELS_MIN;
}

/* A block of queries, keys and values fits shared memory, and in registers what the gradients are
 * added up in: the sizes are in the same places. */
static bool takes_attention(const hn_sym *sym, const hn_extern *call) {
    enum { DEPTH_MAX = 128 };
    return is_at_most(sym, call->params[HN_ATTENTION_D], DEPTH_MAX) &&
           is_at_most(sym, call->params[HN_ATTENTION_DV], DEPTH_MAX);
}

/* Places in a row have 32 bits (codegen/cuda/sort_count.cu); of dynamic sizes kernels say so. */
static bool takes_sort(const hn_sym *sym, const hn_extern *call) {
    int64_t n;
    return !hn_sym_is_int(sym, call->params[HN_SORT_N], &n) || n <= UINT32_MAX;
}

/* What cuBLASLt 13.1 takes on an H200, bf16, in CUDA graphs; the second time is that of the next
 * multiples of 8: 16 x 256 x 257 6.1 us and 3, 256 x 1000 x 1001 14.9 and 4, 2048 x 2048 x 2049 129
 * and 25, 1024 x 768 x 50257 621 and 129. A small loop takes 2 us, a large copy moves 3500
 * bytes/ns. Other processors have about the same proportions. */
static bool pays_to_align(double flops, uint32_t launches, double copied_bytes) {
    const double small_flops_per_ns = 60e3, odd_flops_per_ns = 130e3, flops_per_ns = 600e3,
                 start_ns = 3000, odd_start_ns = 8000, bytes_per_ns = 3500, launch_ns = 2000;
    const double odd_ns = fmin(flops / small_flops_per_ns, odd_start_ns + flops / odd_flops_per_ns),
                 saved_ns = start_ns + odd_ns - flops / flops_per_ns,
                 cost_ns = launches * launch_ns + copied_bytes / bytes_per_ns;
    return saved_ns > 1.5 * cost_ns;
}

#define HALF_FLOATS   (1u << HN_DTYPE_F16 | 1u << HN_DTYPE_BF16)
#define NARROW_FLOATS (1u << HN_DTYPE_F32 | HALF_FLOATS)

/* By a library, or by kernels (codegen/cuda/operations.c). Products also do relu, which rounds
 * nothing, and those of 16 bits GELU, which the library computes precisely enough for them. For a
 * convolution with another tensor added, or with relu, cuDNN has compiled kernels if there is a
 * bias as well. */
static const hn_operations nvidia_operations = {
    .chooses_pieces = true,
    .sorts_scatters = true,
    .of = {
        [HN_EXTERN_MATMUL] = {.dtypes = NARROW_FLOATS | 1u << HN_DTYPE_F64,
                              .epilogues = 1u << HN_EPILOGUE_RELU,
                              .narrow_epilogues =
                                  1u << HN_EPILOGUE_RELU | 1u << HN_EPILOGUE_GELU_TANH,
                              .does = HN_DOES_RESIDUAL,
                              .aligned_rows = HALF_FLOATS,
                              .row_bytes = 16,
                              .line_bytes = 128,
                              .pays_to_align = pays_to_align,
                              /* 30 us of an H200: beyond it a launch, and processors that wait for
                               * the last tiles, are a few per cent */
                              .joined = HALF_FLOATS,
                              .joined_max_flops = 20e9},
        [HN_EXTERN_CONV] = {.dtypes = NARROW_FLOATS,
                            .epilogues = 1u << HN_EPILOGUE_RELU,
                            .narrow_epilogues = 1u << HN_EPILOGUE_RELU,
                            .does = HN_DOES_RESIDUAL | HN_NEEDS_BIAS,
                            .channels_last = HALF_FLOATS,
                            .channel_bytes = 16,
                            .takes = takes_conv},
        [HN_EXTERN_ATTENTION] = {.dtypes = NARROW_FLOATS, .takes = takes_attention},
        [HN_EXTERN_ATTENTION_BACKWARD] = {.dtypes = 1u << HN_DTYPE_F16 | 1u << HN_DTYPE_BF16,
                                          .takes = takes_attention},
        [HN_EXTERN_SORT] = {.dtypes = UINT32_MAX, .takes = takes_sort},
        [HN_EXTERN_TOPK] = {.dtypes = UINT32_MAX, .takes = takes_sort},
        [HN_EXTERN_NONZERO] = {.dtypes = UINT32_MAX},
        [HN_EXTERN_GROUPED_MATMUL] = {.dtypes = NARROW_FLOATS | 1u << HN_DTYPE_F64},
        [HN_EXTERN_NMS] = {.dtypes = 1u << HN_DTYPE_F32 | 1u << HN_DTYPE_F64},
        [HN_EXTERN_COMBINE_SORTED] = {.dtypes = UINT32_MAX},
    }};

/* Of NVIDIA's. Shared memory of a group is what a text may declare. Bandwidths are some 9/10 of the
 * makers' numbers, that of the cache twice as much, additions one for each unit of f32 and clock at
 * the highest clock. Reads under way: bandwidth times latency, and a quarter more. Clusters are of
 * up to 8 blocks from sm_90 on; what their barrier and a read of another block's memory take, some
 * 250 cycles each, is NVIDIA's guide's and not measured here. */
#define NVIDIA_FACTS(processors, threads, groups_, clusters, shared_kb, staged_kb, gigabytes_a_s,  \
                     additions_a_ns)                                                               \
    {                                                                                              \
        .limits = {.operations = &nvidia_operations,                                               \
                   .costly_epilogue_max_elems = INT64_MAX,                                         \
                   .prologue_max_ops = 4,                                                          \
                   .prologue_max_loads = 2,                                                        \
                   .split_min_elems = 131072,                                                      \
                   .split_rows = 180,  /* 256 rows of 512 KB: 0.5 of a copy, 0.4 when split */     \
                   .split_strips = 75, /* 64 KB under way in a group's threads */                  \
                   .split_parts_max = 2048,                                                        \
                   .scan_min_elems = 131072,                                                       \
                   .scan_piece_elems = 1024,                                                       \
                   .column_strip = 32,                                                             \
                   .column_min_steps = 256,                                                        \
                   .long_row_elems = 32768,                                                        \
                   .local_max_elems = 8192, /* f32 in registers */                                 \
                   .long_row_again_ops = 16,                                                       \
                   .mixed_slabs = 132,                                                             \
                   .mixed_slab_elems = 16384,                                                      \
                   .mixed_slabs_factor = 16,                                                       \
                   .mixed_min_elems = 4 << 20,                                                     \
                   .mixed_min_rows = 8,                                                            \
                   .mixed_slab_rows = 8,                                                           \
                   .mixed_columns_max = 16384,                                                     \
                   .mixed_all_columns_max = 32768,                                                 \
                   .mixed_shares_slabs = true,                                                     \
                   .remade_min_bytes = 4 << 10,                                                    \
                   .again_min_bytes = 1 << 20,                                                     \
                   .segment_arguments_max = 500, /* 4096 bytes, of which each takes 8 */           \
                   .segment_waiting_bytes = 64 << 10,                                              \
                   .segment_vector_elems = 8},                                                     \
        .warp = 32, .shuffle = 32, .threads_max = 1024, .blocks_max = (clusters),                  \
        .blocks_row_elems = 8192, .shared_bytes = 48 << 10, .shared_all_bytes = (shared_kb) << 10, \
        .staged_bytes = (staged_kb) << 10, .staged_row_elems = 8192, .registers = 65536,           \
        .registers_thread = 255, .vector_bytes = 16, .atomic_bytes = 8,                            \
        .multiprocessors = (processors), .resident = (threads), .groups = (groups_),               \
        .bytes_per_ns = (gigabytes_a_s), .cache_bytes_per_ns = 2 * (gigabytes_a_s),                \
        .latency_ns = 800, .flight_bytes = 1000.0 * (gigabytes_a_s) / (processors),                \
        .ops_per_ns = (additions_a_ns), .barrier_ns = 20, .blocks_ns = 400, .launch_ns = 3000,     \
    }

const hn_gpu_facts hn_gpu_facts_sm_80 = NVIDIA_FACTS(108, 2048, 32, 1, 164, 96, 1850, 9700);
const hn_gpu_facts hn_gpu_facts_sm_86 = NVIDIA_FACTS(84, 1536, 16, 1, 100, 96, 630, 18700);
const hn_gpu_facts hn_gpu_facts_sm_89 = NVIDIA_FACTS(142, 1536, 24, 1, 100, 96, 780, 45800);
const hn_gpu_facts hn_gpu_facts_sm_90 = NVIDIA_FACTS(132, 2048, 32, 8, 228, 224, 4300, 33400);
const hn_gpu_facts hn_gpu_facts_sm_100 = NVIDIA_FACTS(148, 2048, 32, 8, 228, 224, 7200, 37200);
const hn_gpu_facts hn_gpu_facts_compute_90 = NVIDIA_FACTS(132, 2048, 32, 8, 228, 96, 4300, 33400);
const hn_gpu_facts hn_gpu_facts_compute_100 = NVIDIA_FACTS(148, 2048, 32, 8, 228, 96, 7200, 37200);
const hn_gpu_facts hn_gpu_facts_sm_120 = NVIDIA_FACTS(170, 1536, 24, 8, 100, 96, 1600, 52400);

/* first_cache: bytes; nontemporal: from so many bytes on results bypass the caches. */
#define CPU_FACTS(first_cache, nontemporal)                                                        \
    {                                                                                              \
        .limits = {.operations = &hn_operations_all,                                               \
                   .costly_epilogue_max_elems = 64,                                                \
                   .split_min_elems = 131072,                                                      \
                   .split_rows = 200,                                                              \
                   .split_strips = 200,                                                            \
                   .split_parts_max = 64,                                                          \
                   .column_strip = 2048,                                                           \
                   .column_min_steps = 256,                                                        \
                   .long_row_elems = 32768,                                                        \
                   .local_max_elems = 65536,                                                       \
                   .mixed_slabs = 64,                                                              \
                   .mixed_slab_elems = 16384,                                                      \
                   .mixed_slabs_factor = 16,                                                       \
                   .mixed_min_elems = 1 << 17, /* f32 in `second_cache_bytes` */                   \
                   .mixed_columns_min = 64,                                                        \
                   .mixed_min_rows = 4,                                                            \
                   .mixed_slab_rows = 16,                                                          \
                   .mixed_narrow_loads = 1,                                                        \
                   .mixed_columns_max = 32768,                                                     \
                   .mixed_all_columns_max = 32768,                                                 \
                   .remade_min_bytes = 4 << 10,                                                    \
                   .again_min_bytes = 1 << 20,                                                     \
                   .segment_arguments_max = 1 << 16,                                               \
                   .segment_waiting_bytes = 64 << 10},                                             \
        .line_bytes = 64, .first_cache_bytes = (first_cache), .second_cache_bytes = 1 << 19,       \
        .last_cache_bytes = 16 << 20, .first_cache_rate = 100, .second_cache_rate = 60,            \
        .last_cache_rate = 25, .memory_rate = 12, .stream_rate = 10, .op_cycles = 0.5,             \
        .lane_cycles = 1.5, .loop_cycles = 1, .chain_cycles = 4, .phase_cycles = 8,                \
        .combine_cycles = 3, .rest_factor = 2, .overlap_loss = 0.3, .doubt = 1.06,                 \
        .cycles_per_ns = 3, .call_ns = 20, .team_ns = 5000, .bytes_per_ns = 24, .ops_per_ns = 32,  \
        .pipelined_gain = 1.2, .split_gain = 1.5, .tile_gain = 2, .wide_tile_gain = 1.5,           \
        .strip_gain = 2.3, .grain_work = 40000, .flat_block_elems = 1024,                          \
        .nontemporal_bytes = (nontemporal), .near_access_bytes = 256, .bases_max = 4,              \
        .accumulators = {{{8, 4}, {24, 2}, {UINT32_MAX, 1}}}, .chain_cost_min = 12,                \
        .chain_cost_max = 48, .whole_lines_cost_max = 8, .copy_cost_max = 1, .copy_vectors = 4,    \
        .many_gathers = 4, .ahead_cached_bytes = 4 << 10, .ahead_memory_bytes = 8 << 10,           \
        .ahead_picked_bytes = 16 << 10, .ahead_flat_elems = 512, .rows_ahead_max = 64,             \
        .busy_cost = 12, .gather_sparseness = 2, .pipelined_cost_min = 12,                         \
        .split_min_bytes = 16 << 20, .split_streams = 4, .split_cost_max = 8,                      \
        .column_vectors = {{{4, 8}, {24, 4}, {UINT32_MAX, 2}}}, .strip_min_cols = 128,             \
        .strip_min_rows = 48, .strip_cols_short = 512, .strip_step = 4, .strip_cost_max = 24,      \
        .strip_vectors = {{{8, 2}, {UINT32_MAX, 1}}}, .tile_min_elems = 4,                         \
        .wide_tile_parts_min = 16, .tile_rows_ahead = 8, .tile_ahead_bytes = 3 << 19,              \
        .narrow_tile_vectors = 1, .picked_rows_min = 64, .split_short_vectors = 4,                 \
        .far_column_vectors = 4, .far_column_steps = 1024,                                         \
    }

const hn_cpu_facts hn_cpu_facts_common = CPU_FACTS(32 << 10, 16 << 20);
/* Arm's servers (Neoverse N1 to V2) have 64 KiB, by their manuals. GNU vectors have no stores that
 * bypass its caches. Nothing was measured on such a machine. */
const hn_cpu_facts hn_cpu_facts_neon = CPU_FACTS(64 << 10, INT64_MAX);

enum { FEW_THREADS = 256, FEW_VECTOR_BYTES = 1 };

/* A thread of a group of 256 may have all registers that an instruction can name. */
hn_gpu_facts hn_gpu_facts_few_registers(const hn_gpu_facts *facts) {
    hn_gpu_facts few = *facts;
    few.few_registers = true;
    few.vector_bytes = FEW_VECTOR_BYTES;
    few.blocks_max = 1;
    if (few.threads_max > FEW_THREADS) few.threads_max = FEW_THREADS;
    return few;
}
