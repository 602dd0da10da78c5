/* What a C program may get wrong: each is refused with a sentence, and nothing breaks. */
#include <assert.h>
#include <errno.h>
#include <string.h>

#include "byway.h"

static const byway_error *last;

/* The sentence of a refusal that must have happened. */
static int refused(int done, const char *said)
{
	last = byway_last_error();
	if (done < 0 && strstr(byway_error_message(last), said))
		return 1;
	__builtin_printf("%d: \"%s\" is not \"%s\"\n", done, byway_error_message(last), said);
	return 0;
}

static void nothing(void *context, const byway_completion *done)
{
	(void)done;
	++*(int *)context;
}

static void closes(void *context, const byway_completion *done)
{
	(void)done;
	assert(refused(byway_queue_close(context), "has not returned"));
}

static int lists_again(void *context, const void *key, size_t bytes)
{
	size_t got;
	char value[8];

	assert(refused(byway_kv_get(context, key, bytes, value, sizeof(value), &got), "has not returned"));
	return 1;
}

static void null_is_refused(byway_device *device)
{
	byway_queue *queue;
	byway_buffer *buffer;
	char memory[8];

	assert(refused(byway_open(NULL, NULL, &device), "uri is NULL"));
	assert(refused(byway_open("nil:1G", NULL, NULL), "device is NULL"));
	assert(refused(byway_queue_open(NULL, NULL, &queue), "device is NULL"));
	assert(refused(byway_queue_open(device, NULL, NULL), "queue is NULL"));
	assert(refused(byway_queue_read(NULL, 1, 0, 1, NULL, 0), "queue is NULL"));
	assert(refused(byway_buffer_wrap(NULL, 8, &buffer), "memory is NULL"));
	assert(refused(byway_buffer_wrap(memory, SIZE_MAX, &buffer), "cannot have"));
	assert(refused(byway_buffer_prepare(device, NULL), "buffer is NULL"));
	assert(refused(byway_buffer_prepare(NULL, NULL), "device is NULL"));
	assert(refused(byway_queue_poll(NULL, 1, nothing, NULL), "queue is NULL"));
	assert(refused(byway_scan(NULL, NULL), "on is NULL"));
	assert(byway_close(NULL) == 0 && byway_queue_close(NULL) == 0);
	assert(byway_queue_outstanding(NULL) == 0 && byway_buffer_data(NULL) == NULL);
	byway_buffer_free(NULL);
	byway_kv_close(NULL);
	byway_nvm_close(NULL);
	byway_memory_close(NULL);
	byway_programs_close(NULL);
}

static void programs_over_values_are_looked_at(void)
{
	byway_device *device;
	byway_kv *kv;
	char crc[8];
	size_t bytes;

	assert(byway_open("ram:64M?exec=1:crc32c", NULL, &device) == 0);
	assert(byway_kv_open(device, 0, &kv) == 0 && byway_kv_put(kv, "key", 3, "123456789", 9, 0) == 0);
	assert(byway_kv_exec(kv, "key", 3, 3, NULL, 0, crc, 8, &bytes) == 0 && bytes == 8);
	assert(memcmp(crc, "\x83\x92\x06\xe3\0\0\0\0", 8) == 0);
	assert(byway_kv_exec(kv, "key", 3, 3, NULL, 0, NULL, 0, &bytes) == 0 && bytes == 8);
	assert(refused(byway_kv_exec(kv, "key", 3, 3, NULL, 0, crc, 8, NULL), "output_bytes is NULL"));
	assert(refused(byway_kv_exec(kv, "key", 3, 3, NULL, 1, crc, 8, &bytes), "input is NULL"));
	assert(refused(byway_kv_exec(kv, "key", 3, 3, NULL, 0, NULL, 8, &bytes), "into is NULL"));
	assert(refused(byway_kv_exec(kv, "key", 3, 4, NULL, 0, crc, 8, &bytes), "run program 4 over key key"));
	assert(refused(byway_kv_exec(NULL, "key", 3, 3, NULL, 0, crc, 8, &bytes), "kv is NULL"));
	byway_kv_close(kv);
	assert(byway_close(device) == 0);
}

static void memory_and_programs_are_looked_at(void)
{
	byway_memory_range range = { .bytes = 8 };
	byway_copy_source source = { .count = 1 };
	byway_programs *programs;
	byway_memory *memory;
	byway_device *device;
	char bytes[8] = { 0 };
	uint64_t result;
	uint32_t nsid;

	assert(byway_open("ram:64M", NULL, &device) == 0);
	assert(refused(byway_device_create_memory(device, 4096, NULL), "nsid is NULL"));
	assert(refused(byway_device_create_programs(NULL, &nsid), "device is NULL"));
	assert(refused(byway_device_create_memory(device, 6, &nsid), "create a namespace of local memory"));
	assert(byway_device_create_memory(device, 4096, &range.nsid) == 0 && byway_device_create_programs(device, &nsid) == 0);
	assert(refused(byway_memory_open(device, nsid, &memory), "no namespace of local memory"));
	assert(refused(byway_memory_open(device, range.nsid, NULL), "memory is NULL"));
	assert(refused(byway_programs_open(device, range.nsid, &programs), "no namespace of programs"));
	assert(refused(byway_device_delete_namespace(device, 0), "begin at 1"));
	assert(byway_memory_open(device, range.nsid, &memory) == 0 && byway_memory_bytes(memory) == 4096);
	assert(byway_programs_open(device, nsid, &programs) == 0 && byway_programs_nsid(programs) == nsid);
	assert(refused(byway_memory_read(memory, 4092, bytes, 8), "outside a memory"));
	assert(refused(byway_memory_write(memory, 2, bytes, 4), "no whole dwords"));
	assert(refused(byway_memory_write(memory, 0, NULL, 4), "from is NULL"));
	assert(refused(byway_memory_fill(NULL, 0, 4), "memory is NULL"));
	assert(refused(byway_memory_copy(memory, 0, 8, BYWAY_COPY_MEMORY, NULL, 1), "sources is NULL"));
	assert(refused(byway_memory_copy(memory, 0, 8, 7, &source, 1), "begin at 1"));
	source.nsid = 1;
	assert(refused(byway_memory_copy(memory, 0, 8, 7, &source, 1), "no kind of sources"));
	assert(refused(byway_memory_copy(memory, 0, 8, 0, NULL, 0), "at least one source"));
	assert(refused(byway_programs_load(programs, 8, 700, NULL, bytes, 8), "no type of a program"));
	assert(refused(byway_programs_load(programs, 8, BYWAY_PROGRAM_EBPF, NULL, NULL, 0), "from 1 byte"));
	assert(refused(byway_programs_load(programs, 8, BYWAY_PROGRAM_EBPF, NULL, bytes, 8), "nvalid"));
	assert(refused(byway_programs_execute(programs, 8, 1, &range, 1, 0, 0, &result), "not both"));
	assert(refused(byway_programs_execute(programs, 8, 0, NULL, 1, 0, 0, &result), "ranges is NULL"));
	assert(refused(byway_programs_execute(programs, 8, 0, &range, 1, 0, 0, NULL), "result is NULL"));
	assert(refused(byway_programs_create_range_set(programs, &range, 1, NULL), "set is NULL"));
	assert(byway_close(device) == 0);
	byway_programs_close(programs);
	byway_memory_close(memory);
}

static void sizes_are_looked_at(byway_device *device)
{
	struct {
		byway_device_info known;
		uint64_t newer;
	} info = { .known = { .size = 0 }, .newer = 7 };
	struct {
		byway_queue_options known;
		uint64_t newer;
	} options = { .known = { .size = sizeof(options) }, .newer = 7 };
	byway_queue *queue;

	assert(refused(byway_device_get_info(device, &info.known), "sizeof(byway_device_info)"));
	info.known.size = sizeof(info);
	assert(byway_device_get_info(device, &info.known) == 0);
	assert(info.known.size == sizeof(info.known) && info.newer == 0);
	assert(refused(byway_queue_open(device, &options.known, &queue), "behind the"));
	options.newer = 0;
	assert(byway_queue_open(device, &options.known, &queue) == 0);
	assert(byway_queue_close(queue) == 0);
}

static void buffers_have_one_user(byway_device *device)
{
	byway_queue_options options = { .size = sizeof(options), .depth = 2 };
	byway_completion done[4] = { { .size = sizeof(done[0]) } };
	byway_buffer *buffer, *second;
	byway_queue *queue;
	char memory[512];
	int taken = 0;

	assert(byway_queue_open(device, &options, &queue) == 0 && byway_queue_depth(queue) == 2);
	assert(byway_buffer_alloc(device, 512, &buffer) == 0 && byway_buffer_wrap(memory, 512, &second) == 0);
	assert(refused(byway_queue_read(queue, 0, 0, 1, buffer, 0), "begin at 1"));
	assert(refused(byway_queue_read(queue, 1, 0, 1, NULL, 0), "buffer is NULL"));
	assert(byway_queue_read(queue, 1, 0, 1, buffer, 11) == 0);
	assert(refused(byway_queue_read(queue, 1, 0, 1, buffer, 12), "uses the buffer"));
	assert(byway_error_kind_of(last) == BYWAY_ERROR_KIND_BUSY);
	assert(refused(byway_buffer_set_bytes(buffer, 1), "uses the buffer"));
	assert(refused(byway_buffer_prepare(device, buffer), "uses the buffer"));
	assert(refused(byway_queue_read(queue, 1, 0, 8, second, 13), "512 bytes"));
	assert(byway_queue_write(queue, 1, 0, 1, second, 14) == 0);
	assert(refused(byway_queue_flush(queue, 1, 15), "as the queue is deep"));
	assert(byway_error_kind_of(last) == BYWAY_ERROR_KIND_QUEUE_FULL && byway_error_retry(last) == BYWAY_RETRY_LATER);
	assert(refused(byway_queue_cancel(queue, 99), "no command with tag 99"));
	byway_buffer_free(second); /* under way: freed with its completion */
	assert(byway_queue_reap(queue, done, 4, 2, 1000000000) == 2);
	assert(done[0].tag == 11 && done[0].buffer == buffer && !done[0].error && done[1].tag == 14);

	assert(byway_queue_read_wait(queue, 1, 0, 1, buffer) == 0 && byway_queue_write_wait(queue, 1, 0, 1, buffer) == 0);
	assert(refused(byway_queue_read_wait(queue, 1, 0, 8, buffer), "512 bytes"));
	assert(refused(byway_queue_read_wait(queue, 1, 1 << 20, 1, buffer), "outside a namespace"));
	assert(refused(byway_queue_read_wait(queue, 0, 0, 1, buffer), "begin at 1"));
	assert(refused(byway_queue_read_wait(queue, 1, 0, 1, NULL), "buffer is NULL"));
	assert(byway_queue_set_timeout(queue, 1000000000) == 0 && byway_queue_read_wait(queue, 1, 0, 1, buffer) == 0);
	assert(byway_queue_set_timeout(queue, 0) == 0 && byway_buffer_data(buffer) != NULL);

	assert(byway_queue_flush(queue, 1, 16) == 0);
	assert(refused(byway_queue_write_wait(queue, 1, 0, 1, buffer), "outstanding"));
	assert(byway_queue_drain(queue, closes, queue) == 1);
	assert(byway_queue_flush(queue, 1, 17) == 0 && byway_queue_wait(queue, 1, 0, nothing, &taken) == 1 && taken == 1);
	assert(byway_queue_read(queue, 1, 0, 1, buffer, 18) == 0);
	assert(byway_queue_close(queue) == 0); /* waits for it: the buffer is the program's again */
	assert(byway_buffer_set_bytes(buffer, 100) == 0 && byway_buffer_bytes(buffer) == 100);
	assert(refused(byway_buffer_cut(buffer, 1 << 20, &second), "a cut at byte"));
	byway_buffer_free(buffer);
}

static void commands_are_looked_at(byway_device *device)
{
	byway_command command = { .size = sizeof(command), .opcode = 99, .nsid = 1 };
	byway_buffer *buffer;
	byway_queue *queue;

	assert(byway_queue_open(device, NULL, &queue) == 0 && byway_buffer_alloc(device, 512, &buffer) == 0);
	assert(refused(byway_queue_submit(queue, &command, 1), "no opcode 99"));
	command.opcode = BYWAY_OPCODE_READ;
	command.blocks = 1;
	assert(refused(byway_queue_submit(queue, &command, 1), "needs a buffer"));
	command.opcode = BYWAY_OPCODE_FLUSH;
	command.buffer = buffer;
	assert(refused(byway_queue_submit(queue, &command, 1), "takes no such memory"));
	command.flags = BYWAY_MUST_EXIST;
	assert(refused(byway_queue_submit(queue, &command, 1), "mean nothing to Flush"));
	command = (byway_command){ .size = sizeof(command), .opcode = BYWAY_OPCODE_STORE, .nsid = 1, .buffer = buffer };
	assert(byway_queue_submit(queue, &command, 1) < 0); /* no key */
	command = (byway_command){ .size = sizeof(command), .opcode = BYWAY_OPCODE_COPY, .nsid = 1 };
	assert(refused(byway_queue_submit(queue, &command, 1), "1 to 256 ranges, not 0"));
	command.range_count = 257;
	assert(refused(byway_queue_submit(queue, &command, 1), "1 to 256 ranges, not 257"));
	command.range_count = 1;
	assert(refused(byway_queue_submit(queue, &command, 1), "byway_range is NULL"));
	command.opcode = BYWAY_OPCODE_VERIFY;
	assert(refused(byway_queue_submit(queue, &command, 1), "ranges mean nothing to Verify"));
	assert(refused(byway_queue_trim_ranges(queue, 1, NULL, 0, 0), "1 to 256 ranges, not 0"));
	command = (byway_command){ .size = sizeof(command), .opcode = BYWAY_OPCODE_BULK_STORE, .nsid = 1 };
	assert(refused(byway_queue_submit(queue, &command, 1), "needs a buffer"));
	command = (byway_command){ .size = sizeof(command), .opcode = BYWAY_OPCODE_RAW };
	assert(refused(byway_queue_submit(queue, &command, 1), "entry is NULL"));
	byway_command two[2] = {
		{ .size = sizeof(command), .opcode = BYWAY_OPCODE_READ, .nsid = 1, .blocks = 1, .buffer = buffer },
		{ .size = sizeof(command), .opcode = BYWAY_OPCODE_READ, .nsid = 1, .blocks = 1, .buffer = buffer },
	};
	assert(byway_queue_submit(queue, two, 2) == 1); /* the second has no buffer: the first has it */
	assert(refused(-1, "uses the buffer"));
	assert(refused(byway_queue_execute(queue, two, NULL), "outstanding"));
	assert(byway_queue_close(queue) == 0);
	byway_buffer_free(buffer);
}

static void a_listing_is_not_disturbed(void)
{
	byway_device *device;
	byway_kv *kv;

	assert(byway_open("ram:64M", NULL, &device) == 0 && byway_kv_open(device, 0, &kv) == 0);
	assert(byway_kv_put(kv, "a", 1, "b", 1, 0) == 0);
	assert(refused(byway_kv_put(kv, NULL, 0, "b", 1, 0), "key"));
	assert(byway_kv_put(kv, "a key of 17 bytes", 17, "b", 1, 0) == -BYWAY_ERROR_KIND_TOO_LARGE);
	assert(byway_kv_put(kv, "", 0, "b", 1, 0) == -BYWAY_ERROR_KIND_INVALID_ARGUMENT);
	assert(refused(byway_kv_put(kv, "a", 1, "b", 1, 64), "flags 0x40"));
	assert(byway_kv_list(kv, NULL, 0, lists_again, kv) == 1);
	byway_kv_close(kv);
	assert(byway_close(device) == 0);
}

static void ranges_are_sent_together(void)
{
	byway_range ranges[] = { { .size = sizeof(ranges[0]), .slba = 8, .blocks = 8 },
				 { .size = sizeof(ranges[0]), .slba = 32, .blocks = 8 } };
	byway_completion done = { .size = sizeof(done) };
	byway_namespace space = { .size = sizeof(space) };
	char blocks[16 * 512], nothing_there[8 * 512] = { 0 };
	byway_device *device;
	byway_queue *queue;
	byway_nvm *nvm;

	assert(byway_open("ram:64M", NULL, &device) == 0 && byway_nvm_open(device, 0, &nvm) == 0);
	assert(byway_device_namespace(device, 0, BYWAY_KIND_NVM, &space) == 0 && space.nsid == byway_nvm_nsid(nvm));
	assert(refused(byway_device_namespace(device, 99, BYWAY_KIND_OTHER, &space), "99"));
	assert(refused(byway_device_namespace(device, 0, 7, &space), "no kind 7"));
	memset(blocks, 7, sizeof(blocks));
	assert(byway_nvm_write(nvm, 8, blocks, 8 * 512) == 0 && byway_nvm_write(nvm, 32, blocks, 8 * 512) == 0);
	assert(byway_queue_open(device, NULL, &queue) == 0);
	assert(byway_queue_copy(queue, space.nsid, 64, ranges, 2, 1) == 0);
	assert(byway_queue_reap(queue, &done, 1, 1, UINT64_C(10000000000)) == 1 && !done.error);
	assert(byway_nvm_compare_and_write(nvm, 200, nothing_there, blocks, 512) == 1);
	assert(byway_nvm_compare_and_write(nvm, 200, nothing_there, blocks, 512) == 0);
	assert(refused(byway_nvm_compare_and_write(nvm, 200, nothing_there, NULL, 512), "new_data"));
	assert(refused(byway_nvm_compare_and_write(nvm, 200, blocks, blocks, 513), "513 bytes"));
	memset(blocks, 0, sizeof(blocks));
	assert(byway_nvm_read(nvm, 64, blocks, sizeof(blocks)) == 0);
	assert(blocks[0] == 7 && blocks[sizeof(blocks) - 1] == 7);
	assert(byway_queue_trim_ranges(queue, space.nsid, ranges, 2, 2) == 0);
	assert(byway_queue_reap(queue, &done, 1, 1, UINT64_C(10000000000)) == 1 && !done.error);
	assert(byway_nvm_read(nvm, 8, blocks, 8 * 512) == 0 && !memcmp(blocks, nothing_there, 8 * 512));
	assert(byway_nvm_read(nvm, 32, blocks, 8 * 512) == 0 && !memcmp(blocks, nothing_there, 8 * 512));
	assert(byway_queue_close(queue) == 0);
	byway_nvm_close(nvm);
	assert(byway_close(device) == 0);
}

static void gets(void *context, uint32_t index, const void *value, size_t bytes)
{
	size_t got;

	assert(refused(byway_kv_get(context, "a", 1, &got, sizeof(got), &got), "has not returned"));
	assert(index == 1 ? value == NULL : bytes == 5 && !memcmp(value, "value", 5));
}

static int counts(void *context, const void *key, size_t bytes)
{
	(void)key;
	*(size_t *)context += bytes;
	return 0;
}

static void misses(void *context, const void *after, size_t after_bytes, const void *before, size_t before_bytes,
		   const char *why)
{
	(void)context, (void)after, (void)after_bytes, (void)before, (void)before_bytes, (void)why;
	assert(0);
}

/* Appends the first byte of a key. */
static int notes(void *context, const void *key, size_t key_bytes, const void *value, size_t bytes)
{
	assert(key_bytes > 1 && (bytes == 0 || !memcmp(value, "value", bytes)));
	strncat(context, key, 1);
	return 0;
}

/* Of a device with a1, b1 and b22, which are gone after. */
static void ranges_are_scanned_and_deleted(byway_kv *kv)
{
	byway_key_range range = { .size = sizeof(range) };
	byway_pair key = { sizeof(key), "a1", 2, NULL, 0 };
	char seen[8] = "";
	uint64_t deleted;

	range.flags = BYWAY_BACKWARD;
	assert(byway_kv_scan(kv, &range, notes, seen) == 3 && !strcmp(seen, "bba"));
	range.flags = BYWAY_KEYS_ONLY;
	range.limit = 1;
	assert(byway_kv_scan(kv, &range, notes, seen) == 1 && !strcmp(seen, "bbaa"));
	assert(refused(byway_kv_delete_range(kv, &range, NULL), "no limit"));
	range.flags = 4;
	assert(refused(byway_kv_scan(kv, &range, notes, seen), "flags 0x4"));
	assert(refused(byway_kv_scan(kv, &range, NULL, seen), "on is NULL"));
	range = (byway_key_range){ .size = sizeof(range), .prefix = "b", .prefix_bytes = 1, .value_bytes = 2 };
	assert(byway_kv_scan(kv, &range, notes, seen) == 2 && !strcmp(seen, "bbaabb"));
	range.start = "a";
	range.start_bytes = 1;
	assert(refused(byway_kv_scan(kv, &range, notes, seen), "a prefix, or"));
	range = (byway_key_range){ .size = sizeof(range), .start = "b", .start_bytes = 1 };
	assert(byway_kv_delete_range(kv, &range, &deleted) == 0 && deleted == 2);
	assert(byway_kv_delete_many(kv, &key, 1) == 0);
	range = (byway_key_range){ .size = sizeof(range) };
	assert(byway_kv_scan(kv, &range, notes, seen) == 0);
}

static void many_pairs_go_together(void)
{
	byway_pair pairs[] = { { sizeof(pairs[0]), "a1", 2, "value", 5 },
			       { sizeof(pairs[0]), "b1", 2, "value", 5 },
			       { sizeof(pairs[0]), "b22", 3, "value", 5 } };
	byway_kv_stats stats = { .size = sizeof(stats) };
	byway_capabilities can = { .size = sizeof(can) };
	byway_device *device;
	byway_kv *kv;
	uint64_t loaded;
	size_t bytes = 0;

	assert(byway_open("ram:64M", NULL, &device) == 0 && byway_kv_open(device, 0, &kv) == 0);
	assert(byway_device_get_capabilities(device, &can) == 0 && can.bulk_store && strstr(can.methods, "inline"));
	assert(byway_kv_load(kv, pairs, 1, &loaded) == 0 && loaded == 1 && byway_kv_put_bulk(kv, pairs + 1, 2) == 0);
	assert(byway_device_kv_stats(device, 0, &stats) == 0 && stats.keys == 3);
	assert(byway_kv_list_prefix(kv, "b", 1, NULL, 0, counts, &bytes) == 2 && bytes == 5);
	assert(byway_kv_list_prefix(kv, "b", 1, "b2", 2, counts, &bytes) == 1);
	assert(byway_kv_list_listable(kv, counts, misses, &bytes) == 3);
	ranges_are_scanned_and_deleted(kv);
	assert(byway_kv_load(kv, pairs, 3, &loaded) == 0);
	assert(byway_kv_delete(kv, "b1", 2) == 0 && byway_kv_delete(kv, "b1", 2) == 0);
	assert(byway_kv_get_many(kv, pairs, 3, 64, gets, kv) == 0);
	assert(byway_kv_get_many(kv, pairs, 3, 1, gets, kv) == 0); /* longer than their room */
	pairs[1].size = 7;
	assert(byway_kv_load(kv, pairs, 2, &loaded) < 0);
	pairs[0].key = NULL;
	assert(refused(byway_kv_load(kv, pairs, 1, NULL), "byway_pair.key is NULL"));
	assert(refused(byway_kv_load(kv, NULL, 1, NULL), "byway_pair is NULL"));
	assert(refused(byway_kv_get_many(kv, pairs, 1, 8, NULL, NULL), "on is NULL"));
	byway_kv_close(kv);
	assert(byway_close(device) == 0);
}

static void images_are_looked_at(void)
{
	byway_create_options options = { .size = sizeof(options), .size_bytes = 64 << 20, .media = 9 };
	byway_namespace space = { .size = sizeof(space), .kind = BYWAY_KIND_OTHER };

	assert(refused(byway_create(NULL, &options), "path is NULL"));
	assert(refused(byway_create("/nowhere/image", NULL), "byway_create_options is NULL"));
	assert(refused(byway_create("/nowhere/image", &options), "no media 9"));
	options.media = BYWAY_MEDIA_FILE;
	assert(refused(byway_create("/nowhere/image", &options), "/nowhere/image"));
	assert(refused(byway_create("ram:64M", &options), "ram:64M is no image"));
	assert(refused(byway_create("/nowhere/x?y=1", &options), "embedded:/nowhere/x%3Fy=1"));
	assert(refused(byway_create("embedded:/nowhere/image", &options), "/nowhere/image"));
	assert(byway_error_errno(byway_last_error()) == ENOENT);
	options.over_provisioning_percent = 7;
	assert(refused(byway_create("/nowhere/image", &options), "has_over_provisioning"));
	options.has_over_provisioning = 1;
	options.profile = "optane";
	assert(refused(byway_create("/nowhere/image", &options), "unknown profile"));
	options.profile = NULL;
	options.namespaces = &space;
	options.namespace_count = 1;
	assert(refused(byway_create("/nowhere/image", &options), "no namespace of kind 0"));
	assert(byway_check("/nowhere/image", 0, NULL, NULL, NULL, NULL) < 0);
	assert(byway_resize("/nowhere/image", 1 << 30, NULL, 0, NULL, NULL) < 0);
	assert(refused(byway_snapshot("/nowhere/image", NULL, NULL, NULL, NULL), "out is NULL"));
}

static void policies_are_looked_at(byway_device *device)
{
	byway_queue_options options = { .size = sizeof(options), .policy = "luck" };
	byway_queue *queue;

	assert(refused(byway_queue_open(device, &options, &queue), "expected bytes, time or threshold"));
	options.policy = "threshold";
	assert(refused(byway_queue_open(device, &options, &queue), "needs tau_bytes"));
	options.policy = NULL;
	options.tau_bytes = 64;
	assert(refused(byway_queue_open(device, &options, &queue), "of policy threshold"));
}

static void what_only_some_devices_have_is_refused(byway_device *device)
{
	byway_ledger ledger = { .size = sizeof(ledger) };
	byway_admin *admin;

	assert(refused(byway_device_get_ledger(device, &ledger), "only a device in this process"));
	assert(refused(byway_device_set_ledger(device, 1), "only a device in this process"));
	assert(refused(byway_device_sanitize(device, 9, 0, 0, NULL, NULL), "no wipe 9"));
	assert(refused(byway_device_sanitize(device, BYWAY_WIPE_OVERWRITE, 17, 0, NULL, NULL), "1 to 16 times"));
	assert(refused(byway_device_sanitize(device, BYWAY_WIPE_BLOCK_ERASE, 1, 0, NULL, NULL), "passes and pattern"));
	assert(refused(byway_admin_open(device, &admin), "no controller"));
}

static void what_a_device_says_of_a_refusal_can_be_asked(void)
{
	byway_completion done = { .size = sizeof(done) };
	byway_device *device;
	byway_buffer *value;
	byway_queue *queue;

	assert(byway_open("ram:64M", NULL, &device) == 0 && byway_queue_open(device, NULL, &queue) == 0);
	assert(byway_buffer_alloc(device, 8 << 20, &value) == 0);
	byway_command store = { .size = sizeof(store), .opcode = BYWAY_OPCODE_STORE, .nsid = 1, .buffer = value,
				.key = "key", .key_bytes = 3 };
	if (byway_queue_submit(queue, &store, 1) == 1) {
		assert(byway_queue_reap(queue, &done, 1, 1, UINT64_C(10000000000)) == 1 && done.error);
		int kind = (int)byway_error_kind_of(done.error);
		assert(byway_queue_explain(queue, done.error) == -kind);
		assert((int)byway_error_kind_of(byway_last_error()) == kind);
	}
	assert(refused(byway_queue_explain(queue, NULL), "error is NULL"));
	assert(byway_queue_close(queue) == 0);
	byway_buffer_free(value);
	assert(byway_close(device) == 0);
}

/* The model of an NVMe controller stands 24 bytes from the start of what Identify gives. */
static void admin_commands_have_several_buffers(byway_device *device, byway_admin *admin)
{
	struct {
		uint8_t opcode;
		uint8_t other[39];
		uint32_t cdw10[6];
	} identify = { .opcode = 0x06, .cdw10 = { 1 } };
	byway_completion done = { .size = sizeof(done) };
	byway_buffer *parts[2];
	uint32_t dw0 = 9;

	assert(byway_buffer_alloc(device, 4096, &parts[0]) == 0);
	assert(byway_buffer_cut(parts[0], 26, &parts[1]) == 0);
	assert(byway_device_adminv(device, &identify, parts, 2, &dw0) == 0 && dw0 == 0);
	assert(!memcmp((char *)byway_buffer_data(parts[0]) + 24, "By", 2));
	assert(!memcmp(byway_buffer_data(parts[1]), "way", 3));
	memset(byway_buffer_data(parts[1]), 0, 3);
	assert(byway_admin_submitv(admin, &identify, parts, 2, 8) == 0);
	assert(refused(byway_device_adminv(device, &identify, parts, 2, NULL), "uses the buffer"));
	assert(refused(byway_admin_submitv(admin, &identify, parts, 2, 9), "uses the buffer"));
	assert(byway_admin_outstanding(admin) == 1);
	assert(byway_admin_reap(admin, &done, 1, 1, UINT64_C(10000000000)) == 1);
	assert(done.tag == 8 && !done.buffer && !done.error);
	assert(!memcmp(byway_buffer_data(parts[1]), "way", 3));
	byway_buffer *twice[2] = { parts[0], parts[0] };
	assert(refused(byway_device_adminv(device, &identify, twice, 2, NULL), "uses the buffer"));
	assert(refused(byway_device_adminv(device, &identify, NULL, 2, NULL), "buffers is NULL"));
	identify.opcode = 0xfe; /* no such command: the buffers come back */
	assert(byway_device_adminv(device, &identify, parts, 2, NULL) < 0);
	assert(byway_admin_submitv(admin, &identify, parts, 2, 10) == 0);
	assert(byway_admin_reap(admin, &done, 1, 1, UINT64_C(10000000000)) == 1 && done.error);
	identify.opcode = 0x08; /* one without data */
	assert(refused(byway_device_adminv(device, &identify, parts, 2, NULL), "which way no data goes"));
	byway_buffer_free(parts[0]);
	byway_buffer_free(parts[1]);
}

static void admin_commands_keep_the_device_open(void)
{
	struct {
		uint8_t opcode;
		uint8_t other[39];
		uint32_t cdw10[6];
	} identify = { .opcode = 0x06, .cdw10 = { 1 } };
	byway_completion done = { .size = sizeof(done) };
	byway_buffer *data;
	byway_device *device;
	byway_admin *admin;

	assert(byway_open("ram:64M", NULL, &device) == 0 && byway_admin_open(device, &admin) == 0);
	assert(byway_buffer_alloc(device, 4096, &data) == 0);
	assert(refused(byway_admin_submit(admin, NULL, data, 1), "entry is NULL"));
	assert(byway_admin_submit(admin, &identify, data, 1) == 0);
	assert(refused(byway_admin_submit(admin, &identify, data, 2), "uses the buffer"));
	assert(refused(byway_admin_cancel(admin, 9), "no command with tag 9"));
	assert(byway_admin_reap(admin, &done, 1, 1, UINT64_C(10000000000)) == 1);
	assert(done.tag == 1 && done.buffer == data && !done.error);
	assert(!memcmp((char *)byway_buffer_data(data) + 24, "Byway", 5)); /* the model */
	identify.opcode = 0xfe; /* no such command */
	assert(byway_admin_submit(admin, &identify, data, 3) == 0 && byway_admin_outstanding(admin) == 1);
	assert(byway_admin_reap(admin, &done, 1, 1, UINT64_C(10000000000)) == 1);
	assert(done.error && byway_error_origin(done.error) == BYWAY_ORIGIN_DEVICE);
	assert(refused(byway_close(device), "admin commands of the device are open"));
	admin_commands_have_several_buffers(device, admin);
	assert(byway_admin_submit(admin, &identify, data, 4) == 0);
	identify.opcode = 0x0c; /* a request for events, of which there will be none */
	assert(byway_admin_submit(admin, &identify, NULL, 5) == 0);
	assert(byway_admin_close(admin) == 0 && byway_close(device) == 0);
	byway_buffer_free(data);
}

int main(void)
{
	byway_device *device;

	assert(byway_open("nil:1M", NULL, &device) == 0);
	null_is_refused(device);
	sizes_are_looked_at(device);
	buffers_have_one_user(device);
	commands_are_looked_at(device);
	policies_are_looked_at(device);
	what_only_some_devices_have_is_refused(device);
	assert(byway_close(device) == 0);
	a_listing_is_not_disturbed();
	ranges_are_sent_together();
	many_pairs_go_together();
	images_are_looked_at();
	what_a_device_says_of_a_refusal_can_be_asked();
	admin_commands_keep_the_device_open();
	memory_and_programs_are_looked_at();
	programs_over_values_are_looked_at();
	return 0;
}
