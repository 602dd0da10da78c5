/* What every example does with an error: says it, and ends. */
#ifndef FAIL_H
#define FAIL_H

#include <stdio.h>
#include <stdlib.h>

#include "byway.h"

static inline int check(int done, const char *doing)
{
	if (done < 0) {
		const byway_error *error = byway_last_error();
		fprintf(stderr, "%s: %s\n", doing, byway_error_message(error));
		exit(1);
	}
	return done;
}

#endif
