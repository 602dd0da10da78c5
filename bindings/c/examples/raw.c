/* Commands passed through: Identify, and a write by its 64 bytes. raw [URI] */
#include <string.h>

#include "fail.h"

enum { IDENTIFY = 0x06, WRITE = 0x01, BLOCKS = 8 };

/* A submission queue entry (NVM Express Base Specification), in the machine's byte order: little-endian. */
struct entry {
	uint8_t opcode, flags;
	uint16_t cid; /* the backend's */
	uint32_t nsid, cdw2, cdw3;
	uint64_t mptr, dptr[2]; /* the backend's */
	uint32_t cdw10, cdw11, cdw12, cdw13, cdw14, cdw15;
};

static byway_namespace first_blocks(byway_device *device)
{
	byway_namespace all[8] = { { .size = sizeof(all[0]) } };
	int count = check(byway_device_namespaces(device, all, 8), "namespaces");

	for (int i = 0; i < count && i < 8; i++)
		if (all[i].kind == BYWAY_KIND_NVM)
			return all[i];
	fprintf(stderr, "no namespace of blocks\n");
	exit(1);
}

int main(int argc, char **argv)
{
	const char *uri = argc > 1 ? argv[1] : "embedded-ram:64M";
	struct entry identify = { .opcode = IDENTIFY, .cdw10 = 1 /* the controller */ };
	byway_capabilities can = { .size = sizeof(can) };
	byway_completion done = { .size = sizeof(done) };
	byway_device *device;
	byway_queue *queue;
	byway_buffer *data, *parts[2];
	uint8_t controller[4096];

	check(byway_open(uri, NULL, &device), "open");
	check(byway_device_get_capabilities(device, &can), "capabilities");
	if (can.admin_commands) {
		check(byway_device_admin(device, &identify, controller, sizeof(controller), NULL), "identify");
		printf("model %.40s\n", (const char *)controller + 24);

		/* The same into several buffers, one behind the other: the second begins with the model. */
		check(byway_buffer_alloc(device, sizeof(controller), &parts[0]), "buffer");
		check(byway_buffer_cut(parts[0], 24, &parts[1]), "cut");
		check(byway_device_adminv(device, &identify, parts, 2, NULL), "identify");
		printf("once more %.40s\n", (const char *)byway_buffer_data(parts[1]));
		byway_buffer_free(parts[0]);
		byway_buffer_free(parts[1]);
	}

	byway_namespace space = first_blocks(device);
	check(byway_queue_open(device, NULL, &queue), "queue");
	check(byway_buffer_alloc(device, (size_t)BLOCKS * space.lba_bytes, &data), "buffer");
	memset(byway_buffer_data(data), 0x77, byway_buffer_bytes(data));

	struct entry write = { .opcode = WRITE, .nsid = space.nsid, .cdw10 = 16, .cdw12 = BLOCKS - 1 };
	byway_command command = {
		.size = sizeof(command), .opcode = BYWAY_OPCODE_RAW, .entry = &write, .buffer = data, .tag = 1,
		.timeout_ns = 1000000000,
	};
	check(byway_queue_execute(queue, &command, &done), "write");
	printf("wrote %d blocks, dword 0 is %u\n", BLOCKS, done.dw0);

	write.opcode = 0xff; /* no such command: refused, here or by the device */
	command.buffer = NULL;
	if (byway_queue_execute(queue, &command, &done) < 0)
		printf("refused: %s\n", byway_error_message(byway_last_error()));

	byway_buffer_free(data);
	check(byway_queue_close(queue), "close queue");
	check(byway_close(device), "close");
	return 0;
}
