/* carry.h: what loops carry, in place. Internal to src/wrapper and src/driver. */
#ifndef HN_WRAPPER_CARRY_H
#define HN_WRAPPER_CARRY_H

#include "wrapper/wrapper.h"

/* Drops the copies at the ends of rounds whose value can be computed where it is carried. Right
 * behind the lowering: see carry.c. */
hn_status hn_wrapper_carry(hn_wrapper *w) HN_MUST_USE;

/* Two rounds in one, in which what is carried and what is made of it change places, in place of
 * copies. Behind hn_wrapper_carry: see swap.c. */
hn_status hn_wrapper_swap(hn_wrapper *w) HN_MUST_USE;

#endif
