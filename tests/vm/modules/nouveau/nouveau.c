/* Stand-in for the kernel's nouveau, which a cloud kernel leaves out: it takes the cards and does nothing. */
#include <linux/module.h>
#include <linux/pci.h>

static int probe(struct pci_dev *pci, const struct pci_device_id *id)
{
    pci_info(pci, "NVIDIA GH100 (180000a1)\n");
    return 0;
}

static const struct pci_device_id ids[] = {
    { PCI_DEVICE(0x10de, PCI_ANY_ID), .class = PCI_BASE_CLASS_DISPLAY << 16, .class_mask = 0xff << 16 },
    { }
};
MODULE_DEVICE_TABLE(pci, ids);

static struct pci_driver nouveau = { .name = "nouveau", .id_table = ids, .probe = probe };
module_pci_driver(nouveau);
MODULE_LICENSE("GPL and additional rights");
MODULE_DESCRIPTION("nVidia Riva/TNT/GeForce/Quadro/Tesla/Tegra K1+");
