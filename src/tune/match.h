/* match.h: whether results are right, where sums may be taken in any order. */
#ifndef HN_TUNE_MATCH_H
#define HN_TUNE_MATCH_H

#include "base/str.h"
#include "henry/tensor.h"

/* Elements that lie one behind the other: whole numbers have to be equal, floats near. `why` gets the
 * first that is not. */
bool hn_elements_match(hn_scalar_type type, const uint8_t *got, const uint8_t *want, int64_t count,
                       hn_strbuf *why);
/* How far a float may be from its reference, which rounds once, by the largest element: others sum in
 * another order, and a cancelled sum keeps the error of its parts. Faults are far beyond it. 0 for whole
 * numbers. */
double hn_match_tolerance(hn_scalar_type type, double largest);

#endif
