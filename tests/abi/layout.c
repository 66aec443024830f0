/* layout.c: structs that programs fill grow at the end: what stood where must stay there. Numbers
 * of machines with pointers of 8 bytes. */
#include <henry/bench.h>
#include <henry/henry.h>
#include <henry/tune.h>
#include <stddef.h>

#define AT(type, member, offset)                                                                   \
    _Static_assert(offsetof(type, member) == (offset), #member " of " #type " has moved")

#if UINTPTR_MAX == UINT64_MAX
AT(hn_tensor_desc, type, 0);
AT(hn_tensor_desc, rank, 4);
AT(hn_tensor_desc, sizes, 8);
AT(hn_tensor_desc, strides, 16);
AT(hn_tensor_desc, data, 24);
AT(hn_tensor_desc, free_data, 32);
AT(hn_tensor_desc, free_user, 40);
AT(hn_tensor_desc, device, 48);
_Static_assert(sizeof(hn_tensor_desc) == 56, "hn_tensor_desc has grown: add its new member here");
AT(hn_module_options, threads, 0);
AT(hn_module_options, device, 48);
AT(hn_module_options, device_memory_bytes, 72);
AT(hn_module_options, device_graphs, 80);
AT(hn_module_options, device_context, 88);
AT(hn_module_options, device_allocator, 96);
AT(hn_module_options, debug_tensors, 104);
AT(hn_module_options, pool_fill, 112);
_Static_assert(sizeof(hn_module_options) == 120, "add the new member of hn_module_options here");
AT(hn_run_options, threads, 0);
AT(hn_run_options, cancel, 8);
AT(hn_run_options, state, 16);
AT(hn_run_options, has_stream, 24);
AT(hn_run_options, stream, 32);
AT(hn_run_options, device_outputs, 40);
AT(hn_run_options, donated, 48);
AT(hn_run_options, donated_count, 56);
_Static_assert(sizeof(hn_run_options) == 64, "add the new member of hn_run_options here");
AT(hn_module_stats, weights_uploaded_bytes, 80);
AT(hn_module_stats, graph_runs, 120);
AT(hn_module_stats, scratch_bytes, 224);
AT(hn_module_stats, libraries_start_ns, 232);
AT(hn_module_stats, operations_first_ns, 248);
AT(hn_module_stats, weights_computed_bytes, 256);
_Static_assert(sizeof(hn_module_stats) == 272, "add the new member of hn_module_stats here");
AT(hn_compile_options, computed_weights_bytes, 176);
AT(hn_compile_options, tuning, 192);
AT(hn_step_record, read_bytes, 48);
AT(hn_step_record, has_form, 80);
AT(hn_step_record, sizes, 168);
AT(hn_step_record, part, 192);
AT(hn_step_record, elements, 200);
AT(hn_bench_options, noise, 8);
AT(hn_bench_options, sample_ns, 32);
AT(hn_bench_options, flush, 48);
AT(hn_bench_options, is_cancelled, 64);
AT(hn_bench_options, now_ns, 80);
AT(hn_bench_options, clock_user, 96);
_Static_assert(sizeof(hn_bench_options) == 104, "add the new member of hn_bench_options here");
AT(hn_bench_subject, device, 12);
AT(hn_bench_subject, reference, 32);
_Static_assert(sizeof(hn_bench_subject) == 48, "add the new member of hn_bench_subject here");
_Static_assert(sizeof(hn_step_record) == 208, "add the new member of hn_step_record here");
#endif

/* Zeros mean the CPU: programs that know nothing of devices fill nothing in. */
_Static_assert(HN_DEVICE_CPU == 0 && HN_DEVICE_CUDA == 1 && HN_DEVICE_OPENCL == 2, "numbers stay");
