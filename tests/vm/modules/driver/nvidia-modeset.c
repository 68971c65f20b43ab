/* Stand-in for nvidia-modeset.ko: /dev/nvidia-modeset, and what nvidia-drm.ko needs of it. */
#include "nv.h"

static struct nv_device file;
static const struct file_operations operations = { .owner = THIS_MODULE };

int nvkms_cards(void);
int nvkms_cards(void) { return nv_cards(); }
EXPORT_SYMBOL(nvkms_cards);

static int __init modeset_start(void)
{
    int error = nv_device_add(&file, "nvidia-modeset", NV_MAJOR, NV_MODESET_MINOR, 1, &operations);

    if (!error)
        printk(KERN_INFO "nvidia-modeset: Loading NVIDIA Kernel Mode Setting Driver for UNIX platforms  %s\n",
               NV_VERSION_STRING);
    return error;
}

static void __exit modeset_stop(void)
{
    nv_device_remove(&file);
    printk(KERN_INFO "nvidia-modeset: Unloading\n");
}

module_init(modeset_start);
module_exit(modeset_stop);
MODULE_LICENSE(NV_LICENSE);
MODULE_VERSION(NV_VERSION_STRING);
