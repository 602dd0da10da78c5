/* Copies the first namespace of one device to another's: copy FROM TO [DEPTH] */
#include "fail.h"

enum { BYTES = 65536, DEPTH_MAX = 64 };

struct copy {
	byway_queue *from, *to;
	byway_namespace source, target;
	uint64_t next, copied;
};

static uint64_t bytes_at(const struct copy *copy, uint64_t at)
{
	uint64_t left = copy->source.size_bytes - at;

	return left < BYTES ? left : BYTES;
}

/* Reads the next piece, if there is one. Its place in the file is its tag. */
static void read_next(struct copy *copy, byway_buffer *buffer)
{
	uint64_t at = copy->next;

	if (at >= copy->source.size_bytes)
		return;
	copy->next += BYTES;
	check(byway_buffer_set_bytes(buffer, bytes_at(copy, at)), "length");
	check(byway_queue_read(copy->from, copy->source.nsid, at / copy->source.lba_bytes,
			       (uint32_t)(bytes_at(copy, at) / copy->source.lba_bytes), buffer, at),
	      "read");
}

static void has_read(void *context, const byway_completion *done)
{
	struct copy *copy = context;

	if (done->error) {
		fprintf(stderr, "read at %llu: %s\n", (unsigned long long)done->tag,
			byway_error_message(done->error));
		exit(1);
	}
	check(byway_queue_write(copy->to, copy->target.nsid, done->tag / copy->target.lba_bytes,
				(uint32_t)(bytes_at(copy, done->tag) / copy->target.lba_bytes), done->buffer,
				done->tag),
	      "write");
}

static void has_written(void *context, const byway_completion *done)
{
	struct copy *copy = context;

	if (done->error) {
		fprintf(stderr, "write at %llu: %s\n", (unsigned long long)done->tag,
			byway_error_message(done->error));
		exit(1);
	}
	copy->copied += bytes_at(copy, done->tag);
	read_next(copy, done->buffer);
}

static byway_device *open_one(const char *uri, int read_only, byway_namespace *space, byway_queue **queue)
{
	byway_open_options options = { .size = sizeof(options), .read_only = (uint32_t)read_only };
	byway_device *device;

	check(byway_open(uri, &options, &device), "open");
	space->size = sizeof(*space);
	check(byway_device_namespaces(device, space, 1), "namespaces");
	check(byway_queue_open(device, NULL, queue), "queue");
	return device;
}

int main(int argc, char **argv)
{
	int depth = argc > 3 ? atoi(argv[3]) : 8;
	byway_buffer *buffers[DEPTH_MAX];
	struct copy copy = { 0 };

	if (argc < 3 || depth < 1 || depth > DEPTH_MAX) {
		fprintf(stderr, "copy FROM TO [DEPTH]\n");
		return 2;
	}
	byway_device *from = open_one(argv[1], 1, &copy.source, &copy.from);
	byway_device *to = open_one(argv[2], 0, &copy.target, &copy.to);

	for (int i = 0; i < depth; i++) {
		check(byway_buffer_alloc(to, BYTES, &buffers[i]), "buffer");
		read_next(&copy, buffers[i]);
	}
	while (copy.copied < copy.source.size_bytes) {
		check(byway_queue_wait(copy.from, 0, 0, has_read, &copy), "wait");
		uint32_t min = byway_queue_outstanding(copy.from) ? 0 : 1;
		check(byway_queue_wait(copy.to, min, 1000000000, has_written, &copy), "wait");
		if (byway_queue_outstanding(copy.from) && !byway_queue_outstanding(copy.to))
			check(byway_queue_wait(copy.from, 1, 1000000000, has_read, &copy), "wait");
	}
	check(byway_queue_flush(copy.to, copy.target.nsid, 0), "flush");
	byway_completion flushed = { .size = sizeof(flushed) };
	check(byway_queue_reap(copy.to, &flushed, 1, 1, UINT64_C(30000000000)), "flush");
	printf("%llu bytes\n", (unsigned long long)copy.copied);

	for (int i = 0; i < depth; i++)
		byway_buffer_free(buffers[i]);
	check(byway_queue_close(copy.from), "close queue");
	check(byway_queue_close(copy.to), "close queue");
	check(byway_close(from), "close");
	check(byway_close(to), "close");
	return 0;
}
