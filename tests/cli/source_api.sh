# A project's interface from C: results in the caller's memory, other sizes than the recorded ones, what a model keeps between runs.
data=$DATA/../../../tests/cli/data
flags="-O0 -g -Wall -Wextra -fsanitize=address,undefined"
# program FOLDER: main.c, read from standard input, with the library of the project
program() {
    cat >"$1/user.c"
    make -s -j2 -C "$1" CFLAGS="$flags" libmodel.a
    (cd "$1" && cc -std=gnu17 -D_GNU_SOURCE $flags -I. -Ilib -pthread -o user user.c libmodel.a -lm && OMP_NUM_THREADS=2 ./user)
}
prelude='#include "support.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#define CHECK(x) do { if (!(x)) { printf("line %d: %s: %s\n", __LINE__, #x, m ? model_error(m) : error); exit(1); } } while (0)
static model *m;
static char error[600];
/* the memory of a result; which block that is depends on how loops share kernels */
__attribute__((unused)) static const void *block_of(int output) {
    for (uint32_t k = 0; k < model_program.blocks; k++)
        if (model_program.block_output[k] == output) return m->blocks[k];
    return NULL;
}
'
"$HENRY" compile "$data/sizes.pt2" --emit source -q -o sizes
program sizes <<C
$prelude
enum { N = 7 };
int main(void) {
    static float x[8 * 4], relu[N * 4 + 1], sums[N], turned[4 * N + 1], doubled[4 * N + 1];
    CHECK(model_open("weights.bin", 2, &m, error, sizeof error) == 0);
    for (int k = 0; k < N * 4; k++) x[k] = (float)(k % 5 - 9);
    /* sizes of the caller's own, results straight into the caller's memory and not a byte further */
    model_array in = {.data = x, .sizes = {N, 4}}, out[MODEL_OUTPUTS] = {{.data = relu}, {0}, {.data = turned}, {.data = doubled}};
    CHECK(model_inputs[0].sizes[0] == 3 && model_outputs[0].sizes[0] == -1 && model_outputs[0].sizes[1] == 4);
    CHECK(model_output_sizes(m, &in, out) == 0 && out[0].sizes[0] == N && out[2].sizes[1] == N && !out[1].data);
    relu[N * 4] = turned[4 * N] = doubled[4 * N] = 77;
    CHECK(model_run(m, &in, out) == 0 && relu[N * 4] == 77 && turned[4 * N] == 77 && doubled[4 * N] == 77);
    CHECK(out[0].data == relu && out[2].data == turned && out[3].data == doubled && out[1].data == block_of(1));
    CHECK(block_of(0) == relu && block_of(3) == doubled);
    CHECK(block_of(2) != turned); /* the model's is column by column */
    for (int k = 0; k < N * 4; k++) {
        CHECK(relu[k] == (2 * x[k] + N > 0 ? 2 * x[k] + N : 0) && turned[k % 4 * N + k / 4] == x[k] + 1 && doubled[k % 4 * N + k / 4] == 2 * x[k]);
        sums[k / 4] += x[k];
    }
    CHECK(memcmp(sums, out[1].data, sizeof sums) == 0);
    /* elements that are not aligned are copied */
    static char odd[sizeof relu + 2];
    out[0].data = odd + 2;
    CHECK(model_run(m, &in, out) == 0 && block_of(0) != out[0].data && memcmp(odd + 2, relu, sizeof *relu * N * 4) == 0);
    /* and so is what would lie over an input */
    out[0].data = x + 4;
    CHECK(model_run(m, &in, out) == 0 && block_of(0) != out[0].data && memcmp(x + 4, relu, sizeof *relu * N * 4) == 0);
    in.sizes[1] = 5;
    CHECK(model_run(m, &in, out) == 1);
    puts(model_error(m));
    CHECK(MODEL_BUFFERS == 0 && model_buffers[0].name == NULL && model_buffer_read(m, 9, out) == 1);
    puts(model_error(m));
    model_close(m);
    return 0;
}
C
"$HENRY" compile "$data/mutate.pt2" --emit source -q -o mutate
program mutate <<C
$prelude
static float x[6] = {1, 2, 3, 4, 5, 6}, kept[3], mine[3] = {100, 200, 300};
static void show(const char *what) {
    model_array state = {0}, total = {.data = kept};
    CHECK(model_buffer_read(m, 0, &state) == 0 && model_buffer_read(m, 0, &total) == 0 && total.data == kept);
    CHECK(state.sizes[0] == 3 && memcmp(state.data, kept, sizeof kept) == 0);
    printf("%s: %s %g %g %g; x %g\n", what, model_buffers[0].name, kept[0], kept[1], kept[2], x[0]);
}
int main(void) {
    int64_t largest[2];
    CHECK(model_open("weights.bin", 1, &m, error, sizeof error) == 0);
    CHECK(MODEL_BUFFERS == 1 && model_inputs[0].is_changed && !model_inputs[1].is_changed && model_buffers[0].sizes[0] == 3);
    model_array in[MODEL_INPUTS] = {{.data = x, .sizes = {2, 3}}}, out[MODEL_OUTPUTS] = {{0}, {.data = largest}};
    show("as stored");
    for (int k = 0; k < 2; k++) {
        out[0].data = NULL;
        CHECK(model_run(m, in, out) == 0 && out[1].data == largest && m->blocks[1] == (uint8_t *)largest);
        printf("outputs %g, %lld %lld\n", ((float *)out[0].data)[0], (long long)largest[0], (long long)largest[1]);
        show("after a run");
    }
    CHECK(model_buffer_write(m, 0, &(model_array){.data = mine, .sizes = {3}}) == 0);
    show("as set");
    CHECK(model_buffer_write(m, 0, &(model_array){.data = mine, .sizes = {4}}) == 1);
    puts(model_error(m));
    CHECK(model_buffer_read(m, 1, &in[0]) == 1);
    puts(model_error(m));
    model_close(m);
    return 0;
}
C
# A branch that hands an input on, and random numbers, which are the same in each process.
npy() { printf '\x93NUMPY\x01\x00\x76\x00%-117s\n' "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }" >"$1" && printf "$2" >>"$1"; }
one='\x00\x00\x80\x3f' minus='\x00\x00\x80\xbf' two='\x00\x00\x00\x40'
npy plus.npy "$one$one$two$one$two$one"
npy minus.npy "$minus$minus$two$minus$one$minus"
project() {
    "$HENRY" compile "$data/$1.pt2" --emit source -q -o "$1"
    make -s -j2 -C "$1" CFLAGS="$flags" LDFLAGS="-fsanitize=address,undefined" example
}
project branch
for x in plus minus; do
    "$HENRY" run "$data/branch.pt2" -i $x.npy -i plus.npy -d $x -q
    branch/example -w branch/weights.bin -i $x.npy -i plus.npy -e $x/output_0.npy -e $x/output_1.npy --rtol 0 --atol 0
done
project random
"$HENRY" run "$data/random.pt2" -i plus.npy -d random -q
random/example -w random/weights.bin -i plus.npy -e random/output_0.npy --rtol 0 --atol 0 | sed 's/ sum.*//'
if "$HENRY" compile "$data/branch_size.pt2" --emit source -q -o refused 2>err; then echo "not refused"; fi
sed 's/.*: the size/the size/' err
ls refused 2>/dev/null || echo "nothing was written"
