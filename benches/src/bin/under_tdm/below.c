/* A device below a file system of this machine, by its time alone: loaded behind the library that absorbs, it has each sync of a file
 * take as long again as the device would for what the sync puts there one after the other: the data, the journal's blocks, its commit.
 *
 * BYWAY_BELOW is "WRITE,PAGE": nanoseconds of a write of one page, and of each page more of the same write. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { FDS = 1024, PAGE = 4096 };

static long write_ns, page_ns;
static long long synced_bytes[FDS];

__attribute__((constructor)) static void load(void)
{
    const char *text = getenv("BYWAY_BELOW");
    if (!text || sscanf(text, "%ld,%ld", &write_ns, &page_ns) != 2)
        write_ns = page_ns = 0;
}

static long long now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000000000LL + now.tv_nsec;
}

/* What the file has grown by is what is written. */
static long pages_of(int fd)
{
    struct statx found;
    if (fd < 0 || fd >= FDS || statx(fd, "", AT_EMPTY_PATH, STATX_SIZE, &found) != 0)
        return 1;
    long long grown = (long long)found.stx_size - synced_bytes[fd];
    synced_bytes[fd] = (long long)found.stx_size;
    return grown > PAGE ? (long)((grown + PAGE - 1) / PAGE) : 1;
}

static int below(int fd, const char *name)
{
    int (*real)(int) = (int (*)(int))dlsym(RTLD_NEXT, name);
    int answer = real(fd);
    long long until = now_ns() + 3 * write_ns + (pages_of(fd) - 1) * page_ns;
    while (now_ns() < until)
        ;
    return answer;
}

int fdatasync(int fd) { return below(fd, "fdatasync"); }
int fsync(int fd) { return below(fd, "fsync"); }
