/* slots.h: temporaries whose size only the data tells. Internal to src/wrapper.
 *
 * They have no place in the workspace: each gets a slot, a piece of memory of its own that the
 * runtime makes as large as needed when the size becomes known, which is at the DEFINE line of the
 * last of its symbols. Buffers of one device share a slot when one's life ends before that line of
 * the other. */
#ifndef HN_WRAPPER_SLOTS_H
#define HN_WRAPPER_SLOTS_H

#include "wrapper/lifetime.h"

/* Whether some DATA symbol is in `e`. */
bool hn_wrapper_is_data(hn_sym *sym, hn_expr e);
/* What the planner reserves: the size, or its upper bound when that is small; 0 when the buffer
 * gets a slot. */
hn_expr hn_wrapper_placed_bytes(const hn_wrapper *w, hn_wbuf buffer);
/* Fills slots and slot_count of the plan. */
hn_status hn_wrapper_slots(const hn_wrapper *w, const hn_wlives *lives, hn_arena *scratch,
                           hn_memory_plan *plan) HN_MUST_USE;

#endif
