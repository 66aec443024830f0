# The memory of a C project: pools, and inputs that the caller gives up.
command -v gcc >/dev/null || { echo "no gcc" >&2; exit 77; }
cat >m.hnir <<'END'
graph @m {
  input user %x : f32[64, 64] "x"
  input user %z : f32[64, 64] "z"
  %a = sin(%x) : f32[64, 64]
  %m = aten.matmul.default(%a, %z) : f32[64, 64]
  %b = aten.matmul.default(%m, %m) : f32[64, 64]
  output user %a "a"
  output user %m "m"
  output user %b "b"
}
END
cat >test.c <<'END'
#include "model.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHECK(what) do { if (!(what)) return printf("line %d: %s\n", __LINE__, #what), 1; } while (0)
enum { N = 64, ALL = N * N };
static _Alignas(64) float x[ALL + 16], z[ALL], a[ALL], m[ALL], b[ALL];

static void product(const float *p, const float *q, float *out) {
    for (int i = 0; i < N; i++)
        for (int j = 0; j < N; j++) {
            float sum = 0;
            for (int k = 0; k < N; k++) sum += p[i * N + k] * q[k * N + j];
            out[i * N + j] = sum;
        }
}
static void fill(float *at) {
    for (int k = 0; k < ALL; k++) at[k] = (float)k / ALL, z[k] = (float)(k % 7) / 100;
    for (int k = 0; k < ALL; k++) a[k] = sinf(at[k]);
    product(a, z, m), product(m, m, b);
}
static int is_near(const void *got, const float *want) {
    for (int k = 0; k < ALL; k++)
        if (!(fabsf(((const float *)got)[k] - want[k]) < 1e-3f)) return 0;
    return 1;
}
static int is_full(const float *at) {
    for (int k = 0; k < ALL; k++)
        if (at[k] != (float)k / ALL) return 0;
    return 1;
}
static int is_in(const void *p, const float *at) {
    return (const char *)p >= (const char *)at && (const char *)p < (const char *)(at + ALL);
}

int main(void) {
    model *p;
    char error[200];
    if (model_open("weights.bin", 2, &p, error, sizeof error)) return puts(error), 1;
    const int takes = model_inputs[0].is_donated;
    CHECK(!model_inputs[1].is_donated);
    for (int way = 0; way < 4; way++) { /* not given up; given up; at another address; with given outputs */
        float *at = x + (way == 2 ? 1 : 0);
        fill(at);
        model_array in[2] = {{.data = at, .sizes = {N, N}, .donated = way > 0}, {.data = z, .sizes = {N, N}}};
        model_array out[3] = {{0}};
        static _Alignas(64) float own[ALL];
        if (way == 3) out[1].data = own;
        CHECK(model_run(p, in, out) == 0);
        CHECK(is_near(out[0].data, a) && is_near(out[1].data, m) && is_near(out[2].data, b));
        const int inside = is_in(out[0].data, at) + is_in(out[1].data, at) + is_in(out[2].data, at);
        CHECK(inside == (takes && way % 2));
        CHECK(is_full(at) || (takes && way % 2));
        if (way == 3) CHECK(out[1].data == own);
        for (int k = 0; k < ALL; k++) CHECK(z[k] == (float)(k % 7) / 100);
    }
    fill(x);
    model_array same[2] = {{.data = x, .sizes = {N, N}, .donated = 1}, {.data = x, .sizes = {N, N}}}, out[3] = {{0}};
    CHECK(model_run(p, same, out) == takes);
    if (takes) puts(model_error(p));
    CHECK(is_full(x));
    same[1].data = z;
    out[2].data = x;
    CHECK(model_run(p, same, out) == takes);
    if (takes) puts(model_error(p));
    model_close(p);
    return 0;
}
END
for mode in intermediates none outputs combined; do
    for input in "" "--donate x"; do
        # shellcheck disable=SC2086 # a list of words
        "$HENRY" compile m.hnir --emit source -o project --pool $mode $input -q
        make -s -C project CC=gcc CFLAGS="-O1 -Wall -Wextra -Werror" libmodel.a
        gcc -O1 -Wall -Wextra -Werror -Iproject test.c project/libmodel.a -lpthread -lm -o test
        cp project/weights.bin .
        echo "$mode $input"
        ./test
    done
done
