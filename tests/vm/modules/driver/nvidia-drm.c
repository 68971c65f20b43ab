/* Stand-in for nvidia-drm.ko, without the kernel's DRM: a cloud kernel has none. */
#include "nv.h"

int nvkms_cards(void);

static int __init drm_start(void)
{
    printk(KERN_INFO "[drm] [nvidia-drm] Loading driver for %d GPU(s)\n", nvkms_cards());
    return 0;
}

static void __exit drm_stop(void)
{
    printk(KERN_INFO "[drm] [nvidia-drm] Unloading driver\n");
}

static bool modeset;
module_param(modeset, bool, 0400);
module_init(drm_start);
module_exit(drm_stop);
MODULE_LICENSE(NV_LICENSE);
MODULE_VERSION(NV_VERSION_STRING);
