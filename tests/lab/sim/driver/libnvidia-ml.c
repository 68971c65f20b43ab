/* NVML's first calls: versions and count. */
#include "state.h"

enum { OK = 0, DRIVER_NOT_LOADED = 9, MISMATCH = 18 };

int nvmlInit_v2(void)
{
    char loaded[64];
    if (!sim_loaded(loaded, sizeof loaded))
        return DRIVER_NOT_LOADED;
    return strcmp(loaded, DRIVER_VERSION) ? MISMATCH : OK;
}

int nvmlInit(void) { return nvmlInit_v2(); }
int nvmlShutdown(void) { return OK; }
int nvmlSystemGetNVMLVersion(char *version, unsigned length)
{
    /* Real NVML leaves out the branch's first part: 13.580.95 or 12.570.172. */
    snprintf(version, length, "%s%.*s", sim_number(DRIVER_VERSION) >= 580 ? "13." : "12.", 7, DRIVER_VERSION);
    return OK;
}

int nvmlSystemGetDriverVersion(char *version, unsigned length)
{
    return sim_loaded(version, (int)length) ? OK : DRIVER_NOT_LOADED;
}

int nvmlDeviceGetCount_v2(unsigned *count)
{
    *count = (unsigned)sim_count();
    return nvmlInit_v2();
}
