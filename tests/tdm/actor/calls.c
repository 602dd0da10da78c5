/* Calls that open, write, sync and close files. */

#include "actor.h"

#include <aio.h>
#include <errno.h>
#include <execinfo.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/xattr.h>
#include <unistd.h>

static int flags_of(const char *text) {
    int flags = strchr(text, '+') ? O_RDWR : strchr(text, 'w') ? O_WRONLY : O_RDONLY;
    const struct { char letter; int flag; } all[] = {
        {'c', O_CREAT}, {'t', O_TRUNC}, {'a', O_APPEND}, {'x', O_EXCL}, {'d', O_DIRECT}, {'s', O_SYNC}, {'y', O_DSYNC}, {'e', O_CLOEXEC},
        {'m', O_TMPFILE},
    };
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        if (strchr(text, all[i].letter))
            flags |= all[i].flag;
    return flags;
}

/* Parts of a vector over one buffer, each a little longer than the one before. */
static int parts_of(struct iovec *parts, int most, long len, long seed) {
    const char *from = bytes(len, seed);
    int count = 0;
    for (long at = 0, part = 1; at < len && count < most; part = part * 3 + 1, count++) {
        long size = count == most - 1 || part > len - at ? len - at : part;
        parts[count] = (struct iovec){(void *)(from + at), (size_t)size};
        at += size;
    }
    return count;
}

/* Other names of the same functions, which no header has. */
extern ssize_t __write(int, const void *, size_t), __pwrite64(int, const void *, size_t, off_t);
extern off_t __lseek(int, off_t, int);
extern int __open(const char *, int, ...), __close(int), __dup2(int, int), __fcntl(int, int, ...);

static char *map_of[128];

/* Writes through a mapping that stays. */
static long poke(const char *slot, long at, long len, long seed) {
    memcpy(map_of[(unsigned char)slot[0] & 127] + at, bytes(len, seed), (size_t)len);
    return len;
}

/* Writes into a mapping, which may be one of its own, and takes it away; not where the file ends before. */
static long mapped_write(int fd, long at, long len, long seed, int kind) {
    struct stat found;
    long page = at / 4096 * 4096;
    if (fstat(fd, &found) == 0 && found.st_size < at + len) {
        errno = ENXIO;
        return -1;
    }
    char *map = mmap(NULL, (size_t)(at - page + len), PROT_READ | PROT_WRITE, kind, fd, page);
    if (map == MAP_FAILED)
        return -1;
    memcpy(map + (at - page), bytes(len, seed), (size_t)len);
    return munmap(map, (size_t)(at - page + len));
}

static long piped(int fd, long len, long seed) {
    int ends[2];
    if (pipe(ends) != 0)
        return -1;
    /* As much as a pipe takes. */
    long there = write(ends[1], bytes(len, seed), (size_t)(len < 65536 ? len : 65536));
    long result = splice(ends[0], NULL, fd, NULL, (size_t)there, 0);
    int error = errno;
    close(ends[0]);
    close(ends[1]);
    errno = error;
    return result;
}

/* From one file to another. Where that is a file's own bytes onto themselves, what is read depends on how a file system does it. */
static long sent(int to, int from, long at, long len) {
    struct stat one, other;
    off_t behind = lseek(to, 0, SEEK_CUR);
    if (fstat(to, &one) == 0 && fstat(from, &other) == 0 && one.st_ino == other.st_ino && behind < at + len && at < behind + len) {
        errno = EINVAL;
        return -1;
    }
    return sendfile(to, from, &(off_t){at}, (size_t)len);
}

/* What a program that fails writes into its log. */
static long reported_position(int fd) {
    void *frames[8];
    backtrace_symbols_fd(frames, backtrace(frames, 8), fd);
    return 0;
}

static int writes(struct line *l, long *r) {
    const char *name = l->word[0];
    int fd = *slot(l, 1);
    long a = number(l, 2), b = number(l, 3), c = number(l, 4);
    struct iovec parts[5];
    if (!strcmp(name, "write"))
        *r = write(fd, bytes(a, b), (size_t)a);
    else if (!strcmp(name, "pwrite"))
        *r = pwrite(fd, bytes(a, b), (size_t)a, c);
    else if (!strcmp(name, "pwrite64"))
        *r = pwrite64(fd, bytes(a, b), (size_t)a, c);
    else if (!strcmp(name, "__write"))
        *r = __write(fd, bytes(a, b), (size_t)a);
    else if (!strcmp(name, "__pwrite64"))
        *r = __pwrite64(fd, bytes(a, b), (size_t)a, c);
    else if (!strcmp(name, "backtrace"))
        *r = reported_position(fd);
    else if (!strcmp(name, "writev"))
        *r = writev(fd, parts, parts_of(parts, 5, a, b));
    else if (!strcmp(name, "pwritev"))
        *r = pwritev(fd, parts, parts_of(parts, 5, a, b), c);
    else if (!strcmp(name, "pwritev2"))
        *r = pwritev2(fd, parts, parts_of(parts, 5, a, b), c, (int)number(l, 5));
    else if (!strcmp(name, "dprintf"))
        *r = dprintf(fd, "%.*s", (int)a, bytes(a, b));
    else if (!strcmp(name, "mapped"))
        *r = mapped_write(fd, c, a, b, MAP_SHARED);
    else if (!strcmp(name, "mapped_private"))
        *r = mapped_write(fd, c, a, b, MAP_PRIVATE);
    else if (!strcmp(name, "map"))
        *r = (map_of[(unsigned char)l->word[1][0] & 127] = mmap(NULL, (size_t)a, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0)) == MAP_FAILED ? -1 : 0;
    else if (!strcmp(name, "poke"))
        *r = poke(l->word[1], c, a, b);
    else if (!strcmp(name, "peek"))
        *r = map_of[(unsigned char)l->word[1][0] & 127][a];
    else if (!strcmp(name, "ring_write"))
        *r = ring_write(fd, bytes(a, b), a, c);
    else if (!strcmp(name, "splice"))
        *r = piped(fd, a, b);
    else if (!strcmp(name, "sendfile"))
        *r = sent(fd, *slot(l, 2), c, b);
    else if (!strcmp(name, "copy_file_range"))
        *r = copy_file_range(*slot(l, 2), &(off_t){c}, fd, NULL, (size_t)b, 0);
    else if (!strcmp(name, "sys_write"))
        *r = syscall(SYS_write, fd, bytes(a, b), a);
    else if (!strcmp(name, "sys_pwrite"))
        *r = syscall(SYS_pwrite64, fd, bytes(a, b), a, c);
    else
        return 0;
    return 1;
}

/* A number that identifies what was read. */
static long sum_of(const char *read, long len) {
    unsigned long sum = 5381;
    for (long i = 0; i < len; i++)
        sum = sum * 33 + (unsigned char)read[i];
    return len < 0 ? len : (long)(sum >> 2);
}

/* Reads into parts of a buffer, the first of them short. */
static long read_parts(int fd, char *into, long len, long at) {
    struct iovec parts[2] = {{into, (size_t)(len < 7 ? len : 7)}, {into + 7, (size_t)(len < 7 ? 0 : len - 7)}};
    return at < 0 ? readv(fd, parts, 2) : preadv(fd, parts, 2, at);
}

static int reads(struct line *l, long *r) {
    static char into[1 << 20];
    struct stat found;
    const char *name = l->word[0];
    int fd = *slot(l, 1);
    long a = number(l, 2), b = number(l, 3);
    long len = a > (long)sizeof into ? (long)sizeof into : a;
    if (!strcmp(name, "sum"))
        *r = sum_of(into, read(fd, into, (size_t)len));
    else if (!strcmp(name, "sum_at"))
        *r = sum_of(into, pread(fd, into, (size_t)len, b));
    else if (!strcmp(name, "sum_parts"))
        *r = sum_of(into, read_parts(fd, into, len, -1));
    else if (!strcmp(name, "sum_parts_at"))
        *r = sum_of(into, read_parts(fd, into, len, b));
    else if (!strcmp(name, "sys_sum_at"))
        *r = sum_of(into, syscall(SYS_pread64, fd, into, len, b));
    else if (!strcmp(name, "size"))
        *r = fstat(fd, &found) == 0 ? found.st_size : -1;
    else if (!strcmp(name, "size_of"))
        *r = stat(l->word[1], &found) == 0 ? found.st_size : -1;
    else
        return 0;
    return 1;
}

/* A sync that is asked for, and waited for. */
static long sync_later(int fd) {
    struct aiocb request = {.aio_fildes = fd};
    const struct aiocb *list[] = {&request};
    if (aio_fsync(O_DSYNC, &request) != 0 || aio_suspend(list, 1, NULL) != 0)
        return -1;
    return aio_error(&request) == 0 ? aio_return(&request) : -1;
}

static int sizes_and_syncs(struct line *l, long *r) {
    const char *name = l->word[0];
    int fd = *slot(l, 1);
    long a = number(l, 2), b = number(l, 3), c = number(l, 4);
    if (!strcmp(name, "fsync"))
        *r = fsync(fd);
    else if (!strcmp(name, "fdatasync"))
        *r = fdatasync(fd);
    else if (!strcmp(name, "aio_fsync"))
        *r = sync_later(fd);
    else if (!strcmp(name, "sys_fdatasync"))
        *r = syscall(SYS_fdatasync, fd);
    else if (!strcmp(name, "ftruncate"))
        *r = ftruncate(fd, a);
    else if (!strcmp(name, "truncate"))
        *r = truncate(l->word[1], a);
    else if (!strcmp(name, "sys_truncate"))
        *r = syscall(SYS_truncate, l->word[1], a);
    else if (!strcmp(name, "fallocate"))
        *r = fallocate(fd, (int)a, b, c);
    else if (!strcmp(name, "posix_fallocate"))
        *r = posix_fallocate(fd, b, c);
    else if (!strcmp(name, "__lseek"))
        *r = __lseek(fd, a, (int)b);
    else if (!strcmp(name, "lseek"))
        *r = lseek(fd, a, (int)b);
    else if (!strcmp(name, "read"))
        *r = read(fd, (char[65536]){0}, (size_t)(a > 65536 ? 65536 : a));
    else if (!strcmp(name, "setfl"))
        *r = fcntl(fd, F_SETFL, flags_of(l->word[2]) & ~O_ACCMODE);
    else
        return 0;
    return 1;
}

/* What a file has beside its bytes. */
static int attributes(struct line *l, long *r) {
    const char *name = l->word[0], *path = l->word[1];
    const struct timespec times[2] = {{.tv_sec = 1000}, {.tv_sec = 2000 + number(l, 2)}};
    int fd = *slot(l, 1);
    if (!strcmp(name, "fchmod"))
        *r = fchmod(fd, (mode_t)number(l, 2));
    else if (!strcmp(name, "sys_fchmod"))
        *r = syscall(SYS_fchmod, fd, number(l, 2));
    else if (!strcmp(name, "chmod"))
        *r = chmod(path, (mode_t)number(l, 2));
    else if (!strcmp(name, "fchmodat"))
        *r = fchmodat(AT_FDCWD, path, (mode_t)number(l, 2), 0);
    else if (!strcmp(name, "fchown"))
        *r = fchown(fd, getuid(), (gid_t)-1);
    else if (!strcmp(name, "chown"))
        *r = chown(path, getuid(), (gid_t)-1);
    else if (!strcmp(name, "futimens"))
        *r = futimens(fd, times);
    else if (!strcmp(name, "sys_futimens"))
        *r = syscall(SYS_utimensat, fd, NULL, times, 0);
    else if (!strcmp(name, "utimensat"))
        *r = utimensat(AT_FDCWD, path, times, 0);
    else if (!strcmp(name, "fsetxattr"))
        *r = fsetxattr(fd, "user.byway.test", "value", 5, 0);
    else if (!strcmp(name, "fremovexattr"))
        *r = fremovexattr(fd, "user.byway.test");
    else if (!strcmp(name, "setxattr"))
        *r = setxattr(path, "user.byway.test", "value", 5, 0);
    else
        return 0;
    return 1;
}

static int descriptors(struct line *l, long *r) {
    const char *name = l->word[0];
    int *fd = slot(l, 1), *to = slot(l, 2);
    if (!strcmp(name, "open"))
        *r = *fd = open(l->word[2], flags_of(l->word[3]), 0644);
    else if (!strcmp(name, "__open"))
        *r = *fd = __open(l->word[2], flags_of(l->word[3]), 0644);
    else if (!strcmp(name, "__close"))
        *r = __close(*fd);
    else if (!strcmp(name, "__dup2"))
        *r = __dup2(*fd, *to);
    else if (!strcmp(name, "__dupfd"))
        *r = *to = __fcntl(*fd, F_DUPFD, (int)number(l, 3));
    else if (!strcmp(name, "unshare_and_close"))
        *r = unshare(CLONE_FILES) == 0 ? close(*fd) : -1;
    else if (!strcmp(name, "unshare_numbers"))
        *r = unshare(CLONE_NEWPID);
    else if (!strcmp(name, "inherit"))
        *r = *fd = (int)number(l, 2);
    else if (!strcmp(name, "creat"))
        *r = *fd = creat(l->word[2], 0644);
    else if (!strcmp(name, "sys_openat"))
        *r = *fd = (int)syscall(SYS_openat, AT_FDCWD, l->word[2], flags_of(l->word[3]), 0644);
    else if (!strcmp(name, "sys_open"))
        *r = *fd = (int)syscall(SYS_open, l->word[2], flags_of(l->word[3]), 0644);
    else if (!strcmp(name, "mkstemp"))
        *r = *fd = mkstemp(strcpy((char[256]){0}, l->word[2]));
    else if (!strcmp(name, "close"))
        *r = close(*fd);
    else if (!strcmp(name, "sys_close"))
        *r = syscall(SYS_close, *fd);
    else if (!strcmp(name, "close_range"))
        *r = close_range((unsigned)*fd, (unsigned)*to, (int)number(l, 3));
    else if (!strcmp(name, "closefrom"))
        *r = (closefrom((int)number(l, 1)), 0);
    else if (!strcmp(name, "close_most"))
        *r = close_range((unsigned)number(l, 1), 899, 0);
    else if (!strcmp(name, "dup"))
        *r = *to = dup(*fd);
    else if (!strcmp(name, "dup2"))
        *r = dup2(*fd, *to);
    else if (!strcmp(name, "dup_to"))
        *r = *to = dup2(*fd, (int)number(l, 3));
    else if (!strcmp(name, "sys_dup2"))
        *r = syscall(SYS_dup2, *fd, *to);
    else if (!strcmp(name, "dupfd"))
        *r = *to = fcntl(*fd, F_DUPFD, (int)number(l, 3));
    else if (!strcmp(name, "forget"))
        *r = *fd = -1;
    else
        return 0;
    return 1;
}

static int names(struct line *l, long *r) {
    const char *name = l->word[0];
    if (!strcmp(name, "rename"))
        *r = rename(l->word[1], l->word[2]);
    else if (!strcmp(name, "sys_rename"))
        *r = syscall(SYS_rename, l->word[1], l->word[2]);
    else if (!strcmp(name, "sys_renameat"))
        *r = syscall(SYS_renameat, AT_FDCWD, l->word[1], AT_FDCWD, l->word[2]);
    else if (!strcmp(name, "sys_renameat2"))
        *r = syscall(SYS_renameat2, AT_FDCWD, l->word[1], AT_FDCWD, l->word[2], 0);
    else if (!strcmp(name, "sys_unlink"))
        *r = syscall(SYS_unlink, l->word[1]);
    else if (!strcmp(name, "sys_unlinkat"))
        *r = syscall(SYS_unlinkat, AT_FDCWD, l->word[1], 0);
    else if (!strcmp(name, "link"))
        *r = link(l->word[1], l->word[2]);
    else if (!strcmp(name, "name")) {
        char open_file[64];
        snprintf(open_file, sizeof open_file, "/proc/self/fd/%d", *slot(l, 1));
        *r = linkat(AT_FDCWD, open_file, AT_FDCWD, l->word[2], AT_SYMLINK_FOLLOW);
    } else if (!strcmp(name, "unlink"))
        *r = unlink(l->word[1]);
    else if (!strcmp(name, "remove"))
        *r = remove(l->word[1]);
    else if (!strcmp(name, "mkdir"))
        *r = mkdir(l->word[1], 0755);
    else
        return 0;
    return 1;
}

int call(struct line *line, long *result) {
    return writes(line, result) || reads(line, result) || sizes_and_syncs(line, result) || attributes(line, result) || descriptors(line, result) || names(line, result);
}
