/* What a C program may get wrong: each is refused with a sentence, and nothing breaks. */
#include <assert.h>
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
	assert(refused(byway_queue_poll(NULL, 1, nothing, NULL), "queue is NULL"));
	assert(refused(byway_scan(NULL, NULL), "on is NULL"));
	assert(byway_close(NULL) == 0 && byway_queue_close(NULL) == 0);
	assert(byway_queue_outstanding(NULL) == 0 && byway_buffer_data(NULL) == NULL);
	byway_buffer_free(NULL);
	byway_kv_close(NULL);
	byway_nvm_close(NULL);
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
	assert(refused(byway_queue_read(queue, 1, 0, 8, second, 13), "512 bytes"));
	assert(byway_queue_write(queue, 1, 0, 1, second, 14) == 0);
	assert(refused(byway_queue_flush(queue, 1, 15), "as the queue is deep"));
	assert(byway_error_kind_of(last) == BYWAY_ERROR_KIND_QUEUE_FULL && byway_error_retry(last) == BYWAY_RETRY_LATER);
	assert(refused(byway_queue_cancel(queue, 99), "no command with tag 99"));
	byway_buffer_free(second); /* under way: freed with its completion */
	assert(byway_queue_reap(queue, done, 4, 2, 1000000000) == 2);
	assert(done[0].tag == 11 && done[0].buffer == buffer && !done[0].error && done[1].tag == 14);

	assert(byway_queue_flush(queue, 1, 16) == 0);
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
	assert(refused(byway_kv_put(kv, "a", 1, "b", 1, 64), "flags 0x40"));
	assert(byway_kv_list(kv, NULL, 0, lists_again, kv) == 1);
	byway_kv_close(kv);
	assert(byway_close(device) == 0);
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
	assert(byway_admin_submit(admin, &identify, data, 4) == 0);
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
	assert(byway_close(device) == 0);
	a_listing_is_not_disturbed();
	admin_commands_keep_the_device_open();
	return 0;
}
