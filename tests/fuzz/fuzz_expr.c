/* fuzz_expr.c: any bytes as an expression and as a condition of a .pt2 file. */
#include "front/pt2/expr.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static hn_expr make_symbol(void *user, hn_str name, int64_t lo) {
    if (name.len < 2 || name.len > 8 || (name.ptr[0] != 's' && name.ptr[0] != 'u')) return 0;
    return hn_sym_symbol(user, name, HN_SYMBOL_SIZE, lo < 0 ? 0 : lo, 1 << 20);
}
static hn_expr find_input(void *user, hn_str path, bool stride, int64_t dim) {
    return path.len == 1 && dim < 8 ? make_symbol(user, stride ? HN_STR("s1") : HN_STR("s0"), 0)
                                    : 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    hn_str text = {(const char *)data, size};
    for (int as_condition = 0; as_condition < 2 && size <= 4096; as_condition++) {
        hn_arena arena;
        hn_sym *sym = NULL;
        hn_expr expr;
        const hn_pt2_relation *relations;
        uint32_t count;
        hn_arena_init(&arena);
        hn_status status = hn_sym_create(&arena, &sym);
        hn_pt2_expr_env env = {
            .sym = sym, .scratch = &arena, .user = sym, .symbol = make_symbol, .input = find_input};
        if (!status && as_condition)
            status = hn_pt2_condition_parse(&env, text, &relations, &count);
        else if (!status) status = hn_pt2_expr_parse(&env, text, &expr);
        hn_status_free(status);
        hn_arena_deinit(&arena);
    }
    return 0;
}
