/* imaginary_cpu.h: a processor with vectors for tests of kernel forms. */
#ifndef HN_TESTS_IMAGINARY_CPU_H
#define HN_TESTS_IMAGINARY_CPU_H

#include "kernel/facts.h"

/* The usual one, or one with caches so small, and choices that pay so early, that the tensors of
 * tests reach them. */
static inline hn_cpu_facts hn_test_cpu(bool is_small) {
    hn_cpu_facts facts = hn_cpu_facts_common;
    if (!is_small) return facts;
    facts.first_cache_bytes = 256;
    facts.second_cache_bytes = 512;
    facts.tile_ahead_bytes = 512;
    facts.nontemporal_bytes = 256;
    facts.flat_block_elems = 64;
    facts.pipelined_cost_min = 1;
    facts.split_min_bytes = 64;
    facts.strip_min_cols = 3;
    facts.strip_min_rows = 3;
    facts.strip_cols_short = 64;
    facts.limits.column_strip = 128;
    facts.limits.again_min_bytes = 1;
    facts.limits.remade_min_bytes = 1;
    facts.tile_min_elems = 2;
    facts.wide_tile_parts_min = 1;
    return facts;
}

#endif
