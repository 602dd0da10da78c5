/* A program in eBPF over local memory of a device: compute [URI] */
#include <string.h>

#include "fail.h"

int main(int argc, char **argv)
{
	const char *uri = argc > 1 ? argv[1] : "embedded-ram:64M";
	/* r0 = *(u8 *)(ranges[0].base + first); exit */
	static const unsigned char program[] = {
		0x79, 0x11, 0, 0, 0, 0, 0, 0, /* r1 = *(u64 *)(r1 + 0) */
		0x0f, 0x31, 0, 0, 0, 0, 0, 0, /* r1 += r3 */
		0x71, 0x10, 0, 0, 0, 0, 0, 0, /* r0 = *(u8 *)(r1 + 0) */
		0x95, 0x00, 0, 0, 0, 0, 0, 0, /* exit */
	};
	byway_device *device;
	byway_memory *memory;
	byway_programs *programs;
	byway_memory_range range = { .start = 0, .bytes = 12 };
	byway_copy_source source = { .start = 0, .count = 8 };
	char text[12];
	uint64_t value;
	uint32_t nsid;
	uint16_t set;

	check(byway_open(uri, NULL, &device), "open");
	check(byway_device_create_memory(device, 4096, &range.nsid), "create memory");
	check(byway_memory_open(device, range.nsid, &memory), "memory");
	check(byway_memory_write(memory, 0, "twelve bytes", 12), "write");
	source.nsid = range.nsid;
	check(byway_memory_copy(memory, 64, 8, BYWAY_COPY_MEMORY, &source, 1), "copy");
	check(byway_memory_fill(memory, 68, 4), "fill");
	check(byway_memory_read(memory, 64, text, sizeof(text)), "read");
	printf("%s of %llu bytes\n", text, (unsigned long long)byway_memory_bytes(memory));

	check(byway_device_create_programs(device, &nsid), "create programs");
	check(byway_programs_open(device, nsid, &programs), "programs");
	check(byway_programs_load(programs, 8, BYWAY_PROGRAM_EBPF, NULL, program, sizeof(program)), "load");
	check(byway_programs_activate(programs, 8), "activate");
	check(byway_programs_execute(programs, 8, 0, &range, 1, 2, 0, &value), "execute");
	printf("byte 2 is %c\n", (char)value);
	check(byway_programs_create_range_set(programs, &range, 1, &set), "create a set of ranges");
	check(byway_programs_execute(programs, 8, set, NULL, 0, 7, 0, &value), "execute");
	printf("byte 7 is %c\n", (char)value);
	if (byway_programs_execute(programs, 8, 0, &range, 1, 12, 0, &value) < 0)
		printf("byte 12 is none of its bytes\n");

	check(byway_programs_delete_range_set(programs, set), "delete the set");
	check(byway_programs_deactivate(programs, 8), "deactivate");
	check(byway_programs_unload(programs, 8), "unload");
	byway_programs_close(programs);
	byway_memory_close(memory);
	check(byway_device_delete_namespace(device, nsid), "delete programs");
	check(byway_close(device), "close");
	return 0;
}
