/* format.h: the bundle file (.hnb) as it lies on disk. Normative text: docs/bundle-format.md.
 *
 * Everything is little endian and naturally aligned, so the structs are read in place from a mapped
 * file. Part one ("tables"): header, section table, sections; the header's digest covers it. Part
 * two ("code"): compiled objects; the table of objects has a digest of each. Part three: embedded
 * weights, at a multiple of 64 KiB. A section is an array of one struct. References are indices;
 * where 0 means "none", element 0 of the section is a filler. Numbers of enums are part of the
 * format: append only. A change of meaning raises HNB_VERSION. */
#ifndef HN_BUNDLE_FORMAT_H
#define HN_BUNDLE_FORMAT_H

#include "base/box.h"
#include "base/choice.h"
#include "base/cpu.h"
#include "base/device.h"
#include "base/kind.h"

#include <assert.h>
#include <stdint.h>

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__,
               "bundles are read in place: little endian only");

/* ELF's number of this machine's instruction set. */
#define HNB_MACHINE_HERE HN_MACHINE_HERE

#define HNB_MAGIC HN_KIND_BUNDLE_MAGIC

enum {
    /* 2: symbols that steps define, slots; 3: targets, launch records, code outside the tables,
     * signatures; 4: the table of tensors, hints of symbols; 5: shapes and devices of buffers; 6:
     * devices of steps, a workspace for each device, OpenCL; 7: several programs in one file; 8 and
     * 9: steps have all the nodes that they do, storages may be made of others; 10 and 11: scratch
     * memory of groups is a buffer, steps that fill one with zeros; 12 and 13: records of steps,
     * sections that readers may leave out; 14: either of them with a program of weights; 15: any of
     * them with steps that have variants */
    HNB_VERSION = 13,
    /* of a file with one program */
    HNB_VERSION_SINGLE = 12,
    HNB_VERSION_COMPUTED = 14, /* of one that has a program of weights */
    HNB_VERSION_VARIANTS = 15, /* of one with steps that have variants */
    HNB_WEIGHTS_ALIGN = 65536,
    HNB_ALIGN = 64, /* of sections, objects and storages */
    HNB_MAX_RANK = 16,
    HNB_MAX_COND_DEPTH = 64,
    HNB_MAX_TARGETS = 64,
    HNB_MAX_GROUP_THREADS = 65536, /* the product of hnb_launch.block */
    HNB_HEAD_BYTES = 65536,        /* of the "ends" digest of a weights file: the first ... */
    /* bytes that the path of a weights file has in HNB_STRINGS, or more: zeros follow it */
    HNB_PATH_ROOM = 1024,
    /* ... and last bytes; the directory of a zip with its checksums lies there */
    HNB_TAIL_BYTES = 262144,
};

typedef struct hnb_header {
    uint8_t magic[8];
    uint32_t version;
    uint32_t section_count; /* the section table follows the header */
    uint64_t file_bytes;
    /* part one; `digest` covers it, with `digest`, `signer` and `signature` as zeros */
    uint64_t meta_bytes;
    uint64_t code_offset; /* part two, HNB_ALIGNed, behind part one; both 0 when there is none */
    uint64_t code_bytes;
    uint64_t weights_offset; /* part three; both 0 when there is none */
    uint64_t weights_bytes;
    uint32_t kernel_abi, extern_abi; /* HN_KERNEL_ABI_VERSION, HN_EXTERN_ABI_VERSION */
    uint8_t digest[32];              /* BLAKE2b-256 */
    uint8_t signer[32];              /* Ed25519 public key; zeros: not signed */
    uint8_t signature[64];           /* of what sign.h says */
} hnb_header;
_Static_assert(sizeof(hnb_header) == 200, "layout");

typedef enum hnb_section_kind {
    HNB_STRINGS = 1, /* bytes; every string is followed by a NUL */
    HNB_INFO,        /* hnb_info, exactly one */
    HNB_NODES,       /* hnb_node; [0] filler */
    HNB_SYMBOLS,     /* hnb_symbol */
    HNB_GUARDS,      /* hnb_guard */
    HNB_INPUTS,      /* hnb_input */
    HNB_OUTPUTS,     /* hnb_output */
    /* uint32: expressions: sizes and strides of inputs, outputs, buffers, tensors */
    HNB_DIMS,
    HNB_BUFFERS,     /* hnb_buffer; [0] filler */
    HNB_STEPS,       /* hnb_step */
    HNB_OPERANDS,    /* hnb_operand */
    HNB_PARAMS,      /* uint32: expression indices */
    HNB_KERNELS,     /* hnb_kernel; [0] filler */
    HNB_OBJECTS,     /* hnb_object */
    HNB_BLOB,        /* bytes of small storages */
    HNB_STORAGES,    /* hnb_storage; [0] filler */
    HNB_WEIGHT_FILE, /* hnb_weight_file, none or one */
    HNB_ORIGINS,     /* hnb_origin; [0] filler */
    HNB_FEATURES,    /* hnb_str: CPU features that targets need, by gcc's names ("avx2") */
    HNB_TARGETS,     /* hnb_target: for what there is code, the best of a kind first */
    HNB_CODES,       /* hnb_code: a function, for each kernel and target */
    HNB_ARGS,        /* hnb_arg: what functions take */
    HNB_LAUNCHES,    /* hnb_launch: how steps call them */
    HNB_TENSORS,     /* hnb_tensor: parameters, buffers and constants by name */
    /* bytes: what the program was compiled under, for people; may be empty, or missing */
    HNB_KEY,
    HNB_WORKSPACES,   /* hnb_workspace: at most one for each kind of device */
    HNB_PROGRAMS,     /* hnb_program, two or more; missing in a file with one program */
    HNB_STEP_ORIGINS, /* uint32: origins, ascending for each step */
    /* hnb_piece, hn_box_dim: of MADE storages; both are missing where there are none */
    HNB_PIECES,
    HNB_PIECE_DIMS,
    HNB_RECORDS, /* hnb_record; may be missing, and is EXTRA */
    /* hnb_weights_program, one; uint32: the storages that it reads, one or more. Both are missing
     * where there is none */
    HNB_WEIGHTS_PROGRAM,
    HNB_WEIGHTS_SOURCES,
    HNB_TUNING, /* bytes: tuning records, a line each; may be missing, and is EXTRA */
    /* hnb_choice, hnb_variant, hn_choice_box: of steps with variants; all are missing where there
     * are none */
    HNB_CHOICES,
    HNB_VARIANTS,
    HNB_BOXES,
    HNB_SECTION_KIND_COUNT
} hnb_section_kind;

/* Set in hnb_section.kind: nobody needs the section to run the program. A reader that does not know
 * the kind, or knows elements of another size, leaves it out. */
#define HNB_SECTION_EXTRA 0x80000000u

typedef struct hnb_section {
    uint32_t kind;
    uint32_t elem_bytes;
    uint64_t offset; /* from the start of the file, multiple of HNB_ALIGN */
    uint64_t count;  /* elements, below 2^32 except for bytes */
} hnb_section;

typedef struct hnb_str {
    uint32_t offset, len; /* in HNB_STRINGS; the NUL is not counted */
} hnb_str;

typedef struct hnb_info {
    hnb_str producer; /* "henry 0.1.0" */
    hnb_str model;
    uint8_t weights_digest[32]; /* of part three; zeros when not computed */
} hnb_info;

/* Memory of a device in which its temporaries lie. A device without a record has none. */
typedef struct hnb_workspace {
    uint32_t device; /* hn_device_kind */
    uint32_t bytes;  /* expression */
} hnb_workspace;

/* Expressions are one straight-line program: a node's operands come before it, equal nodes are one,
 * and an expression is the index of its last node. Arithmetic is exact on int64; a node that
 * overflows or divides by 0 is undefined, and so is whatever uses it. */
typedef enum hnb_op {
    HNB_OP_NONE = 0,
    HNB_OP_CONST = 1,  /* b */
    HNB_OP_SYMBOL = 2, /* value of symbol a */
    HNB_OP_ADD = 3,    /* nodes a, b */
    HNB_OP_MUL = 4,
    HNB_OP_FLOORDIV = 5,
    HNB_OP_MOD = 6, /* sign of the divisor */
    HNB_OP_MIN = 7,
    HNB_OP_MAX = 8,
    HNB_OP_COUNT
} hnb_op;

typedef struct hnb_node {
    uint32_t op, a;
    int64_t b;
} hnb_node;

/* A symbol with input HNB_BY_STEP is defined by DEFINE steps; all of these come after all others.
 * Any other symbol = (d - rest) / coeff exactly, where d is dimension `dim` of input `input`, or
 * its value when `dim` is HNB_DIM_VALUE. `rest` uses earlier symbols only. */
#define HNB_DIM_VALUE UINT32_MAX
#define HNB_BY_STEP   UINT32_MAX
typedef struct hnb_symbol {
    hnb_str name;
    int64_t lo, hi; /* INT64_MIN, INT64_MAX: no bound */
    int64_t coeff;  /* not 0 */
    uint32_t input, dim;
    uint32_t rest; /* 0: nothing */
    uint32_t reserved;
    int64_t hint; /* its value when the model was exported; INT64_MIN: unknown */
} hnb_symbol;

typedef enum hnb_relation {
    HNB_EQ = 0,
    HNB_NE = 1,
    HNB_LT = 2,
    HNB_LE = 3,
    HNB_RELATION_COUNT
} hnb_relation;
typedef struct hnb_guard {
    uint32_t relation, lhs, rhs, reserved;
    hnb_str reason;
} hnb_guard;

typedef enum hnb_value_kind {
    HNB_VALUE_TENSOR = 0,
    HNB_VALUE_INT = 1, /* of inputs: an expression to check; of outputs: an expression */
    HNB_VALUE_FLOAT = 2,
    HNB_VALUE_BOOL = 3,
    HNB_VALUE_STRING = 4,
    HNB_VALUE_NONE = 5,
    HNB_VALUE_KIND_COUNT
} hnb_value_kind;

typedef struct hnb_input {
    hnb_str name;
    uint32_t kind; /* hnb_value_kind */
    uint32_t dtype, rank;
    uint32_t dims; /* first of `rank` sizes, then `rank` strides, in HNB_DIMS */
    uint32_t expr; /* of INT */
    uint32_t reserved;
    uint64_t bits; /* of FLOAT: a double; of BOOL: 0 or 1 */
    hnb_str text;  /* of STRING */
} hnb_input;

typedef struct hnb_output {
    hnb_str name;
    uint32_t kind; /* hnb_value_kind */
    uint32_t is_mutation;
    uint32_t dtype, rank;
    uint32_t dims; /* sizes, strides; of a mutation of a buffer also the target's strides */
    uint32_t buffer;
    uint32_t offset;         /* expression, elements; 0: none */
    int32_t target_input;    /* of a mutation: user input, or -1 */
    uint32_t target_storage; /* of a mutation with target_input -1 */
    uint32_t target_offset;  /* expression, elements from the start of the storage */
    uint32_t expr;           /* of INT */
    uint32_t reserved;
    uint64_t bits;
    hnb_str text;
} hnb_output;

typedef enum hnb_buffer_kind {
    HNB_BUFFER_NONE = 0,
    HNB_BUFFER_INPUT = 1,    /* source: input */
    HNB_BUFFER_CONSTANT = 2, /* source: storage, from byte_offset */
    HNB_BUFFER_TEMP = 3,     /* workspace of its device, at `offset` */
    /* memory for the caller: fresh; or, with a `source`, at `offset` of that buffer, a POOL. What
     * lies in a pool need not be an output of the program */
    HNB_BUFFER_OUTPUT = 4,
    /* slot number `source`, memory that grows when `bytes` becomes known; several buffers of one
     * device may take turns in one slot */
    HNB_BUFFER_SLOT = 5,
    /* memory for outputs, which no step mentions; source: 1 + the input whose memory it is when
     * the caller gives that up, or when it is a copy that the run has made; 0: it is fresh in
     * each run */
    HNB_BUFFER_POOL = 6,
    HNB_BUFFER_KIND_COUNT
} hnb_buffer_kind;

/* Sizes of 0 or less, known when the program runs, mean no elements. */
typedef struct hnb_buffer {
    uint32_t kind, dtype, source;
    /* expression, of TEMP, OUTPUT, SLOT and POOL; of SLOT it uses a symbol that a step defines */
    uint32_t bytes;
    uint64_t byte_offset; /* of CONSTANT */
    uint32_t offset;      /* expression, of TEMP, and of OUTPUT in a pool */
    uint32_t device;      /* hn_device_kind */
    /* of TEMP, OUTPUT and SLOT: the node of the model whose value it holds, or "" */
    hnb_str name;
    uint32_t rank; /* of the tensor in it, whose first element is at the beginning */
    uint32_t dims; /* first of `rank` sizes, then `rank` strides (elements), in HNB_DIMS */
} hnb_buffer;
_Static_assert(sizeof(hnb_buffer) == 48, "layout");

typedef enum hnb_step_kind {
    HNB_STEP_NONE = 0,
    HNB_STEP_KERNEL = 1,
    HNB_STEP_EXTERN = 2,
    HNB_STEP_COPY = 3,   /* bytes of `from` into `buffer` */
    HNB_STEP_ASSERT = 4, /* operand 0: bool; text: message */
    /* operand 0: predicate; then_count steps, then otherwise_count steps follow */
    HNB_STEP_COND = 5,
    /* operand 0: a whole number or bool, from here on the value of `symbol`; checked against the
     * symbol's range and, where it has a value already, against that */
    HNB_STEP_DEFINE = 6,
    HNB_STEP_WAIT = 7, /* the host waits for all that `device` was given to do */
    /* with a parameter: otherwise_count steps, that often; without: then_count steps, and while
     * operand 0, a predicate, is true behind them, otherwise_count steps, and so on. The steps
     * follow this one. What they DEFINE may be another number in each round, and is known in that
     * round only; no output depends on it */
    HNB_STEP_LOOP = 8,
    HNB_STEP_ZERO = 9, /* `buffer` is filled with zeros */
    HNB_STEP_KIND_COUNT
} hnb_step_kind;

/* An index that a kernel checks, as four expressions: number of the step's operand that has the
 * indices (another number: they are computed), extent, whether negative ones count from the end,
 * origin. Only for messages: readers take nothing of it on trust. */
#define HNB_CHECK_PARAMS 4

/* `device` is where a step runs: of KERNEL, EXTERN, ASSERT, COND, LOOP and DEFINE all operands are
 * in its memory; of COPY it is that of the buffer that is not on the CPU, if one is not. */
typedef struct hnb_step {
    uint32_t kind;
    /* of KERNEL; of EXTERN, not on the CPU: what does the call where the device's library does not
     * take it, with the operands and parameters of the call; 0: none */
    uint32_t kernel;
    uint32_t extern_kind; /* of EXTERN: hn_extern_kind */
    uint32_t operands, operand_count;
    /* of EXTERN; of KERNEL its checks, HNB_CHECK_PARAMS for each; of LOOP its rounds */
    uint32_t params, param_count;
    /* of `kernel`: one for all targets, or one for each; 0 of a KERNEL step with variants, which
     * has an hnb_choice for each target, and `kernel` of its first variant */
    uint32_t launches, launch_count;
    /* of COPY and ZERO; of KERNEL in groups with scratch memory: `buffer` has that of all of
     * them */
    uint32_t buffer, from;
    uint32_t origin;
    /* all nodes that it does, in HNB_STEP_ORIGINS; 0 of them: `origin` alone */
    uint32_t origins, origin_count;
    uint32_t then_count, otherwise_count;
    uint32_t symbol; /* of DEFINE */
    uint32_t device; /* hn_device_kind */
    hnb_str text;
} hnb_step;

/* How a step calls the function of one target. On a CPU the iterations [0, extent) are shared out
 * to threads. Devices with groups of threads ("blocks") run grid[0] * grid[1] * grid[2] groups of
 * block[0] * block[1] * block[2] threads. */
typedef struct hnb_launch {
    /* first of the step's operand_count operands, in the order of this function's arguments; of a
     * variant first of as many as that takes */
    uint32_t operands;
    uint32_t params, param_count; /* whole numbers behind them */
    /* expression: parallel iterations; of groups: what `grid` was made from, or 0 */
    uint32_t extent;
    int64_t grain;     /* fewest iterations worth a thread, 1 or more */
    uint32_t scratch;  /* expression, bytes for each thread, or each group; 0: none */
    uint32_t grid[3];  /* expressions: groups; 0 on CPUs */
    uint32_t block[3]; /* threads of a group, 1 or more; 0 on CPUs */
    uint32_t shared;   /* expression: bytes of dynamic shared memory of a group; 0: none */
} hnb_launch;

typedef struct hnb_operand {
    uint32_t buffer; /* 0: absent */
    uint32_t offset; /* expression, elements of dtype; 0: none */
    uint8_t dtype;
    uint8_t written;
    uint16_t reserved;
} hnb_operand;

typedef struct hnb_kernel {
    hnb_str name;       /* for people: that of the first target's function */
    uint32_t codes;     /* first of one hnb_code for each target */
    uint32_t arg_count; /* memory that it gets, on the target that gives it the most */
} hnb_kernel;

/* One of the ways to do a step on one target. */
typedef struct hnb_variant {
    uint32_t kernel, launch; /* of an EXTERN step 0, as is the next one */
    uint32_t arg_count;      /* operands of `launch`, some or all of those of the step */
    uint32_t reserved;
    /* of a KERNEL step for people: "rows"; of an EXTERN one what the operation is asked for, as in
     * ops/cpu/forms.h: "gemm pass=512" */
    hnb_str form;
} hnb_variant;
_Static_assert(sizeof(hnb_variant) == 24, "layout");

/* Which variant of a step runs on one target: `head` and its boxes are looked up with the values of
 * `axes`, expressions. In the order of steps, then of targets; without targets there is one for
 * target 0. EXTERN steps on the CPU may have them, too. */
typedef struct hnb_choice {
    uint32_t step, target;
    uint32_t variants, boxes; /* the first of head.variant_count, and of head.box_count */
    hn_choice head;
    uint32_t axes[HN_CHOICE_AXES]; /* those that the table does not have are 0 */
    uint32_t reserved;
} hnb_choice;
_Static_assert(sizeof(hnb_choice) == 48, "layout");

#define HNB_NO_OBJECT UINT32_MAX
/* A kernel's function for one target. */
typedef struct hnb_code {
    uint32_t object; /* HNB_NO_OBJECT: there is none for this target */
    uint32_t args;   /* first of arg_count arguments */
    hnb_str symbol;  /* in the object */
} hnb_code;

typedef struct hnb_arg {
    uint8_t dtype; /* of the elements that the address points to; 0: not recorded */
    uint8_t written;
    uint16_t reserved;
} hnb_arg;

typedef enum hnb_target_kind {
    HNB_TARGET_NONE = 0,
    HNB_TARGET_CPU = 1,
    HNB_TARGET_CUDA = 2,
    HNB_TARGET_OPENCL = 3,
    HNB_TARGET_KIND_COUNT
} hnb_target_kind;

/* Machines that one set of objects is for. Targets of CPUs come first. Those of a program with
 * KERNEL steps are all for the device of these steps. */
typedef struct hnb_target {
    uint32_t kind;
    uint32_t machine; /* of CPU: ELF's number of the instruction set, e_machine */
    hnb_str name;     /* "x86-64-v3"; of CUDA "sm_90" (cubins) or "compute_90" (PTX); "opencl" */
    uint32_t features, feature_count; /* of CPU: needs these, in HNB_FEATURES */
} hnb_target;

typedef enum hnb_object_kind {
    HNB_OBJECT_ELF = 0, /* a shared object */
    HNB_OBJECT_CUBIN = 1,
    HNB_OBJECT_PTX = 2,
    HNB_OBJECT_OPENCL = 3, /* OpenCL C, and what drivers made of it */
    HNB_OBJECT_KIND_COUNT
} hnb_object_kind;

typedef enum hnb_object_where {
    HNB_OBJECT_EMBEDDED = 0,  /* in part two */
    HNB_OBJECT_REFERENCE = 1, /* only named, by its digest: a host may have it */
    HNB_OBJECT_WHERE_COUNT
} hnb_object_where;

typedef struct hnb_object {
    uint32_t kind, where;
    uint32_t target, reserved;
    /* of EMBEDDED: in part two, HNB_ALIGNed; a zero byte that `len` does not count follows */
    uint64_t offset, len;
    uint8_t digest[32]; /* BLAKE2b-256 of the bytes */
    hnb_str name;
} hnb_object;

typedef enum hnb_storage_where {
    HNB_STORAGE_BLOB = 0,    /* in HNB_BLOB */
    HNB_STORAGE_WEIGHTS = 1, /* in part three, offset from its start */
    HNB_STORAGE_FILE = 2,    /* in the weights file */
    HNB_STORAGE_MADE = 3,    /* nowhere: `offset` is its first piece */
    HNB_STORAGE_COMPUTED =
        4, /* nowhere: it is output `offset` of the program of weights, row-major */
    /* of a program of weights: the storage that element `offset` of HNB_WEIGHTS_SOURCES of the
     * program around it names */
    HNB_STORAGE_OUTER = 5,
    HNB_STORAGE_WHERE_COUNT
} hnb_storage_where;

typedef struct hnb_storage {
    uint32_t where;
    uint32_t is_mutable; /* the program writes to it: the module has a private copy */
    uint64_t offset, bytes;
    hnb_str name;
} hnb_storage;

/* Bytes of a storage that is MADE: copies of those of another one. The pieces of a storage follow
 * each other, in the order of storages, and do not overlap; what they leave is zeros. `dims`: the
 * first of `rank` ones in HNB_PIECE_DIMS. The rest as in hn_box. */
typedef struct hnb_piece {
    uint32_t storage, source; /* `source`: neither MADE nor mutable */
    uint32_t dims, rank;
    uint64_t run_bytes, from, to;
} hnb_piece;
_Static_assert(sizeof(hnb_piece) == 40 && sizeof(hn_box_dim) == 24, "layout");

/* What depends on weights alone: an image in part two, behind the objects, whose inputs are
 * storages of this program and whose outputs are others. It runs once for a set of weights. */
typedef struct hnb_weights_program {
    uint64_t offset, len; /* in part two, HNB_ALIGNed */
    uint8_t digest[32];   /* of the image's part one */
} hnb_weights_program;
_Static_assert(sizeof(hnb_weights_program) == 48, "layout");

typedef enum hnb_tensor_kind {
    HNB_TENSOR_PARAMETER = 0,
    HNB_TENSOR_BUFFER = 1,
    HNB_TENSOR_CONSTANT = 2,
    HNB_TENSOR_KIND_COUNT
} hnb_tensor_kind;

/* A weight as the model has it. Several may lie in one storage. */
typedef struct hnb_tensor {
    hnb_str name;
    uint32_t kind, dtype, rank;
    /* first of `rank` sizes, then `rank` strides, in HNB_DIMS; all are constants */
    uint32_t dims;
    uint32_t storage;   /* 0: the program does not read it */
    uint32_t is_folded; /* the compiler computed with its values: they are part of the program */
    int64_t offset;     /* elements from the start of the storage */
} hnb_tensor;

typedef enum hnb_weight_form {
    HNB_WEIGHTS_MODEL = 0,
    HNB_WEIGHTS_SAFETENSORS = 1,
    HNB_WEIGHT_FORM_COUNT
} hnb_weight_form;
typedef struct hnb_weight_file {
    uint32_t form; /* for people and tools: offsets of storages say where everything is */
    uint32_t reserved;
    hnb_str path; /* a hint, relative to the bundle's folder when it is not absolute */
    uint64_t bytes;
    int64_t mtime_ns;
    /* of the first HNB_HEAD_BYTES and last HNB_TAIL_BYTES (each cut to the file) */
    uint8_t ends_digest[32];
    uint8_t full_digest[32]; /* zeros when not computed */
} hnb_weight_file;

enum {
    HNB_RECORD_HAS_FORM = 1,   /* the fields of a form are set */
    HNB_RECORD_VECTORIZED = 2, /* as in hn_step_record */
    HNB_RECORD_BOUND = 4,      /* likewise */
    HNB_RECORD_HINTS = 8       /* for other sizes one of its numbers is not known */
};

/* What a KERNEL or EXTERN step is made of, for tools and people: the fields of hn_step_record. A
 * step has one for each target, or one, for target 0, that holds for all. In the order of steps,
 * then of targets. */
typedef struct hnb_record {
    uint32_t step, target;
    uint32_t category; /* hn_step_category; a reader takes one that it does not know for unknown */
    uint32_t direction;
    uint32_t flags;
    uint32_t part;
    uint32_t fused_loops, phases, local_buffers;
    uint32_t arguments, loads, stores, atomics, loops, barriers, reductions;
    uint32_t lanes, threads;
    uint32_t row_rank, rank, dims; /* `rank` extents in HNB_DIMS */
    /* expressions for other sizes than the hints; 0: the number below, see also HINTS */
    uint32_t read_expr, written_expr, operations_expr;
    int64_t read_bytes, written_bytes, operations, accessed_bytes, predicted_ns;
    hnb_str form;
} hnb_record;
_Static_assert(sizeof(hnb_record) == 144, "layout");

typedef struct hnb_origin {
    hnb_str node, source;
} hnb_origin;

/* The model compiled for one kind of device. [0] is the program of the file's own sections; its
 * place and digest are zeros. Any other one is an image in part two, behind the objects: a bundle
 * without blob, part three and weights file, whose storages are in those of the file. */
typedef struct hnb_program {
    uint32_t device; /* hn_device_kind, of no other program */
    /* for people, who count the objects of all programs: its first one */
    uint32_t first_object;
    uint64_t offset, len; /* in part two, HNB_ALIGNed */
    uint8_t digest[32];   /* of the image's part one, which has the digests of its objects */
} hnb_program;
_Static_assert(sizeof(hnb_program) == 56, "layout");

#endif
