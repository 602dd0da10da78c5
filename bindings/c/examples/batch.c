/* Many commands by one call, completions into an array: batch [URI] */
#include <string.h>

#include "fail.h"

enum { COUNT = 16, BYTES = 4096 };

static unsigned take_all(byway_queue *queue)
{
	byway_completion done[COUNT] = { { .size = sizeof(done[0]) } };
	unsigned failed = 0;

	while (byway_queue_outstanding(queue) > 0) {
		int taken = check(byway_queue_reap(queue, done, COUNT, 1, 1000000000), "reap");

		for (int i = 0; i < taken; i++) {
			if (!done[i].error)
				continue;
			failed++;
			fprintf(stderr, "command %llu: %s\n", (unsigned long long)done[i].tag,
				byway_error_message(done[i].error));
		}
	}
	return failed;
}

int main(int argc, char **argv)
{
	const char *uri = argc > 1 ? argv[1] : "embedded-ram:64M";
	byway_namespace space = { .size = sizeof(space) };
	byway_command commands[COUNT];
	byway_buffer *whole, *parts[COUNT];
	byway_device *device;
	byway_queue *queue;

	check(byway_open(uri, NULL, &device), "open");
	check(byway_device_namespace(device, 0, BYWAY_KIND_NVM, &space), "namespace");
	check(byway_queue_open(device, NULL, &queue), "queue");

	/* One allocation, cut into a buffer for each command. */
	check(byway_buffer_alloc(device, COUNT * BYTES, &whole), "buffer");
	memset(byway_buffer_data(whole), 7, COUNT * BYTES);
	for (int i = COUNT - 1; i > 0; i--)
		check(byway_buffer_cut(whole, (size_t)i * BYTES, &parts[i]), "cut");
	parts[0] = whole;

	for (uint64_t i = 0; i < COUNT; i++) {
		uint32_t blocks = BYTES / space.lba_bytes;

		commands[i] = (byway_command){
			.size = sizeof(commands[i]),
			.opcode = BYWAY_OPCODE_WRITE,
			.nsid = space.nsid,
			.slba = i * blocks,
			.blocks = blocks,
			.buffer = parts[i],
			.tag = i,
		};
	}
	int taken = check(byway_queue_submit(queue, commands, COUNT), "submit");
	printf("%d taken, %u failed\n", taken, take_all(queue));

	/* Several buffers by one command, and a range behind the end, which the device refuses. */
	uint32_t both = 2 * BYTES / space.lba_bytes;
	check(byway_queue_readv(queue, space.nsid, 0, both, parts, 2, 100), "readv");
	printf("vectored: %u failed\n", take_all(queue));
	int refused = byway_queue_trim(queue, space.nsid, space.blocks, 8, 101);
	printf("beyond the end: %s\n", refused < 0 || take_all(queue) ? "refused" : "taken");

	check(byway_queue_close(queue), "close queue");
	for (int i = 0; i < COUNT; i++)
		byway_buffer_free(parts[i]);
	check(byway_close(device), "close");
	return 0;
}
