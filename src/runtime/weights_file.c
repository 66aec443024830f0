/* weights_file.c: all weights of a module from a safetensors file. */
#include "runtime/module_impl.h"

#include "base/kind.h"
#include "base/require.h"
#include "bundle/safetensors.h"

#include <stdlib.h>

/* Every storage that the program reads must get a new content, or old and new weights would be
 * mixed. */
static hn_status check_complete(const hn_module *m, const hn_safetensor *tensors, uint32_t count) {
    const hn_bundle *b = &m->view;
    const char *missing = NULL;
    uint32_t missing_count = 0;
    bool *given = calloc((size_t)b->storages_count + 1, sizeof *given);
    if (!given) return HN_ERROR(HN_OUT_OF_MEMORY, "no memory to exchange weights");
    for (uint32_t k = 0; k < count; k++) {
        uint32_t index;
        hn_status status = hn_module_weight_find(m, tensors[k].name.ptr, &index);
        if (!status) given[b->tensors[index].storage] = true;
        hn_status_free(status); /* the exchange will tell */
    }
    for (uint32_t k = 0; k < b->tensors_count; k++) {
        const hnb_tensor *t = &b->tensors[k];
        if (!t->storage || given[t->storage]) continue;
        if (!missing_count++) missing = hn_bundle_text(b, t->name);
    }
    free(given);
    if (!missing) return NULL;
    return HN_ERROR(
        HN_NOT_FOUND,
        "the file lacks the weight '%s' (%u in all); to replace some only, use hn_module_weights_replace",
        missing, missing_count);
}

/* What the compiler has computed with would stay as it was. */
static hn_status check_folded(const hn_module *m) {
    const hn_bundle *b = &m->view;
    for (uint32_t k = 0; k < b->tensors_count; k++)
        if (b->tensors[k].is_folded)
            return HN_ERROR(
                HN_UNSUPPORTED,
                "weight '%s' cannot be replaced: the compiler computed with its values, and the program has the result; "
                "compile the model again with the new weights",
                hn_bundle_text(b, b->tensors[k].name));
    return NULL;
}

static hn_status exchange(hn_module *m, const hn_safetensor *tensors, uint32_t count,
                          hn_named_tensor *named) {
    for (uint32_t k = 0; k < count; k++) {
        static const uint8_t nothing[1];
        const hn_safetensor *t = &tensors[k];
        hn_tensor_desc desc = {
            .type = (hn_scalar_type)t->dtype, .rank = t->rank, .sizes = t->sizes};
        named[k].name = t->name.ptr;
        HN_TRY(hn_tensor_create_const(&desc, t->len ? t->bytes : nothing, &named[k].tensor));
    }
    return hn_module_weights_replace(m, named, count, false);
}

static hn_status load(hn_module *m, const hn_file_map *map, hn_arena *arena) {
    hn_safetensor *tensors;
    uint32_t count;
    if (hn_kind_of(map->data, map->size_bytes) == HN_KIND_PT2)
        return HN_ERROR(
            HN_INVALID_ARGUMENT,
            "this is a model; write its weights with safetensors.torch.save_file(model.state_dict(), ...), "
            "or compile it");
    HN_TRY(hn_safetensors_read(map->data, map->size_bytes, arena, &tensors, &count));
    HN_TRY(check_folded(m));
    HN_TRY(check_complete(m, tensors, count));
    hn_named_tensor *named = calloc((size_t)count + 1, sizeof *named);
    if (!named) return HN_ERROR(HN_OUT_OF_MEMORY, "no memory to exchange weights");
    hn_status status = exchange(m, tensors, count, named);
    for (uint32_t k = 0; k < count; k++) hn_tensor_release(named[k].tensor);
    free(named);
    return status;
}

hn_status hn_module_weights_load(hn_module *m, const char *path) {
    hn_file_map map;
    hn_arena arena;
    HN_REQUIRE(m, "module");
    HN_REQUIRE(path, "path");
    hn_status status = hn_file_map_init(&map, path);
    if (!status) {
        hn_arena_init(&arena);
        status = load(m, &map, &arena);
        hn_arena_deinit(&arena);
        hn_file_map_deinit(&map);
    }
    return hn_status_annotate(status, "cannot take weights from '%s'", path);
}
