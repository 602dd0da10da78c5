/* Completions in a program's own poll(2) loop: events [URI] */
#include <poll.h>

#include "fail.h"

enum { DEPTH = 8, BYTES = 4096 };

/* A command of one's own begins with the function that ends it; byway_call() finds it by the tag. */
struct read {
	byway_call_function done;
	unsigned number;
	unsigned *left;
};

static void done(void *call, const byway_completion *completion)
{
	struct read *read = call;

	if (completion->error)
		fprintf(stderr, "read %u: %s\n", read->number, byway_error_message(completion->error));
	--*read->left;
}

int main(int argc, char **argv)
{
	const char *uri = argc > 1 ? argv[1] : "null-backend:1G";
	byway_namespace space = { .size = sizeof(space) };
	struct read reads[DEPTH];
	byway_buffer *buffers[DEPTH];
	byway_device *device;
	byway_queue *queue;
	unsigned left = DEPTH;

	check(byway_open(uri, NULL, &device), "open");
	check(byway_device_namespaces(device, &space, 1), "namespaces");
	check(byway_queue_open(device, NULL, &queue), "queue");
	struct pollfd event = { .fd = check(byway_queue_event_fd(queue), "event"), .events = POLLIN };

	for (unsigned i = 0; i < DEPTH; i++) {
		uint32_t blocks = BYTES / space.lba_bytes;

		reads[i] = (struct read){ .done = done, .number = i, .left = &left };
		check(byway_buffer_alloc(device, BYTES, &buffers[i]), "buffer");
		check(byway_queue_read(queue, space.nsid, (uint64_t)i * blocks, blocks, buffers[i],
				       (uint64_t)(uintptr_t)&reads[i]),
		      "read");
	}
	check(byway_queue_start(queue), "start");

	while (left > 0) {
		if (poll(&event, 1, 10000) != 1)
			break;
		/* Woken: take completions until there are none. */
		while (check(byway_queue_poll(queue, DEPTH, byway_call, NULL), "poll") > 0)
			;
	}
	printf("%u of %d reads left\n", left, DEPTH);

	check(byway_queue_close(queue), "close queue");
	for (unsigned i = 0; i < DEPTH; i++)
		byway_buffer_free(buffers[i]);
	check(byway_close(device), "close");
	return left > 0;
}
