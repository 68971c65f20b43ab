/* A kernel module's file as far as modinfo and depmod read it: the .modinfo section. Never loaded. */
#define JOIN_(a, b) a##b
#define JOIN(a, b) JOIN_(a, b)
#define INFO(text) \
    static const char JOIN(info_, __LINE__)[] __attribute__((section(".modinfo"), used, aligned(1))) = text

INFO("version=" DRIVER_VERSION);
INFO("license=" MODULE_LICENSE);
INFO("depends=" MODULE_DEPENDS);
INFO("name=" MODULE_NAME);
INFO("srcversion=" MODULE_SRCVERSION);
INFO("vermagic=" KERNEL_RELEASE " SMP preempt mod_unload ");
#ifdef MODULE_SUPPORTED
INFO("alias=pci:v000010DEd*sv*sd*bc03sc02i00*");
INFO("alias=pci:v000010DEd*sv*sd*bc03sc00i00*");
INFO("firmware=nvidia/" DRIVER_VERSION "/gsp_ga10x.bin");
INFO("firmware=nvidia/" DRIVER_VERSION "/gsp_tu10x.bin");
#endif
