/* programs.h: a model compiled for several kinds of device. */
#ifndef HN_DRIVER_PROGRAMS_H
#define HN_DRIVER_PROGRAMS_H

#include "base/str.h"
#include "henry/program.h"

/* The targets of a list, "sm_90a,x86-64-v3,sm_80", by the kind of device that they are for. */
typedef struct hn_target_groups {
    hn_strbuf names[HN_DEVICE_KIND_COUNT]; /* "sm_90a,sm_80"; empty: none */
    uint32_t count;                        /* of kinds that have some */
} hn_target_groups;

/* `targets` NULL: this machine's CPU. Owns: the caller, until deinit, also after an error. Errors:
 * those of hn_target_named. */
hn_status hn_target_groups_init(hn_target_groups *groups, const char *targets) HN_MUST_USE;
void hn_target_groups_deinit(hn_target_groups *groups);

/* A compilation for one kind of device: of the file at `path`, or, if that is NULL, of the model
 * `bytes`. */
typedef hn_status (*hn_compile_fn)(const char *path, hn_str bytes,
                                   const hn_compile_options *options, hn_compiled **out);

/* One file with a program for each kind of device among the targets, the CPU's first, compiled one
 * after another by `compile` and cached each by itself. With one kind it is that program's. */
hn_status hn_compile_programs(hn_compile_fn compile, const char *path, hn_str bytes,
                              const hn_compile_options *options, hn_compiled **out) HN_MUST_USE;

#endif
