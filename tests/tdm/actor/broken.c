/* Loaded behind the library, or into a daemon: while the file that BYWAY_BROKEN names is there, every write, cut and sync of a file of the tests fails by
   the error number that is in it. */

#define _GNU_SOURCE

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define NEXT(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

/* The error number for a call on `fd`; zero where it is made. */
static int broken(int fd) {
    char link[64], path[600], text[16] = "";
    const char *setting = getenv("BYWAY_BROKEN");
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t len = readlink(link, path, sizeof path - 1);
    path[len > 0 ? len : 0] = 0;
    if (!setting || !strstr(path, "/files/"))
        return 0;
    int says = NEXT(open)(setting, O_RDONLY | O_CLOEXEC);
    if (says < 0)
        return 0;
    ssize_t got = NEXT(read)(says, text, sizeof text - 1);
    NEXT(close)(says);
    return got > 0 ? atoi(text) : 0;
}

static int fails(int fd) {
    int error = broken(fd);
    if (error)
        errno = error;
    return error;
}

ssize_t write(int fd, const void *data, size_t len) {
    return fails(fd) ? -1 : NEXT(write)(fd, data, len);
}

ssize_t pwrite64(int fd, const void *data, size_t len, off64_t at) {
    return fails(fd) ? -1 : NEXT(pwrite64)(fd, data, len, at);
}

int ftruncate64(int fd, off64_t size) {
    return fails(fd) ? -1 : NEXT(ftruncate64)(fd, size);
}

int fsync(int fd) {
    return fails(fd) ? -1 : NEXT(fsync)(fd);
}

int fdatasync(int fd) {
    return fails(fd) ? -1 : NEXT(fdatasync)(fd);
}
