/* What the stand-in modules share: numbers, and what nvidia.ko gives to the others. */
#ifndef NV_H
#define NV_H
#include <linux/cdev.h>
#include <linux/fs.h>
#include <linux/init.h>
#include <linux/kernel.h>
#include <linux/module.h>
#include "version.h"

#define NV_MAJOR 195
#define NV_CONTROL_MINOR 255
#define NV_MODESET_MINOR 254
#define NV_VENDOR 0x10de

struct nv_device {
    dev_t number;
    unsigned int count;
    struct cdev cdev;
};

/* Character devices FIRST … FIRST + COUNT - 1 under NAME in /proc/devices; MAJOR 0: any that is free. */
int nv_device_add(struct nv_device *device, const char *name, unsigned int major, unsigned int first,
                  unsigned int count, const struct file_operations *operations);
void nv_device_remove(struct nv_device *device);
/* How many cards are bound to nvidia.ko. */
int nv_cards(void);
#endif
