/* Synchronous reads and writes on the program's own memory: sync [URI] */
#include <string.h>

#include "fail.h"

int main(int argc, char **argv)
{
	const char *uri = argc > 1 ? argv[1] : "embedded-ram:64M";
	byway_device *device;
	byway_nvm *blocks;
	char written[4096], read[4096];

	check(byway_open(uri, NULL, &device), "open");
	check(byway_nvm_open(device, 0, &blocks), "blocks");
	printf("%llu blocks of %u bytes\n", (unsigned long long)byway_nvm_blocks(blocks), byway_nvm_lba_bytes(blocks));

	memset(written, 0x5a, sizeof(written));
	check(byway_nvm_write(blocks, 0, written, sizeof(written)), "write");
	check(byway_nvm_flush(blocks), "flush");
	check(byway_nvm_read(blocks, 0, read, sizeof(read)), "read");
	printf("read %s\n", memcmp(written, read, sizeof(read)) ? "something else" : "what was written");

	check(byway_nvm_trim(blocks, 0, (uint32_t)(sizeof(written) / byway_nvm_lba_bytes(blocks))), "trim");
	check(byway_nvm_read(blocks, 0, read, sizeof(read)), "read");
	printf("after trim: %d\n", read[0]);

	/* A range behind the end is refused with a sentence, here or by the device. */
	if (byway_nvm_read(blocks, byway_nvm_blocks(blocks), read, sizeof(read)) < 0)
		printf("refused: %s\n", byway_error_message(byway_last_error()));

	byway_nvm_close(blocks);
	check(byway_close(device), "close");
	return 0;
}
