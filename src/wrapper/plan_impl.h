/* plan_impl.h: what the files of the memory planner share: plan.c and donate.c. */
#ifndef HN_WRAPPER_PLAN_IMPL_H
#define HN_WRAPPER_PLAN_IMPL_H

#include "wrapper/donate.h"
#include "wrapper/lifetime.h"
#include "wrapper/pack.h"
#include "wrapper/slots.h"

enum { HN_PLAN_ALIGN = 64 };
#define HN_NO_SPACE UINT32_MAX

typedef struct hn_plan_item {
    hn_wbuf buffer; /* the first of those that share the memory by REUSE */
    uint32_t first, end;
    int64_t units; /* size in the region's unit, a multiple of HN_PLAN_ALIGN */
    int64_t at;    /* result */
} hn_plan_item;

/* Part of a space: sizes that are multiples of one term. */
typedef struct hn_region {
    uint32_t space;
    hn_expr term; /* 0: plain bytes */
    struct {
        hn_plan_item *items;
        uint32_t count, cap;
    } list;
    int64_t peak;
} hn_region;

typedef struct hn_plan_slot {
    uint32_t space;
    hn_expr bytes;
    uint32_t end; /* of the last buffer in it */
    struct {
        hn_plan_item *items;
        uint32_t count, cap;
    } list;
} hn_plan_slot;

/* A workspace or a pool. */
typedef struct hn_plan_space {
    hn_expr bytes;
    hn_device_kind device;
    hn_wbuf input; /* whose memory it is; 0: fresh memory */
    bool is_used;  /* of a pool of outputs: the options ask for it */
    bool has_items;
    uint32_t number; /* 1 + that of the pool in the plan; 0: a workspace, or nothing is in it */
} hn_plan_space;

typedef struct hn_planner {
    hn_wrapper *w;
    hn_sym *sym;
    hn_arena *arena;
    const hn_plan_options *options;
    hn_wlives lives;
    hn_wbuf *root; /* buffers that share memory by REUSE have one root, maybe an input */
    /* per root: what its buffers need together; bytes 0: nothing that is placed */
    hn_wlife *root_life;
    hn_expr *root_bytes;
    uint32_t *root_space;
    hn_expr *root_at; /* the result: bytes in the space; 0 id: not placed yet */
    struct {
        hn_plan_space *items;
        uint32_t count, cap;
    } spaces; /* the workspace of each device, its pool of outputs; donated inputs */
    struct {
        hn_region *items;
        uint32_t count, cap;
    } regions; /* the first of a space: plain bytes */
    struct {
        hn_plan_slot *items;
        uint32_t count, cap;
    } slots;
    struct {
        hn_plan_item *items;
        uint32_t count, cap;
    } odd; /* for slots */
    hn_memory_plan *plan;
} hn_planner;

/* False: `value` is negative, or too large. */
bool hn_plan_round_up(int64_t value, int64_t *out);
/* donate.c: places what may lie in the memory of donated inputs. */
hn_status hn_plan_donate(hn_planner *p) HN_MUST_USE;

#endif
