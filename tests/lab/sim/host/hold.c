/* Holds a path open until it is told to end. O_PATH, because opening major 195 needs the real driver:
   /proc/PID/fd shows the same link as a real client of the card. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    for (int i = 1; i < argc; i++)
        if (open(argv[i], O_PATH) < 0)
            return 1;
    pause();
    return 0;
}
