/* kernels_generic.c: the contraction kernels for the baseline of the architecture. */
#include "ops/cpu/kernels_isa.h"

#define HN_LANES         4
#define HN_TILE_ROWS     6
#define HN_KERNELS_TABLE hn_ext_kernels_generic
#define HN_KERNELS_NAME  "generic"
#include "ops/cpu/kernels_body.h"
