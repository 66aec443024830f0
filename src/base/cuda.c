/* cuda.c: see cuda.h. */
#include "base/cuda.h"

#include "base/compiler.h"

#include <dlfcn.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

static const char library_name[] = "libcuda.so.1";

/* ---- the driver ---- */

/* The process that was the first to load the driver, this one or one that it was forked from; 0:
 * none. */
static atomic_int first_pid;

static bool is_from_parent(void) {
    int nobody = 0;
    return !atomic_compare_exchange_strong(&first_pid, &nobody, (int)getpid()) &&
           nobody != (int)getpid();
}

static hn_status forked(void) {
    return HN_ERROR(HN_DEVICE,
                    "CUDA was used before this process was forked, and its driver does not work "
                    "here; use it in the children only, or start them by exec");
}

/* A pointer to function; all have one size and form here. */
static bool find(void *handle, const char *name, void *place) {
    void *address = dlsym(handle, name);
    memcpy(place, &address, sizeof address);
    return address != NULL;
}

static hn_status find_functions(void *handle, hn_cuda *out) {
    const char *missing = NULL;
#define FIND(name, symbol, params)                                                                 \
    if (!find(handle, symbol, &out->name) && !missing) missing = symbol;
    HN_CUDA_FUNCTIONS(FIND)
#undef FIND
#define FIND(name, symbol, params) (void)find(handle, symbol, &out->name);
    HN_CUDA_NEWER_FUNCTIONS(FIND)
#undef FIND
    if (!missing) return NULL;
    return HN_ERROR(HN_INCOMPATIBLE,
                    "the NVIDIA driver is too old: '%s' has no function '%s'; install driver 470 "
                    "or newer",
                    library_name, missing);
}

static hn_status initialise(const hn_cuda *cuda) {
    const hn_cuda_result code = cuda->cuInit(0);
    switch (code) {
    case HN_CUDA_NOT_INITIALIZED: /* what a driver says when the parent has used it by itself */
        return forked();
    case HN_CUDA_NO_DEVICE:
        return HN_ERROR(HN_NOT_FOUND,
                        "the NVIDIA driver finds no GPU; is there one (nvidia-smi), and does "
                        "CUDA_VISIBLE_DEVICES leave it visible?");
    case HN_CUDA_STUB_LIBRARY:
        return HN_ERROR(HN_NOT_FOUND,
                        "'%s' is the CUDA toolkit's stub and no driver; take its folder out of "
                        "LD_LIBRARY_PATH",
                        library_name);
    case HN_CUDA_SYSTEM_NOT_READY:
        return HN_ERROR(HN_DEVICE,
                        "the NVIDIA driver is not ready; where GPUs are connected by NVSwitch, is "
                        "the service nvidia-fabricmanager running?");
    case HN_CUDA_COMPAT_NOT_SUPPORTED:
        return HN_ERROR(HN_INCOMPATIBLE,
                        "'%s' is of CUDA's compatibility package, which does not support this GPU; "
                        "take its folder out of LD_LIBRARY_PATH, or install a newer driver",
                        library_name);
    case HN_CUDA_SYSTEM_DRIVER_MISMATCH:
        return HN_ERROR(HN_DEVICE,
                        "'%s' is of another version than the kernel's NVIDIA driver; restart the "
                        "machine after an update of the driver",
                        library_name);
    default: return hn_cuda_status(cuda, code, "cuInit");
    }
}

hn_status hn_cuda_load(hn_cuda *out) {
    void *handle = dlopen(library_name, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    if (!handle)
        return HN_ERROR(HN_NOT_FOUND,
                        "cannot load '%s'; install the NVIDIA driver (in a container: start it "
                        "with the NVIDIA container toolkit)",
                        library_name);
    if (is_from_parent()) return forked();
    HN_TRY(find_functions(handle, out));
    return initialise(out);
}

/* ---- devices ---- */

hn_status hn_cuda_count(const hn_cuda *cuda, uint32_t *out) {
    int count = 0;
    HN_TRY(hn_cuda_status(cuda, cuda->cuDeviceGetCount(&count), "cuDeviceGetCount"));
    *out = count > 0 ? (uint32_t)count : 0;
    return count > 0 ? NULL
                     : HN_ERROR(HN_NOT_FOUND,
                                "the NVIDIA driver finds no GPU; does CUDA_VISIBLE_DEVICES leave "
                                "one visible?");
}

static void uuid_print(const hn_cuda_uuid *uuid, char out[HN_CUDA_UUID_BYTES]) {
    const uint8_t *b = uuid->bytes;
    snprintf(out, HN_CUDA_UUID_BYTES,
             "GPU-%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x", b[0], b[1],
             b[2], b[3], b[4], b[5], b[6], b[7], b[8], b[9], b[10], b[11], b[12], b[13], b[14],
             b[15]);
}

/* Without a name it has a worse one. */
static void read_name(const hn_cuda *cuda, int device, hn_cuda_device *out) {
    char text[256] = "";
    hn_strbuf name;
    hn_strbuf_init(&name);
    if (cuda->cuDeviceGetName(text, sizeof text, device) == HN_CUDA_SUCCESS)
        hn_strbuf_clean(&name, (hn_str){text, strnlen(text, sizeof text)}, true);
    snprintf(out->name, sizeof out->name, "%s", name.len ? name.ptr : "a CUDA device");
    hn_strbuf_deinit(&name);
}

hn_status hn_cuda_device_get(const hn_cuda *cuda, uint32_t number, hn_cuda_device *out) {
    int device, major = 0, minor = 0;
    size_t bytes = 0;
    uint32_t count;
    hn_cuda_uuid uuid;
    HN_TRY(hn_cuda_count(cuda, &count));
    if (number >= count)
        return HN_ERROR(HN_NOT_FOUND, "there is no device cuda:%u; the last one is cuda:%u", number,
                        count - 1);
    HN_TRY(hn_cuda_status(cuda, cuda->cuDeviceGet(&device, (int)number), "cuDeviceGet"));
    HN_TRY(hn_cuda_status(
        cuda, cuda->cuDeviceGetAttribute(&major, HN_CUDA_DEVICE_CAPABILITY_MAJOR, device),
        "cuDeviceGetAttribute"));
    HN_TRY(hn_cuda_status(
        cuda, cuda->cuDeviceGetAttribute(&minor, HN_CUDA_DEVICE_CAPABILITY_MINOR, device),
        "cuDeviceGetAttribute"));
    HN_TRY(hn_cuda_status(cuda, cuda->cuDeviceGetUuid(&uuid, device), "cuDeviceGetUuid"));
    HN_TRY(hn_cuda_status(cuda, cuda->cuDeviceTotalMem(&bytes, device), "cuDeviceTotalMem"));
    *out = (hn_cuda_device){
        .number = number, .arch = (uint32_t)(10 * major + minor), .memory_bytes = bytes};
    read_name(cuda, device, out);
    uuid_print(&uuid, out->uuid);
    return NULL;
}

/* What stands behind "GPU-", or "MIG-" for a part of a GPU, whose UUID looks alike. */
static const char *uuid_digits(const char *uuid) {
    return strlen(uuid) >= 4 && uuid[3] == '-' ? uuid + 4 : uuid;
}

hn_status hn_cuda_device_named(const hn_cuda *cuda, const char *uuid, uint32_t *out) {
    const char *wanted = uuid_digits(uuid);
    uint32_t count, found = 0;
    hn_strbuf known;
    hn_cuda_device device;
    HN_TRY(hn_cuda_count(cuda, &count));
    hn_strbuf_init(&known);
    hn_status status = NULL;
    for (uint32_t k = 0; k < count && !status; k++) {
        status = hn_cuda_device_get(cuda, k, &device);
        if (status) break;
        hn_strbuf_printf(&known, "%s%s", k ? ", " : "", device.uuid);
        if (strncasecmp(uuid_digits(device.uuid), wanted, strlen(wanted)) != 0) continue;
        if (!found++) *out = k;
    }
    if (!status && found != 1)
        status = HN_ERROR(
            found ? HN_INVALID_ARGUMENT : HN_NOT_FOUND, "%s device cuda:%s; there are: %s",
            found ? "there is more than one" : "there is no", uuid, known.ptr ? known.ptr : "none");
    hn_strbuf_deinit(&known);
    return status;
}

void hn_cuda_version_print(const hn_cuda *cuda, hn_strbuf *out) {
    int version = 0;
    if (cuda->cuDriverGetVersion(&version) == HN_CUDA_SUCCESS && version)
        hn_strbuf_printf(out, "%d.%d", version / 1000, version % 1000 / 10);
}

/* ---- errors ---- */

bool hn_cuda_is_sticky(hn_cuda_result code) {
    return code == HN_CUDA_ILLEGAL_ADDRESS || code == HN_CUDA_LAUNCH_TIMEOUT ||
           (code >= HN_CUDA_CONTEXT_IS_DESTROYED && code <= HN_CUDA_ASSERT) ||
           (code >= HN_CUDA_HARDWARE_STACK_ERROR && code <= HN_CUDA_LAUNCH_FAILED) ||
           code == HN_CUDA_ECC_UNCORRECTABLE || code == HN_CUDA_NVLINK_UNCORRECTABLE;
}

hn_status hn_cuda_status(const hn_cuda *cuda, hn_cuda_result code, const char *call) {
    const char *name = NULL;
    if (code == HN_CUDA_SUCCESS) return NULL;
    if (cuda->cuGetErrorName(code, &name) != HN_CUDA_SUCCESS || !name) name = "an unknown error";
    return HN_ERROR(code == HN_CUDA_OUT_OF_MEMORY ? HN_OUT_OF_MEMORY : HN_DEVICE,
                    "CUDA: %s failed: %s (%d)", call, name, code);
}
