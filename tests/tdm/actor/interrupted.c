/* An interrupted write: a signal handler stops inside it, jumps out of it, or writes and syncs. */

#include "actor.h"

#include <dlfcn.h>
#include <setjmp.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { PAGE = 4096, PIECE = 1024 };

static struct { const char *how; int fd; long seed, at; } inside;
static sigjmp_buf before;

/* Two pages; what is written lies in both. */
static char *pages;

static void interrupt(int signal) {
    if (signal == SIGSEGV)
        mprotect(pages + PAGE, PAGE, PROT_READ | PROT_WRITE);
    if (!strcmp(inside.how, "stop"))
        raise(SIGSTOP);
    else if (!strcmp(inside.how, "jump"))
        siglongjmp(before, 1);
    else if (pwrite(inside.fd, bytes(70, inside.seed), 70, inside.at) != 70 || fdatasync(inside.fd) != 0)
        _exit(5);
}

/* Between the system's call and the log's record of it. */
static void once_written(void) {
    raise(SIGUSR1);
}

/* In the midst of the record, whose second piece cannot be read. */
static void once_begun(void) {
    mprotect(pages + PAGE, PAGE, PROT_NONE);
}

/* `inside WHEN HOW SLOT LEN SEED AT`: writes, and is interrupted in it. */
long interrupted(const struct line *line) {
    int fd = *slot(line, 3);
    long len = number(line, 4), at = number(line, 6);
    void (*inside_next_write)(void (*)(void));
    *(void **)&inside_next_write = dlsym(RTLD_DEFAULT, "inside_next_write");
    if (!pages)
        pages = mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    char *from = pages + PAGE - PIECE - 100;
    if (pages == MAP_FAILED || !inside_next_write || len > PIECE + 100 + PAGE)
        return -1;
    memcpy(from, bytes(len, number(line, 5)), (size_t)len);
    inside.how = line->word[2];
    inside.fd = fd;
    inside.seed = number(line, 5) + 100;
    inside.at = at + 20;
    sigaction(SIGUSR1, &(struct sigaction){.sa_handler = interrupt}, NULL);
    sigaction(SIGSEGV, &(struct sigaction){.sa_handler = interrupt}, NULL);
    inside_next_write(!strcmp(line->word[1], "written") ? once_written : once_begun);
    return sigsetjmp(before, 1) ? 0 : pwrite(fd, from, (size_t)len, at);
}
