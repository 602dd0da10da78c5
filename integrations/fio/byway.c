/*
 * Byway as an engine of fio: every interface that libbyway has, by one URI.
 *
 *   fio --ioengine=external:byway.so --uri=/dev/nvme0n1 --rw=randread ...
 *
 * At depth 1 a queue has one command, which is waited for where it is sent; at greater depths commands go on by
 * themselves, are begun together by commit, and their completions are taken in one call.
 *
 * A job at its full depth looks for completions next, which begins what was not begun before it sleeps. So commit leaves a few
 * commands to be begun with others: one entry into the kernel for them.
 */
#include <stdlib.h>
#include <string.h>

#include "fio.h"
#include "optgroup.h"

#include "byway.h"

/* How many I/Os a job at its full depth has at most that were committed and not begun. */
#define BEGUN_TOGETHER 4

struct byway_fio_options {
	void *pad; /* an option must not stand at offset 0 */
	char *uri;
	char *backend;
	char *transfer;
	unsigned int nsid;
};

static struct fio_option options[] = {
	{
		.name = "uri",
		.lname = "Byway URI",
		.type = FIO_OPT_STR_STORE,
		.off1 = offsetof(struct byway_fio_options, uri),
		.help = "Device, with its options: /dev/sdb?direct=1, embedded:PATH, embedded-ram:1G, null-backend:1G; else filename is it",
		.category = FIO_OPT_C_ENGINE,
		.group = FIO_OPT_G_INVALID,
	},
	{
		.name = "backend",
		.lname = "Byway backend",
		.type = FIO_OPT_STR_STORE,
		.off1 = offsetof(struct byway_fio_options, backend),
		.help = "By which interface: io_uring, libaio, threads, psync, posix_aio; else the fastest that can",
		.category = FIO_OPT_C_ENGINE,
		.group = FIO_OPT_G_INVALID,
	},
	{
		.name = "transfer",
		.lname = "Byway transfer method",
		.type = FIO_OPT_STR_STORE,
		.off1 = offsetof(struct byway_fio_options, transfer),
		.help = "How payloads cross the link: prp, sgl, inline",
		.category = FIO_OPT_C_ENGINE,
		.group = FIO_OPT_G_INVALID,
	},
	{
		.name = "nsid",
		.lname = "Byway namespace",
		.type = FIO_OPT_INT,
		.off1 = offsetof(struct byway_fio_options, nsid),
		.help = "Which namespace of blocks; 0 for the first",
		.def = "0",
		.category = FIO_OPT_C_ENGINE,
		.group = FIO_OPT_G_INVALID,
	},
	{
		.name = NULL,
	},
};

/* What stands behind the io_u's engine_data: the memory that it moves. */
struct unit {
	byway_buffer *buffer;
	void *data;
	size_t bytes;
};

struct job {
	byway_device *device;
	byway_queue *queue;
	byway_namespace space;
	unsigned int lba_shift;
	struct unit *units;
	byway_completion *done;
	/* At depth 1: each I/O is waited for where it is sent. */
	int waits;
	/* Whether the job does nothing between its I/Os that would leave those waiting that were not begun. */
	int hurries;
	/* I/Os that were committed since some were last begun. */
	unsigned int committed;
};

static int fail(void)
{
	log_err("byway: %s\n", byway_error_message(byway_last_error()));
	return 1;
}

/* The failure of one I/O as an errno, which is all that fio keeps of it. */
static int errno_of(const byway_error *error)
{
	int number = byway_error_errno(error);

	if (number)
		return number;
	return byway_error_kind_of(error) == BYWAY_ERROR_KIND_INVALID_ARGUMENT ? EINVAL : EIO;
}

/* Whether a URI is of a file or a block device, which direct= is for. */
static int is_path(const char *uri)
{
	return uri[0] == '/' || uri[0] == '.' || !strncmp(uri, "file:", 5);
}

static const char *uri_of(struct thread_data *td)
{
	struct byway_fio_options *o = td->eo;

	if (o->uri)
		return o->uri;
	return td->o.filename && td->files_index ? td->files[0]->file_name : NULL;
}

/* Appends name=value to options, which stand behind one another with & between them. */
static void say_option(char *options, size_t bytes, const char *name, const char *value)
{
	size_t used = strlen(options);

	snprintf(options + used, bytes - used, "%s%s=%s", used ? "&" : "", name, value);
}

static byway_device *open_device(struct thread_data *td)
{
	struct byway_fio_options *o = td->eo;
	const char *uri = uri_of(td);
	byway_open_options options = { .size = sizeof(options), .read_only = read_only };
	byway_device *device;
	char more[128] = "";

	if (!uri) {
		log_err("byway: no device: uri= or filename= names one\n");
		return NULL;
	}
	if (o->backend)
		say_option(more, sizeof(more), "backend", o->backend);
	if (td->o.odirect && is_path(uri))
		say_option(more, sizeof(more), "direct", "1");
	/* A job is one thread: let the kernel rely on it (IORING_SETUP_SINGLE_ISSUER), as fio's own engine does. */
	if (o->backend && !strcmp(o->backend, "io_uring") && is_path(uri) && !strstr(uri, "one-thread="))
		say_option(more, sizeof(more), "one-thread", "1");
	options.options = more[0] ? more : NULL;
	if (byway_open(uri, &options, &device) < 0) {
		fail();
		return NULL;
	}
	return device;
}

static int find_namespace(struct thread_data *td, byway_device *device, byway_namespace *found)
{
	struct byway_fio_options *o = td->eo;
	byway_namespace all[64] = { { .size = sizeof(all[0]) } };
	int count = byway_device_namespaces(device, all, 64);

	if (count < 0)
		return fail();
	for (int i = 0; i < count && i < 64; i++) {
		if (all[i].kind != BYWAY_KIND_NVM || (o->nsid && o->nsid != all[i].nsid))
			continue;
		*found = all[i];
		return 0;
	}
	log_err("byway: %s has no such namespace of blocks\n", uri_of(td));
	return 1;
}

static int learn_size(struct thread_data *td, byway_device *device)
{
	byway_namespace space;
	struct fio_file *f;
	unsigned int i;

	if (find_namespace(td, device, &space))
		return 1;
	for_each_file(td, f, i) {
		f->real_file_size = space.size_bytes;
		f->filetype = FIO_TYPE_BLOCK;
		fio_file_set_size_known(f);
	}
	return 0;
}

/*
 * How long is the device? fio asks before the job begins, in its own process, where nothing stays open over the fork; or with
 * create_serialize=0 in the job, where it is open.
 */
static int byway_fio_setup(struct thread_data *td)
{
	struct job *job = td->io_ops_data;
	byway_device *device;
	int failed;

	if (!td->files_index) {
		add_file(td, "byway", 0, 0);
		td->o.nr_files = td->o.nr_files ?: 1;
		td->o.open_files++;
	}
	if (job)
		return learn_size(td, job->device);
	device = open_device(td);
	if (!device)
		return 1;
	failed = learn_size(td, device);
	return byway_close(device) < 0 ? fail() : failed;
}

static int check_sizes(struct thread_data *td, const struct job *job)
{
	for (int ddir = 0; ddir < DDIR_RWDIR_CNT; ddir++) {
		if (td->o.min_bs[ddir] % job->space.lba_bytes == 0)
			continue;
		log_err("byway: block size %llu is no whole number of blocks of %u bytes\n", td->o.min_bs[ddir],
			job->space.lba_bytes);
		return 1;
	}
	return 0;
}

static void byway_fio_cleanup(struct thread_data *td)
{
	struct job *job = td->io_ops_data;

	if (!job)
		return;
	byway_queue_close(job->queue);
	if (job->units)
		for (unsigned int i = 0; i < td->o.iodepth; i++)
			byway_buffer_free(job->units[i].buffer);
	if (byway_close(job->device) < 0)
		fail();
	free(job->units);
	free(job->done);
	free(job);
	td->io_ops_data = NULL;
}

/* Whether a job sends its next I/O at once when there is room: no rate, no pause, no thread of its own for sending. */
static int hurries(const struct thread_options *o)
{
	for (int ddir = 0; ddir < DDIR_RWDIR_CNT; ddir++)
		if (o->rate[ddir] || o->ratemin[ddir] || o->rate_iops[ddir] || o->rate_iops_min[ddir])
			return 0;
	return !o->thinktime && o->io_submit_mode == IO_MODE_INLINE;
}

static int byway_fio_init(struct thread_data *td)
{
	struct byway_fio_options *o = td->eo;
	byway_queue_options options = { .size = sizeof(options), .depth = td->o.iodepth, .transfer = o->transfer };
	struct job *job = calloc(1, sizeof(*job));

	if (!job)
		return 1;
	td->io_ops_data = job;
	job->units = calloc(td->o.iodepth, sizeof(*job->units));
	job->done = calloc(td->o.iodepth, sizeof(*job->done));
	job->device = open_device(td);
	if (!job->units || !job->done || !job->device || find_namespace(td, job->device, &job->space) ||
	    check_sizes(td, job))
		return 1;
	if (byway_queue_open(job->device, &options, &job->queue) < 0)
		return fail();
	job->done[0].size = sizeof(job->done[0]);
	job->lba_shift = __builtin_ctz(job->space.lba_bytes);
	job->hurries = hurries(&td->o);

	/* Of this job alone: other threads share the engine's own flags. */
	job->waits = td->o.iodepth == 1;
	if (job->waits)
		td->flags |= (unsigned long long)FIO_SYNCIO << TD_ENG_FLAG_SHIFT;
	return 0;
}

/* Puts memory that the device knows in place of fio's own, with what fio has filled it with. */
static int byway_fio_post_init(struct thread_data *td)
{
	struct job *job = td->io_ops_data;

	for (unsigned int i = 0; i < td->o.iodepth; i++) {
		struct io_u *io_u = td->io_u_all.io_us[i];
		struct unit *unit = &job->units[i];

		io_u->engine_data = unit;
		if (!io_u->buf)
			continue;
		unit->bytes = td_max_bs(td);
		if (byway_buffer_alloc(job->device, unit->bytes, &unit->buffer) < 0)
			return fail();
		unit->data = byway_buffer_data(unit->buffer);
		memcpy(unit->data, io_u->buf, unit->bytes);
		io_u->buf = unit->data;
	}
	return 0;
}

/* An I/O of another length than the last one with this memory, or with other memory. */
static int move_unit(struct unit *unit, const struct io_u *io_u)
{
	if (unit->data != io_u->xfer_buf) {
		byway_buffer_free(unit->buffer);
		unit->buffer = NULL;
		if (byway_buffer_wrap(io_u->xfer_buf, io_u->xfer_buflen, &unit->buffer) < 0)
			return -1;
		unit->data = io_u->xfer_buf;
	}
	unit->bytes = io_u->xfer_buflen;
	return byway_buffer_set_bytes(unit->buffer, unit->bytes);
}

/* Sends a read or write, and waits for it if that is asked for. */
static inline int transfer(struct job *job, struct io_u *io_u, int waits)
{
	struct unit *unit = io_u->engine_data;
	uint64_t slba = io_u->offset >> job->lba_shift;
	uint32_t blocks = io_u->xfer_buflen >> job->lba_shift;
	uintptr_t tag = (uintptr_t)io_u;

	if ((unit->data != io_u->xfer_buf || unit->bytes != io_u->xfer_buflen) && move_unit(unit, io_u) < 0)
		return -1;
	if (waits && io_u->ddir == DDIR_READ)
		return byway_queue_read_wait(job->queue, job->space.nsid, slba, blocks, unit->buffer);
	if (waits)
		return byway_queue_write_wait(job->queue, job->space.nsid, slba, blocks, unit->buffer);
	if (io_u->ddir == DDIR_READ)
		return byway_queue_read(job->queue, job->space.nsid, slba, blocks, unit->buffer, tag);
	return byway_queue_write(job->queue, job->space.nsid, slba, blocks, unit->buffer, tag);
}

static int send_any(struct job *job, struct io_u *io_u)
{
	switch (io_u->ddir) {
	case DDIR_READ:
	case DDIR_WRITE:
		return transfer(job, io_u, 0);
	case DDIR_TRIM:
		return byway_queue_trim(job->queue, job->space.nsid, io_u->offset >> job->lba_shift,
					io_u->xfer_buflen >> job->lba_shift, (uintptr_t)io_u);
	default:
		return byway_queue_flush(job->queue, job->space.nsid, (uintptr_t)io_u);
	}
}

static enum fio_q_status refused(struct io_u *io_u, int code)
{
	if (code == -BYWAY_ERROR_KIND_QUEUE_FULL)
		return FIO_Q_BUSY;
	io_u->error = errno_of(byway_last_error());
	io_u->resid = io_u->xfer_buflen;
	log_err("byway: %s\n", byway_error_message(byway_last_error()));
	return FIO_Q_COMPLETED;
}

static inline void settle(struct io_u *io_u, const byway_completion *done)
{
	if (!done->error)
		return;
	io_u->error = errno_of(done->error);
	io_u->resid = io_u->xfer_buflen;
	log_err("byway: %s\n", byway_error_message(done->error));
}

static enum fio_q_status byway_fio_queue(struct thread_data *td, struct io_u *io_u)
{
	struct job *job = td->io_ops_data;
	int code;

	fio_ro_check(td, io_u);
	if (job->waits && ddir_rw(io_u->ddir) && io_u->ddir != DDIR_TRIM) {
		code = transfer(job, io_u, 1);
		return code < 0 ? refused(io_u, code) : FIO_Q_COMPLETED;
	}
	code = send_any(job, io_u);
	if (code < 0)
		return refused(io_u, code);
	if (!job->waits)
		return FIO_Q_QUEUED;
	do
		code = byway_queue_reap(job->queue, job->done, 1, 1, UINT64_MAX);
	while (code == 0);
	if (code < 0)
		return refused(io_u, code);
	settle(io_u, job->done);
	return FIO_Q_COMPLETED;
}

/* Begins what was queued, but for the last few of a job that looks for completions next. */
static int byway_fio_commit(struct thread_data *td)
{
	struct job *job = td->io_ops_data;

	if (!td->io_u_queued)
		return 0;
	job->committed += td->io_u_queued;
	if (job->hurries && job->committed < BEGUN_TOGETHER && td->cur_depth >= td->o.iodepth)
		return 0;
	io_u_mark_submit(td, job->committed);
	job->committed = 0;
	if (byway_queue_start(job->queue) == 0)
		return 0;
	fail();
	return -EIO;
}

static int byway_fio_getevents(struct thread_data *td, unsigned int min, unsigned int max, const struct timespec *t)
{
	uint64_t timeout_ns = t ? t->tv_sec * 1000000000ull + t->tv_nsec : UINT64_MAX;
	struct job *job = td->io_ops_data;
	int taken;

	do {
		job->done->size = sizeof(*job->done);
		taken = byway_queue_reap(job->queue, job->done, max, min, timeout_ns);
	} while (min && !t && taken == 0);
	if (taken >= 0)
		return taken;
	fail();
	return -EIO;
}

static struct io_u *byway_fio_event(struct thread_data *td, int event)
{
	struct job *job = td->io_ops_data;
	struct io_u *io_u = (struct io_u *)(uintptr_t)job->done[event].tag;

	settle(io_u, &job->done[event]);
	return io_u;
}

static char *byway_fio_errdetails(struct io_u *io_u)
{
	return strdup(byway_error_message(byway_last_error()));
}

static int byway_fio_open_file(struct thread_data *td, struct fio_file *f)
{
	return 0;
}

static int byway_fio_close_file(struct thread_data *td, struct fio_file *f)
{
	return 0;
}

static int byway_fio_invalidate(struct thread_data *td, struct fio_file *f)
{
	return 0;
}

static int byway_fio_get_file_size(struct thread_data *td, struct fio_file *f)
{
	return 0; /* setup has set it */
}

struct ioengine_ops ioengine = {
	.name = "byway",
	.version = FIO_IOOPS_VERSION,
	.setup = byway_fio_setup,
	.init = byway_fio_init,
	.post_init = byway_fio_post_init,
	.queue = byway_fio_queue,
	.commit = byway_fio_commit,
	.getevents = byway_fio_getevents,
	.event = byway_fio_event,
	.errdetails = byway_fio_errdetails,
	.cleanup = byway_fio_cleanup,
	.open_file = byway_fio_open_file,
	.close_file = byway_fio_close_file,
	.invalidate = byway_fio_invalidate,
	.get_file_size = byway_fio_get_file_size,
	.flags = FIO_DISKLESSIO | FIO_NOEXTEND | FIO_NODISKUTIL | FIO_MEMALIGN | FIO_RAWIO,
	.options = options,
	.option_struct_size = sizeof(struct byway_fio_options),
};
