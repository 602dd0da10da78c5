/* Opens a device and prints what it is: info URI [OPTIONS] */
#include <inttypes.h>
#include <stdio.h>

#include "byway.h"

static int fail(const char *uri)
{
	static const char *const who[] = { "this library", "the kernel", "the device" };
	const byway_error *error = byway_last_error();

	fprintf(stderr, "%s: %s\n", uri, byway_error_message(error));
	fprintf(stderr, "  refused by %s, kind %d, errno %d, status %#x\n", who[byway_error_origin(error)],
		(int)byway_error_kind_of(error), byway_error_errno(error), byway_error_status(error));
	return 1;
}

static void print_namespace(const byway_namespace *namespace)
{
	printf("namespace %" PRIu32 ": %" PRIu64 " bytes", namespace->nsid, namespace->size_bytes);
	if (namespace->kind == BYWAY_KIND_NVM)
		printf(", %" PRIu64 " blocks of %" PRIu32 " bytes", namespace->blocks, namespace->lba_bytes);
	if (namespace->kind == BYWAY_KIND_KV)
		printf(", keys of up to %" PRIu32 " bytes", namespace->key_max_bytes);
	printf("\n");
}

int main(int argc, char **argv)
{
	const char *uri = argc > 1 ? argv[1] : "embedded-ram:64M";
	byway_open_options options = { .size = sizeof(options), .options = argc > 2 ? argv[2] : NULL };
	byway_device_info info = { .size = sizeof(info) };
	byway_capabilities can = { .size = sizeof(can) };
	byway_namespace namespaces[8] = { { .size = sizeof(namespaces[0]) } };
	byway_device *device;

	if (byway_open(uri, &options, &device) < 0)
		return fail(uri);
	if (byway_device_get_info(device, &info) < 0 || byway_device_get_capabilities(device, &can) < 0)
		return fail(uri);
	printf("%s: %s, served by %s: %s\n", uri, info.model, info.backend, info.why);
	for (uint32_t i = 0; i < info.passed_over; i++) {
		const char *backend, *why;

		if (byway_device_passed_over(device, i, &backend, &why) < 0)
			return fail(uri);
		printf("not %s: %s\n", backend, why);
	}
	printf("memory on %" PRIu32 " bytes, %" PRIu32 " queues%s%s\n", can.memory_align_bytes, can.queues,
	       can.cancel ? ", cancels" : "", can.event ? ", event descriptor" : "");
	int count = byway_device_namespaces(device, namespaces, 8);
	if (count < 0)
		return fail(uri);
	for (int i = 0; i < count && i < 8; i++)
		print_namespace(&namespaces[i]);
	return byway_close(device) < 0 ? fail(uri) : 0;
}
