/* memory.c: the pool of output blocks. */
#include "runtime/memory.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

enum {
    KEEP_FROM = 256 << 10, /* bytes: smaller blocks come fast from malloc */
    KEEP_COUNT = 32
};

/* Block and data are separate, so that data has its own alignment and a kept block is only a
 * pointer. */
struct hn_block {
    atomic_uint refs;
    hn_dev *dev;         /* whose memory it is; one reference */
    hn_block_pool *pool; /* NULL: a small one, which is not kept */
    void *data;
    size_t bytes;
};

struct hn_block_pool {
    hn_dev *dev;
    pthread_mutex_t lock;
    size_t refs; /* the owner, and each block that is out */
    bool closed; /* the owner is gone: keep nothing */
    size_t limit, kept_bytes;
    uint32_t kept_count;
    struct {
        void *data;
        size_t bytes;
    } kept[KEEP_COUNT]; /* the last given back is last */
};

hn_status hn_block_pool_create(hn_dev *dev, hn_block_pool **out) {
    hn_block_pool *pool = calloc(1, sizeof *pool);
    if (!pool) return HN_ERROR(HN_OUT_OF_MEMORY, "no memory for a module");
    pthread_mutex_init(&pool->lock, NULL);
    pool->refs = 1;
    pool->dev = hn_dev_retain(dev);
    *out = pool;
    return NULL;
}

static void drop_kept(hn_block_pool *pool, size_t limit) {
    uint32_t gone = 0;
    while (pool->kept_bytes > limit) {
        pool->kept_bytes -= pool->kept[gone].bytes;
        hn_dev_free(pool->dev, pool->kept[gone++].data);
    }
    for (uint32_t i = gone; i < pool->kept_count; i++) pool->kept[i - gone] = pool->kept[i];
    pool->kept_count -= gone;
}

/* Gives up one reference and the lock. */
static void unref(hn_block_pool *pool) {
    bool last = --pool->refs == 0;
    pthread_mutex_unlock(&pool->lock);
    if (!last) return;
    pthread_mutex_destroy(&pool->lock);
    hn_dev_release(pool->dev);
    free(pool);
}

void hn_block_pool_release(hn_block_pool *pool) {
    if (!pool) return;
    pthread_mutex_lock(&pool->lock);
    pool->closed = true;
    drop_kept(pool, 0);
    unref(pool);
}

void hn_block_pool_limit(hn_block_pool *pool, size_t bytes) {
    pthread_mutex_lock(&pool->lock);
    pool->limit = bytes;
    drop_kept(pool, bytes);
    pthread_mutex_unlock(&pool->lock);
}

/* A kept block that fits and wastes at most an eighth. */
static void *take_kept(hn_block_pool *pool, size_t bytes, size_t *out_bytes) {
    for (uint32_t i = pool->kept_count; i-- > 0;) {
        if (pool->kept[i].bytes < bytes || pool->kept[i].bytes - bytes > bytes / 8) continue;
        void *data = pool->kept[i].data;
        *out_bytes = pool->kept[i].bytes;
        pool->kept_bytes -= pool->kept[i].bytes;
        for (pool->kept_count--; i < pool->kept_count; i++) pool->kept[i] = pool->kept[i + 1];
        return data;
    }
    return NULL;
}

hn_block *hn_block_create(hn_block_pool *pool, size_t bytes) {
    hn_block *block = malloc(sizeof *block);
    if (!block) return NULL;
    *block = (hn_block){.bytes = bytes, .dev = hn_dev_retain(pool->dev)};
    atomic_init(&block->refs, 1);
    if (bytes >= KEEP_FROM) {
        pthread_mutex_lock(&pool->lock);
        block->data = take_kept(pool, bytes, &block->bytes);
        block->pool = pool;
        pool->refs++;
        pthread_mutex_unlock(&pool->lock);
    }
    if (!block->data) block->data = hn_dev_alloc(block->dev, bytes);
    if (block->data) return block;
    block->bytes = 0;
    hn_block_release(block);
    return NULL;
}

void *hn_block_data(hn_block *block) { return block->data; }
void hn_block_retain(hn_block *block) {
    atomic_fetch_add_explicit(&block->refs, 1, memory_order_relaxed);
}

/* Whether the pool has taken the memory of the block. */
static bool keep(hn_block_pool *pool, const hn_block *block) {
    pthread_mutex_lock(&pool->lock);
    const bool keeps = block->data && block->bytes >= KEEP_FROM && !pool->closed &&
                       pool->kept_count < KEEP_COUNT && block->bytes <= pool->limit;
    if (keeps) {
        drop_kept(pool, pool->limit - block->bytes); /* the oldest make room */
        pool->kept[pool->kept_count].data = block->data;
        pool->kept[pool->kept_count++].bytes = block->bytes;
        pool->kept_bytes += block->bytes;
    }
    pthread_mutex_unlock(&pool->lock);
    return keeps;
}

void hn_block_release(void *user) {
    hn_block *block = user;
    if (!block || atomic_fetch_sub_explicit(&block->refs, 1, memory_order_acq_rel) != 1) return;
    if (!block->pool || !keep(block->pool, block))
        hn_dev_free(block->dev, block->data); /* the caller's code: without the lock */
    if (block->pool) {
        pthread_mutex_lock(&block->pool->lock);
        unref(block->pool);
    }
    hn_dev_release(block->dev);
    free(block);
}
