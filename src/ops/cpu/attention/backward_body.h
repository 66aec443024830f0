/* backward_body.h: the kernels of the gradients of attention, for one instruction set. Included by
 * kernels_body.h behind attention/body.h. Lanes are keys. */

static void mask_scores(float *scores, const float *mask, int64_t count) {
    int64_t i = 0;
    for (; i + HN_LANES <= count; i += HN_LANES)
        vec_store(scores + i, add_mask(vec_load(scores + i), vec_load(mask + i)));
    for (; i < count; i++)
        scores[i] = mask[i] == -__builtin_inff() ? -__builtin_inff() : scores[i] + mask[i];
}

static void gradient(float *weights, float *changes, int64_t count, float factor, float dot) {
    const vec by = vec_splat(factor), dots = vec_splat(dot), none = vec_splat(0);
    int64_t i = 0;
    for (; i + HN_LANES <= count; i += HN_LANES) {
        const vec given = vec_load(weights + i);
        const vec weight = vec_select(given == none, none, given * by);
        const vec change = weight * (vec_load(changes + i) - dots);
        vec_store(weights + i, weight);
        vec_store(changes + i, vec_select(weight == none, none, change));
    }
    for (; i < count; i++) {
        weights[i] = weights[i] == 0 ? 0 : weights[i] * factor;
        changes[i] = weights[i] == 0 ? 0 : weights[i] * (changes[i] - dot);
    }
}
