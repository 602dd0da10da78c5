/* What programs do besides plain calls: children, threads, signals, streams, locks, sockets, rings. */

#include "actor.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

static FILE *streams[128];

/* The rest of a line, as a line. */
static struct line rest(const struct line *line, int from) {
    struct line shorter = *line;
    shorter.count = line->count > from ? line->count - from : 0;
    for (int i = 0; i < WORDS; i++)
        shorter.word[i] = i < shorter.count ? line->word[i + from] : "";
    return shorter;
}

static long ended(pid_t child) {
    int status;
    if (child < 0 || waitpid(child, &status, 0) < 0)
        return -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
}

/* A line done by a child that is forked off: its result, as far as a status says it. */
static long by_child(const struct line *line, pid_t (*fork_off)(void)) {
    struct line what = rest(line, 1);
    pid_t child = fork_off();
    if (child == 0) {
        long result = act(&what);
        _exit(result < 0 ? 255 : result > 254 ? 254 : (int)result);
    }
    return ended(child);
}

static void *on_thread(void *line) {
    return (void *)act(line);
}

static long by_thread(const struct line *line) {
    struct line what = rest(line, 1);
    pthread_t thread;
    void *result = NULL;
    if (pthread_create(&thread, NULL, on_thread, &what) != 0 || pthread_join(thread, &result) != 0)
        return -1;
    return (long)result;
}

/* A child of vfork that closes everything, opens a file at a number that was another's, and becomes a program. */
static long by_vfork(const char *path, int taken) {
    volatile int number = taken;
    pid_t child = vfork();
    if (child == 0) {
        close(number);
        int other = open(path, O_WRONLY | O_CREAT, 0644);
        if (other != number || write(other, "by the child", 12) != 12)
            _exit(1);
        closefrom(3);
        execl("/bin/true", "true", (char *)NULL);
        _exit(2);
    }
    return ended(child);
}

/* A child of vfork that writes by its parent's descriptor, before its parent does anything with it. */
static long vfork_writes(int fd, long len, long seed) {
    const char *from = bytes(len, seed);
    pid_t child = vfork();
    if (child == 0)
        _exit(write(fd, from, (size_t)len) != len);
    return ended(child);
}

/* A child of vfork that has a program write into a file that is closed on the way under its own number. */
static long vfork_with_output(int fd) {
    pid_t child = vfork();
    if (child == 0) {
        dup2(fd, 1);
        execle("/bin/echo", "echo", "by another program", (char *)NULL, (char *[]){NULL});
        _exit(2);
    }
    return ended(child);
}

/* The same by posix_spawn, which copies the descriptor unseen. */
static long spawn_with_output(int fd) {
    posix_spawn_file_actions_t actions;
    pid_t child;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, fd, 1);
    char *arguments[] = {"echo", "by another program", NULL}, *environment[] = {NULL};
    int error = posix_spawn(&child, "/bin/echo", &actions, NULL, arguments, environment);
    posix_spawn_file_actions_destroy(&actions);
    errno = error;
    return error ? -1 : ended(child);
}

/* Closes a file and opens another, which has its number then, and writes that. */
static long use_again(int *fd, const char *path, long seed) {
    int was = *fd;
    close(was);
    *fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0644);
    return *fd == was && write(*fd, bytes(40, seed), 40) == 40 && fdatasync(*fd) == 0 ? 0 : -1;
}

static struct { int fd; volatile long count; volatile int goes_on; } handler;

static void write_and_sync(int signal) {
    int error = errno;
    (void)signal;
    if (write(handler.fd, "handler\n", 8) == 8 && fdatasync(handler.fd) == 0)
        handler.count++;
    errno = error;
}

static void *send_signals(void *to) {
    while (handler.goes_on) {
        pthread_kill(*(pthread_t *)to, SIGUSR1);
        usleep(200);
    }
    return NULL;
}

/* Writes and syncs while a handler does so in between; how often that did. */
static long with_handler(int fd, long rounds) {
    pthread_t self = pthread_self(), sender;
    handler.fd = fd;
    handler.count = 0;
    handler.goes_on = 1;
    sigaction(SIGUSR1, &(struct sigaction){.sa_handler = write_and_sync, .sa_flags = SA_RESTART}, NULL);
    pthread_create(&sender, NULL, send_signals, &self);
    long good = 0;
    for (long i = 0; i < rounds; i++)
        good += write(fd, "program\n", 8) == 8 && fdatasync(fd) == 0;
    handler.goes_on = 0;
    pthread_join(sender, NULL);
    return good == rounds ? handler.count : -1;
}

struct share { int fd; long rounds; int letter; };

static void *write_share(void *of) {
    struct share *share = of;
    char line[] = "?......\n";
    line[0] = (char)share->letter;
    for (long i = 0; i < share->rounds; i++)
        if (write(share->fd, line, 8) != 8 || (i % 3 == 0 && fdatasync(share->fd) != 0))
            return (void *)1;
    return NULL;
}

/* Four threads that write and sync one file, while this one moves the position that they share. */
static long by_threads(int fd, long rounds, int moves) {
    pthread_t threads[4];
    struct share shares[4];
    long failed = 0;
    for (int i = 0; i < 4; i++) {
        shares[i] = (struct share){fd, rounds, 'A' + i};
        pthread_create(&threads[i], NULL, write_share, &shares[i]);
    }
    for (long i = 0; moves && i < rounds * 4; i++)
        lseek(fd, i, SEEK_SET);
    for (int i = 0; i < 4; i++) {
        void *result;
        pthread_join(threads[i], &result);
        failed += (long)result;
    }
    return -failed;
}

static void *write_for_ever(void *of) {
    for (;;)
        if (write(*(int *)of, "cancelled\n", 10) != 10 || fdatasync(*(int *)of) != 0)
            return (void *)1;
}

/* Writes and syncs numbers from `first` on, one by one; each is then reported in another, mapped file. */
static long commits(int fd, const char *reported, long first, long rounds) {
    int file = open(reported, O_RDWR | O_CREAT, 0644);
    if (file < 0 || ftruncate(file, sizeof(long)) != 0)
        return -1;
    volatile long *kept = mmap(NULL, sizeof(long), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    close(file);
    for (long i = first; i < first + rounds; i++) {
        char line[16];
        snprintf(line, sizeof line, "%07ld\n", i);
        if (write(fd, line, 8) != 8 || fdatasync(fd) != 0)
            return -1;
        *kept = i;
    }
    return 0;
}

/* Threads that are cancelled inside of their writes. */
static long cancelled(int fd, long rounds) {
    for (long i = 0; i < rounds; i++) {
        pthread_t thread;
        void *result;
        pthread_create(&thread, NULL, write_for_ever, &fd);
        usleep(500);
        pthread_cancel(thread);
        pthread_join(thread, &result);
        if (result != PTHREAD_CANCELED)
            return -1;
    }
    return 0;
}

/* Hands a descriptor to a child, which has no other way to it; the child writes. */
static long handed_on(int fd, int by_many) {
    int pair[2];
    char control[CMSG_SPACE(sizeof(int))] = {0}, byte = 0;
    struct iovec part = {&byte, 1};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair) != 0)
        return -1;
    pid_t child = fork();
    if (child == 0) {
        close(fd);
        if (recvmsg(pair[1], &message, 0) != 1)
            _exit(1);
        int got = *(int *)CMSG_DATA(CMSG_FIRSTHDR(&message));
        _exit(write(got, "by another", 10) == 10 ? 0 : 2);
    }
    struct cmsghdr *header = CMSG_FIRSTHDR(&message);
    *header = (struct cmsghdr){.cmsg_len = CMSG_LEN(sizeof(int)), .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS};
    memcpy(CMSG_DATA(header), &fd, sizeof fd);
    struct mmsghdr many = {.msg_hdr = message};
    long sent = by_many ? sendmmsg(pair[0], &many, 1, 0) : sendmsg(pair[0], &message, 0);
    close(pair[0]);
    close(pair[1]);
    return sent == 1 ? ended(child) : -1;
}

#define ALLOW(number) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, number, 0, 1), BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)

/* Has the kernel end this program at any call but those that it makes itself. */
static long confined(const char *how) {
    struct sock_filter own[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        ALLOW(SYS_read), ALLOW(SYS_write), ALLOW(SYS_pwrite64), ALLOW(SYS_openat), ALLOW(SYS_close), ALLOW(SYS_dup),
        ALLOW(SYS_fsync), ALLOW(SYS_fdatasync), ALLOW(SYS_ftruncate), ALLOW(SYS_rename), ALLOW(SYS_exit_group),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
    };
    struct sock_fprog filter = {sizeof own / sizeof *own, own};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0)
        return -1;
    if (!strcmp(how, "strictly"))
        return prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT);
    if (!strcmp(how, "filtered"))
        return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter);
    if (!strcmp(how, "by_number"))
        return syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &filter);
    /* As a program does that tests for seccomp. */
    return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, NULL);
}

/* Whether another process finds the first byte of a file locked. */
static long is_locked(const char *path) {
    pid_t child = fork();
    if (child == 0) {
        struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_len = 1};
        _exit(fcntl(open(path, O_RDWR), F_GETLK, &lock) == 0 && lock.l_type != F_UNLCK);
    }
    return ended(child);
}

static int processes(struct line *l, long *r) {
    const char *name = l->word[0];
    if (!strcmp(name, "child"))
        *r = by_child(l, fork);
    else if (!strcmp(name, "bare_child"))
        *r = by_child(l, _Fork);
    else if (!strcmp(name, "thread"))
        *r = by_thread(l);
    else if (!strcmp(name, "vfork"))
        *r = by_vfork(l->word[2], *slot(l, 1));
    else if (!strcmp(name, "vfork_writes"))
        *r = vfork_writes(*slot(l, 1), number(l, 2), number(l, 3));
    else if (!strcmp(name, "vfork_output"))
        *r = vfork_with_output(*slot(l, 1));
    else if (!strcmp(name, "spawn_output"))
        *r = spawn_with_output(*slot(l, 1));
    else if (!strcmp(name, "system"))
        *r = system(l->word[1]);
    else if (!strcmp(name, "handed_on"))
        *r = handed_on(*slot(l, 1), (int)number(l, 2));
    else if (!strcmp(name, "reuse"))
        *r = use_again(slot(l, 1), l->word[2], number(l, 3));
    else if (!strcmp(name, "handler"))
        *r = with_handler(*slot(l, 1), number(l, 2));
    else if (!strcmp(name, "inside"))
        *r = interrupted(l);
    else if (!strcmp(name, "threads"))
        *r = by_threads(*slot(l, 1), number(l, 2), (int)number(l, 3));
    else if (!strcmp(name, "commits"))
        *r = commits(*slot(l, 1), l->word[2], number(l, 3), number(l, 4));
    else if (!strcmp(name, "cancelled"))
        *r = cancelled(*slot(l, 1), number(l, 2));
    else
        return 0;
    return 1;
}

static int surroundings(struct line *l, long *r) {
    const char *name = l->word[0];
    struct rlimit limit = {(rlim_t)number(l, 1), (rlim_t)number(l, 1)};
    if (!strcmp(name, "spoil_environment"))
        for (*r = 0; environ[*r]; ++*r)
            memset(environ[*r], 'x', strlen(environ[*r]));
    else if (!strcmp(name, "become"))
        *r = setresuid((uid_t)number(l, 1), (uid_t)number(l, 1), (uid_t)number(l, 1));
    else if (!strcmp(name, "confine"))
        *r = confined(l->word[1]);
    else if (!strcmp(name, "descriptors"))
        *r = setrlimit(RLIMIT_NOFILE, &limit);
    else if (!strcmp(name, "longest_file")) {
        signal(SIGXFSZ, SIG_IGN);
        *r = setrlimit(RLIMIT_FSIZE, &limit);
    } else if (!strcmp(name, "lock"))
        *r = fcntl(*slot(l, 1), F_SETLK, &(struct flock){.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_len = 1});
    else if (!strcmp(name, "is_locked"))
        *r = is_locked(l->word[1]);
    else if (!strcmp(name, "ring"))
        *r = syscall(SYS_io_uring_setup, 4, (char[256]){0}) >= 0 ? 0 : -1;
    else if (!strcmp(name, "sync"))
        *r = (sync(), 0);
    else if (!strcmp(name, "syncfs"))
        *r = syncfs(*slot(l, 1));
    else if (!strcmp(name, "sys_syncfs"))
        *r = syscall(SYS_syncfs, *slot(l, 1));
    else
        return 0;
    return 1;
}

static int streamed(struct line *l, long *r) {
    const char *name = l->word[0];
    FILE **stream = &streams[(unsigned char)l->word[1][0] & 127];
    if (!strcmp(name, "fopen"))
        *r = (*stream = fopen(l->word[2], l->word[3])) ? fileno(*stream) : -1;
    else if (!strcmp(name, "fdopen"))
        *r = (*stream = fdopen(*slot(l, 1), l->word[2])) ? 0 : -1;
    else if (!strcmp(name, "freopen"))
        *r = (*stream = freopen(l->word[2], l->word[3], *stream)) ? fileno(*stream) : -1;
    else if (!strcmp(name, "fputs"))
        *r = fputs(l->word[2], *stream) < 0 || fflush(*stream) != 0 ? -1 : 0;
    else if (!strcmp(name, "printf"))
        *r = printf("%s", l->word[1]) < 0 || fflush(stdout) != 0 ? -1 : 0;
    else if (!strcmp(name, "fclose"))
        *r = fclose(*stream);
    else if (!strcmp(name, "fileno"))
        *r = *slot(l, 1) = fileno(*stream);
    else
        return 0;
    return 1;
}

int trap(struct line *line, long *result) {
    return processes(line, result) || surroundings(line, result) || streamed(line, result);
}
