/* Stand-in for nvidia.ko: binds the cards, shows them below /proc/driver/nvidia, and is in use while one is open.

   Messages and the refusal to load without a card are those of the vendor's kernel-open/nvidia/nv.c. There is no
   hardware behind it: an open card gives nothing to read. */
#include <linux/delay.h>
#include <linux/list.h>
#include <linux/mutex.h>
#include <linux/pci.h>
#include <linux/proc_fs.h>
#include <linux/sched.h>
#include <linux/seq_file.h>
#include <linux/slab.h>
#include "nv.h"

static unsigned int NVreg_ModifyDeviceFiles = 1, NVreg_DeviceFileUID, NVreg_DeviceFileGID, NVreg_DeviceFileMode = 0666;
module_param(NVreg_ModifyDeviceFiles, uint, 0444);
module_param(NVreg_DeviceFileUID, uint, 0444);
module_param(NVreg_DeviceFileGID, uint, 0444);
module_param(NVreg_DeviceFileMode, uint, 0444);
static bool hang;
module_param(hang, bool, 0644);
MODULE_PARM_DESC(hang, "whoever opens a card sleeps uninterruptibly until this is off again (the stand-in's own)");

struct card {
    struct list_head list;
    struct pci_dev *pci;
    unsigned int minor;
    struct proc_dir_entry *entry;
};

static LIST_HEAD(cards);
static DEFINE_MUTEX(cards_lock);
static struct proc_dir_entry *proc_root, *proc_gpus;
static struct nv_device gpu_files, control_file, caps_files;

int nv_cards(void)
{
    struct card *card;
    int count = 0;

    mutex_lock(&cards_lock);
    list_for_each_entry(card, &cards, list)
        count++;
    mutex_unlock(&cards_lock);
    return count;
}
EXPORT_SYMBOL(nv_cards);

int nv_device_add(struct nv_device *device, const char *name, unsigned int major, unsigned int first,
                  unsigned int count, const struct file_operations *operations)
{
    int error;

    device->count = count;
    device->number = MKDEV(major, first);
    error = major ? register_chrdev_region(device->number, count, name)
                  : alloc_chrdev_region(&device->number, first, count, name);
    if (error)
        return error;
    cdev_init(&device->cdev, operations);
    device->cdev.owner = operations->owner;
    error = cdev_add(&device->cdev, device->number, count);
    if (error)
        unregister_chrdev_region(device->number, count);
    return error;
}
EXPORT_SYMBOL(nv_device_add);

void nv_device_remove(struct nv_device *device)
{
    cdev_del(&device->cdev);
    unregister_chrdev_region(device->number, device->count);
}
EXPORT_SYMBOL(nv_device_remove);

/* --- device files ------------------------------------------------------------------------------- */

static bool is_lost(struct pci_dev *pci)
{
    u16 vendor = 0xffff;

    pci_read_config_word(pci, PCI_VENDOR_ID, &vendor);
    return vendor != NV_VENDOR;
}

static void say_lost(struct pci_dev *pci)
{
    printk(KERN_ERR "NVRM: GPU at PCI:%04x:%02x:%02x has fallen off the bus.\n", pci_domain_nr(pci->bus),
           pci->bus->number, PCI_SLOT(pci->devfn));
    printk(KERN_ERR "NVRM: Xid (PCI:%04x:%02x:%02x): 79, pid=%d, name=%s, GPU has fallen off the bus.\n",
           pci_domain_nr(pci->bus), pci->bus->number, PCI_SLOT(pci->devfn), current->pid, current->comm);
}

static int gpu_open(struct inode *inode, struct file *file)
{
    struct card *card;
    int result = -ENODEV;

    while (READ_ONCE(hang))
        schedule_timeout_uninterruptible(HZ / 10);
    mutex_lock(&cards_lock);
    list_for_each_entry(card, &cards, list) {
        if (card->minor != iminor(inode))
            continue;
        result = is_lost(card->pci) ? -EIO : 0;
        if (result)
            say_lost(card->pci);
    }
    mutex_unlock(&cards_lock);
    return result;
}

static const struct file_operations gpu_operations = { .owner = THIS_MODULE, .open = gpu_open };
static const struct file_operations plain_operations = { .owner = THIS_MODULE };

/* --- /proc/driver/nvidia ------------------------------------------------------------------------ */

static const char *model(struct pci_dev *pci)
{
    switch (pci->device) {
    case 0x2331: return "NVIDIA H100 PCIe";
    case 0x2330: return "NVIDIA H100 80GB HBM3";
    case 0x20b5: return "NVIDIA A100 80GB PCIe";
    case 0x26b9: return "NVIDIA L40S";
    default: return "NVIDIA Graphics Device";
    }
}

static int information_show(struct seq_file *out, void *unused)
{
    struct card *card = out->private;
    struct pci_dev *pci = card->pci;

    seq_printf(out, "Model: \t\t %s\n", model(pci));
    seq_printf(out, "IRQ:   \t\t %u\n", pci->irq);
    seq_printf(out, "GPU UUID: \t GPU-5ca1ab1e-0000-4000-8000-%012x\n",
               0x1000 + (pci->bus->number << 8 | pci->devfn));
    seq_puts(out, "Video BIOS: \t 96.00.74.00.01\n");
    seq_puts(out, "Bus Type: \t PCIe\n");
    seq_puts(out, "DMA Size: \t 52 bits\n");
    seq_puts(out, "DMA Mask: \t 0xfffffffffffff\n");
    seq_printf(out, "Bus Location: \t %s\n", pci_name(pci));
    seq_printf(out, "Device Minor: \t %u\n", card->minor);
    seq_printf(out, "GPU Firmware: \t %s\n", NV_VERSION_STRING);
    seq_puts(out, "GPU Excluded:\t No\n");
    return 0;
}

static int version_show(struct seq_file *out, void *unused)
{
    seq_printf(out, "NVRM version: %s  %s  Release Build  (dvs-builder)  \n", NV_KIND, NV_VERSION_STRING);
    seq_printf(out, "GCC version:  gcc version %s\n", __VERSION__);
    return 0;
}

static int params_show(struct seq_file *out, void *unused)
{
    seq_puts(out, "ResmanDebugLevel: 4294967295\nRmLogonRC: 1\n");
    seq_printf(out, "ModifyDeviceFiles: %u\nDeviceFileUID: %u\nDeviceFileGID: %u\nDeviceFileMode: %u\n",
               NVreg_ModifyDeviceFiles, NVreg_DeviceFileUID, NVreg_DeviceFileGID, NVreg_DeviceFileMode);
    seq_puts(out, "EnableMSI: 1\nOpenRmEnableUnsupportedGpus: 1\n");
    return 0;
}

static int capability_show(struct seq_file *out, void *minor)
{
    seq_printf(out, "DeviceFileMinor: %lu\nDeviceFileMode: 256\nDeviceFileModify: 1\n", (unsigned long)out->private);
    return 0;
}

static int proc_make(void)
{
    proc_root = proc_mkdir("driver/nvidia", NULL);
    if (!proc_root)
        return -ENOMEM;
    proc_create_single("version", 0444, proc_root, version_show);
    proc_create_single("params", 0444, proc_root, params_show);
    proc_mkdir("capabilities", proc_root);
    proc_mkdir("capabilities/mig", proc_root);
    proc_create_single_data("capabilities/mig/config", 0444, proc_root, capability_show, (void *)1);
    proc_create_single_data("capabilities/mig/monitor", 0444, proc_root, capability_show, (void *)2);
    proc_gpus = proc_mkdir("gpus", proc_root);
    return proc_gpus ? 0 : -ENOMEM;
}

/* --- the bus ------------------------------------------------------------------------------------ */

static const struct pci_device_id ids[] = {
    { .vendor = NV_VENDOR, .device = PCI_ANY_ID, .subvendor = PCI_ANY_ID, .subdevice = PCI_ANY_ID,
      .class = PCI_CLASS_DISPLAY_VGA << 8, .class_mask = ~0 },
    { .vendor = NV_VENDOR, .device = PCI_ANY_ID, .subvendor = PCI_ANY_ID, .subdevice = PCI_ANY_ID,
      .class = PCI_CLASS_DISPLAY_3D << 8, .class_mask = ~0 },
    { }
};
MODULE_DEVICE_TABLE(pci, ids);

static int probe(struct pci_dev *pci, const struct pci_device_id *id)
{
    struct card *card = kzalloc(sizeof(*card), GFP_KERNEL), *other;
    struct list_head *place;

    if (!card)
        return -ENOMEM;
    card->pci = pci;
    mutex_lock(&cards_lock);
    /* The lowest number that is free, in the order of numbers. */
    place = &cards;
    list_for_each_entry(other, &cards, list) {
        if (other->minor != card->minor) {
            place = &other->list;
            break;
        }
        card->minor++;
    }
    list_add_tail(&card->list, place);
    mutex_unlock(&cards_lock);
    pci_set_drvdata(pci, card);
    card->entry = proc_mkdir(pci_name(pci), proc_gpus);
    if (card->entry)
        proc_create_single_data("information", 0444, card->entry, information_show, card);
    return 0;
}

static void unbind(struct pci_dev *pci)
{
    struct card *card = pci_get_drvdata(pci);

    if (is_lost(pci))
        say_lost(pci);
    proc_remove(card->entry);
    mutex_lock(&cards_lock);
    list_del(&card->list);
    mutex_unlock(&cards_lock);
    kfree(card);
}

static struct pci_driver driver = { .name = "nvidia", .id_table = ids, .probe = probe, .remove = unbind };

static int on_the_bus(void)
{
    struct pci_dev *pci = NULL;
    int count = 0;

    while ((pci = pci_get_device(NV_VENDOR, PCI_ANY_ID, pci)))
        count += pci_match_id(ids, pci) != NULL;
    return count;
}

static int __init nvidia_start(void)
{
    int count = on_the_bus(), bound, error;

    if (!count) {
        printk(KERN_ERR "NVRM: No NVIDIA GPU found.\n");
        return -ENODEV;
    }
    error = nv_device_add(&gpu_files, "nvidia", NV_MAJOR, 0, NV_MODESET_MINOR, &gpu_operations);
    if (error)
        return error;
    error = nv_device_add(&control_file, "nvidiactl", NV_MAJOR, NV_CONTROL_MINOR, 1, &plain_operations);
    if (error)
        goto no_control;
    error = nv_device_add(&caps_files, "nvidia-caps", 0, 0, 256, &plain_operations);
    if (error)
        goto no_caps;
    error = proc_make();
    if (error)
        goto no_proc;
    error = pci_register_driver(&driver);
    if (error)
        goto no_proc;
    bound = nv_cards();
    if (bound != count) {
        printk(KERN_WARNING "NVRM: The NVIDIA probe routine was not called for %d device(s).\n", count - bound);
        printk(KERN_WARNING "NVRM: This can occur when another driver was loaded and \n"
                            "NVRM: obtained ownership of the NVIDIA device(s).\n");
        printk(KERN_WARNING "NVRM: Try unloading the conflicting kernel module (and/or\n"
                            "NVRM: reconfigure your kernel without the conflicting\n"
                            "NVRM: driver(s)), then try loading the NVIDIA kernel module\n"
                            "NVRM: again.\n");
    }
    if (!bound) {
        printk(KERN_ERR "NVRM: No NVIDIA devices probed.\n");
        error = -ENODEV;
        goto no_card;
    }
    printk(KERN_INFO "NVRM: loading %s  %s  Release Build  (dvs-builder)\n", NV_KIND, NV_VERSION_STRING);
    return 0;

no_card:
    pci_unregister_driver(&driver);
no_proc:
    proc_remove(proc_root);
    nv_device_remove(&caps_files);
no_caps:
    nv_device_remove(&control_file);
no_control:
    nv_device_remove(&gpu_files);
    return error;
}

static void __exit nvidia_stop(void)
{
    pci_unregister_driver(&driver);
    proc_remove(proc_root);
    nv_device_remove(&caps_files);
    nv_device_remove(&control_file);
    nv_device_remove(&gpu_files);
}

module_init(nvidia_start);
module_exit(nvidia_stop);
MODULE_LICENSE(NV_LICENSE);
MODULE_VERSION(NV_VERSION_STRING);
MODULE_FIRMWARE("nvidia/" NV_VERSION_STRING "/gsp_ga10x.bin");
MODULE_FIRMWARE("nvidia/" NV_VERSION_STRING "/gsp_tu10x.bin");
MODULE_ALIAS_CHARDEV_MAJOR(NV_MAJOR);
