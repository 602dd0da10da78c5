/* A program that makes the calls it is given, line by line: it answers each by its result and errno. What it does follows from
   these lines alone, so that two of them, one under the library, answer alike. */

#include "actor.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int fds[128];

long number(const struct line *line, int word) {
    return word < line->count ? strtol(line->word[word], NULL, 0) : 0;
}

int *slot(const struct line *line, int word) {
    return &fds[(unsigned char)line->word[word][0] & 127];
}

const char *bytes(long len, long seed) {
    /* A thread stopped inside a write has its own. */
    static __thread char buffer[1 << 22];
    unsigned long state = (unsigned long)seed * 2654435761u + 1;
    for (long i = 0; i < len && i < (long)sizeof buffer; i++) {
        state = state * 6364136223846793005ul + 1442695040888963407ul;
        buffer[i] = (char)('a' + (state >> 33) % 26);
    }
    return buffer;
}

static void split(char *text, struct line *line) {
    line->count = 0;
    for (char *word = strtok(text, " \n"); word && line->count < WORDS; word = strtok(NULL, " \n"))
        line->word[line->count++] = word;
    for (int i = line->count; i < WORDS; i++)
        line->word[i] = "";
}

long act(struct line *line) {
    long result;
    errno = 0;
    if (call(line, &result) || trap(line, &result) || stopped_call(line, &result))
        return result;
    fprintf(stderr, "not understood: %s\n", line->word[0]);
    exit(3);
}

/* By the system's own call: standard output may be a file, and streams are what some tests are about. */
static void answer(int to, long result, int error) {
    char text[64];
    int len = snprintf(text, sizeof text, result < 0 ? "%ld errno %d\n" : "%ld\n", result, error);
    if (write(to, text, (size_t)len) != len)
        _exit(4);
}

int main(void) {
    static char text[4096];
    /* Far from the numbers that the calls under test are given, as far as any limit allows. */
    int to = dup2(1, 900), from = dup2(0, 901);
    FILE *lines = fdopen(from, "r");
    memset(fds, -1, sizeof fds);
    while (lines && fgets(text, sizeof text, lines)) {
        struct line line;
        split(text, &line);
        if (line.count == 0)
            continue;
        long result = act(&line);
        answer(to, result, errno);
    }
    return 0;
}
