/* The driver API's first calls, for a minimal CUDA check: one kernel, computed on the CPU.

   The kernel must be named provision_check in the PTX and take
       (u64 x, u64 y, u64 out, u32 a, u32 n):   out[i] = a * x[i] + y[i]  modulo 2^32, for i < n.
   The PTX is looked at (target, entry, number of parameters, a multiply and a store), not interpreted:
   whether it assembles, only a real card can tell. */
#include "state.h"
#include <stdint.h>

typedef int CUresult;
typedef int CUdevice;
typedef uint64_t CUdeviceptr;
enum { OK = 0, INVALID_VALUE = 1, OUT_OF_MEMORY = 2, NOT_INITIALIZED = 3, NO_DEVICE = 100, INVALID_DEVICE = 101,
       INVALID_IMAGE = 200, INVALID_CONTEXT = 201, INVALID_PTX = 218, NOT_FOUND = 500, LAUNCH_FAILED = 719,
       SYSTEM_DRIVER_MISMATCH = 803, SYSTEM_NOT_READY = 802, UNKNOWN = 999 };

struct context { int device; };
struct module { int parameters; };

static int initialized;
static struct context contexts[64];
static __thread struct context *current;
static struct module the_module = { 5 };

static const struct { CUresult code; const char *name, *text; } ERRORS[] = {
    { OK, "CUDA_SUCCESS", "no error" },
    { INVALID_VALUE, "CUDA_ERROR_INVALID_VALUE", "invalid argument" },
    { OUT_OF_MEMORY, "CUDA_ERROR_OUT_OF_MEMORY", "out of memory" },
    { NOT_INITIALIZED, "CUDA_ERROR_NOT_INITIALIZED", "initialization error" },
    { NO_DEVICE, "CUDA_ERROR_NO_DEVICE", "no CUDA-capable device is detected" },
    { INVALID_DEVICE, "CUDA_ERROR_INVALID_DEVICE", "invalid device ordinal" },
    { INVALID_IMAGE, "CUDA_ERROR_INVALID_IMAGE", "device kernel image is invalid" },
    { INVALID_CONTEXT, "CUDA_ERROR_INVALID_CONTEXT", "invalid device context" },
    { 214, "CUDA_ERROR_ECC_UNCORRECTABLE", "uncorrectable ECC error encountered" },
    { INVALID_PTX, "CUDA_ERROR_INVALID_PTX", "a PTX JIT compilation failed" },
    { NOT_FOUND, "CUDA_ERROR_NOT_FOUND", "named symbol not found" },
    { 700, "CUDA_ERROR_ILLEGAL_ADDRESS", "an illegal memory access was encountered" },
    { LAUNCH_FAILED, "CUDA_ERROR_LAUNCH_FAILED", "unspecified launch failure" },
    { SYSTEM_NOT_READY, "CUDA_ERROR_SYSTEM_NOT_READY", "system not yet initialized" },
    { SYSTEM_DRIVER_MISMATCH, "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH",
      "system has unsupported display driver / cuda driver combination" },
    { UNKNOWN, "CUDA_ERROR_UNKNOWN", "unknown error" },
};

/* What the state says about this call: "error:CODE@CALL", "error:CODE" (cuInit), "hang", "crash". */
static CUresult trouble(const char *call)
{
    const char *state = sim_value("cuda", "ok");
    if (!strcmp(state, "hang") && !strcmp(call, "cuInit"))
        for (;;)
            pause();
    if (!strcmp(state, "crash") && !strcmp(call, "cuInit"))
        abort();
    if (strncmp(state, "error:", 6))
        return OK;
    const char *at = strchr(state, '@');
    return strcmp(at ? at + 1 : "cuInit", call) ? OK : sim_number(state + 6);
}
#define CALL(name) do { CUresult bad_ = trouble(name); if (bad_) return bad_; \
                        if (!initialized) return NOT_INITIALIZED; } while (0)

CUresult cuInit(unsigned flags)
{
    char loaded[64];
    CUresult bad = trouble("cuInit");
    if (bad)
        return bad;
    if (flags)
        return INVALID_VALUE;
    if (!sim_loaded(loaded, sizeof loaded))
        return NO_DEVICE;
    if (strcmp(loaded, DRIVER_VERSION))
        return SYSTEM_DRIVER_MISMATCH;
    if (!sim_count())
        return NO_DEVICE;
    /* As the real library does, through the setuid nvidia-modprobe. */
    if (!sim_is_device("/dev/nvidia-uvm") || !sim_is_device("/dev/nvidiactl"))
        if (system("/usr/bin/nvidia-modprobe -u -c=0 >/dev/null 2>&1"))
            return UNKNOWN;
    if (!sim_is_device("/dev/nvidia-uvm"))
        return UNKNOWN;
#ifdef REAL_MODULES
    /* Held until the process ends: what makes the modules be in use. */
    if (!initialized) {
        if (open("/dev/nvidiactl", O_RDWR | O_CLOEXEC) < 0 || open("/dev/nvidia-uvm", O_RDWR | O_CLOEXEC) < 0)
            return UNKNOWN;
        for (int i = 0; i < sim_count(); i++)
            sim_open(i);
    }
#endif
    initialized = 1;
    return OK;
}

CUresult cuDriverGetVersion(int *version)
{
    /* Branch 570 brings CUDA 12.8, 580 brings 13.0. */
    *version = sim_number(DRIVER_VERSION) >= 580 ? 13000 : 12080;
    return OK;
}

CUresult cuDeviceGetCount(int *count)
{
    CALL("cuDeviceGetCount");
    *count = 0;
    for (int i = 0; i < sim_count(); i++)
        *count += !sim_lost(i);
    return OK;
}

CUresult cuDeviceGet(CUdevice *device, int ordinal)
{
    CALL("cuDeviceGet");
    int count;
    cuDeviceGetCount(&count);
    if (ordinal < 0 || ordinal >= count)
        return INVALID_DEVICE;
    *device = ordinal;
    return OK;
}

static int card_of(CUdevice device) /* lost cards are skipped in the numbering */
{
    int card = 0;
    while (sim_lost(card) || device-- > 0)
        card++;
    return card;
}

CUresult cuDeviceGetName(char *name, int length, CUdevice device)
{
    CALL("cuDeviceGetName");
    sim_information(card_of(device), "Model", name, length);
    return OK;
}

CUresult cuDeviceGetPCIBusId(char *name, int length, CUdevice device)
{
    CALL("cuDeviceGetPCIBusId");
    sim_information(card_of(device), "Bus Location", name, length);
    for (char *letter = name; *letter; letter++)
        if (*letter >= 'a' && *letter <= 'f')
            *letter -= 'a' - 'A';
    return OK;
}

CUresult cuDeviceGetUuid(char uuid[16], CUdevice device)
{
    CALL("cuDeviceGetUuid");
    char text[64];
    int digits = 0;
    memset(uuid, 0, 16);
    for (const char *at = sim_information(card_of(device), "GPU UUID", text, sizeof text) + 4; *at && digits < 32; at++) {
        if (*at == '-')
            continue;
        uuid[digits / 2] = (char)(uuid[digits / 2] << 4 | (*at <= '9' ? *at - '0' : *at - 'a' + 10));
        digits++;
    }
    return OK;
}

CUresult cuDeviceGetUuid_v2(char uuid[16], CUdevice device) { return cuDeviceGetUuid(uuid, device); }

CUresult cuDeviceTotalMem_v2(size_t *bytes, CUdevice device)
{
    CALL("cuDeviceTotalMem_v2");
    (void)device;
    *bytes = 81559ull << 20;
    return OK;
}

CUresult cuDeviceGetAttribute(int *value, int attribute, CUdevice device)
{
    CALL("cuDeviceGetAttribute");
    (void)device;
    *value = attribute == 75 ? 9 : attribute == 76 ? 0 : attribute == 16 ? 114 : 1; /* compute 9.0, 114 SMs */
    return OK;
}

CUresult cuCtxCreate_v2(struct context **context, unsigned flags, CUdevice device)
{
    CALL("cuCtxCreate_v2");
    (void)flags;
    contexts[device].device = device;
    *context = current = &contexts[device];
    return OK;
}

CUresult cuDevicePrimaryCtxRetain(struct context **context, CUdevice device)
{
    CALL("cuDevicePrimaryCtxRetain");
    contexts[device].device = device;
    *context = &contexts[device];
    return OK;
}

CUresult cuCtxDestroy_v2(struct context *context) { CALL("cuCtxDestroy_v2"); (void)context; current = NULL; return OK; }
CUresult cuDevicePrimaryCtxRelease_v2(CUdevice device) { CALL("cuDevicePrimaryCtxRelease_v2"); (void)device; return OK; }
CUresult cuDevicePrimaryCtxRelease(CUdevice device) { return cuDevicePrimaryCtxRelease_v2(device); }
CUresult cuCtxSetCurrent(struct context *context) { CALL("cuCtxSetCurrent"); current = context; return OK; }
CUresult cuCtxPushCurrent_v2(struct context *context) { return cuCtxSetCurrent(context); }
CUresult cuCtxGetCurrent(struct context **context) { CALL("cuCtxGetCurrent"); *context = current; return OK; }

CUresult cuCtxPopCurrent_v2(struct context **context)
{
    CALL("cuCtxPopCurrent_v2");
    if (context)
        *context = current;
    current = NULL;
    return OK;
}

CUresult cuModuleLoadDataEx(struct module **module, const char *ptx, unsigned n, int *options, void **values)
{
    CALL("cuModuleLoadDataEx");
    (void)n, (void)options, (void)values;
    if (!current)
        return INVALID_CONTEXT;
    if (!strstr(ptx, ".version") || !strstr(ptx, ".target") || !strstr(ptx, ".address_size 64"))
        return INVALID_PTX;
    const char *entry = strstr(ptx, ".entry provision_check");
    if (!entry || !strstr(entry, "mad.lo") || !strstr(entry, "st.global"))
        return INVALID_PTX;
    int parameters = 0;
    const char *end = strchr(entry, ')');
    for (const char *p = entry; end && (p = strstr(p, ".param")) && p < end; p++)
        parameters++;
    if (parameters != the_module.parameters)
        return INVALID_PTX;
    *module = &the_module;
    return OK;
}

CUresult cuModuleLoadData(struct module **module, const char *ptx)
{
    return cuModuleLoadDataEx(module, ptx, 0, NULL, NULL);
}

CUresult cuModuleUnload(struct module *module) { CALL("cuModuleUnload"); (void)module; return OK; }

CUresult cuModuleGetFunction(void **function, struct module *module, const char *name)
{
    CALL("cuModuleGetFunction");
    if (strcmp(name, "provision_check"))
        return NOT_FOUND;
    *function = module;
    return OK;
}

CUresult cuMemAlloc_v2(CUdeviceptr *at, size_t bytes)
{
    CALL("cuMemAlloc_v2");
    if (!current)
        return INVALID_CONTEXT;
    *at = (CUdeviceptr)(uintptr_t)malloc(bytes);
    return *at ? OK : OUT_OF_MEMORY;
}

CUresult cuMemFree_v2(CUdeviceptr at) { CALL("cuMemFree_v2"); free((void *)(uintptr_t)at); return OK; }

CUresult cuMemcpyHtoD_v2(CUdeviceptr to, const void *from, size_t bytes)
{
    CALL("cuMemcpyHtoD_v2");
    memcpy((void *)(uintptr_t)to, from, bytes);
    return OK;
}

CUresult cuMemcpyDtoH_v2(void *to, CUdeviceptr from, size_t bytes)
{
    CALL("cuMemcpyDtoH_v2");
    memcpy(to, (void *)(uintptr_t)from, bytes);
    return OK;
}

CUresult cuMemsetD8_v2(CUdeviceptr at, unsigned char value, size_t bytes)
{
    CALL("cuMemsetD8_v2");
    memset((void *)(uintptr_t)at, value, bytes);
    return OK;
}

CUresult cuLaunchKernel(void *function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                        unsigned shared, void *stream, void **parameters, void **extra)
{
    CALL("cuLaunchKernel");
    (void)shared, (void)stream, (void)extra;
    if (!current || function != (void *)&the_module || !parameters)
        return INVALID_VALUE;
    uint64_t threads = (uint64_t)gx * gy * gz * bx * by * bz;
    if (!threads || (uint64_t)bx * by * bz > 1024)
        return INVALID_VALUE;
    const uint32_t *x = (const uint32_t *)(uintptr_t) * (CUdeviceptr *)parameters[0];
    const uint32_t *y = (const uint32_t *)(uintptr_t) * (CUdeviceptr *)parameters[1];
    uint32_t *out = (uint32_t *)(uintptr_t) * (CUdeviceptr *)parameters[2];
    uint32_t a = *(uint32_t *)parameters[3], n = *(uint32_t *)parameters[4];
    for (uint64_t i = 0; i < n && i < threads; i++)
        out[i] = a * x[i] + y[i];
    const char *state = sim_value("cuda", "ok");
    if (n && !strncmp(state, "wrong", 5))
        if (!state[5] || sim_number(state + 6) == card_of(current->device))
            out[n / 2] ^= 0x00400000; /* one flipped bit, as a bad memory cell gives */
    return OK;
}

CUresult cuCtxSynchronize(void) { CALL("cuCtxSynchronize"); return OK; }

static int find(CUresult code)
{
    for (int i = 0; i < (int)(sizeof ERRORS / sizeof *ERRORS); i++)
        if (ERRORS[i].code == code)
            return i;
    return -1;
}

CUresult cuGetErrorName(CUresult code, const char **name)
{
    int i = find(code);
    *name = i < 0 ? NULL : ERRORS[i].name;
    return i < 0 ? INVALID_VALUE : OK;
}

CUresult cuGetErrorString(CUresult code, const char **text)
{
    int i = find(code);
    *text = i < 0 ? NULL : ERRORS[i].text;
    return i < 0 ? INVALID_VALUE : OK;
}
