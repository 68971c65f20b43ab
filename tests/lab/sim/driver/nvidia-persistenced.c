/* Keeps the cards open, as the real daemon does; refuses to start without a loaded driver. */
#include "state.h"
#include <signal.h>

#ifdef REAL_MODULES
#define CONTROL (O_RDWR | O_CLOEXEC)
#define REFRESH ":" /* the kernel counts by itself */
#else
#define CONTROL (O_PATH | O_CLOEXEC)
#define REFRESH "/opt/gpu-sim/gpu-sim refresh"
#endif

static volatile sig_atomic_t stopped;
static void stop(int number) { (void)number; stopped = 1; }

int main(int argc, char **argv)
{
    char loaded[64], path[80];
    if (argc > 1 && !strcmp(argv[1], "--version")) {
        printf("nvidia-persistenced:  version %s\n", DRIVER_VERSION);
        return 0;
    }
    if (!sim_loaded(loaded, sizeof loaded) || strcmp(loaded, DRIVER_VERSION)) {
        fprintf(stderr, "nvidia-persistenced failed to initialize. Check syslog for more details.\n");
        return 1;
    }
    for (int i = 0; i < sim_count(); i++) {
        snprintf(path, sizeof path, "/usr/bin/nvidia-modprobe -c=%d >/dev/null 2>&1", i);
        if (system(path))
            return 1;
        sim_open(i);
    }
    open("/dev/nvidiactl", CONTROL);
    /* The parent ends when the child is ready: systemd then finds the PID file and the counts are right. */
    int ready[2];
    char byte;
    if (pipe2(ready, O_CLOEXEC))
        return 1;
    if (fork()) {
        for (int fd = 3; fd < 64; fd++)
            if (fd != ready[0])
                close(fd);
        return read(ready[0], &byte, 1) == 1 ? 0 : 1;
    }
    setsid();
    close(ready[0]);
    mkdir("/var/run/nvidia-persistenced", 0755);
    FILE *file = fopen("/var/run/nvidia-persistenced/nvidia-persistenced.pid", "w");
    if (file) {
        fprintf(file, "%d\n", (int)getpid());
        fclose(file);
    }
    signal(SIGTERM, stop);
    signal(SIGINT, stop);
    if (system(REFRESH) || write(ready[1], "", 1) != 1)
        return 1;
    close(ready[1]);
    while (!stopped)
        pause();
    unlink("/var/run/nvidia-persistenced/nvidia-persistenced.pid");
    for (int fd = 3; fd < 64; fd++)
        close(fd);
    return system(REFRESH) ? 1 : 0;
}
