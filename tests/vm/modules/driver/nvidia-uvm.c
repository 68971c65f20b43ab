/* Stand-in for nvidia-uvm.ko: a character device under a major number of the kernel's choice. */
#include "nv.h"

static struct nv_device files;
static const struct file_operations operations = { .owner = THIS_MODULE };

static int __init uvm_start(void)
{
    int error;

    if (!nv_cards())
        return -ENODEV;
    error = nv_device_add(&files, "nvidia-uvm", 0, 0, 256, &operations);
    if (!error)
        printk(KERN_INFO "nvidia-uvm: Loaded the UVM driver, major device number %d.\n", MAJOR(files.number));
    return error;
}

static void __exit uvm_stop(void)
{
    nv_device_remove(&files);
    printk(KERN_INFO "nvidia-uvm: Unloaded the UVM driver.\n");
}

module_init(uvm_start);
module_exit(uvm_stop);
MODULE_LICENSE(NV_LICENSE);
MODULE_VERSION(NV_VERSION_STRING);
