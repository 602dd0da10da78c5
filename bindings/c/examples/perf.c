/* What a command costs over no device, 4 KiB reads at depth 1: perf [COMMANDS] [URI] */
#include <time.h>

#include "fail.h"

enum { BYTES = 4096 };

static double now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec * 1e9 + (double)now.tv_nsec;
}

int main(int argc, char **argv)
{
	long commands = argc > 1 ? atol(argv[1]) : 10000;
	const char *uri = argc > 2 ? argv[2] : "null-backend:1G";
	byway_namespace space = { .size = sizeof(space) };
	byway_completion done = { .size = sizeof(done) };
	byway_device *device;
	byway_queue *queue;
	byway_buffer *buffer;

	check(byway_open(uri, NULL, &device), "open");
	check(byway_device_namespaces(device, &space, 1), "namespaces");
	check(byway_queue_open(device, NULL, &queue), "queue");
	check(byway_buffer_alloc(device, BYTES, &buffer), "buffer");

	uint32_t blocks = BYTES / space.lba_bytes;
	double begin = now_ns();
	for (long i = 0; i < commands; i++) {
		if (byway_queue_read(queue, space.nsid, (uint64_t)(i & 1023) * blocks, blocks, buffer, (uint64_t)i) < 0)
			check(-1, "read");
		if (byway_queue_reap(queue, &done, 1, 1, UINT64_C(1000000000)) != 1 || done.error)
			check(-1, "reap");
	}
	printf("sent, then taken: %.2f ns a command\n", (now_ns() - begin) / (double)commands);

	begin = now_ns();
	for (long i = 0; i < commands; i++)
		check(byway_queue_read_wait(queue, space.nsid, (uint64_t)(i & 1023) * blocks, blocks, buffer), "read");
	printf("by one call: %.2f ns a command\n", (now_ns() - begin) / (double)commands);

	byway_buffer_free(buffer);
	check(byway_queue_close(queue), "close queue");
	check(byway_close(device), "close");
	return 0;
}
