/* The life of an image: made, filled, copied while it is in use, resized, checked, sanitized: image PATH */
#include <inttypes.h>
#include <stdint.h>
#include <string.h>

#include "fail.h"

enum { COUNT = 100 };

static void found(void *context, const byway_finding *finding)
{
	(void)context;
	printf("%s %s: %s\n", finding->structure, finding->place, finding->what);
}

static void got(void *context, uint32_t index, const void *value, size_t bytes)
{
	unsigned *right = context;

	*right += value && bytes == sizeof(index) && !memcmp(value, &index, bytes);
}

static void fill(byway_kv *kv)
{
	uint32_t numbers[COUNT];
	byway_pair pairs[COUNT];
	unsigned right = 0;
	uint64_t loaded;

	for (uint32_t i = 0; i < COUNT; i++) {
		numbers[i] = i;
		pairs[i] = (byway_pair){ sizeof(pairs[i]), &numbers[i], sizeof(i), &numbers[i], sizeof(i) };
	}
	check(byway_kv_load(kv, pairs, COUNT, &loaded), "load");
	check(byway_kv_get_many(kv, pairs, COUNT, 64, got, &right), "get many");
	printf("%" PRIu64 " loaded, %u read back\n", loaded, right);
}

int main(int argc, char **argv)
{
	byway_namespace namespaces[] = {
		{ .size = sizeof(namespaces[0]), .kind = BYWAY_KIND_KV },
		{ .size = sizeof(namespaces[0]), .kind = BYWAY_KIND_NVM, .lba_bytes = 4096, .size_bytes = 32 << 20 },
	};
	byway_create_options options = {
		.size = sizeof(options),
		.size_bytes = 128 << 20,
		.namespaces = namespaces,
		.namespace_count = 2,
	};
	byway_kv_stats stats = { .size = sizeof(stats) };
	byway_checked checked = { .size = sizeof(checked) };
	char copy[4096];
	byway_device *device;
	byway_kv *kv;

	if (argc < 2) {
		fprintf(stderr, "image PATH\n");
		return 2;
	}
	snprintf(copy, sizeof(copy), "%s.copy", argv[1]);
	check(byway_create(argv[1], &options), "create");

	char uri[5000];
	snprintf(uri, sizeof(uri), "embedded:%s", argv[1]);
	check(byway_open(uri, NULL, &device), "open");
	check(byway_kv_open(device, 0, &kv), "kv");
	fill(kv);
	check(byway_device_kv_stats(device, byway_kv_nsid(kv), &stats), "stats");
	printf("%" PRIu64 " keys\n", stats.keys);
	check(byway_snapshot(argv[1], copy, NULL, NULL, NULL), "snapshot");
	check(byway_device_sanitize(device, BYWAY_WIPE_BLOCK_ERASE, 0, 0, NULL, NULL), "sanitize");
	byway_kv_close(kv);
	check(byway_close(device), "close");

	check(byway_resize(copy, 256 << 20, NULL, 0, NULL, NULL), "resize");
	for (int i = 0; i < 2; i++) {
		const char *path = i ? copy : argv[1];
		int clean = check(byway_check(path, 0, found, NULL, NULL, &checked), "check");

		printf("%s: %s, %" PRIu64 " keys\n", i ? "the copy" : "the image", clean ? "clean" : "damaged",
		       checked.keys);
	}
	return 0;
}
