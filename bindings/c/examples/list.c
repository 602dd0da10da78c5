/* Lists the devices that this machine has; none is opened. */
#include <inttypes.h>
#include <stdio.h>

#include "fail.h"

static int print_device(void *context, const byway_found *found)
{
	static const char *const places[] = { "block", "partition", "generic", "controller", "pci function" };
	/* A newer library may find kinds that this program does not know. */
	const char *place = found->place < sizeof(places) / sizeof(places[0]) ? places[found->place] : "other";
	unsigned *count = context;

	printf("%-20s %-12s %" PRIu64 " bytes%s%s\n", found->uri, place, found->size_bytes,
	       found->model ? ", " : "", found->model ? found->model : "");
	++*count;
	return 0; /* anything else ends the scan */
}

int main(void)
{
	unsigned count = 0;

	check(byway_scan(print_device, &count), "scan");
	printf("%u devices\n", count);
	return 0;
}
