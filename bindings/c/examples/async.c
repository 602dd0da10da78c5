/* Keeps a queue full: each completion submits the next command, from inside its callback. async [URI] */
#include "fail.h"

enum { DEPTH = 32, TOTAL = 1000, BYTES = 4096 };

struct reader {
	byway_queue *queue;
	uint32_t nsid, blocks_each;
	uint64_t ranges, submitted, finished, failed;
};

static void submit(struct reader *reader, byway_buffer *into)
{
	uint64_t number = reader->submitted++;
	uint64_t slba = number % reader->ranges * reader->blocks_each;

	check(byway_queue_read(reader->queue, reader->nsid, slba, reader->blocks_each, into, number), "submit");
}

static void done(void *context, const byway_completion *completion)
{
	struct reader *reader = context;

	reader->finished++;
	if (completion->error) {
		reader->failed++;
		fprintf(stderr, "read %llu: %s\n", (unsigned long long)completion->tag,
			byway_error_message(completion->error));
	}
	if (reader->submitted < TOTAL)
		submit(reader, completion->buffer);
}

int main(int argc, char **argv)
{
	const char *uri = argc > 1 ? argv[1] : "null-backend:1G";
	byway_queue_options options = { .size = sizeof(options), .depth = DEPTH };
	byway_namespace namespace = { .size = sizeof(namespace) };
	byway_buffer *buffers[DEPTH];
	byway_device *device;
	struct reader reader = { 0 };

	check(byway_open(uri, NULL, &device), "open");
	check(byway_device_namespaces(device, &namespace, 1), "namespaces");
	check(byway_queue_open(device, &options, &reader.queue), "queue");
	reader.nsid = namespace.nsid;
	reader.blocks_each = BYTES / namespace.lba_bytes;
	reader.ranges = namespace.blocks / reader.blocks_each;

	for (int i = 0; i < DEPTH; i++) {
		check(byway_buffer_alloc(device, BYTES, &buffers[i]), "buffer");
		submit(&reader, buffers[i]);
	}
	check(byway_queue_drain(reader.queue, done, &reader), "drain");
	printf("%llu reads, %llu failed\n", (unsigned long long)reader.finished, (unsigned long long)reader.failed);

	for (int i = 0; i < DEPTH; i++)
		byway_buffer_free(buffers[i]);
	check(byway_queue_close(reader.queue), "close queue");
	check(byway_close(device), "close");
	return 0;
}
