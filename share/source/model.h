/* model.h: the model '@NAME@' as C functions.
 *
 *     model *m;
 *     char error[256];
 *     if (model_open("weights.bin", 0, &m, error, sizeof error)) return puts(error), 1;
 *     model_array in[MODEL_INPUTS] = {{.data = x, .sizes = {8, 64}}}, out[MODEL_OUTPUTS] = {{0}};
 *     if (model_run(m, in, out)) return puts(model_error(m)), 1;
 *     ... out[0].data, out[0].sizes ...
 *     model_close(m);
 *
 * Arrays are row-major, without gaps. Functions return 0, or 1 with a message. Threads: one call at
 * a time on one model; open several for calls at the same time, the pages of the weights are
 * shared.
 *
 * @SIGNATURE@ */
#ifndef MODEL_H
#define MODEL_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum {
    MODEL_INPUTS = @INPUTS @,
    MODEL_OUTPUTS = @OUTPUTS @,
    MODEL_BUFFERS = @STATES @,
    MODEL_MAX_RANK = 16
};

/* Elements. F16 is IEEE half precision, BF16 the upper half of an F32, BOOL one byte that is 0 or
 * 1. */
typedef enum model_type {
    MODEL_F64 = 1,
    MODEL_F32 = 2,
    MODEL_F16 = 3,
    MODEL_BF16 = 4,
    MODEL_I64 = 5,
    MODEL_I32 = 6,
    MODEL_I16 = 7,
    MODEL_I8 = 8,
    MODEL_U8 = 9,
    MODEL_BOOL = 10
} model_type;

/* Numbers are arrays of rank 0: INT of MODEL_I64, FLOAT of MODEL_F64, BOOL of MODEL_BOOL. A number
 * that the model was exported with as a constant may be left out (data NULL) and must have that
 * value else. Of TEXT and NONE data is always NULL. */
typedef enum model_kind {
    MODEL_TENSOR,
    MODEL_INT,
    MODEL_FLOAT,
    MODEL_BOOLEAN,
    MODEL_TEXT,
    MODEL_NONE
} model_kind;

typedef struct model_info {
    const char *name;
    model_kind kind;
    model_type type;
    int rank;
    int is_changed;    /* of inputs: a run writes to the array */
    const char *shape; /* "[s0, 64]" */
    /* of inputs: sizes that fit together, for a first try; of others: -1 where they vary */
    int64_t sizes[MODEL_MAX_RANK];
} model_info;

/* Buffers: weights that the model changes, such as a cache or running means. */
extern const model_info model_inputs[], model_outputs[], model_buffers[];

typedef struct model_array {
    void *data;
    int64_t sizes[MODEL_MAX_RANK]; /* as many as the rank */
} model_array;

typedef struct model model;

/* Maps the weights, which must stay as they are while the model is open. `threads`: for each run; 0
 * takes OMP_NUM_THREADS, else the number of processors. All models of a process share its worker
 * threads. After an error `*out` is NULL and `error` (may be NULL) says what is wrong. */
int model_open(const char *weights_path, int threads, model **out, char *error, size_t error_bytes);
void model_close(model *m); /* NULL is allowed */

/* Fills the sizes of the outputs for inputs of these sizes (`data` is read of numbers only); -1
 * where only the data tells. */
int model_output_sizes(model *m, const model_array *inputs, model_array *outputs);

/* Runs the model. An output whose `data` is NULL is given memory of the model's own, which lasts
 * until the next call of model_run or model_close; else the result is written to `data`, which must
 * have room for it and overlap no other output. It is computed there, not copied, where the program
 * has it row-major and alone and it lies apart from the inputs. Sizes are filled in. Inputs that
 * the model writes to are changed in place. After an error the content of `data` of outputs is
 * undefined; inputs and the model's state have not changed. */
int model_run(model *m, const model_array *inputs, model_array *outputs);

/* Buffer `k` as the last run left it, or as the weights have it. `data`: as for an output. */
int model_buffer_read(model *m, int k, model_array *out);
/* Replaces it: a copy is made. */
int model_buffer_write(model *m, int k, const model_array *buffer);

/* Of the last call that failed. */
const char *model_error(const model *m);

#ifdef __cplusplus
}
#endif
#endif
