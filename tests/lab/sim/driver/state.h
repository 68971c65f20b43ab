/* The simulated host's state, as the C parts of the driver read it. */
#ifndef GPU_SIM_STATE_H
#define GPU_SIM_STATE_H
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
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

static int sim_count(void)
{
    return sim_number(sim_value("count", "2"));
}

static int sim_lost(int card)
{
    char name[8], copy[64] = " ";
    snprintf(name, sizeof name, " %d ", card);
    strncat(copy, sim_value("lost", ""), 60);
    strcat(copy, " ");
    return strstr(copy, name) != NULL;
}

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
