/*
 * Byway: one API over every interface by which commands reach an SSD, in C.
 *
 * Made by cbindgen of the library's source: bindings/c/README.md says how.
 *
 * What holds for every function:
 *
 * - Failure. A function that returns int returns a negative number where it fails: the negative of
 *   a byway_error_kind. byway_last_error() of the same thread then has the sentence, who failed
 *   (this library, the kernel, the device), the device's status, the kernel's errno. What a failing
 *   function was to fill is left as it was. NULL where something is needed is such a failure, and
 *   so is a defect of the library itself: none of its panics reaches the program.
 * - Handles. byway_device, byway_queue, byway_buffer, byway_nvm, byway_kv, byway_memory, byway_programs,
 *   byway_admin are what this library gave, until they are closed or freed once. All but byway_admin may
 *   outlive the device that they are of.
 * - Threads. A byway_device may be used by any number of threads at once. Every other handle is
 *   used by one thread at a time, whichever; a queue and the buffers of its commands by the same.
 *   byway_last_error() is each thread's own.
 * - Forks. Handles are of the process that opened them. In a child of fork() every call on one that can
 *   fail is refused with BYWAY_ERROR_KIND_DENIED, and closing or freeing one changes nothing for the
 *   parent, whose image stays locked and open. A child opens devices of its own.
 * - Structures. Each but those that are given many at a time begins with its size, which the program sets to sizeof it; so a program and a
 *   library of different versions understand each other. What a program leaves as zero stands for
 *   "not given"; what it sets behind the end that the library knows is refused.
 * - Memory. Bytes that a call is given are used until it returns. A buffer that a command was given
 *   is the command's until its completion is taken, however long that takes and however it ends.
 * - Callbacks return in the ordinary way: neither by longjmp() nor by an exception.
 * - Numbers. Blocks count from 0, "blocks" from 1; lengths are in bytes, times in nanoseconds, keys
 *   and values any bytes. A namespace is named by its identifier (nsid), from 1.
 */


#ifndef BYWAY_H
#define BYWAY_H

#include <stddef.h>
#include <stdint.h>

#define BYWAY_VERSION_MAJOR 0
#define BYWAY_VERSION_MINOR 1
#define BYWAY_VERSION_PATCH 0


/**
 * Of BYWAY_OPCODE_WRITE_ZEROES: the device may forget the blocks.
 */
#define BYWAY_DEALLOCATE 1

/**
 * Of BYWAY_OPCODE_STORE: only if the key exists.
 */
#define BYWAY_MUST_EXIST 2

/**
 * Of BYWAY_OPCODE_STORE: only if the key does not exist.
 */
#define BYWAY_MUST_NOT_EXIST 4

/**
 * Of BYWAY_OPCODE_STORE: the device shall not compress the value.
 */
#define BYWAY_UNCOMPRESSED 8

/**
 * The sources of byway_memory_copy() are blocks.
 */
#define BYWAY_COPY_BLOCKS 0

/**
 * The sources of byway_memory_copy() are bytes of local memory.
 */
#define BYWAY_COPY_MEMORY 1

/**
 * A program in eBPF.
 */
#define BYWAY_PROGRAM_EBPF 192

/**
 * A module of WebAssembly.
 */
#define BYWAY_PROGRAM_WASM 193

/**
 * A scan from the last key to the first.
 */
#define BYWAY_BACKWARD 1

/**
 * A scan of keys alone: values have no bytes.
 */
#define BYWAY_KEYS_ONLY 2

/**
 * A line per row.
 */
#define BYWAY_QUERY_CSV 0

/**
 * A JSON object per row.
 */
#define BYWAY_QUERY_JSON_LINES 1

/**
 * A stream of Arrow IPC.
 */
#define BYWAY_QUERY_ARROW_STREAM 2

/**
 * CSV: the first line names the columns.
 */
#define BYWAY_QUERY_HEADER 1

/**
 * The result says what the query would read and move, instead of its rows.
 */
#define BYWAY_QUERY_EXPLAIN 2

/**
 * The kind of failure, whichever part failed. Functions return the negative of it.
 */
typedef enum byway_error_kind {
        /**
         * There was no failure.
         */
        BYWAY_ERROR_KIND_NONE = 0,
        /**
         * An argument is wrong whatever the device: NULL, an empty key, a length of zero.
         */
        BYWAY_ERROR_KIND_INVALID_ARGUMENT = 1,
        /**
         * A length is over a limit: of keys, or one that the device announced.
         */
        BYWAY_ERROR_KIND_TOO_LARGE = 2,
        /**
         * The device or the backend does not do this.
         */
        BYWAY_ERROR_KIND_UNSUPPORTED = 3,
        /**
         * There is no such device, namespace or file.
         */
        BYWAY_ERROR_KIND_NOT_FOUND = 4,
        /**
         * The key does not exist.
         */
        BYWAY_ERROR_KIND_KEY_NOT_FOUND = 5,
        /**
         * The key exists, and the command wanted that it does not.
         */
        BYWAY_ERROR_KIND_KEY_EXISTS = 6,
        /**
         * The namespace has no room left.
         */
        BYWAY_ERROR_KIND_CAPACITY_EXCEEDED = 7,
        /**
         * The address is outside the namespace.
         */
        BYWAY_ERROR_KIND_OUT_OF_RANGE = 8,
        /**
         * The queue has no room for the command now: take completions, then submit it again.
         */
        BYWAY_ERROR_KIND_QUEUE_FULL = 9,
        /**
         * Another process or handle is using it.
         */
        BYWAY_ERROR_KIND_BUSY = 10,
        /**
         * No permission, or a read-only device.
         */
        BYWAY_ERROR_KIND_DENIED = 11,
        /**
         * The data is not what was written.
         */
        BYWAY_ERROR_KIND_MEDIA = 12,
        /**
         * A compare command found a difference.
         */
        BYWAY_ERROR_KIND_MISMATCH = 13,
        /**
         * The command was given up before it was done.
         */
        BYWAY_ERROR_KIND_CANCELLED = 14,
        /**
         * Nothing came within the time given.
         */
        BYWAY_ERROR_KIND_TIMED_OUT = 15,
        /**
         * The device is gone, or reported a fatal state; it must be opened anew.
         */
        BYWAY_ERROR_KIND_DEVICE_LOST = 16,
        /**
         * The device said something that its specification does not allow.
         */
        BYWAY_ERROR_KIND_PROTOCOL = 17,
        /**
         * Any other failure of the device.
         */
        BYWAY_ERROR_KIND_DEVICE = 18,
        /**
         * Any other failure of the operating system.
         */
        BYWAY_ERROR_KIND_SYSTEM = 19,
        /**
         * A defect of this library, which stopped at it: please report what its message says.
         */
        BYWAY_ERROR_KIND_DEFECT = 20,
} byway_error_kind;

/**
 * Who failed.
 */
typedef enum byway_origin {
        /**
         * This library, before anything was sent.
         */
        BYWAY_ORIGIN_HOST = 0,
        /**
         * The operating system; byway_error_errno() returns its error number.
         */
        BYWAY_ORIGIN_KERNEL = 1,
        /**
         * The device, by a status (byway_error_status()) or by its silence.
         */
        BYWAY_ORIGIN_DEVICE = 2,
} byway_origin;

/**
 * Whether the same call can be expected to succeed later.
 */
typedef enum byway_retry {
        /**
         * No: the same call fails again.
         */
        BYWAY_RETRY_NEVER = 0,
        /**
         * Yes, after something else has finished.
         */
        BYWAY_RETRY_LATER = 1,
        /**
         * Once: it may have been an accident, or the outcome is unknown.
         */
        BYWAY_RETRY_ONCE = 2,
} byway_retry;

/**
 * The command set of a namespace.
 */
typedef enum byway_kind {
        /**
         * One that this library has no typed commands for.
         */
        BYWAY_KIND_OTHER = 0,
        /**
         * Logical blocks.
         */
        BYWAY_KIND_NVM = 1,
        /**
         * Keys and values.
         */
        BYWAY_KIND_KV = 2,
} byway_kind;

/**
 * Where the pages of an image's device are kept.
 */
typedef enum byway_media {
        /**
         * In the image: what was acknowledged is there at the next opening.
         */
        BYWAY_MEDIA_FILE = 0,
        /**
         * In memory: the image describes a device that is empty at every opening.
         */
        BYWAY_MEDIA_RAM = 1,
        /**
         * Nowhere: pages are accepted and forgotten.
         */
        BYWAY_MEDIA_NULL = 2,
} byway_media;

/**
 * What a command does.
 */
typedef enum byway_opcode {
        /**
         * Reads blocks into the memory.
         */
        BYWAY_OPCODE_READ = 1,
        /**
         * Writes blocks from the memory.
         */
        BYWAY_OPCODE_WRITE = 2,
        /**
         * Makes completed writes durable.
         */
        BYWAY_OPCODE_FLUSH = 3,
        /**
         * Makes blocks read as zeroes; with BYWAY_DEALLOCATE the device may forget them.
         */
        BYWAY_OPCODE_WRITE_ZEROES = 4,
        /**
         * Deallocates blocks that are no longer needed (Dataset Management): `slba` and `blocks`, or `ranges`.
         */
        BYWAY_OPCODE_TRIM = 5,
        /**
         * Compares blocks with the memory.
         */
        BYWAY_OPCODE_COMPARE = 6,
        /**
         * Reads and checks blocks within the device.
         */
        BYWAY_OPCODE_VERIFY = 7,
        /**
         * Copies the blocks of `ranges` to `slba` within the device, one behind the other.
         */
        BYWAY_OPCODE_COPY = 8,
        /**
         * Compares blocks with the first half of the memory and writes the second half in their place if they are equal,
         * atomically against other writers. Else it fails as BYWAY_OPCODE_COMPARE does and writes nothing. `compare_and_write` of
         * byway_device_get_capabilities() says whether there is such a thing; a queue needs to be two deep.
         */
        BYWAY_OPCODE_COMPARE_AND_WRITE = 9,
        /**
         * Stores the memory as the value of the key.
         */
        BYWAY_OPCODE_STORE = 16,
        /**
         * Reads the value of the key into the memory; `dw0` of the completion is the whole value's length in bytes.
         */
        BYWAY_OPCODE_RETRIEVE = 17,
        /**
         * Deletes the key.
         */
        BYWAY_OPCODE_DELETE = 18,
        /**
         * Asks whether the key exists: if not, the error's kind is BYWAY_ERROR_KIND_KEY_NOT_FOUND.
         */
        BYWAY_OPCODE_EXIST = 19,
        /**
         * Lists keys in order into the memory, from the key on, or from the first if there is no key: a 4-byte count, then
         * for each key its length in 2 bytes and its bytes, padded to a multiple of 4, little-endian.
         */
        BYWAY_OPCODE_LIST = 20,
        /**
         * Stores many pairs, where `bulk_store` of byway_device_get_capabilities() is set. The memory holds them: a 4-byte count,
         * then for each pair the key's length in 1 byte, 3 zero bytes, the value's length in 4, the key padded to a multiple of
         * 4, the value padded to a multiple of 4, little-endian. byway_kv_load() puts this together.
         */
        BYWAY_OPCODE_BULK_STORE = 21,
        /**
         * Passes `entry` through. Bits 1:0 of its opcode say which way the memory goes, as the specification has it: 01b to
         * the device, 10b from it, 00b for no memory.
         */
        BYWAY_OPCODE_RAW = 32,
} byway_opcode;

/**
 * What a device that was found is.
 */
typedef enum byway_place {
        /**
         * A block device.
         */
        BYWAY_PLACE_BLOCK = 0,
        /**
         * A part of a block device.
         */
        BYWAY_PLACE_PARTITION = 1,
        /**
         * A namespace of an NVMe controller, as a character device that takes any command.
         */
        BYWAY_PLACE_GENERIC = 2,
        /**
         * An NVMe controller.
         */
        BYWAY_PLACE_CONTROLLER = 3,
        /**
         * An NVMe controller that vfio-pci has, for drivers in user space.
         */
        BYWAY_PLACE_FUNCTION = 4,
} byway_place;

/**
 * What a repair does about a finding.
 */
typedef enum byway_remedy {
        /**
         * It restores the structure from what is kept twice or can be counted anew; no data is lost.
         */
        BYWAY_REMEDY_RESTORE = 0,
        /**
         * It drops what cannot be read, and says what that was.
         */
        BYWAY_REMEDY_DROP = 1,
        /**
         * It can do nothing.
         */
        BYWAY_REMEDY_NONE = 2,
} byway_remedy;

/**
 * How a device is sanitized.
 */
typedef enum byway_wipe {
        /**
         * Every block is erased and its disk room given back.
         */
        BYWAY_WIPE_BLOCK_ERASE = 0,
        /**
         * The key that everything is encrypted with is thrown away. Only for devices that encrypt.
         */
        BYWAY_WIPE_CRYPTO_ERASE = 1,
        /**
         * The same as BYWAY_WIPE_BLOCK_ERASE after everything was written over.
         */
        BYWAY_WIPE_OVERWRITE = 2,
} byway_wipe;

/**
 * Admin commands on their way: on a ring of the device's or the kernel's, or done one after the other by a thread of the
 * library's. One thread at a time uses it.
 */
typedef struct byway_admin byway_admin;

/**
 * Memory that commands send from and receive into. One command uses it at a time; its memory is the program's again
 * when that command's completion is taken.
 */
typedef struct byway_buffer byway_buffer;

/**
 * An open device. Any number of threads may use it at once, until it is closed.
 */
typedef struct byway_device byway_device;

/**
 * An error: of a thread (byway_last_error()) or of a completion.
 */
typedef struct byway_error byway_error;

/**
 * A namespace of keys and values with a queue of its own, for synchronous calls. One thread at a time uses it.
 */
typedef struct byway_kv byway_kv;

/**
 * A namespace of local memory with a queue of its own. One thread at a time uses it. Positions and lengths are multiples of 4.
 */
typedef struct byway_memory byway_memory;

/**
 * A namespace of blocks with a queue of its own, for synchronous calls. One thread at a time uses it.
 */
typedef struct byway_nvm byway_nvm;

/**
 * A namespace of programs with a queue of its own. One thread at a time uses it.
 */
typedef struct byway_programs byway_programs;

/**
 * Commands on their way. One thread at a time uses a queue; each thread opens its own.
 */
typedef struct byway_queue byway_queue;

/**
 * Called by a long operation with its progress: `done` of `all`, which is 0 where that is not known; `what` names the step and
 * lives until the callback returns. Anything but 0 ends the call, where its own text says that it can be.
 */
typedef int (*byway_progress_callback)(void *context, const char *what, uint64_t done, uint64_t all);

/**
 * A command that has finished, well or not.
 */
typedef struct byway_completion {
        /**
         * sizeof(byway_completion): in an array to be filled, that of the first is set by the program. Fields behind it are not
         * there.
         */
        size_t size;
        /**
         * The tag that it was submitted with.
         */
        uint64_t tag;
        /**
         * Its buffer, which is the program's again; NULL if it had none or several.
         */
        struct byway_buffer *buffer;
        /**
         * NULL if it succeeded. Else why it failed: until the callback returns, or until the next completions of this queue
         * are taken into an array.
         */
        const struct byway_error *error;
        /**
         * The command's own result: completion dword 0.
         */
        uint32_t dw0;
        /**
         * Completion dword 1.
         */
        uint32_t dw1;
} byway_completion;

/**
 * What a backend and its device can do. 0 stands for "not at all", except where a field says otherwise.
 */
typedef struct byway_capabilities {
        /**
         * sizeof(byway_capabilities).
         */
        size_t size;
        /**
         * Most bytes of one command's data; UINT64_MAX if the device sets no limit.
         */
        uint64_t transfer_bytes;
        /**
         * What a command's memory must begin and end on, in bytes: 1 where any memory will do.
         */
        uint32_t memory_align_bytes;
        /**
         * Most queues that can be open at once.
         */
        uint32_t queues;
        /**
         * Most entries of one queue's ring.
         */
        uint32_t ring_entries;
        /**
         * Longest payload of transfer method "inline", in bytes.
         */
        uint32_t inline_bytes;
        /**
         * Raw I/O commands can be passed through.
         */
        uint8_t raw_commands;
        /**
         * Admin commands can be sent.
         */
        uint8_t admin_commands;
        /**
         * A command that was sent can be cancelled.
         */
        uint8_t cancel;
        /**
         * A queue has a descriptor that becomes readable when completions arrive.
         */
        uint8_t event;
        /**
         * Commands go on while the program does something else.
         */
        uint8_t overlaps;
        /**
         * Flush is there.
         */
        uint8_t flush;
        /**
         * Write Zeroes is there.
         */
        uint8_t write_zeroes;
        /**
         * Dataset Management (trim) is there.
         */
        uint8_t trim;
        /**
         * Compare is there.
         */
        uint8_t compare;
        /**
         * Verify is there.
         */
        uint8_t verify;
        /**
         * Copy is there.
         */
        uint8_t copy;
        /**
         * Many pairs can be stored by one command.
         */
        uint8_t bulk_store;
        /**
         * BYWAY_OPCODE_COMPARE_AND_WRITE is there.
         */
        uint8_t compare_and_write;
        /**
         * 0.
         */
        uint8_t reserved[3];
        /**
         * Transfer methods that the device announced and the backend can carry: "prp, inline". It lives until the device is
         * closed.
         */
        const char *methods;
        /**
         * Bytes of device memory that can be stored into as a byte interface (byway_kv_put_by_bytes()).
         */
        uint64_t byte_memory_bytes;
        /**
         * Longest payload of transfer method "piggyback" and of the tails of "prp+tail", in bytes.
         */
        uint32_t piggyback_bytes;
        /**
         * Most unfinished payloads of transfer method "piggyback-pt".
         */
        uint32_t piggyback_pt_unfinished;
        /**
         * Bytes of one queue's window in device memory, for transfer method "cxl".
         */
        uint32_t window_bytes;
        /**
         * Longest payload of BYWAY_OPCODE_BULK_STORE, in bytes.
         */
        uint32_t bulk_bytes;
} byway_capabilities;

/**
 * What is called for each completion. It may submit to the queue and take more completions, and must not close the
 * queue; it returns in the ordinary way, without longjmp or an exception.
 */
typedef void (*byway_completion_callback)(void *context, const struct byway_completion *completion);

/**
 * A range of blocks. In an array, the first says the size of each.
 */
typedef struct byway_range {
        /**
         * sizeof(byway_range).
         */
        size_t size;
        /**
         * First block.
         */
        uint64_t slba;
        /**
         * Number of blocks.
         */
        uint32_t blocks;
        /**
         * 0.
         */
        uint32_t reserved;
} byway_range;

/**
 * A command. What its opcode does not use is zero.
 */
typedef struct byway_command {
        /**
         * sizeof(byway_command).
         */
        size_t size;
        /**
         * What it does: a byway_opcode.
         */
        uint32_t opcode;
        /**
         * Namespace.
         */
        uint32_t nsid;
        /**
         * The program's own word for the command: its completion carries it.
         */
        uint64_t tag;
        /**
         * First block.
         */
        uint64_t slba;
        /**
         * Number of blocks.
         */
        uint32_t blocks;
        /**
         * BYWAY_DEALLOCATE, BYWAY_MUST_EXIST, BYWAY_MUST_NOT_EXIST, BYWAY_UNCOMPRESSED.
         */
        uint32_t flags;
        /**
         * The memory; its length is what the command moves.
         */
        struct byway_buffer *buffer;
        /**
         * In place of `buffer`: several, one behind the other.
         */
        struct byway_buffer *const *buffers;
        /**
         * How many those are.
         */
        uint32_t buffer_count;
        /**
         * Length of the key in bytes.
         */
        uint32_t key_bytes;
        /**
         * The key.
         */
        const void *key;
        /**
         * Of BYWAY_OPCODE_RAW: the submission queue entry, 64 bytes. The identifier and the data pointer are written by the
         * backend.
         */
        const void *entry;
        /**
         * After how many nanoseconds the command is given up; 0 for the queue's (byway_queue_set_timeout()).
         */
        uint64_t timeout_ns;
        /**
         * Of BYWAY_OPCODE_TRIM, in place of `slba` and `blocks`, and of BYWAY_OPCODE_COPY: ranges of blocks.
         */
        const struct byway_range *ranges;
        /**
         * How many those are: 1 to 256.
         */
        uint32_t range_count;
        /**
         * 0.
         */
        uint32_t reserved;
} byway_command;

/**
 * Where byway_memory_copy() copies from: blocks, or bytes of local memory.
 */
typedef struct byway_copy_source {
        /**
         * First block or byte.
         */
        uint64_t start;
        /**
         * The namespace.
         */
        uint32_t nsid;
        /**
         * Blocks, at most 65,536, or bytes.
         */
        uint32_t count;
} byway_copy_source;

/**
 * Bytes of local memory that a program sees.
 */
typedef struct byway_memory_range {
        /**
         * First byte.
         */
        uint64_t start;
        /**
         * The namespace of local memory.
         */
        uint32_t nsid;
        /**
         * Bytes.
         */
        uint32_t bytes;
} byway_memory_range;

/**
 * How a device shall be opened. NULL in place of it, or zeroes in it, stand for the defaults.
 */
typedef struct byway_open_options {
        /**
         * sizeof(byway_open_options).
         */
        size_t size;
        /**
         * Options beside those of the URI, written as there: "backend=psync&depth=32". NULL for none.
         */
        const char *options;
        /**
         * Not 0: to read it alone. What may not be written can be opened so.
         */
        uint32_t read_only;
        /**
         * 0.
         */
        uint32_t reserved;
} byway_open_options;

/**
 * Who a device says it is, and how it is reached. Texts live until the device is closed.
 */
typedef struct byway_device_info {
        /**
         * sizeof(byway_device_info).
         */
        size_t size;
        /**
         * The interface by which commands reach it: "io_uring", "embedded".
         */
        const char *backend;
        /**
         * Why that one.
         */
        const char *why;
        /**
         * Model.
         */
        const char *model;
        /**
         * Serial number.
         */
        const char *serial;
        /**
         * Firmware revision.
         */
        const char *firmware;
        /**
         * Subsystem's qualified name (NQN).
         */
        const char *subsystem;
        /**
         * How many faster backends could not serve it: byway_device_passed_over() names each.
         */
        uint32_t passed_over;
        /**
         * The controller's number in its subsystem.
         */
        uint16_t controller;
        /**
         * PCI vendor.
         */
        uint16_t vendor;
        /**
         * Specification version: major in bits 31:16, minor in bits 15:8, tertiary in bits 7:0.
         */
        uint32_t version;
        /**
         * 1 for a Byway device: one that has transfer methods of its own.
         */
        uint32_t is_byway;
} byway_device_info;

/**
 * A namespace and its geometry.
 */
typedef struct byway_namespace {
        /**
         * sizeof(byway_namespace).
         */
        size_t size;
        /**
         * Its identifier.
         */
        uint32_t nsid;
        /**
         * Its command set: a byway_kind.
         */
        uint32_t kind;
        /**
         * Size in bytes.
         */
        uint64_t size_bytes;
        /**
         * Bytes in use, where the device reports them.
         */
        uint64_t used_bytes;
        /**
         * BYWAY_KIND_NVM: number of blocks.
         */
        uint64_t blocks;
        /**
         * BYWAY_KIND_NVM: size of a block in bytes.
         */
        uint32_t lba_bytes;
        /**
         * BYWAY_KIND_KV: longest key in bytes.
         */
        uint32_t key_max_bytes;
        /**
         * BYWAY_KIND_KV: longest value in bytes.
         */
        uint32_t value_max_bytes;
        /**
         * BYWAY_KIND_KV: most keys, 0 if only the size limits them.
         */
        uint32_t keys_max;
        /**
         * Globally unique identifier (NGUID), zeroes if it has none.
         */
        uint8_t nguid[16];
} byway_namespace;

/**
 * What a device is to be like. Zeroes stand for the defaults.
 */
typedef struct byway_create_options {
        /**
         * sizeof(byway_create_options).
         */
        size_t size;
        /**
         * Capacity of all namespaces together, in bytes.
         */
        uint64_t size_bytes;
        /**
         * Name of its profile; NULL for "gen4x4".
         */
        const char *profile;
        /**
         * Its namespaces, numbered from 1: of each `kind`, `lba_bytes` of blocks (0 for 512) and `size_bytes` are used, of which 0
         * takes an equal share of what the others leave. NULL for one of keys and values.
         */
        const struct byway_namespace *namespaces;
        /**
         * How many those are.
         */
        uint32_t namespace_count;
        /**
         * Where its pages are kept: a byway_media.
         */
        uint32_t media;
        /**
         * Its identity, 16 bytes; NULL for a random one.
         */
        const void *uuid;
        /**
         * Not 0: flash beyond its size is `over_provisioning_percent` of it, which then may be 0.
         */
        uint32_t has_over_provisioning;
        /**
         * Flash beyond its size that garbage collection has to work with, in percent of it.
         */
        uint32_t over_provisioning_percent;
} byway_create_options;

/**
 * Something in an image that is not as it should be. It and its texts live until the callback returns.
 */
typedef struct byway_finding {
        /**
         * Bytes of this structure: fields behind it are not there.
         */
        size_t size;
        /**
         * The structure: "superblock", "map".
         */
        const char *structure;
        /**
         * Which part of it; empty where there is only one.
         */
        const char *place;
        /**
         * What is wrong, in one sentence.
         */
        const char *what;
        /**
         * The data that it hits, a line for each part: "key 0041 of namespace 1".
         */
        const char *hits;
        /**
         * How many lines those are.
         */
        uint32_t hit_count;
        /**
         * What a repair does about it: a byway_remedy.
         */
        uint32_t remedy;
} byway_finding;

/**
 * What byway_check() calls for each finding.
 */
typedef void (*byway_finding_callback)(void *context, const struct byway_finding *finding);

/**
 * What a check or a repair came to.
 */
typedef struct byway_checked {
        /**
         * sizeof(byway_checked).
         */
        size_t size;
        /**
         * Namespaces that were looked at.
         */
        uint64_t namespaces;
        /**
         * Keys in them, as far as their engines know.
         */
        uint64_t keys;
        /**
         * Bytes of live data.
         */
        uint64_t live_bytes;
        /**
         * Entries of block namespaces that a media error took earlier, and that no host wrote since.
         */
        uint64_t known_lost;
        /**
         * How many findings there were.
         */
        uint32_t findings;
        /**
         * Not 0: the device can be used, after a repair at the latest.
         */
        uint8_t usable;
        /**
         * Not 0: data is lost, or will be dropped by a repair.
         */
        uint8_t loses;
        /**
         * 0.
         */
        uint8_t reserved[2];
} byway_checked;

/**
 * What a snapshot took.
 */
typedef struct byway_snapshot_report {
        /**
         * sizeof(byway_snapshot_report).
         */
        size_t size;
        /**
         * How long the device was stopped, in nanoseconds.
         */
        uint64_t pause_ns;
        /**
         * Bytes that were copied; none where the file system shares blocks.
         */
        uint64_t copied_bytes;
} byway_snapshot_report;

/**
 * What byway_kv_list() and its kin call for each key, which lives until it returns; anything but 0 ends the listing. It must
 * not use the byway_kv that is being listed.
 */
typedef int (*byway_key_callback)(void *context, const void *key, size_t key_bytes);

/**
 * A key with its value. In an array, the first says the size of each.
 */
typedef struct byway_pair {
        /**
         * sizeof(byway_pair).
         */
        size_t size;
        /**
         * The key.
         */
        const void *key;
        /**
         * Length of the key in bytes.
         */
        size_t key_bytes;
        /**
         * The value; NULL where only the key is meant.
         */
        const void *value;
        /**
         * Length of the value in bytes.
         */
        size_t value_bytes;
} byway_pair;

/**
 * What byway_kv_get_many() calls for each key, with its number in the array; `value` is NULL where there is no such key. The
 * value lives until it returns. It must not use the byway_kv that is being read.
 */
typedef void (*byway_value_callback)(void *context,
                                     uint32_t index,
                                     const void *value,
                                     size_t value_bytes);

/**
 * What byway_kv_list_listable() calls for keys that cannot be listed: those behind `after`, from the first where that is NULL,
 * and before `before`, up to the last where that is NULL. `why` is what the device says. All of it lives until it returns.
 */
typedef void (*byway_unlisted_callback)(void *context,
                                        const void *after,
                                        size_t after_bytes,
                                        const void *before,
                                        size_t before_bytes,
                                        const char *why);

/**
 * A range of keys, and what a scan of it brings. Zeroes, but for the size, are all pairs in ascending order.
 */
typedef struct byway_key_range {
        /**
         * sizeof(byway_key_range).
         */
        size_t size;
        /**
         * Only keys that begin with this; then there is neither a start nor an end.
         */
        const void *prefix;
        /**
         * Length of the prefix in bytes.
         */
        size_t prefix_bytes;
        /**
         * The first key.
         */
        const void *start;
        /**
         * Length of the first key in bytes, 0 for none.
         */
        size_t start_bytes;
        /**
         * The first key that is not in the range.
         */
        const void *end;
        /**
         * Length of that key in bytes, 0 for none.
         */
        size_t end_bytes;
        /**
         * Most pairs of a scan, 0 for all.
         */
        uint64_t limit;
        /**
         * Most bytes of each value of a scan, up to 65,534; 0 for whole values.
         */
        uint32_t value_bytes;
        /**
         * 0, or BYWAY_BACKWARD, BYWAY_KEYS_ONLY.
         */
        uint32_t flags;
} byway_key_range;

/**
 * What byway_kv_scan() calls for each pair, which lives until it returns; anything but 0 ends the scan. It must not use the
 * byway_kv that is being scanned.
 */
typedef int (*byway_pair_callback)(void *context,
                                   const void *key,
                                   size_t key_bytes,
                                   const void *value,
                                   size_t value_bytes);

/**
 * Everything that crossed a device's link so far.
 */
typedef struct byway_ledger {
        /**
         * sizeof(byway_ledger).
         */
        size_t size;
        /**
         * Payload bytes of all classes of transactions but interrupts.
         */
        uint64_t payload_bytes;
        /**
         * Bytes on the wire of all classes, interrupts too.
         */
        uint64_t wire_bytes;
        /**
         * Payload bytes of interrupts.
         */
        uint64_t interrupt_bytes;
} byway_ledger;

/**
 * What one class of transactions amounts to.
 */
typedef struct byway_ledger_row {
        /**
         * sizeof(byway_ledger_row).
         */
        size_t size;
        /**
         * The class: "doorbell", "data_read". It lives for ever.
         */
        const char *name;
        /**
         * How many there were.
         */
        uint64_t count;
        /**
         * Their payload.
         */
        uint64_t payload_bytes;
        /**
         * Bytes on the wire from host to device.
         */
        uint64_t down_bytes;
        /**
         * Bytes on the wire from device to host.
         */
        uint64_t up_bytes;
} byway_ledger_row;

/**
 * Counts of the engine of a namespace of keys and values.
 */
typedef struct byway_kv_stats {
        /**
         * sizeof(byway_kv_stats).
         */
        size_t size;
        /**
         * Keys; `unsettled_entries` of them may be counted twice.
         */
        uint64_t keys;
        /**
         * Entries of which it is not known yet whether they replace older ones.
         */
        uint64_t unsettled_entries;
        /**
         * Bytes of live records and their index entries that the namespace can hold.
         */
        uint64_t capacity_bytes;
        /**
         * Memory that the engine takes, in bytes.
         */
        uint64_t ram_bytes;
} byway_kv_stats;

/**
 * How the result of a query is written. Zeroes, but for the size, are CSV without a line of names.
 */
typedef struct byway_query_options {
        /**
         * sizeof(byway_query_options).
         */
        size_t size;
        /**
         * BYWAY_QUERY_CSV, BYWAY_QUERY_JSON_LINES or BYWAY_QUERY_ARROW_STREAM.
         */
        uint32_t format;
        /**
         * 0, or BYWAY_QUERY_HEADER, BYWAY_QUERY_EXPLAIN.
         */
        uint32_t flags;
} byway_query_options;

/**
 * What byway_kv_query() and byway_nvm_query() call for each part of a result, which lives until it returns; anything but 0 ends the
 * query. It must not use the handle that is being queried.
 */
typedef int (*byway_part_callback)(void *context, const void *part, size_t part_bytes);

/**
 * How a queue shall be. NULL in place of it, or zeroes in it, stand for what the URI says.
 */
typedef struct byway_queue_options {
        /**
         * sizeof(byway_queue_options).
         */
        size_t size;
        /**
         * Most commands outstanding at once: refused where the device's queues hold fewer. 0 for what the URI says, or for as
         * many as they hold where that is less: byway_queue_depth() has it.
         */
        uint32_t depth;
        /**
         * Entries of the submission ring, where there is one.
         */
        uint32_t ring_entries;
        /**
         * How payloads cross the link: "prp", "inline", "piggyback"; NULL for what the URI says.
         */
        const char *transfer;
        /**
         * After how many nanoseconds byway_queue_execute() gives a command up.
         */
        uint64_t timeout_ns;
        /**
         * By what transfer method "adaptive" chooses: "bytes", "time", "threshold"; NULL for what the URI says.
         */
        const char *policy;
        /**
         * Policy "threshold": what is taken for short values; NULL for "piggyback".
         */
        const char *below;
        /**
         * Policy "threshold": above 1 for less traffic, below 1 for less latency; 0 for 1.
         */
        double alpha;
        /**
         * Policy "threshold": from how many bytes on "prp" is as quick.
         */
        uint32_t tau_bytes;
        /**
         * 0.
         */
        uint32_t reserved;
} byway_queue_options;

/**
 * A device that the kernel knows. It and its texts live until the callback returns.
 */
typedef struct byway_found {
        /**
         * Bytes of this structure: fields behind it are not there.
         */
        size_t size;
        /**
         * What byway_open() takes.
         */
        const char *uri;
        /**
         * Its model, or NULL where the kernel reports none.
         */
        const char *model;
        /**
         * Its size in bytes, 0 where the kernel reports none.
         */
        uint64_t size_bytes;
        /**
         * What it is: a byway_place.
         */
        uint32_t place;
        /**
         * Not 0 if it can only be read.
         */
        uint32_t read_only;
} byway_found;

/**
 * What byway_scan() calls for each device; anything but 0 ends the scan.
 */
typedef int (*byway_found_callback)(void *context, const struct byway_found *found);

/**
 * What byway_call() calls: the command's own function, with the memory that its tag points to.
 */
typedef void (*byway_call_function)(void *call, const struct byway_completion *completion);

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

/**
 * Identify: structure `cns` of command set `csi`, 4096 bytes into `into`. `nsid` is 0 where the structure is of no
 * namespace, `selector` for most.
 */
int byway_device_identify(const struct byway_device *device,
                          uint8_t cns,
                          uint8_t csi,
                          uint32_t nsid,
                          uint16_t selector,
                          void *into);

/**
 * Reads a log page from byte `offset` on, a multiple of 4, as does its length. `nsid` is 0 where the log is of no
 * namespace; not 0 in `retain_event` leaves the event that announced it.
 */
int byway_device_get_log(const struct byway_device *device,
                         uint8_t log,
                         uint8_t csi,
                         uint32_t nsid,
                         int retain_event,
                         uint64_t offset,
                         void *into,
                         size_t bytes);

/**
 * Reads a feature: its value into `value`, its data, where it has some, into `into`. `select` is 0 for the current value,
 * 1 for the default, 2 for the saved one, 3 for what can be done with it.
 */
int byway_device_get_feature(const struct byway_device *device,
                             uint8_t feature,
                             uint8_t select,
                             uint32_t nsid,
                             uint32_t cdw11,
                             uint32_t *value,
                             void *into,
                             size_t bytes);

/**
 * Sets a feature to `cdw11` (and `cdw12`, where it has a second part), with its data, where it has some. Not 0 in `save`
 * keeps it over power cycles.
 */
int byway_device_set_feature(const struct byway_device *device,
                             uint8_t feature,
                             int save,
                             uint32_t nsid,
                             uint32_t cdw11,
                             uint32_t cdw12,
                             const void *data,
                             size_t bytes);

/**
 * Formats a namespace: all it holds is gone. Not 0 in `erase` leaves no byte of user data.
 */
int byway_device_format(const struct byway_device *device,
                        uint32_t nsid,
                        uint8_t format,
                        int erase);

/**
 * Sanitizes a device: no byte of what was ever stored is left in it. Of BYWAY_WIPE_OVERWRITE, `passes` from 1 to 16 say how
 * often `pattern` is written, inverted in every second; else both are 0. `progress`, which may be NULL, is called with the
 * progress. Where it returns anything but 0 the call fails and the device goes on by itself, one in this process when it is used
 * or opened again.
 */
int byway_device_sanitize(const struct byway_device *device,
                          uint32_t wipe,
                          uint8_t passes,
                          uint32_t pattern,
                          byway_progress_callback progress,
                          void *context);

/**
 * Passes an admin command through, a submission queue entry of 64 bytes, and waits for it. Bits 1:0 of its opcode say
 * which way the data goes: 01b to the device, 10b from it. `dw0`, completion dword 0, may be NULL.
 */
int byway_device_admin(const struct byway_device *device,
                       const void *entry,
                       void *data,
                       size_t bytes,
                       uint32_t *dw0);

/**
 * As byway_device_admin(), with several buffers, one behind the other.
 */
int byway_device_adminv(const struct byway_device *device,
                        const void *entry,
                        struct byway_buffer *const *data,
                        uint32_t buffers,
                        uint32_t *dw0);

/**
 * Opens the way for admin commands that go on by themselves. The device cannot be closed before it is.
 */
int byway_admin_open(const struct byway_device *device,
                     struct byway_admin **admin);

/**
 * Closes it; NULL is none. Cancels requests for asynchronous events, and waits until every command on its way has finished:
 * their completions are lost.
 */
int byway_admin_close(struct byway_admin *admin);

/**
 * Sends an admin command, a submission queue entry of 64 bytes. Bits 1:0 of its opcode say which way the buffer's bytes go:
 * 01b to the device, 10b from it. NULL for no data.
 */
int byway_admin_submit(struct byway_admin *admin,
                       const void *entry,
                       struct byway_buffer *data,
                       uint64_t tag);

/**
 * As byway_admin_submit(), with several buffers, one behind the other. The completion names none of them.
 */
int byway_admin_submitv(struct byway_admin *admin,
                        const void *entry,
                        struct byway_buffer *const *data,
                        uint32_t buffers,
                        uint64_t tag);

/**
 * Takes completions into an array, as byway_queue_reap().
 */
int byway_admin_reap(struct byway_admin *admin,
                     struct byway_completion *completions,
                     uint32_t max,
                     uint32_t min,
                     uint64_t timeout_ns);

/**
 * Asks for the command with this tag to be given up. It still finishes once, cancelled or not.
 */
int byway_admin_cancel(struct byway_admin *admin, uint64_t tag);

/**
 * A descriptor that can be read when completions may be there, as byway_queue_event_fd().
 */
int byway_admin_event_fd(struct byway_admin *admin);

/**
 * Commands submitted whose completion was not taken yet; 0 for NULL.
 */
uint32_t byway_admin_outstanding(const struct byway_admin *admin);

/**
 * Allocates a buffer of `bytes` bytes in memory that the device can use without preparing it for each command. It
 * holds zeroes, or what is left from its last use.
 */
int byway_buffer_alloc(const struct byway_device *device,
                       size_t bytes,
                       struct byway_buffer **buffer);

/**
 * Makes a buffer of memory that the program has. It stays the program's, which keeps it in place until the buffer is
 * freed and every command with it has finished. A backend that needs other memory than this carries a copy or refuses
 * the command: `memory_align_bytes` of byway_device_capabilities() says on what it must begin and end.
 */
int byway_buffer_wrap(void *memory,
                      size_t bytes,
                      struct byway_buffer **buffer);

/**
 * Prepares the memory of a buffer as byway_buffer_alloc() does, until the buffer and all that were cut from it are freed:
 * wrapped memory, above all, of which commands would else carry copies, or which would be prepared for each. It begins and
 * ends at a page of 4096 bytes. A buffer that cannot be prepared is as it was.
 */
int byway_buffer_prepare(const struct byway_device *device,
                         struct byway_buffer *buffer);

/**
 * Cuts a buffer in two at byte `at`, without a copy: `second` is what stood behind it. The memory is freed with the
 * last of its parts.
 */
int byway_buffer_cut(struct byway_buffer *buffer,
                     size_t at,
                     struct byway_buffer **second);

/**
 * First byte of the buffer; NULL for NULL, or for a buffer that was lost with a queue that failed. It stays where it
 * is. While a command uses the buffer the program leaves it alone.
 */
void *byway_buffer_data(const struct byway_buffer *buffer);

/**
 * Length in bytes: what a command moves with this buffer. 0 for NULL.
 */
size_t byway_buffer_bytes(const struct byway_buffer *buffer);

/**
 * The longest that its length can be set to, in bytes. 0 for NULL.
 */
size_t byway_buffer_capacity(const struct byway_buffer *buffer);

/**
 * Sets the length; what is in the memory stays there.
 */
int byway_buffer_set_bytes(struct byway_buffer *buffer, size_t bytes);

/**
 * Frees a buffer; NULL is none. One that a command uses is freed with that command's completion; wrapped memory stays
 * the program's to free, after that completion.
 */
void byway_buffer_free(struct byway_buffer *buffer);

/**
 * Reads `blocks` blocks from `slba` on into the buffer, whose length is that of the blocks, and waits for it: as long as it
 * takes, or as byway_queue_set_timeout() says. Refused while other commands of the queue are outstanding.
 */
int byway_queue_read_wait(struct byway_queue *queue,
                          uint32_t nsid,
                          uint64_t slba,
                          uint32_t blocks,
                          struct byway_buffer *into);

/**
 * Writes `blocks` blocks from the buffer at `slba`, and waits for it, as byway_queue_read_wait().
 */
int byway_queue_write_wait(struct byway_queue *queue,
                           uint32_t nsid,
                           uint64_t slba,
                           uint32_t blocks,
                           struct byway_buffer *from);

/**
 * Gets the capabilities of the backend and the device.
 */
int byway_device_get_capabilities(const struct byway_device *device,
                                  struct byway_capabilities *capabilities);

/**
 * Hands at most `max` completions to `on`, with `context`; never sleeps. Returns how many.
 */
int byway_queue_poll(struct byway_queue *queue,
                     uint32_t max,
                     byway_completion_callback on,
                     void *context);

/**
 * Hands completions to `on` until there were `min`, or none is outstanding, or `timeout_ns` nanoseconds have passed.
 * Returns how many; running out of time is no error.
 */
int byway_queue_wait(struct byway_queue *queue,
                     uint32_t min,
                     uint64_t timeout_ns,
                     byway_completion_callback on,
                     void *context);

/**
 * Hands completions to `on` until none is outstanding. Returns how many.
 */
int byway_queue_drain(struct byway_queue *queue, byway_completion_callback on, void *context);

/**
 * Takes at most `max` completions into an array, of which the first has its `size` set: waits until there are `min`, or
 * none is outstanding, or `timeout_ns` nanoseconds have passed; never sleeps if `min` is 0. Returns how many.
 */
int byway_queue_reap(struct byway_queue *queue,
                     struct byway_completion *completions,
                     uint32_t max,
                     uint32_t min,
                     uint64_t timeout_ns);

/**
 * Sends one command and waits for it: gives it up after its own time, or the queue's. Refused while others are outstanding,
 * whose completions would have nowhere to go. The completion may be NULL.
 */
int byway_queue_execute(struct byway_queue *queue,
                        const struct byway_command *command,
                        struct byway_completion *completion);

/**
 * A callback for byway_queue_poll(), byway_queue_wait() and byway_queue_drain() that calls each command's own function:
 * the tag of every command is the address of memory that begins with a byway_call_function, which is called with that
 * address. Put such a pointer first in a structure of your own, and its tag is (uint64_t)(uintptr_t)&structure.
 */
void byway_call(void *context,
                const struct byway_completion *completion);

/**
 * Makes a namespace of local memory, all zeroes, and attaches it to this controller; `nsid` becomes its identifier.
 */
int byway_device_create_memory(const struct byway_device *device,
                               uint64_t bytes,
                               uint32_t *nsid);

/**
 * Makes a namespace of programs, and attaches it to this controller; `nsid` becomes its identifier.
 */
int byway_device_create_programs(const struct byway_device *device, uint32_t *nsid);

/**
 * Deletes a namespace of any kind with everything in it.
 */
int byway_device_delete_namespace(const struct byway_device *device, uint32_t nsid);

/**
 * Opens a namespace of local memory for synchronous calls.
 */
int byway_memory_open(const struct byway_device *device,
                      uint32_t nsid,
                      struct byway_memory **memory);

/**
 * Closes it; NULL is none.
 */
void byway_memory_close(struct byway_memory *memory);

/**
 * Its size in bytes; 0 for NULL.
 */
uint64_t byway_memory_bytes(const struct byway_memory *memory);

/**
 * The namespace's identifier; 0 for NULL.
 */
uint32_t byway_memory_nsid(const struct byway_memory *memory);

/**
 * Reads `bytes` bytes from byte `start` on.
 */
int byway_memory_read(struct byway_memory *memory, uint64_t start, void *into, size_t bytes);

/**
 * Writes `bytes` bytes from byte `start` on.
 */
int byway_memory_write(struct byway_memory *memory, uint64_t start, const void *from, size_t bytes);

/**
 * Sets `bytes` bytes from byte `start` on to zero.
 */
int byway_memory_fill(struct byway_memory *memory, uint64_t start, uint32_t bytes);

/**
 * Copies `sources`, which are BYWAY_COPY_BLOCKS or BYWAY_COPY_MEMORY, one behind the other to byte `start` on, within the device: `bytes`
 * bytes together.
 */
int byway_memory_copy(struct byway_memory *memory,
                      uint64_t start,
                      uint64_t bytes,
                      uint32_t kind,
                      const struct byway_copy_source *sources,
                      size_t count);

/**
 * Opens a namespace of programs for synchronous calls.
 */
int byway_programs_open(const struct byway_device *device,
                        uint32_t nsid,
                        struct byway_programs **programs);

/**
 * Closes it; NULL is none.
 */
void byway_programs_close(struct byway_programs *programs);

/**
 * The namespace's identifier; 0 for NULL.
 */
uint32_t byway_programs_nsid(const struct byway_programs *programs);

/**
 * Loads a program of `type`, BYWAY_PROGRAM_EBPF or BYWAY_PROGRAM_WASM, at an index; the device verifies it. `identifier` is a number of
 * the program's own, and may be NULL.
 */
int byway_programs_load(struct byway_programs *programs,
                        uint16_t index,
                        uint32_t type,
                        const uint64_t *identifier,
                        const void *program,
                        size_t bytes);

/**
 * Removes the program at an index, which is not activated.
 */
int byway_programs_unload(struct byway_programs *programs, uint16_t index);

/**
 * Lets the program at an index be executed.
 */
int byway_programs_activate(struct byway_programs *programs, uint16_t index);

/**
 * Lets the program at an index no longer be executed.
 */
int byway_programs_deactivate(struct byway_programs *programs, uint16_t index);

/**
 * Has the device keep `count` ranges; `set` becomes the number that byway_programs_execute() names them by, from 1.
 */
int byway_programs_create_range_set(struct byway_programs *programs,
                                    const struct byway_memory_range *ranges,
                                    size_t count,
                                    uint16_t *set);

/**
 * Has the device forget a set of ranges.
 */
int byway_programs_delete_range_set(struct byway_programs *programs, uint16_t set);

/**
 * Executes the program at an index over `count` ranges, or over a set where `set` is not 0 (then `count` is 0), with two parameters;
 * `result` becomes what it returns. Linux passes no commands on that bring ranges: there a set is needed.
 */
int byway_programs_execute(struct byway_programs *programs,
                           uint16_t index,
                           uint16_t set,
                           const struct byway_memory_range *ranges,
                           size_t count,
                           uint64_t first,
                           uint64_t second,
                           uint64_t *result);

/**
 * Opens the device that `uri` names: "/dev/nvme0n1", "./blocks", "file:PATH" for a block device or a file,
 * "embedded:PATH", "embedded-ram:SIZE", "embedded-null:SIZE" for a device in this process, "null-backend:SIZE" for none; options behind a question
 * mark ("./blocks?direct=1"). On failure the message says what was tried, and why each failed.
 */
int byway_open(const char *uri,
               const struct byway_open_options *options,
               struct byway_device **device);

/**
 * Closes a device; NULL is none. What an image holds is synced and marked as closed; the handle is gone even if that
 * fails. Close its queues first: of a device in this process, the image stays in use until its last queue is closed.
 * While a byway_admin of it is open it is refused, and stays open. In a forked child of the process that opened it the
 * handle goes, the device stays as it is, and the call is refused with BYWAY_ERROR_KIND_DENIED.
 */
int byway_close(struct byway_device *device);

/**
 * Gets a device's identity, the backend that serves it, and why that backend was chosen.
 */
int byway_device_get_info(const struct byway_device *device, struct byway_device_info *info);

/**
 * Gets a faster backend that could not serve the device, and why: `index` counts from 0 up to `passed_over` of
 * byway_device_info. The texts live until the device is closed.
 */
int byway_device_passed_over(const struct byway_device *device,
                             uint32_t index,
                             const char **backend,
                             const char **why);

/**
 * Lists the attached namespaces, read anew from the device: at most `max`, of which the first has its `size` set.
 * Returns how many there are, which may be more.
 */
int byway_device_namespaces(const struct byway_device *device,
                            struct byway_namespace *namespaces,
                            uint32_t max);

/**
 * Gets the namespace that calls use: `nsid`, or for 0 the URI's, or the device's first of kind `kind`. Of kind
 * BYWAY_KIND_OTHER, `nsid` or that of the URI, whatever it is.
 */
int byway_device_namespace(const struct byway_device *device,
                           uint32_t nsid,
                           uint32_t kind,
                           struct byway_namespace *namespace_);

/**
 * What failed last in this thread, or NULL. It stays until this thread's next failing call: take what is needed at
 * once.
 */
const struct byway_error *byway_last_error(void);

/**
 * What kind of failure it was; BYWAY_ERROR_KIND_NONE for NULL.
 */
enum byway_error_kind byway_error_kind_of(const struct byway_error *error);

/**
 * Who failed; BYWAY_ORIGIN_HOST for NULL.
 */
enum byway_origin byway_error_origin(const struct byway_error *error);

/**
 * Whether the same call can be expected to succeed later; BYWAY_RETRY_NEVER for NULL.
 */
enum byway_retry byway_error_retry(const struct byway_error *error);

/**
 * The sentence that says what failed and why, in UTF-8; empty for NULL. It lives as long as the error.
 */
const char *byway_error_message(const struct byway_error *error);

/**
 * The NVMe status that the device answered: status code type in bits 10:8, status code in bits 7:0, more in bit 13, do
 * not retry in bit 14 (NVM Express Base Specification, Status Field). 0 where no device answered.
 */
uint16_t byway_error_status(const struct byway_error *error);

/**
 * The operating system's error (errno), where it is what failed; else 0.
 */
int byway_error_errno(const struct byway_error *error);

/**
 * Makes an image, a whole SSD in one file, which must not exist. Nothing is left behind where it fails. "embedded:PATH" is
 * understood too; other URIs, and a path that "embedded:PATH" would not lead back to, are refused.
 */
int byway_create(const char *path,
                 const struct byway_create_options *options);

/**
 * Checks an image, and leaves it as it is, or with `repair` not 0 repairs it: what is kept twice is restored, what is lost is
 * dropped and named. `on` is called for each finding, once all are known; `progress`, which cannot end it, meanwhile. Either
 * may be NULL. Returns 1 if nothing was found, else 0.
 */
int byway_check(const char *path,
                int repair,
                byway_finding_callback on,
                byway_progress_callback progress,
                void *context,
                struct byway_checked *checked);

/**
 * Gives the device of an image that no process has open room for `size_bytes`, and namespaces of blocks other sizes: of each of
 * `namespaces`, `nsid` and `size_bytes` are used. Everything keeps its content. `progress`, which may be NULL, can end it: the
 * image is then as it was, as it is after every failure.
 */
int byway_resize(const char *path,
                 uint64_t size_bytes,
                 const struct byway_namespace *namespaces,
                 uint32_t namespace_count,
                 byway_progress_callback progress,
                 void *context);

/**
 * Copies an image to `out`, which must not exist, as it is at one instant: by itself, or by the process that has it open,
 * whose commands go on. `progress`, which may be NULL, can end it: nothing is left of the copy then. The report may be NULL.
 */
int byway_snapshot(const char *image,
                   const char *out,
                   byway_progress_callback progress,
                   void *context,
                   struct byway_snapshot_report *report);

/**
 * Opens a namespace of keys and values for synchronous calls: `nsid`, or for 0 the URI's, or the device's first.
 */
int byway_kv_open(const struct byway_device *device,
                  uint32_t nsid,
                  struct byway_kv **kv);

/**
 * Closes it; NULL is none. Not from a callback of byway_kv_list().
 */
void byway_kv_close(struct byway_kv *kv);

/**
 * Stores a value, which then survives the death of the process at any instruction. `flags` are 0 or BYWAY_MUST_EXIST,
 * BYWAY_MUST_NOT_EXIST, BYWAY_UNCOMPRESSED.
 */
int byway_kv_put(struct byway_kv *kv,
                 const void *key,
                 size_t key_bytes,
                 const void *value,
                 size_t value_bytes,
                 uint32_t flags);

/**
 * Reads the value of a key into `into`, as much of it as fits; `value_bytes` becomes the whole value's length. Returns 1, or
 * 0 if there is no such key.
 */
int byway_kv_get(struct byway_kv *kv,
                 const void *key,
                 size_t key_bytes,
                 void *into,
                 size_t into_bytes,
                 size_t *value_bytes);

/**
 * Runs a program over the value of a key, in the device, with `input`, and writes its output to `into`, as much of it as fits;
 * `output_bytes` becomes the whole output's length. `operation` is the identifier that the program was loaded with
 * (`byway_programs_load`), or the number of one of the device's own. Which programs may run is said where the device is opened, by
 * `exec=` in its URI. Returns 0.
 */
int byway_kv_exec(struct byway_kv *kv,
                  const void *key,
                  size_t key_bytes,
                  uint32_t operation,
                  const void *input,
                  size_t input_bytes,
                  void *into,
                  size_t into_bytes,
                  size_t *output_bytes);

/**
 * Deletes a key; one that is not there is deleted already.
 */
int byway_kv_delete(struct byway_kv *kv, const void *key, size_t key_bytes);

/**
 * Whether a key is there: 1 or 0.
 */
int byway_kv_exists(struct byway_kv *kv, const void *key, size_t key_bytes);

/**
 * The namespace's identifier; 0 for NULL.
 */
uint32_t byway_kv_nsid(const struct byway_kv *kv);

/**
 * Calls `on` for the keys in order, from `start` on, or from the first where `start_bytes` is 0. Returns for how many.
 */
int byway_kv_list(struct byway_kv *kv,
                  const void *start,
                  size_t start_bytes,
                  byway_key_callback on,
                  void *context);

/**
 * As byway_kv_list(), of the keys that begin with `prefix`.
 */
int byway_kv_list_prefix(struct byway_kv *kv,
                         const void *prefix,
                         size_t prefix_bytes,
                         const void *start,
                         size_t start_bytes,
                         byway_key_callback on,
                         void *context);

/**
 * Reads the values of `count` keys, many at once on their way, and calls `on` for each, in any order. Values of up to
 * `room_bytes` come together; a longer one is read by itself.
 */
int byway_kv_get_many(struct byway_kv *kv,
                      const struct byway_pair *keys,
                      uint32_t count,
                      size_t room_bytes,
                      byway_value_callback on,
                      void *context);

/**
 * Stores `count` pairs, as many by one command as there is room for, in any order of keys. Each then survives the death of the
 * process. Not atomic: on an error, a first part is stored. `loaded`, how many pairs were, may be NULL.
 */
int byway_kv_load(struct byway_kv *kv,
                  const struct byway_pair *pairs,
                  uint32_t count,
                  uint64_t *loaded);

/**
 * Stores `count` pairs by one command, or one by one where the device has none such. Not atomic: on an error, a first part is
 * stored. More than the device takes at once is refused: byway_kv_load() takes any number.
 */
int byway_kv_put_bulk(struct byway_kv *kv,
                      const struct byway_pair *pairs,
                      uint32_t count);

/**
 * Stores a value through the memory of the device's that can be stored into byte by byte (`byte_memory_bytes` of
 * byway_device_get_capabilities()).
 */
int byway_kv_put_by_bytes(struct byway_kv *kv,
                          const void *key,
                          size_t key_bytes,
                          const void *value,
                          size_t value_bytes);

/**
 * Calls `on` for the keys in order, as far as a device whose index is damaged can list them, and `miss` for each stretch that
 * it cannot. Returns for how many keys.
 */
int byway_kv_list_listable(struct byway_kv *kv,
                           byway_key_callback on,
                           byway_unlisted_callback miss,
                           void *context);

/**
 * Calls `on` for the pairs of a range in order. Returns for how many. A device with the command Scan gives a page of pairs by
 * one command; from others keys are listed, and values read many at once.
 */
int byway_kv_scan(struct byway_kv *kv,
                  const struct byway_key_range *range,
                  byway_pair_callback on,
                  void *context);

/**
 * Deletes the keys of a range; `deleted`, how many there were, may be NULL. Limit, value bytes and flags are zero. Not atomic:
 * on an error, a part of the keys is deleted.
 */
int byway_kv_delete_range(struct byway_kv *kv,
                          const struct byway_key_range *range,
                          uint64_t *deleted);

/**
 * Deletes `count` keys; one that is not there is deleted already. Not atomic.
 */
int byway_kv_delete_many(struct byway_kv *kv, const struct byway_pair *keys, uint32_t count);

/**
 * Stores `count` pairs, all or none of them, through any crash. A pair whose `value` is NULL deletes its key; of several changes
 * of one key the last counts. A device without atomic Store Many refuses, and one that takes no batch as long
 * (BYWAY_ERROR_KIND_UNSUPPORTED).
 */
int byway_kv_commit(struct byway_kv *kv,
                    const struct byway_pair *pairs,
                    uint32_t count);

/**
 * Gets what crossed the link so far, of a device in this process. The difference of two is what crossed in between.
 */
int byway_device_get_ledger(const struct byway_device *device,
                            struct byway_ledger *ledger);

/**
 * Gets what crossed the link so far, class by class: at most `max` rows, of which the first has its `size` set. Returns how
 * many classes there are; their order stays.
 */
int byway_device_ledger_rows(const struct byway_device *device,
                             struct byway_ledger_row *rows,
                             uint32_t max);

/**
 * Turns counting on or off, of a device in this process.
 */
int byway_device_set_ledger(const struct byway_device *device, int on);

/**
 * Gets the time of a device in this process, in nanoseconds: modelled under a virtual or paced clock, else the machine's.
 */
int byway_device_now(const struct byway_device *device,
                     uint64_t *now_ns);

/**
 * Gets the counters of a key-value namespace's engine, of a device in this process: `nsid`, or for 0 the URI's, or
 * the device's first.
 */
int byway_device_kv_stats(const struct byway_device *device,
                          uint32_t nsid,
                          struct byway_kv_stats *stats);

/**
 * Opens a namespace of blocks for synchronous calls: `nsid`, or for 0 the URI's, or the device's first.
 */
int byway_nvm_open(const struct byway_device *device,
                   uint32_t nsid,
                   struct byway_nvm **nvm);

/**
 * Closes it; NULL is none.
 */
void byway_nvm_close(struct byway_nvm *nvm);

/**
 * Size of a block in bytes; 0 for NULL.
 */
uint32_t byway_nvm_lba_bytes(const struct byway_nvm *nvm);

/**
 * Number of blocks; 0 for NULL.
 */
uint64_t byway_nvm_blocks(const struct byway_nvm *nvm);

/**
 * The namespace's identifier; 0 for NULL.
 */
uint32_t byway_nvm_nsid(const struct byway_nvm *nvm);

/**
 * Reads `bytes` bytes, whole blocks, from block `slba` on.
 */
int byway_nvm_read(struct byway_nvm *nvm, uint64_t slba, void *into, size_t bytes);

/**
 * Writes `bytes` bytes, whole blocks, from block `slba` on.
 */
int byway_nvm_write(struct byway_nvm *nvm, uint64_t slba, const void *from, size_t bytes);

/**
 * Writes `bytes` bytes of `new_data`, whole blocks, from block `slba` on if the blocks equal `expected`, of the same length:
 * atomically against other writers. 1 if it did, 0 if they differ.
 */
int byway_nvm_compare_and_write(struct byway_nvm *nvm,
                                uint64_t slba,
                                const void *expected,
                                const void *new_data,
                                size_t bytes);

/**
 * Makes completed writes durable.
 */
int byway_nvm_flush(struct byway_nvm *nvm);

/**
 * Deallocates blocks that are no longer needed.
 */
int byway_nvm_trim(struct byway_nvm *nvm, uint64_t slba, uint32_t blocks);

/**
 * Makes blocks read as zeroes; the device may forget them.
 */
int byway_nvm_write_zeroes(struct byway_nvm *nvm, uint64_t slba, uint32_t blocks);

/**
 * Has the device execute `sql` over the value of a key, a Parquet file, and calls `on` for each part of the result, as they come. The
 * result of a call that fails is none, whatever parts came. `options` may be NULL.
 */
int byway_kv_query(struct byway_kv *kv,
                   const void *key,
                   size_t key_bytes,
                   const char *sql,
                   const struct byway_query_options *options,
                   byway_part_callback on,
                   void *context);

/**
 * As byway_kv_query(), over the `bytes` bytes from block `slba` on.
 */
int byway_nvm_query(struct byway_nvm *nvm,
                    uint64_t slba,
                    uint64_t bytes,
                    const char *sql,
                    const struct byway_query_options *options,
                    byway_part_callback on,
                    void *context);

/**
 * Opens a queue of the device's. It may outlive the device.
 */
int byway_queue_open(const struct byway_device *device,
                     const struct byway_queue_options *options,
                     struct byway_queue **queue);

/**
 * Closes a queue; NULL is none. Waits until every command on its way has finished: their buffers are the program's
 * again, and their completions are lost. Not from a callback of the same queue.
 */
int byway_queue_close(struct byway_queue *queue);

/**
 * Begins every command that was submitted, for a program that will not look at the queue soon.
 */
int byway_queue_start(struct byway_queue *queue);

/**
 * Asks for the command with this tag to be given up. It still finishes once, cancelled or not.
 */
int byway_queue_cancel(struct byway_queue *queue, uint64_t tag);

/**
 * Gives commands that are submitted from now on up when they have not finished after this many nanoseconds; 0 for never,
 * as a queue begins.
 */
int byway_queue_set_timeout(struct byway_queue *queue,
                            uint64_t timeout_ns);

/**
 * A descriptor that can be read when completions may be there, for the program's own poll(2) or epoll(7). When it is
 * readable, take completions until there are none. It stays the queue's: neither read it nor close it.
 */
int byway_queue_event_fd(struct byway_queue *queue);

/**
 * Asks the device for its words about a command of this queue that it refused ("the namespace is full"), which taking
 * completions never does; of several that failed alike, the newest. byway_last_error() is then the error with them, or as
 * it was where the device has none; the number of its kind is returned. Calls that wait for their command have asked
 * already.
 */
int byway_queue_explain(struct byway_queue *queue,
                        const struct byway_error *error);

/**
 * Commands submitted whose completion was not taken yet; 0 for NULL.
 */
uint32_t byway_queue_outstanding(const struct byway_queue *queue);

/**
 * Most commands outstanding at once; 0 for NULL.
 */
uint32_t byway_queue_depth(const struct byway_queue *queue);

/**
 * Lists the devices that the kernel knows, by name. None is opened for it. Returns how many were reported.
 */
int byway_scan(byway_found_callback on,
               void *context);

/**
 * Reads `blocks` blocks from `slba` on into the buffer, whose length is that of the blocks.
 */
int byway_queue_read(struct byway_queue *queue,
                     uint32_t nsid,
                     uint64_t slba,
                     uint32_t blocks,
                     struct byway_buffer *into,
                     uint64_t tag);

/**
 * Writes `blocks` blocks from the buffer, whose length is that of the blocks, at `slba`.
 */
int byway_queue_write(struct byway_queue *queue,
                      uint32_t nsid,
                      uint64_t slba,
                      uint32_t blocks,
                      struct byway_buffer *from,
                      uint64_t tag);

/**
 * As byway_queue_read(), into several buffers, one behind the other.
 */
int byway_queue_readv(struct byway_queue *queue,
                      uint32_t nsid,
                      uint64_t slba,
                      uint32_t blocks,
                      struct byway_buffer *const *into,
                      uint32_t buffers,
                      uint64_t tag);

/**
 * As byway_queue_write(), from several buffers, one behind the other.
 */
int byway_queue_writev(struct byway_queue *queue,
                       uint32_t nsid,
                       uint64_t slba,
                       uint32_t blocks,
                       struct byway_buffer *const *from,
                       uint32_t buffers,
                       uint64_t tag);

/**
 * Makes completed writes durable.
 */
int byway_queue_flush(struct byway_queue *queue, uint32_t nsid, uint64_t tag);

/**
 * Deallocates blocks that are no longer needed.
 */
int byway_queue_trim(struct byway_queue *queue,
                     uint32_t nsid,
                     uint64_t slba,
                     uint32_t blocks,
                     uint64_t tag);

/**
 * Makes blocks read as zeroes; not 0 in `deallocate` lets the device forget them.
 */
int byway_queue_write_zeroes(struct byway_queue *queue,
                             uint32_t nsid,
                             uint64_t slba,
                             uint32_t blocks,
                             int deallocate,
                             uint64_t tag);

/**
 * Deallocates blocks of up to 256 ranges that are no longer needed, by one command.
 */
int byway_queue_trim_ranges(struct byway_queue *queue,
                            uint32_t nsid,
                            const struct byway_range *ranges,
                            uint32_t count,
                            uint64_t tag);

/**
 * Copies blocks of up to 256 ranges to `to`, one behind the other, within the device.
 */
int byway_queue_copy(struct byway_queue *queue,
                     uint32_t nsid,
                     uint64_t to,
                     const struct byway_range *ranges,
                     uint32_t count,
                     uint64_t tag);

/**
 * Passes a submission queue entry of 64 bytes through; the backend writes its identifier and its data pointer. Bits 1:0
 * of its opcode say which way the buffer's bytes go: 01b to the device, 10b from it. NULL for no data.
 */
int byway_queue_raw(struct byway_queue *queue,
                    const void *entry,
                    struct byway_buffer *data,
                    uint64_t tag);

/**
 * Sends `count` commands, under one doorbell or system call where the backend can. Returns how many were taken: fewer
 * than `count` if one was refused, which byway_last_error() describes, or its error's number if that was the first.
 */
int byway_queue_submit(struct byway_queue *queue,
                       const struct byway_command *commands,
                       uint32_t count);

/**
 * The version of the library that runs, as "0.1.0"; BYWAY_VERSION_MAJOR and its kin are those of this header.
 */
const char *byway_version(void);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* BYWAY_H */
