/* What crossed the link: ledger [URI] */
#include <inttypes.h>

#include "fail.h"

static void print_row(const byway_ledger_row *before, const byway_ledger_row *after)
{
	if (after->count != before->count)
		printf("%-14s %6" PRIu64 " times, %8" PRIu64 " bytes\n", after->name, after->count - before->count,
		       after->payload_bytes - before->payload_bytes);
}

int main(int argc, char **argv)
{
	const char *uri = argc > 1 ? argv[1] : "embedded-ram:64M?transfer=inline";
	byway_ledger_row before[32] = { { .size = sizeof(before[0]) } };
	byway_ledger_row after[32] = { { .size = sizeof(after[0]) } };
	byway_ledger begun = { .size = sizeof(begun) }, ended = { .size = sizeof(ended) };
	char value[32] = "thirty-two bytes of some value";
	byway_device *device;
	byway_kv *kv;

	check(byway_open(uri, NULL, &device), "open");
	check(byway_kv_open(device, 0, &kv), "kv");
	check(byway_device_set_ledger(device, 1), "ledger");
	check(byway_device_get_ledger(device, &begun), "ledger");
	check(byway_device_ledger_rows(device, before, 32), "rows");

	check(byway_kv_put(kv, "key", 3, value, sizeof(value), 0), "put");

	check(byway_device_get_ledger(device, &ended), "ledger");
	int rows = check(byway_device_ledger_rows(device, after, 32), "rows");
	for (int i = 0; i < rows && i < 32; i++)
		print_row(&before[i], &after[i]);
	printf("a put of %zu bytes: %" PRIu64 " bytes of payload, %" PRIu64 " on the wire\n", sizeof(value),
	       ended.payload_bytes - begun.payload_bytes, ended.wire_bytes - begun.wire_bytes);

	byway_kv_close(kv);
	check(byway_close(device), "close");
	return 0;
}
