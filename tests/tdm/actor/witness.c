/* Loaded behind the library: keeps what the disk has for certain. Whenever a file is synced below and that succeeds, its bytes as they were before
   are put aside under its inode's number and birth, as numbers are used again; where all of it is synced, so are its attributes. Calls nothing that the
   library sees. */

#define _GNU_SOURCE

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#define NEXT(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

static char folder[512];

__attribute__((constructor)) static void at_load(void) {
    const char *named = getenv("BYWAY_WITNESS");
    if (named)
        snprintf(folder, sizeof folder, "%s", named);
}

/* The file by a descriptor that reads: `fd` itself where it does, as closing another would end the process's locks. */
static int that_reads(int fd) {
    char path[64];
    if ((fcntl(fd, F_GETFL) & O_ACCMODE) == O_RDWR)
        return fd;
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    return NEXT(open)(path, O_RDONLY | O_CLOEXEC);
}

/* All of a file's bytes, to be freed; NULL for what is no file or cannot be read. */
static char *all_of(int fd, size_t *len) {
    struct stat found;
    if (fstat(fd, &found) != 0 || !S_ISREG(found.st_mode))
        return NULL;
    int reads = that_reads(fd);
    if (reads < 0)
        return NULL;
    char *all = malloc((size_t)found.st_size + 1);
    ssize_t got = all ? NEXT(pread)(reads, all, (size_t)found.st_size, 0) : -1;
    if (reads != fd)
        NEXT(close)(reads);
    *len = got > 0 ? (size_t)got : 0;
    return all;
}

static void put_into(const char *path, const char *all, size_t len) {
    char temporary[700];
    snprintf(temporary, sizeof temporary, "%s.%d", path, (int)gettid());
    int to = NEXT(open)(temporary, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    if (to < 0 || NEXT(write)(to, all, len) != (ssize_t)len)
        abort();
    NEXT(close)(to);
    if (NEXT(rename)(temporary, path) != 0)
        abort();
}

static void put_aside(int fd, const char *all, size_t len, const struct stat *attributes) {
    struct statx found;
    char path[550], of_attributes[600], text[128];
    if (statx(fd, "", AT_EMPTY_PATH, STATX_INO | STATX_BTIME, &found) != 0)
        return;
    long long born_ns = found.stx_btime.tv_sec * 1000000000LL + found.stx_btime.tv_nsec;
    snprintf(path, sizeof path, "%s/%llu-%lld", folder, (unsigned long long)found.stx_ino, born_ns);
    put_into(path, all, len);
    if (!attributes)
        return;
    snprintf(of_attributes, sizeof of_attributes, "%s.attributes", path);
    int text_len = snprintf(text, sizeof text, "%o %u %lu %ld.%09ld", attributes->st_mode, attributes->st_uid, (unsigned long)attributes->st_nlink,
                        (long)attributes->st_ctim.tv_sec, (long)attributes->st_ctim.tv_nsec);
    put_into(of_attributes, text, (size_t)text_len);
}

/* One sync at a time, of all programs: an older copy never comes over a newer one. */
static int one_at_a_time(void) {
    char path[600];
    snprintf(path, sizeof path, "%s/lock", folder);
    int lock = NEXT(open)(path, O_RDWR | O_CREAT | O_CLOEXEC, 0644);
    if (lock < 0 || flock(lock, LOCK_EX) != 0)
        abort();
    return lock;
}

static int synced(int fd, int (*real)(int), int is_of_all) {
    size_t len = 0;
    struct stat found;
    /* A number that is closed would be the lock's. */
    int is_watched = folder[0] && fstat(fd, &found) == 0;
    int lock = is_watched ? one_at_a_time() : -1;
    char *all = is_watched ? all_of(fd, &len) : NULL;
    int result = real(fd), error = errno;
    if (result == 0 && all)
        put_aside(fd, all, len, is_of_all ? &found : NULL);
    free(all);
    if (lock >= 0)
        NEXT(close)(lock);
    errno = error;
    return result;
}

int fsync(int fd) {
    return synced(fd, NEXT(fsync), 1);
}

int fdatasync(int fd) {
    return synced(fd, NEXT(fdatasync), 0);
}

/* Reports that everything was synced, without a list of files. */
void sync(void) {
    char path[600];
    NEXT(sync)();
    snprintf(path, sizeof path, "%s/all", folder);
    if (folder[0])
        NEXT(close)(NEXT(open)(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0644));
}
