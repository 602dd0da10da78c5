/* Loaded behind the library: a sync below takes as long as BYWAY_BELOW_NS says, and keeps nothing. */

#include <stdlib.h>
#include <time.h>
#include <unistd.h>

static long below_ns;

__attribute__((constructor)) static void at_load(void) {
    const char *setting = getenv("BYWAY_BELOW_NS");
    below_ns = setting ? atol(setting) : 0;
}

static long now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000000000L + now.tv_nsec;
}

static int synced(void) {
    for (long until = below_ns ? now_ns() + below_ns : 0; until && now_ns() < until;) {
    }
    return 0;
}

int fsync(int fd) {
    (void)fd;
    return synced();
}

int fdatasync(int fd) {
    (void)fd;
    return synced();
}
