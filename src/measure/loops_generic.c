/* loops_generic.c: the loops for the baseline of the architecture. */
#include "measure/loops_isa.h"

#include <stdbool.h>

#define LOOP_LANES 4
#ifdef HN_LOOPS_X86
#define LOOP_STREAM(to, x) _mm_stream_ps(to, (__m128)(x))
#define LOOP_FENCE         _mm_sfence()
#else /* plain stores of whole lines, which such processors recognise */
#define LOOP_STREAM(to, x) (*(vec *)(to) = (x))
#define LOOP_FENCE         (void)0
#endif
#define LOOPS_TABLE hn_loops_generic
#define LOOPS_NAME  "generic"
#include "measure/loops_body.h"
