/* Stands in for libcuda.so.1: the calls that cuda_check.py makes, computing on the processor.
 * Environment: CUDA_CARDS number of devices; CUDA_BREAK "CALL=CODE" makes that call fail with that code on
 * the last device (cuInit: always); CUDA_WRONG=1 gives one wrong number on the last device; CUDA_IDLE=1 does
 * not run the kernel there. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int current = -1;
static int cards(void) { const char *n = getenv("CUDA_CARDS"); return n ? atoi(n) : 2; }
static int last(void) { return current == cards() - 1; }

static int broken(const char *call) {
    const char *spec = getenv("CUDA_BREAK");
    size_t length = strlen(call);
    if (!spec || strncmp(spec, call, length) || spec[length] != '=') return 0;
    return (last() || current < 0) ? atoi(spec + length + 1) : 0;
}
#define CHECK() do { int code = broken(__func__); if (code) return code; } while (0)

int cuInit(unsigned flags) { CHECK(); return 0; }
int cuDeviceGetCount(int *count) { *count = cards(); return 0; }
int cuDeviceGet(int *device, int index) { *device = index; return 0; }
int cuDeviceGetName(char *name, int length, int device) { snprintf(name, length, "NVIDIA Test"); return 0; }
int cuDeviceGetPCIBusId(char *text, int length, int device) {
    snprintf(text, length, "0000:%02X:00.0", 10 + device);
    return 0;
}
int cuGetErrorName(int code, const char **text) { *text = code == 719 ? "CUDA_ERROR_LAUNCH_FAILED" : "CUDA_ERROR"; return 0; }
int cuCtxCreate_v2(void **context, unsigned flags, int device) {
    current = device;
    CHECK();
    *context = &current;
    return 0;
}
int cuCtxDestroy_v2(void *context) { CHECK(); current = -1; return 0; }
int cuCtxSynchronize(void) { CHECK(); return 0; }
int cuModuleLoadData(void **module, const void *ptx) {
    CHECK();
    *module = &current;
    return strstr(ptx, ".entry provision_check") ? 0 : 218;
}
int cuModuleGetFunction(void **function, void *module, const char *name) {
    *function = &current;
    return strcmp(name, "provision_check") ? 500 : 0;
}
int cuModuleUnload(void *module) { return 0; }
int cuMemAlloc_v2(uint64_t *pointer, size_t size) { CHECK(); *pointer = (uint64_t)(uintptr_t)malloc(size); return 0; }
int cuMemFree_v2(uint64_t pointer) { free((void *)(uintptr_t)pointer); return 0; }
int cuMemcpyHtoD_v2(uint64_t to, const void *from, size_t size) { memcpy((void *)(uintptr_t)to, from, size); return 0; }
int cuMemcpyDtoH_v2(void *to, uint64_t from, size_t size) { CHECK(); memcpy(to, (void *)(uintptr_t)from, size); return 0; }
int cuLaunchKernel(void *function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                   unsigned shared, void *stream, void **parameters, void **extra) {
    CHECK();
    uint32_t *x = (uint32_t *)(uintptr_t)*(uint64_t *)parameters[0], *y = (uint32_t *)(uintptr_t)*(uint64_t *)parameters[1];
    uint32_t *out = (uint32_t *)(uintptr_t)*(uint64_t *)parameters[2];
    uint32_t a = *(uint32_t *)parameters[3], n = *(uint32_t *)parameters[4];
    if (last() && getenv("CUDA_IDLE")) return 0;
    for (uint32_t i = 0; i < n && i < gx * bx; i++) out[i] = a * x[i] + y[i];
    if (last() && getenv("CUDA_WRONG")) out[n / 2] ^= 1;
    return 0;
}
