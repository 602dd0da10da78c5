/* A forked child ends with its parent's handles, having tried and closed them; every put of the parent is kept. */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "byway.h"

static int refused(int done)
{
	const byway_error *error = byway_last_error();

	return done < 0 && byway_error_kind_of(error) == BYWAY_ERROR_KIND_DENIED &&
	       strstr(byway_error_message(error), "a forked child must open its own");
}

/* What a child inherits. */
struct inherited {
	byway_device *device;
	byway_kv *kv;
	byway_queue *queue;
	byway_buffer *buffer;
	byway_admin *admin;
};

static void child(struct inherited *all)
{
	byway_queue *queue;
	size_t got;
	char value[8];

	assert(refused(byway_kv_put(all->kv, "child", 5, "x", 1, 0)));
	assert(refused(byway_kv_get(all->kv, "k", 1, value, sizeof(value), &got)));
	assert(refused(byway_queue_write(all->queue, 2, 0, 1, all->buffer, 0)));
	assert(refused(byway_queue_write_wait(all->queue, 2, 0, 1, all->buffer)));
	assert(refused(byway_queue_start(all->queue)));
	assert(refused(byway_queue_open(all->device, NULL, &queue)));
	byway_kv_close(all->kv);
	byway_buffer_free(all->buffer);
	assert(refused(byway_admin_close(all->admin)));
	assert(refused(byway_queue_close(all->queue)));
	assert(refused(byway_close(all->device)));
	/* Ordinarily: handlers of exit() and destructors of the library run. */
	exit(0);
}

static void put(byway_kv *kv, int from, int to)
{
	for (int n = from; n < to; n++)
		assert(byway_kv_put(kv, &n, sizeof(n), &n, sizeof(n), 0) >= 0);
}

static void round_of(const char *path, const char *options)
{
	struct inherited all;
	byway_checked checked = { .size = sizeof(checked) };
	char uri[4096];
	int status, value;
	size_t got;

	snprintf(uri, sizeof(uri), "embedded:%s?%s", path, options);
	assert(!byway_open(uri, NULL, &all.device));
	assert(!byway_kv_open(all.device, 0, &all.kv));
	assert(!byway_queue_open(all.device, NULL, &all.queue));
	assert(!byway_buffer_alloc(all.device, 4096, &all.buffer));
	assert(!byway_admin_open(all.device, &all.admin));
	put(all.kv, 0, 20);
	pid_t pid = fork();
	assert(pid >= 0);
	if (!pid)
		child(&all);
	put(all.kv, 20, 40);
	assert(waitpid(pid, &status, 0) == pid && status == 0);
	put(all.kv, 40, 60);
	byway_kv_close(all.kv);
	byway_buffer_free(all.buffer);
	assert(!byway_admin_close(all.admin) && !byway_queue_close(all.queue) && !byway_close(all.device));

	assert(byway_check(path, 0, NULL, NULL, NULL, &checked) == 1);
	assert(!byway_open(uri, NULL, &all.device) && !byway_kv_open(all.device, 0, &all.kv));
	for (int n = 0; n < 60; n++)
		assert(byway_kv_get(all.kv, &n, sizeof(n), &value, sizeof(value), &got) == 1 && value == n);
	byway_kv_close(all.kv);
	assert(!byway_close(all.device));
}

int main(int argc, char **argv)
{
	byway_namespace namespaces[] = {
		{ .size = sizeof(namespaces[0]), .kind = BYWAY_KIND_KV },
		{ .size = sizeof(namespaces[0]), .kind = BYWAY_KIND_NVM, .lba_bytes = 4096, .size_bytes = 8 << 20 },
	};
	byway_create_options options = {
		.size = sizeof(options), .size_bytes = 64 << 20, .namespaces = namespaces, .namespace_count = 2,
	};
	const char *rounds = getenv("BYWAY_TEST_ROUNDS");

	assert(argc == 2);
	assert(!byway_create(argv[1], &options));
	for (int n = rounds ? atoi(rounds) : 3; n > 0; n--) {
		round_of(argv[1], "flush=process");
		round_of(argv[1], "flush=media");
	}
	return 0;
}
