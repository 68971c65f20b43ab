/* The host's state, as the C parts of the driver read it: the simulation's, or with REAL_MODULES what the loaded
   modules show. */
#ifndef GPU_SIM_STATE_H
#define GPU_SIM_STATE_H
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <fcntl.h>
#include <glob.h>
#include <unistd.h>
#include <sys/stat.h>

/* No strtol and friends: a newer libc of the building machine would bind them to symbols that
   an older host lacks. */
static int sim_number(const char *text)
{
    int value = 0;
    while (*text >= '0' && *text <= '9')
        value = value * 10 + (*text++ - '0');
    return value;
}

/* Value of KEY in the state file (written by a shell-quoting Python), or fallback. */
static const char *sim_value(const char *key, const char *fallback)
{
    static char line[256];
    FILE *file = fopen("/var/lib/gpu-sim/card.env", "r");
    size_t length = strlen(key);
    if (!file)
        return fallback;
    while (fgets(line, sizeof line, file)) {
        if (strncmp(line, key, length) || line[length] != '=')
            continue;
        fclose(file);
        char *value = line + length + 1;
        value[strcspn(value, "\n")] = 0;
        if (*value == '\'') {
            value++;
            value[strcspn(value, "'")] = 0;
        }
        return value;
    }
    fclose(file);
    return fallback;
}

#ifdef REAL_MODULES
#define GPUS "/proc/driver/nvidia/gpus/"

/* Information files of the cards, in the order of the bus. */
static int sim_count(void)
{
    glob_t found;
    int count = glob(GPUS "*/information", 0, NULL, &found) ? 0 : (int)found.gl_pathc;
    if (count)
        globfree(&found);
    return count;
}

/* A line "NAME: value" of a card's information into buffer; "" where it isn't there. */
__attribute__((unused)) static const char *sim_information(int card, const char *name, char *buffer, int size)
{
    glob_t found;
    size_t length = strlen(name);
    *buffer = 0;
    if (glob(GPUS "*/information", 0, NULL, &found))
        return buffer;
    FILE *file = card < (int)found.gl_pathc ? fopen(found.gl_pathv[card], "r") : NULL;
    globfree(&found);
    char line[256];
    while (file && fgets(line, sizeof line, file)) {
        if (strncmp(line, name, length) || line[length] != ':')
            continue;
        const char *value = line + length + 1;
        line[strcspn(line, "\n")] = 0;
        snprintf(buffer, size, "%s", value + strspn(value, " \t"));
    }
    if (file)
        fclose(file);
    return buffer;
}

/* Open the card's device file; below 0 where the driver refuses. */
__attribute__((unused)) static int sim_open(int card)
{
    char minor[32], path[64];
    snprintf(path, sizeof path, "/dev/nvidia%s", sim_information(card, "Device Minor", minor, sizeof minor));
    return open(path, O_RDWR | O_CLOEXEC);
}

__attribute__((unused)) static int sim_lost(int card)
{
    int fd = sim_open(card);
    if (fd >= 0)
        close(fd);
    return fd < 0;
}
#else
static int sim_count(void)
{
    return sim_number(sim_value("count", "2"));
}

__attribute__((unused)) static const char *sim_information(int card, const char *name, char *buffer, int size)
{
    if (!strcmp(name, "Bus Location"))
        snprintf(buffer, size, "0000:%02x:00.0", 0x41 + card);
    else if (!strcmp(name, "GPU UUID"))
        snprintf(buffer, size, "GPU-5ca1ab1e-0000-4000-8000-%012x", 0x1000 + card);
    else
        snprintf(buffer, size, "%s", sim_value("model", "NVIDIA H100 PCIe"));
    return buffer;
}

/* Nothing is behind the simulation's device files: only that they are held can be seen. */
__attribute__((unused)) static int sim_open(int card)
{
    char path[64];
    snprintf(path, sizeof path, "/dev/nvidia%d", card);
    return open(path, O_PATH | O_CLOEXEC);
}

__attribute__((unused)) static int sim_lost(int card)
{
    char name[8], copy[64] = " ";
    snprintf(name, sizeof name, " %d ", card);
    strncat(copy, sim_value("lost", ""), 60);
    strcat(copy, " ");
    return strstr(copy, name) != NULL;
}
#endif

/* Version of the loaded module into buffer; 0 where none is loaded. */
static int sim_loaded(char *buffer, int size)
{
    FILE *file = fopen("/sys/module/nvidia/version", "r");
    if (!file)
        return 0;
    int good = fgets(buffer, size, file) != NULL;
    fclose(file);
    buffer[strcspn(buffer, "\n")] = 0;
    return good;
}

static int sim_is_device(const char *path)
{
    struct stat info;
    return stat(path, &info) == 0 && S_ISCHR(info.st_mode);
}
#endif
