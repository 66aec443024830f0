/* memory.h: memory for outputs. Internal to src/runtime. */
#ifndef HN_RUNTIME_MEMORY_H
#define HN_RUNTIME_MEMORY_H

#include "runtime/device/device.h"

#include <stddef.h>

/* Memory of outputs. A block is counted: several output tensors may look into it. Large blocks that
 * come back are kept by the pool for the next call, because fresh memory costs a page fault for
 * every 4 KiB, which is as much as many a kernel takes; of another device than the host all are,
 * because its driver takes longer still. No more is kept than `limit`: what one call's outputs need. The pool
 * outlives its owner while blocks are out.
 * Threads: all functions are safe. */
typedef struct hn_block_pool hn_block_pool;
typedef struct hn_block hn_block;

/* keeps a reference */
hn_status hn_block_pool_create(hn_dev *dev, hn_block_pool **out) HN_MUST_USE;
void hn_block_pool_release(hn_block_pool *pool); /* frees what is kept; NULL is allowed */
/* How much may be kept from now on. */
void hn_block_pool_limit(hn_block_pool *pool, size_t bytes);

/* One reference. NULL without memory. */
hn_block *hn_block_create(hn_block_pool *pool, size_t bytes);
/* The same for work of a queue of the pool's device. With `has_caller`, the memory is used by what
 * the queue `caller` of the driver has when the block is released; a queue that gets the memory again
 * waits for that. If that cannot be told, as while `caller` is recorded, the memory is not used again
 * as long as the pool has its owner. Errors: out-of-memory; device. */
hn_status hn_block_create_for(hn_block_pool *pool, size_t bytes, hn_queue *queue, bool has_caller,
                              void *caller, hn_block **out) HN_MUST_USE;
/* From now on the memory is used by the queue `caller`, too. False: it has another one, whose work
 * must not be forgotten. */
bool hn_block_follow(hn_block *block, void *caller);
void *hn_block_data(hn_block *block);
void hn_block_retain(hn_block *block);
/* NULL is allowed; void * so that it can free a tensor's data */
void hn_block_release(void *block);

#endif
