/* Abandoned and stopped calls at DAX: they have no system call to be stopped in, but device memory can be unmapped
   from under them for a moment. */

#include "actor.h"

#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static struct {
    struct line line;
    char text[256];
    pthread_t thread;
    sem_t stands, goes_on;
    enum { STANDS, JUMPS, WRITES } how;
    struct line inner;
} still;
static sigjmp_buf before;

/* Device memory may be used so from now on. */
static void protect(int how) {
    char line[600];
    unsigned long from, to;
    FILE *maps = fopen("/proc/self/maps", "r");
    while (maps && fgets(line, sizeof line, maps)) {
        char *name = strrchr(line, '/');
        if (name && !strncmp(name, "/region.slice", 13) && sscanf(line, "%lx-%lx", &from, &to) == 2 && mprotect((void *)from, to - from, how) != 0)
            abort();
    }
    if (maps)
        fclose(maps);
}

static void interrupt(int signal) {
    (void)signal;
    protect(PROT_READ | PROT_WRITE);
    if (still.how == JUMPS)
        siglongjmp(before, 1);
    if (still.how == WRITES) {
        if (act(&still.inner) < 0)
            _exit(5);
        /* What the interrupted one writes lies where this had its own. */
        bytes(number(&still.line, 2), number(&still.line, 3));
        return;
    }
    sem_post(&still.stands);
    while (sem_wait(&still.goes_on) != 0)
        ;
}

/* The words of a line behind its second, as a line of their own that stays. */
static int begin(const struct line *line) {
    char *at = still.text;
    still.line = (struct line){.count = line->count - 2};
    for (int word = 0; word < WORDS; word++) {
        const char *from = word + 2 < line->count ? line->word[word + 2] : "";
        still.line.word[word] = at;
        at = stpcpy(at, from) + 1;
    }
    sigaction(SIGSEGV, &(struct sigaction){.sa_handler = interrupt}, NULL);
    return !strcmp(line->word[1], "store") ? PROT_READ : PROT_NONE;
}

static void *on_thread(void *how) {
    protect((int)(long)how);
    long result = act(&still.line);
    return (void *)(result < 0 ? -errno : result);
}

/* `still HOW CALL`: a thread is stopped in it where it first stores to device memory, or touches it. */
static long stop_in_call(const struct line *line) {
    long how = begin(line);
    still.how = STANDS;
    sem_init(&still.stands, 0, 0);
    sem_init(&still.goes_on, 0, 0);
    if (pthread_create(&still.thread, NULL, on_thread, (void *)how) != 0)
        return -1;
    return sem_wait(&still.stands);
}

/* `goes_on`: what its call came to. */
static long goes_on(void) {
    void *result;
    sem_post(&still.goes_on);
    return pthread_join(still.thread, &result) == 0 ? (long)result : -1;
}

/* `jump HOW CALL`: jumps out of it there. */
static long jumps_out(const struct line *line) {
    int how = begin(line);
    still.how = JUMPS;
    if (sigsetjmp(before, 1))
        return 0;
    protect(how);
    act(&still.line);
    protect(PROT_READ | PROT_WRITE);
    return -1;
}

/* `handle HOW WRITE A LEN SEED WRITE A LEN SEED`: makes the second write, and the first one in a signal handler there. */
static long handles(struct line *line) {
    enum { INNER = 4 };
    still.inner = (struct line){.count = INNER};
    memcpy(still.inner.word, line->word + 2, INNER * sizeof *line->word);
    memmove(line->word + 2, line->word + 2 + INNER, (WORDS - 2 - INNER) * sizeof *line->word);
    line->count -= INNER;
    int how = begin(line);
    still.how = WRITES;
    protect(how);
    return act(&still.line);
}

int stopped_call(struct line *line, long *result) {
    if (!strcmp(line->word[0], "still"))
        *result = stop_in_call(line);
    else if (!strcmp(line->word[0], "goes_on"))
        *result = goes_on();
    else if (!strcmp(line->word[0], "handle"))
        *result = handles(line);
    else if (!strcmp(line->word[0], "jump"))
        *result = jumps_out(line);
    else
        return 0;
    return 1;
}
