/* test_dlpack.c: tensors from and for other libraries, as structs of DLPack. The structs that come in
 * are as PyTorch and NumPy make them. */
#include "henry/dlpack.h"

#include "base/compiler.h"
#include "unit/harness.h"

#include <stddef.h>
#include <stdlib.h>

/* ---- the layout, as DLPack 1.1 has it on machines with pointers of 8 bytes ---- */

#if UINTPTR_MAX == UINT64_MAX
_Static_assert(sizeof(DLTensor) == 48 && offsetof(DLTensor, device) == 8 &&
                   offsetof(DLTensor, ndim) == 16 && offsetof(DLTensor, dtype) == 20 &&
                   offsetof(DLTensor, shape) == 24 && offsetof(DLTensor, strides) == 32 &&
                   offsetof(DLTensor, byte_offset) == 40,
               "DLTensor");
_Static_assert(sizeof(DLManagedTensor) == 64 && offsetof(DLManagedTensor, manager_ctx) == 48 &&
                   offsetof(DLManagedTensor, deleter) == 56,
               "DLManagedTensor");
_Static_assert(sizeof(DLManagedTensorVersioned) == 80 &&
                   offsetof(DLManagedTensorVersioned, manager_ctx) == 8 &&
                   offsetof(DLManagedTensorVersioned, deleter) == 16 &&
                   offsetof(DLManagedTensorVersioned, flags) == 24 &&
                   offsetof(DLManagedTensorVersioned, dl_tensor) == 32,
               "DLManagedTensorVersioned");
#endif

/* ---- from others ---- */

static void count_delete(DLManagedTensor *self) { (*(int *)self->manager_ctx)++; }
static void count_delete_versioned(DLManagedTensorVersioned *self) {
    (*(int *)self->manager_ctx)++;
}

TEST(a_tensor_of_another_library) {
    int deleted = 0;
    float x[8] = {0, 1, 2, 3, 4, 5, 6, 7}, y[4];
    int64_t shape[2] = {2, 2}, strides[2] = {3, 1};
    DLManagedTensor managed = {.dl_tensor = {.data = x,
                                             .device = {kDLCPU, 0},
                                             .ndim = 2,
                                             .dtype = {kDLFloat, 32, 1},
                                             .shape = shape,
                                             .strides = strides,
                                             .byte_offset = 4},
                               .manager_ctx = &deleted,
                               .deleter = count_delete};
    hn_tensor *t = NULL;
    EXPECT_OK(hn_tensor_from_dlpack(&managed, &t));
    EXPECT(hn_tensor_data(t) == x + 1 && hn_tensor_type(t) == HN_F32 && !hn_tensor_is_const(t));
    EXPECT_OK(hn_tensor_copy_out(t, y));
    EXPECT(y[0] == 1 && y[1] == 2 && y[2] == 4 && y[3] == 5);
    hn_tensor *again = hn_tensor_retain(t);
    hn_tensor_release(t);
    EXPECT_INT(deleted, 0);
    hn_tensor_release(again);
    EXPECT_INT(deleted, 1);
}

/* Row-major without strides; without a deleter; pinned memory, which is the host's. */
TEST(what_may_be_missing) {
    int32_t x[6] = {0, 1, 2, 3, 4, 5};
    int64_t shape[2] = {2, 3};
    DLManagedTensorVersioned managed = {.version = {1, 7},
                                        .dl_tensor = {.data = x,
                                                      .device = {kDLCUDAHost, 1},
                                                      .ndim = 2,
                                                      .dtype = {kDLInt, 32, 1},
                                                      .shape = shape}};
    hn_tensor *t = NULL;
    EXPECT_OK(hn_tensor_from_dlpack_versioned(&managed, &t));
    EXPECT(hn_tensor_strides(t)[0] == 3 && hn_tensor_strides(t)[1] == 1);
    EXPECT(hn_tensor_device(t).kind == HN_DEVICE_CPU && hn_tensor_device(t).number == 0);
    hn_tensor_release(t);
    managed.dl_tensor.ndim = 0;
    managed.dl_tensor.shape = NULL;
    EXPECT_OK(hn_tensor_from_dlpack_versioned(&managed, &t));
    EXPECT(hn_tensor_rank(t) == 0 && hn_tensor_numel(t) == 1);
    hn_tensor_release(t);
}

TEST(no_elements_and_no_address) {
    int deleted = 0;
    int64_t shape[2] = {0, 3};
    DLManagedTensorVersioned managed = {
        .version = {1, 0},
        .manager_ctx = &deleted,
        .deleter = count_delete_versioned,
        .dl_tensor = {
            .device = {kDLCUDA, 2}, .ndim = 2, .dtype = {kDLBfloat, 16, 1}, .shape = shape}};
    hn_tensor *t = NULL;
    EXPECT_OK(hn_tensor_from_dlpack_versioned(&managed, &t));
    EXPECT(hn_tensor_numel(t) == 0 && hn_tensor_type(t) == HN_BF16);
    EXPECT(hn_tensor_device(t).kind == HN_DEVICE_CUDA && hn_tensor_device(t).number == 2);
    hn_tensor_release(t);
    EXPECT_INT(deleted, 1);
    shape[0] = 1;
    EXPECT_ERROR(hn_tensor_from_dlpack_versioned(&managed, &t), HN_INVALID_ARGUMENT,
                 "a tensor of DLPack has elements, but no address");
    EXPECT_INT(deleted, 1);
}

TEST(read_only_memory) {
    int64_t shape[1] = {2};
    double x[2] = {1, 2};
    DLManagedTensorVersioned managed = {.version = {1, 0},
                                        .flags = DLPACK_FLAG_BITMASK_READ_ONLY |
                                                 DLPACK_FLAG_BITMASK_IS_COPIED,
                                        .dl_tensor = {.data = x,
                                                      .device = {kDLCPU, 0},
                                                      .ndim = 1,
                                                      .dtype = {kDLFloat, 64, 1},
                                                      .shape = shape}};
    hn_tensor *t = NULL;
    DLManagedTensor *old = NULL;
    DLManagedTensorVersioned *back = NULL;
    EXPECT_OK(hn_tensor_from_dlpack_versioned(&managed, &t));
    EXPECT(hn_tensor_is_const(t));
    EXPECT_ERROR(hn_tensor_to_dlpack(t, &old), HN_UNSUPPORTED,
                 "the tensor is read-only memory, which a DLManagedTensor cannot say");
    EXPECT_OK(hn_tensor_to_dlpack_versioned(t, &back));
    EXPECT(back && back->flags == DLPACK_FLAG_BITMASK_READ_ONLY);
    hn_tensor_release(t);
    if (back) back->deleter(back);
}

/* The caller still owns what is refused. */
TEST(what_is_refused) {
    int deleted = 0;
    float x[4] = {0};
    int64_t shape[17] = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1}, back[1] = {-1};
    const DLTensor good = {
        .data = x, .device = {kDLCPU, 0}, .ndim = 1, .dtype = {kDLFloat, 32, 1}, .shape = shape};
    DLManagedTensorVersioned m = {.version = {1, 0},
                                  .manager_ctx = &deleted,
                                  .deleter = count_delete_versioned,
                                  .dl_tensor = good};
    hn_tensor *t = NULL;
    m.dl_tensor.dtype = (DLDataType){kDLUInt, 16, 1};
    EXPECT_ERROR(hn_tensor_from_dlpack_versioned(&m, &t), HN_UNSUPPORTED,
                 "elements of DLPack's type code 1 with 16 bits and 1 lanes have no type here");
    m.dl_tensor.dtype = (DLDataType){kDLFloat, 32, 4};
    EXPECT_ERROR(hn_tensor_from_dlpack_versioned(&m, &t), HN_UNSUPPORTED, "4 lanes");
    m.dl_tensor = good;
    m.dl_tensor.device.device_type = 4;
    EXPECT_ERROR(hn_tensor_from_dlpack_versioned(&m, &t), HN_UNSUPPORTED,
                 "memory of DLPack's device type 4 cannot be used");
    m.dl_tensor.device = (DLDevice){kDLCUDA, -1};
    EXPECT_ERROR(hn_tensor_from_dlpack_versioned(&m, &t), HN_INVALID_ARGUMENT, "memory on cuda:-1");
    m.dl_tensor = good;
    m.dl_tensor.ndim = -1;
    EXPECT_ERROR(hn_tensor_from_dlpack_versioned(&m, &t), HN_INVALID_ARGUMENT, "-1 dimensions");
    m.dl_tensor.ndim = 17;
    EXPECT_ERROR(hn_tensor_from_dlpack_versioned(&m, &t), HN_INVALID_ARGUMENT, "17 dimensions");
    m.dl_tensor.ndim = 1;
    m.dl_tensor.shape = NULL;
    EXPECT_ERROR(hn_tensor_from_dlpack_versioned(&m, &t), HN_INVALID_ARGUMENT, "no sizes");
    m.dl_tensor = good;
    m.dl_tensor.strides = back;
    EXPECT_ERROR(hn_tensor_from_dlpack_versioned(&m, &t), HN_INVALID_ARGUMENT, "stride -1");
    m.version.major = 2;
    EXPECT_ERROR(hn_tensor_from_dlpack_versioned(&m, &t), HN_INCOMPATIBLE,
                 "a tensor of DLPack 2.0, where 1.x can be read");
    EXPECT_ERROR(hn_tensor_from_dlpack(NULL, &t), HN_INVALID_ARGUMENT, "managed");
    EXPECT_ERROR(hn_tensor_to_dlpack(NULL, NULL), HN_INVALID_ARGUMENT, "tensor");
    EXPECT_INT(deleted, 0);
    EXPECT(!t);
}

/* ---- for others ---- */

static void free_flag(void *user) { *(bool *)user = true; }

TEST(all_types_there_and_back) {
    for (int type = HN_NO_TYPE + 1; type < HN_SCALAR_TYPE_COUNT; type++) {
        const int64_t sizes[3] = {2, 1, 3};
        hn_tensor *t = NULL, *again = NULL;
        DLManagedTensor *managed = NULL;
        EXPECT_OK(hn_tensor_create(
            &(hn_tensor_desc){.type = (hn_scalar_type)type, .rank = 3, .sizes = sizes}, &t));
        EXPECT_OK(hn_tensor_to_dlpack(t, &managed));
        if (!t || !managed) continue;
        EXPECT_INT(managed->dl_tensor.dtype.bits, 8 * hn_scalar_type_bytes((hn_scalar_type)type));
        EXPECT(managed->dl_tensor.data == hn_tensor_data(t) && !managed->dl_tensor.byte_offset);
        EXPECT(managed->dl_tensor.strides && managed->dl_tensor.strides[0] == 3);
        EXPECT_OK(hn_tensor_from_dlpack(managed, &again));
        EXPECT(hn_tensor_type(again) == (hn_scalar_type)type && hn_tensor_rank(again) == 3);
        hn_tensor_release(t);
        hn_tensor_release(again);
    }
}

/* Memory of a device, which the struct keeps when the tensor was released. */
TEST(memory_of_a_device) {
    bool is_free = false;
    const int64_t sizes[1] = {4};
    DLManagedTensorVersioned *managed = NULL;
    hn_tensor *t = NULL;
    EXPECT_OK(hn_tensor_create(&(hn_tensor_desc){.type = HN_BOOL,
                                                 .rank = 1,
                                                 .sizes = sizes,
                                                 .data = (void *)(uintptr_t)0x7f0000000100,
                                                 .free_data = free_flag,
                                                 .free_user = &is_free,
                                                 .device = {HN_DEVICE_CUDA, 3}},
                               &t));
    EXPECT_OK(hn_tensor_to_dlpack_versioned(t, &managed));
    hn_tensor_release(t);
    if (!managed) return;
    EXPECT(managed->version.major == 1 && !managed->flags && !is_free);
    EXPECT(managed->dl_tensor.device.device_type == kDLCUDA &&
           managed->dl_tensor.device.device_id == 3 && managed->dl_tensor.dtype.code == kDLBool);
    EXPECT(managed->dl_tensor.data == (void *)(uintptr_t)0x7f0000000100);
    managed->deleter(managed);
    EXPECT(is_free);
}

TEST(what_others_do_not_have) {
    const int64_t sizes[1] = {1};
    DLManagedTensorVersioned *managed = NULL;
    hn_tensor *t = NULL;
    float x = 0;
    EXPECT_OK(hn_tensor_create(
        &(hn_tensor_desc){
            .type = HN_F32, .rank = 1, .sizes = sizes, .data = &x, .device = {HN_DEVICE_OPENCL, 0}},
        &t));
    EXPECT_ERROR(hn_tensor_to_dlpack_versioned(t, &managed), HN_UNSUPPORTED,
                 "DLPack has no tensors in memory of opencl");
    hn_tensor_release(t);
    const int64_t none[1] = {0};
    EXPECT_OK(hn_tensor_create(&(hn_tensor_desc){.type = HN_F32, .rank = 1, .sizes = none}, &t));
    EXPECT_OK(hn_tensor_to_dlpack_versioned(t, &managed));
    EXPECT(managed && !managed->dl_tensor.data); /* as DLPack wants it */
    hn_tensor_release(t);
    if (managed) managed->deleter(managed);
}

TEST_MAIN
