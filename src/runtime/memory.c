/* memory.c: the pool of output blocks. */
#include "runtime/memory.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

enum {
    KEEP_FROM = 256 << 10, /* bytes: smaller blocks of the host come fast from malloc */
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
    bool has_caller;
    void *caller;
    hn_event *behind; /* work that may still use the memory; NULL: none */
    hn_block *next;   /* of those that wait in a list of the pool */
};

typedef struct kept_block {
    void *data;
    size_t bytes;
    hn_event *behind;
} kept_block;

struct hn_block_pool {
    hn_dev *dev;
    size_t keep_from; /* bytes */
    pthread_mutex_t lock;
    size_t refs; /* the owner, and each block that is out */
    bool closed; /* the owner is gone: keep nothing */
    size_t limit, kept_bytes;
    uint32_t kept_count;
    kept_block kept[KEEP_COUNT]; /* the last given back is last */
    /* Released, but their memory may be in use. Each has its reference. */
    hn_block *recorded; /* by recordings of the caller's queue, until the owner is gone */
    hn_block *untold;   /* the driver has failed to tell: it is asked again */
};

hn_status hn_block_pool_create(hn_dev *dev, hn_block_pool **out) {
    hn_block_pool *pool = calloc(1, sizeof *pool);
    if (!pool) return HN_ERROR(HN_OUT_OF_MEMORY, "no memory for a module");
    pthread_mutex_init(&pool->lock, NULL);
    pool->refs = 1;
    pool->dev = hn_dev_retain(dev);
    pool->keep_from = dev->facts.is_host ? KEEP_FROM : 0;
    *out = pool;
    return NULL;
}

/* What the pool keeps no longer. It is freed without the lock: that may be the caller's code. */
typedef struct dropped_blocks {
    kept_block items[KEEP_COUNT];
    uint32_t count;
} dropped_blocks;

/* With the lock held. The oldest go first. */
static void drop_kept(hn_block_pool *pool, size_t limit, dropped_blocks *out) {
    out->count = 0;
    while (pool->kept_bytes > limit) {
        out->items[out->count] = pool->kept[out->count];
        pool->kept_bytes -= pool->kept[out->count++].bytes;
    }
    for (uint32_t i = out->count; i < pool->kept_count; i++)
        pool->kept[i - out->count] = pool->kept[i];
    pool->kept_count -= out->count;
}

static void free_dropped(hn_block_pool *pool, const dropped_blocks *dropped) {
    for (uint32_t i = 0; i < dropped->count; i++)
        hn_dev_free_behind(pool->dev, dropped->items[i].data, dropped->items[i].behind);
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

static void free_block(hn_block *block) {
    hn_dev_free_behind(block->dev, block->data, block->behind);
    if (block->pool) {
        pthread_mutex_lock(&block->pool->lock);
        unref(block->pool);
    }
    hn_dev_release(block->dev);
    free(block);
}

void hn_block_pool_limit(hn_block_pool *pool, size_t bytes) {
    dropped_blocks dropped;
    pthread_mutex_lock(&pool->lock);
    pool->limit = bytes;
    drop_kept(pool, bytes, &dropped);
    pthread_mutex_unlock(&pool->lock);
    free_dropped(pool, &dropped);
}

/* A kept block that fits and wastes at most an eighth. */
static void take_kept(hn_block_pool *pool, size_t bytes, hn_block *out) {
    for (uint32_t i = pool->kept_count; i-- > 0;) {
        const kept_block found = pool->kept[i];
        if (found.bytes < bytes || found.bytes - bytes > bytes / 8) continue;
        out->data = found.data;
        out->bytes = found.bytes;
        out->behind = found.behind;
        pool->kept_bytes -= found.bytes;
        for (pool->kept_count--; i < pool->kept_count; i++) pool->kept[i] = pool->kept[i + 1];
        return;
    }
}

/* Whether the pool has taken the memory of the block. */
static bool keep(hn_block_pool *pool, const hn_block *block) {
    dropped_blocks dropped;
    dropped.count = 0;
    pthread_mutex_lock(&pool->lock);
    const bool keeps = block->data && block->bytes >= pool->keep_from && !pool->closed &&
                       pool->kept_count < KEEP_COUNT && block->bytes <= pool->limit;
    if (keeps) {
        drop_kept(pool, pool->limit - block->bytes, &dropped);
        pool->kept[pool->kept_count++] = (kept_block){block->data, block->bytes, block->behind};
        pool->kept_bytes += block->bytes;
    }
    pthread_mutex_unlock(&pool->lock);
    free_dropped(pool, &dropped);
    return keeps;
}

/* Whether the list has taken the block; not if the owner of the pool is gone. */
static bool park(hn_block *block, hn_block **list) {
    hn_block_pool *pool = block->pool;
    pthread_mutex_lock(&pool->lock);
    const bool parks = !pool->closed;
    if (parks) {
        block->next = *list;
        *list = block;
    }
    pthread_mutex_unlock(&pool->lock);
    return parks;
}

/* The point behind the caller's work. Errors: unsupported for a recording of its queue, which may be
 * done at any time and several times; device; out-of-memory. */
static hn_status note_caller(hn_block *block) {
    if (!block->has_caller || !hn_dev_is_here(block->dev)) return NULL;
    return block->dev->ops->record_caller(block->dev, block->caller, &block->behind);
}

/* Of a block that nobody has any more. */
static void give_back(hn_block *block) {
    hn_status status = note_caller(block);
    const bool is_recorded = hn_status_code(status) == HN_UNSUPPORTED;
    hn_block_pool *pool = block->pool;
    const bool parks = status && park(block, is_recorded ? &pool->recorded : &pool->untold);
    hn_status_free(status);
    if (parks) return;
    if (pool && keep(pool, block)) block->data = NULL, block->behind = NULL;
    free_block(block);
}

/* With the lock held. */
static hn_block *take_untold(hn_block_pool *pool) {
    hn_block *untold = pool->untold;
    pool->untold = NULL;
    return untold;
}

static void give_back_all(hn_block *block) {
    for (hn_block *next; block; block = next) {
        next = block->next;
        give_back(block);
    }
}

/* With the lock held, which it gives up while it asks. */
static void ask_again(hn_block_pool *pool) {
    hn_block *untold = take_untold(pool);
    if (!untold) return;
    pthread_mutex_unlock(&pool->lock);
    give_back_all(untold);
    pthread_mutex_lock(&pool->lock);
}

/* Work with the memory may be under way, such as a recording that was launched. */
static void free_recorded(hn_block *block) {
    for (hn_block *next; block; block = next) {
        next = block->next;
        hn_status_free(note_caller(block));
        free_block(block);
    }
}

void hn_block_pool_release(hn_block_pool *pool) {
    dropped_blocks dropped;
    if (!pool) return;
    pthread_mutex_lock(&pool->lock);
    pool->closed = true;
    drop_kept(pool, 0, &dropped);
    hn_block *recorded = pool->recorded, *untold = take_untold(pool);
    pool->recorded = NULL;
    pthread_mutex_unlock(&pool->lock);
    free_dropped(pool, &dropped);
    free_recorded(recorded);
    give_back_all(untold);
    pthread_mutex_lock(&pool->lock);
    unref(pool);
}

hn_block *hn_block_create(hn_block_pool *pool, size_t bytes) {
    hn_block *block = malloc(sizeof *block);
    if (!block) return NULL;
    *block = (hn_block){.bytes = bytes, .dev = hn_dev_retain(pool->dev)};
    atomic_init(&block->refs, 1);
    if (bytes >= pool->keep_from) {
        pthread_mutex_lock(&pool->lock);
        ask_again(pool);
        take_kept(pool, bytes, block);
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

/* What came before may be at work with the memory. */
static hn_status wait_behind(hn_block *block, hn_queue *queue) {
    const hn_device_ops *ops = block->dev->ops;
    if (!block->behind) return NULL;
    HN_TRY(ops->wait(queue, block->behind));
    ops->event_free(block->behind);
    block->behind = NULL;
    return NULL;
}

hn_status hn_block_create_for(hn_block_pool *pool, size_t bytes, hn_queue *queue, bool has_caller,
                              void *caller, hn_block **out) {
    hn_block *block = hn_block_create(pool, bytes ? bytes : 1);
    if (!block) return HN_ERROR(HN_OUT_OF_MEMORY, "no memory for an output of %zu bytes", bytes);
    hn_status status = wait_behind(block, queue);
    if (status) {
        hn_block_release(block);
        return status;
    }
    block->has_caller = has_caller;
    block->caller = caller;
    *out = block;
    return NULL;
}

bool hn_block_follow(hn_block *block, void *caller) {
    if (!block->pool) return false;
    pthread_mutex_lock(&block->pool->lock);
    const bool follows = !block->has_caller || block->caller == caller;
    if (follows) block->has_caller = true, block->caller = caller;
    pthread_mutex_unlock(&block->pool->lock);
    return follows;
}

void *hn_block_data(hn_block *block) { return block->data; }
void hn_block_retain(hn_block *block) {
    atomic_fetch_add_explicit(&block->refs, 1, memory_order_relaxed);
}

void hn_block_release(void *user) {
    hn_block *block = user;
    if (!block || atomic_fetch_sub_explicit(&block->refs, 1, memory_order_acq_rel) != 1) return;
    give_back(block);
}
