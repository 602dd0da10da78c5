/* Lists the devices that this machine has; none is opened. */
#include <inttypes.h>
#include <stdio.h>

#include "fail.h"

static int tell(void *context, const byway_found *found)
{
	static const char *const places[] = { "block", "partition", "generic", "controller" };
	unsigned *count = context;

	printf("%-20s %-10s %" PRIu64 " bytes%s%s\n", found->uri, places[found->place], found->size_bytes,
	       found->model ? ", " : "", found->model ? found->model : "");
	++*count;
	return 0; /* anything else ends the scan */
}

int main(void)
{
	unsigned count = 0;

	check(byway_scan(tell, &count), "scan");
	printf("%u devices\n", count);
	return 0;
}
