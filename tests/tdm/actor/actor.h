/* What the parts of the actor share. */
#ifndef ACTOR_H
#define ACTOR_H

#define _GNU_SOURCE

#include <stddef.h>

enum { WORDS = 12 };

/* A line of the actor's input, word by word; missing words are empty. */
struct line {
    char *word[WORDS];
    int count;
};

/* A number among the words, zero where there is none. */
long number(const struct line *line, int word);

/* The descriptor that a letter stands for: `fds['a']` and so on. */
extern int fds[128];
int *slot(const struct line *line, int word);

/* Bytes that follow from a seed. */
const char *bytes(long len, long seed);

/* Writes by a ring of its own. */
long ring_write(int fd, const char *from, long len, long at);

/* Writes, and is interrupted in it. */
long interrupted(const struct line *line);

/* Makes a call in which a thread is stopped, or that it jumps out of; 0 for a word that is neither. */
int stopped_call(struct line *line, long *result);

/* Does what a line says; the result, with errno set where it is below zero. */
long act(struct line *line);

/* Calls of the C library; 0 for a word that is none of them. */
int call(struct line *line, long *result);

/* Other things that programs do. */
int trap(struct line *line, long *result);

#endif
