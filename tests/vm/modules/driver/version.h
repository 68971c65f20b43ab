/* Of the sources of the module, so that its srcversion differs from release to release as well. */
#define NV_VERSION_STRING "@VERSION@"
#define NV_LICENSE "@LICENSE@"
#define NV_KIND "@KIND@"
