/* Keys and values: kv [URI] */
#include <string.h>

#include "fail.h"

static int print_key(void *context, const void *key, size_t key_bytes)
{
	(void)context;
	printf("  %.*s\n", (int)key_bytes, (const char *)key);
	return 0; /* anything else ends the listing */
}

int main(int argc, char **argv)
{
	const char *uri = argc > 1 ? argv[1] : "embedded-ram:64M?transfer=inline";
	static const char *const keys[] = { "0041", "0042", "00df" };
	static const char *const values[] = { "LATIN CAPITAL LETTER A", "LATIN CAPITAL LETTER B",
					      "LATIN SMALL LETTER SHARP S" };
	byway_device *device;
	byway_kv *kv;
	char value[4096];
	size_t bytes;

	check(byway_open(uri, NULL, &device), "open");
	check(byway_kv_open(device, 0, &kv), "kv");
	for (int i = 0; i < 3; i++)
		check(byway_kv_put(kv, keys[i], strlen(keys[i]), values[i], strlen(values[i]), 0), "put");

	if (check(byway_kv_get(kv, "00df", 4, value, sizeof(value), &bytes), "get"))
		printf("00df: %.*s\n", (int)bytes, value);
	if (!check(byway_kv_get(kv, "ffff", 4, value, sizeof(value), &bytes), "get"))
		printf("ffff: no such key\n");
	if (byway_kv_put(kv, "0041", 4, "?", 1, BYWAY_MUST_NOT_EXIST) == -BYWAY_ERROR_KIND_KEY_EXISTS)
		printf("0041 is there already\n");

	check(byway_kv_delete(kv, "0042", 4), "delete");
	printf("0042 %s\n", check(byway_kv_exists(kv, "0042", 4), "exists") ? "is there" : "is gone");
	printf("%d keys\n", check(byway_kv_list(kv, NULL, 0, print_key, NULL), "list"));

	byway_kv_close(kv);
	check(byway_close(device), "close");
	return 0;
}
