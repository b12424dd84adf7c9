/* Real traffic between two GPUs through the worker's operations: `peer` mapping in one process, cuMem and IPC between two.
 * Every byte is judged by its owner. Prints speeds for people; judges only correctness.
 *
 *   two_gpus WORKER [LIBRARY HOST ADDRESS ADDRESS]
 *
 * With the last four it runs on a simulated host. */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "p2psafe/p2psafe.h"
#include "worker_drive.h"

#define BIG (UINT64_C(256) << 20)
#define SIM_BIG (UINT64_C(8) << 20) /* the simulated driver runs kernels on the CPU */
#define SEED(a, n) (UINT64_C(0xa5a5000012345678) ^ ((uint64_t)(a) << 33) ^ ((uint64_t)(n) << 56))
#define LOCAL(g) P2S_BUF(g, 1)
#define COPY_OF(g) P2S_BUF(g, 2) /* local memory where loads land */
#define FAR(g) P2S_BUF(g, 3)     /* the other GPU's LOCAL through a handle */
#define MAX_NS UINT64_C(1000000000)

static int failed;
static uint64_t big = BIG;
static char address[2][48];

static int expect(int ok, const char *what, long long detail)
{
	if (!ok) {
		failed++;
		printf("FAIL %s (%lld)\n", what, detail);
	}
	return ok;
}

static int ask(struct drive *d, int c, struct p2s_op_request q, struct p2s_op_answer *a, const char *what)
{
	int rc = drive_ask(d, c, &q, -1, NULL, a);

	if (rc != P2S_RC_OK) {
		failed++;
		printf("FAIL %s: rc %d error %d at %s\n", what, rc, a->cuda_error, a->where);
	}
	return rc == P2S_RC_OK;
}

static int by_name(const void *a, const void *b)
{
	return strcmp(a, b);
}

static int find_gpus(void)
{
	char found[64][48];
	DIR *d = opendir("/proc/driver/nvidia/gpus");
	struct dirent *e;
	size_t n = 0;

	while (d != NULL && n < 64 && (e = readdir(d)) != NULL)
		if (e->d_name[0] != '.')
			snprintf(found[n++], sizeof found[0], "%.40s", e->d_name);
	if (d != NULL)
		closedir(d);
	qsort(found, n, sizeof found[0], by_name);
	for (size_t i = 0; i < 2 && i < n; i++)
		memcpy(address[i], found[i], sizeof address[i]);
	return n >= 2;
}

/* Sends one request to both channels at once, raises go on both, judges both roles. */
static void both(struct drive *d[2], int c[2], struct p2s_op_request q[2], int roles, struct p2s_op_answer a[2],
				 const char *what)
{
	for (int i = 0; i < 2; i++) {
		drive_clear(d[i], c[i]);
		if (!expect(drive_send(d[i], c[i], &q[i], -1), what, i))
			return;
	}
	for (int i = 0; i < 2; i++)
		expect(drive_go(d[i], c[i], roles), what, i);
	for (int i = 0; i < 2; i++) {
		int rc = drive_receive(d[i], c[i], NULL, &a[i]);

		if (rc != P2S_RC_OK) {
			failed++;
			printf("FAIL %s: rc %d error %d at %s\n", what, rc, a[i].cuda_error, a[i].where);
		}
	}
}

static struct p2s_role_result role(const struct p2s_op_answer *a, int which)
{
	struct p2s_role_result r;

	memcpy(&r, a->roles + (size_t)which * sizeof r, sizeof r);
	return r;
}

static void messages(struct drive *d[2], int c[2], const uint32_t far[2], int pull, uint32_t idiom)
{
	struct p2s_op_request q[2];
	struct p2s_op_answer a[2];
	char what[64];

	snprintf(what, sizeof what, "mp %s idiom %u", pull ? "pull" : "push", idiom);
	for (int i = 0; i < 2; i++) {
		struct p2s_op_request f = {.op = P2S_OP_FILL, .buf = LOCAL(i), .len = 4 << 20, .seed = SEED(i, 15)};

		ask(d[i], c[i], f, &a[i], "poison");
		/* push: into the other's memory, poll one's own; pull: the other way round */
		q[i] = (struct p2s_op_request){.op = P2S_OP_MP,
									   .buf = pull ? LOCAL(i) : far[i],
									   .buf2 = pull ? far[i] : LOCAL(i),
									   .seed = SEED(i, 1),
									   .seed2 = SEED(1 - i, 1),
									   .rounds = 1000,
									   .words = 64,
									   .slot_bytes = 1024,
									   .flag_off = 1016,
									   .idiom = idiom,
									   .max_ns = MAX_NS};
	}
	both(d, c, q, 2, a, what);
	for (int i = 0; i < 2; i++) {
		struct p2s_role_result r = role(&a[i], 1);
		struct p2s_role_result w = role(&a[i], 0);

		expect(w.status == P2S_ROLE_DONE && r.status == P2S_ROLE_DONE, what, (long long)r.status);
		expect(r.rounds_done == 1000 && r.bad_words == 0, what, (long long)r.bad_words);
		if (i == 0)
			printf("%s: %d ns per round\n", what, (int)(r.elapsed_ns / 1000));
	}
}

/* Both ways at once: many warps (threads != 0), or words that carry their flags (mode of p2s_ll). */
static void more_messages(struct drive *d[2], int c[2], const uint32_t far[2], int pull, uint32_t threads, uint32_t mode,
						  uint32_t idiom)
{
	struct p2s_op_request q[2];
	struct p2s_op_answer a[2];
	char what[64];

	snprintf(what, sizeof what, threads ? "wide %s threads %u idiom %u" : "ll %s mode %u%.0u", pull ? "pull" : "push",
			 threads ? threads : mode, idiom);
	for (int i = 0; i < 2; i++) {
		struct p2s_op_request f = {.op = P2S_OP_FILL, .buf = LOCAL(i), .len = 4 << 20, .seed = SEED(i, 15)};

		ask(d[i], c[i], f, &a[i], "poison");
		q[i] = (struct p2s_op_request){.op = threads ? P2S_OP_MP : P2S_OP_LL,
									   .mode = threads ? threads : mode,
									   .buf = pull ? LOCAL(i) : far[i],
									   .buf2 = pull ? far[i] : LOCAL(i),
									   .seed = SEED(i, 1),
									   .seed2 = SEED(1 - i, 1),
									   .rounds = 500,
									   .words = 256,
									   .slot_bytes = 8192,
									   .flag_off = 4096,
									   .idiom = idiom,
									   .max_ns = MAX_NS};
	}
	both(d, c, q, 2, a, what);
	for (int i = 0; i < 2; i++) {
		struct p2s_role_result r = role(&a[i], 1);
		int told = (idiom & P2S_WIDE_BARE) != 0 || (!threads && mode == P2S_LL_LINE); /* no promise: only printed */

		expect(role(&a[i], 0).status == P2S_ROLE_DONE && r.status == P2S_ROLE_DONE && r.rounds_done == 500, what,
			   (long long)(r.status << 32 | r.rounds_done));
		expect(told || r.bad_words == 0, what, (long long)r.bad_words);
		if (i == 0)
			printf("%s: %d ns per round, %llu words behind\n", what, (int)(r.elapsed_ns / 500), (unsigned long long)r.bad_words);
	}
}

static void all_messages(struct drive *d[2], int c[2], const uint32_t far[2])
{
	for (int pull = 0; pull < 2; pull++)
		for (uint32_t idiom = 0; idiom < 4; idiom++) {
			more_messages(d, c, far, pull, 64, 0, idiom);
			more_messages(d, c, far, pull, 256, 0, idiom | P2S_WIDE_WARM);
		}
	more_messages(d, c, far, 0, 128, 0, P2S_WIDE_BARE);
	for (uint32_t mode = P2S_LL_SINGLE; mode <= P2S_LL_LINE; mode++) {
		more_messages(d, c, far, 0, 0, mode, 0);
		more_messages(d, c, far, 1, 0, mode, 0);
	}
}

static void tear_and_atomic(struct drive *d[2], int c[2], const uint32_t far[2])
{
	struct p2s_op_request q[2];
	struct p2s_op_answer a[2];
	struct p2s_op_request p = {.op = P2S_OP_PEEK, .buf = LOCAL(0), .off = 0, .len = 16};
	uint64_t had[2] = {p2s_word(SEED(0, 15), 0), p2s_word(SEED(0, 15), 1)};
	uint64_t now[2];

	for (int i = 0; i < 2; i++) {
		struct p2s_op_request f = {
			.op = P2S_OP_FILL, .buf = LOCAL(i), .len = 4096, .seed = SEED(0, 2) ^ SEED(0, 3) ^ P2S_TEAR_POISON};

		ask(d[i], c[i], f, &a[i], "poison");
		q[i] = (struct p2s_op_request){.op = P2S_OP_TEAR,
									   .buf = far[i],
									   .buf2 = LOCAL(i),
									   .words = 96,
									   .seed = SEED(0, 2),
									   .seed2 = SEED(0, 3),
									   .rounds = 4000,
									   .max_ns = MAX_NS};
	}
	both(d, c, q, 2, a, "tear");
	for (int i = 0; i < 2; i++) {
		struct p2s_role_result r = role(&a[i], 1);

		expect(r.status == P2S_ROLE_DONE && r.bad_words == 0, "tear", (long long)r.bad_words);
		expect(r.seen_a > 0 && r.seen_b > 0, "tear: power", (long long)r.seen_a);
		printf("tear: %llu passes, a %llu b %llu\n", (unsigned long long)r.rounds_done, (unsigned long long)r.seen_a,
			   (unsigned long long)r.seen_b);
	}
	for (int i = 0; i < 2; i++) {
		struct p2s_op_request f = {.op = P2S_OP_FILL, .buf = LOCAL(0), .len = 16, .seed = SEED(0, 15)};

		if (i == 0)
			ask(d[0], c[0], f, &a[0], "start value");
		q[i] =
			(struct p2s_op_request){.op = P2S_OP_ATOMIC, .buf = i == 0 ? LOCAL(0) : far[1], .rounds = 1000, .max_ns = MAX_NS};
	}
	both(d, c, q, 1, a, "atomic");
	for (int i = 0; i < 2; i++) {
		struct p2s_role_result r = role(&a[i], 0);

		expect(r.status == P2S_ROLE_DONE && r.rounds_done == 32000 && r.cas_done == 1000, "atomic", (long long)r.cas_done);
		printf("atomic: %llu attempts, %llu us\n", (unsigned long long)r.polls, (unsigned long long)r.elapsed_ns / 1000);
	}
	if (ask(d[0], c[0], p, &a[0], "peek")) {
		memcpy(now, a[0].samples, sizeof now);
		expect(now[0] - had[0] == 64000, "atomic: adds", (long long)(now[0] - had[0]));
		expect(now[1] - had[1] == 2000, "atomic: swaps", (long long)(now[1] - had[1]));
	}
}

static void speed(const char *what, uint64_t bytes, uint64_t ns)
{
	printf("%-24s %6.1f GB/s, %llu us\n", what, ns != 0 ? (double)bytes / (double)ns : 0.0, (unsigned long long)ns / 1000);
}

static void check(struct drive *d, int c, uint32_t buf, uint64_t seed, const char *what)
{
	struct p2s_op_request q = {.op = P2S_OP_CHECK, .buf = buf, .len = big, .in_len = big, .seed = seed};
	struct p2s_op_answer a;

	if (ask(d, c, q, &a, what)) {
		expect(a.bad_words == 0, what, (long long)a.bad_words);
		speed("  check", big, a.device_ns);
	}
}

/* GPU 0 is the accessor, GPU 1 the owner. */
static void bulk(struct drive *d[2], int c[2], const uint32_t far[2], const char *mapping)
{
	struct p2s_op_answer a;
	char what[64];

	printf("-- %s\n", mapping);
	for (int mode = 0; mode < 7; mode++) {
		static const char *const names[] = {"sm store",   "sm load plain",   "sm load relaxed", "sm load acquire",
											"copy write", "copy peer write", "copy read"};
		uint64_t poison = SEED(1, 15 - mode);
		uint64_t seed = SEED(0, mode + 2);
		int push = mode == 0 || mode == 4 || mode == 5;
		struct p2s_op_request f = {.op = P2S_OP_FILL, .buf = push ? LOCAL(1) : COPY_OF(0), .len = big, .seed = poison};
		struct p2s_op_request s = {.op = P2S_OP_FILL, .buf = push ? COPY_OF(0) : LOCAL(1), .len = big, .seed = seed};
		struct p2s_op_request t[7] = {
			{.op = P2S_OP_FILL, .buf = far[0], .len = big, .seed = seed},
			{.op = P2S_OP_LOAD, .buf = COPY_OF(0), .buf2 = far[0], .len = big, .mode = 0},
			{.op = P2S_OP_LOAD, .buf = COPY_OF(0), .buf2 = far[0], .len = big, .mode = 1},
			{.op = P2S_OP_LOAD, .buf = COPY_OF(0), .buf2 = far[0], .len = big, .mode = 2},
			{.op = P2S_OP_COPY, .buf = far[0], .buf2 = COPY_OF(0), .len = big, .mode = P2S_COPY_ASYNC},
			{.op = P2S_OP_COPY, .buf = far[0], .buf2 = COPY_OF(0), .len = big, .mode = P2S_COPY_PEER_ASYNC},
			{.op = P2S_OP_COPY, .buf = COPY_OF(0), .buf2 = far[0], .len = big, .mode = P2S_COPY_ASYNC}};

		snprintf(what, sizeof what, "%s %s", mapping, names[mode]);
		ask(d[push ? 1 : 0], c[push ? 1 : 0], f, &a, what);
		if (mode == 0)
			speed("  local fill", big, a.device_ns);
		if (mode != 0)
			ask(d[push ? 0 : 1], c[push ? 0 : 1], s, &a, what);
		if (!ask(d[0], c[0], t[mode], &a, what))
			continue;
		speed(what, big, a.device_ns);
		check(d[push ? 1 : 0], c[push ? 1 : 0], push ? LOCAL(1) : COPY_OF(0), seed, what);
	}
}

static void alloc_two(struct drive *d, int c, int gpu, uint32_t mode)
{
	struct p2s_op_answer a;

	ask(d, c, (struct p2s_op_request){.op = P2S_OP_ALLOC, .buf = LOCAL(gpu), .len = big, .mode = mode}, &a, "alloc");
	ask(d, c, (struct p2s_op_request){.op = P2S_OP_ALLOC, .buf = COPY_OF(gpu), .len = big, .mode = P2S_ALLOC_PLAIN}, &a,
		"alloc");
}

static void flags_by_copies(struct drive *d[2], int c[2], const uint32_t far[2], uint32_t mode)
{
	struct p2s_op_request f = {.op = P2S_OP_FILL_SLOTS,
							   .buf = COPY_OF(0),
							   .seed = SEED(0, 9),
							   .rounds = 200,
							   .words = 64,
							   .slot_bytes = 1024,
							   .flag_off = 1016};
	struct p2s_op_request r = f;
	struct p2s_op_request w = f;
	struct p2s_op_request p = {.op = P2S_OP_FILL, .buf = LOCAL(1), .len = 4 << 20, .seed = SEED(1, 15)};
	struct p2s_op_answer a;
	struct p2s_op_answer b;

	ask(d[0], c[0], f, &a, "slots");
	ask(d[1], c[1], p, &b, "poison");
	r.op = P2S_OP_MP;
	r.buf = 0;
	r.buf2 = LOCAL(1);
	r.seed2 = SEED(0, 9);
	r.max_ns = MAX_NS;
	w.op = P2S_OP_CE_FLAG;
	w.buf = far[0];
	w.buf2 = COPY_OF(0);
	w.mode = mode;
	drive_clear(d[1], c[1]);
	if (!expect(drive_send(d[1], c[1], &r, -1) && drive_go(d[1], c[1], 2), "ce_flag", 0))
		return;
	if (!ask(d[0], c[0], w, &a, "ce_flag"))
		printf("ce_flag mode %u: error %d at %s\n", mode, a.cuda_error, a.where);
	expect(drive_receive(d[1], c[1], NULL, &b) == P2S_RC_OK, "ce_flag reader", b.rc);
	expect(role(&b, 1).status == P2S_ROLE_DONE && role(&b, 1).bad_words == 0, "ce_flag", (long long)role(&b, 1).rounds_done);
}

static void tell_start(const struct p2s_op_device *d)
{
	printf("%s %s: cuInit %d us, context %d us, module %d us\n", d->address, d->name, (int)(d->init_ns / 1000),
		   (int)(d->context_ns / 1000), (int)(d->module_ns / 1000));
}

static void peer_process(const char *worker, const char *library, const char *host, int memory)
{
	static struct drive drive;
	struct drive *d[2] = {&drive, &drive};
	struct p2s_op_answer a;
	int c[2] = {0, 1};
	const uint32_t far[2] = {LOCAL(1), LOCAL(0)};

	if (!expect(drive_start(&drive, worker, library, host, memory, 2), "start", 0))
		return;
	for (int i = 0; i < 2; i++) {
		struct p2s_op_request q = {.op = P2S_OP_INIT};

		snprintf(q.text, sizeof q.text, "%s", address[i]);
		expect(drive_send(&drive, i, &q, drive.control_fd[i]), "init", i);
	}
	for (int i = 0; i < 2; i++) {
		if (!expect(drive_receive(&drive, i, NULL, &a) == P2S_RC_OK && drive.device[i].module >= 1, "init", a.cuda_error))
			printf("%s: %d at %s, %d %s\n", address[i], a.cuda_error, a.where, drive.device[i].cuda_error,
				   drive.device[i].jit_log);
		tell_start(&drive.device[i]);
	}
	for (int i = 0; i < 2; i++) {
		struct p2s_op_request q = {.op = P2S_OP_CAN_ACCESS};

		alloc_two(&drive, i, i, P2S_ALLOC_PLAIN);
		snprintf(q.text, sizeof q.text, "%s", address[1 - i]);
		ask(&drive, i, q, &a, "can access");
		printf("can access: %llu\n", (unsigned long long)a.value);
		q.op = P2S_OP_PEER_ENABLE;
		ask(&drive, i, q, &a, "peer enable");
		ask(&drive, i, q, &a, "peer enable, again");
	}
	bulk(d, c, far, "peer");
	for (uint32_t idiom = 0; idiom <= 3; idiom++) {
		messages(d, c, far, 0, idiom);
		messages(d, c, far, 1, idiom);
	}
	all_messages(d, c, far);
	tear_and_atomic(d, c, far);
	for (uint32_t mode = P2S_FLAG_COPY; mode <= P2S_FLAG_WRITE; mode++)
		flags_by_copies(d, c, far, mode);
	for (int i = 0; i < 2; i++)
		ask(&drive, i, (struct p2s_op_request){.op = P2S_OP_QUIT}, &a, "quit");
	expect(drive_wait(&drive, 5000) == 0, "the peer worker ends", 0);
	drive_end(&drive);
}

static void two_processes(const char *worker, const char *library, const char *host, int memory, int mapping)
{
	static struct drive drives[2];
	struct drive *d[2] = {&drives[0], &drives[1]};
	struct p2s_op_answer a;
	int c[2] = {0, 0};
	const uint32_t far[2] = {FAR(0), FAR(1)};
	uint64_t start;

	for (int i = 0; i < 2; i++) {
		if (!expect(drive_start(d[i], worker, library, host, memory, 1), "start", i) ||
			!expect(drive_init(d[i], 0, address[i], &a) == P2S_RC_OK, "init", a.cuda_error))
			return;
		tell_start(&d[i]->device[0]);
		alloc_two(d[i], 0, i, mapping == P2PSAFE_MAPPING_IPC ? P2S_ALLOC_PLAIN : P2S_ALLOC_CUMEM);
	}
	for (int i = 0; i < 2; i++) {
		struct p2s_op_request q = {.op = P2S_OP_EXPORT, .buf = LOCAL(1 - i), .mode = (uint32_t)mapping};
		int fd = -1;

		if (!expect(drive_ask(d[1 - i], 0, &q, -1, &fd, &a) == P2S_RC_OK, "export", a.cuda_error))
			return;
		q = (struct p2s_op_request){.op = P2S_OP_IMPORT, .buf = FAR(i), .mode = (uint32_t)mapping, .len = big};
		q.handle_len = a.handle_len;
		memcpy(q.handle, a.handle, sizeof q.handle);
		if (!expect(drive_ask(d[i], 0, &q, fd, NULL, &a) == P2S_RC_OK, "import", a.cuda_error))
			return;
		if (fd >= 0)
			close(fd);
	}
	/* first contact: one warp, 128 bytes; and what one small operation costs */
	start = p2s_now_ns();
	for (int i = 0; i < 200; i++)
		ask(d[0], 0, (struct p2s_op_request){.op = P2S_OP_FILL, .buf = FAR(0), .off = 4096, .len = 128, .seed = SEED(0, 7)}, &a,
			"first contact");
	printf("one small operation: %d ns\n", (int)((p2s_now_ns() - start) / 200));
	ask(d[1], 0,
		(struct p2s_op_request){
			.op = P2S_OP_CHECK, .buf = LOCAL(1), .off = 4096, .len = 128, .in_off = 4096, .in_len = 128, .seed = SEED(0, 7)},
		&a, "first contact");
	expect(a.bad_words == 0, "first contact", (long long)a.bad_words);
	bulk(d, c, far, mapping == P2PSAFE_MAPPING_IPC ? "ipc" : "cumem");
	messages(d, c, far, 0, 3);
	messages(d, c, far, 1, 3);
	all_messages(d, c, far);
	tear_and_atomic(d, c, far);
	for (uint32_t mode = P2S_FLAG_COPY; mode <= P2S_FLAG_WRITE; mode++)
		flags_by_copies(d, c, far, mode);
	for (int i = 0; i < 2; i++)
		ask(d[i], 0, (struct p2s_op_request){.op = P2S_OP_RELEASE, .buf = FAR(i)}, &a, "release");
	for (int i = 0; i < 2; i++) {
		ask(d[i], 0, (struct p2s_op_request){.op = P2S_OP_QUIT}, &a, "quit");
		expect(drive_wait(d[i], 5000) == 0, "the worker ends", i);
		drive_end(d[i]);
	}
}

int main(int argc, char **argv)
{
	const char *library = argc == 6 ? argv[2] : "-";
	const char *host = argc == 6 ? argv[3] : NULL;

	setvbuf(stdout, NULL, _IOLBF, 0);
	if (argc == 6) {
		big = SIM_BIG;
		snprintf(address[0], sizeof address[0], "%s", argv[4]);
		snprintf(address[1], sizeof address[1], "%s", argv[5]);
	} else if (argc != 2 || access("/dev/nvidia0", R_OK | W_OK) != 0 || !find_gpus()) {
		printf("skipped: no two usable GPUs\n");
		return argc == 2 ? 77 : 2;
	}
	peer_process(argv[1], library, host, host != NULL ? drive_memfd(0) : -1);
	two_processes(argv[1], library, host, host != NULL ? drive_memfd(0) : -1, P2PSAFE_MAPPING_CUMEM);
	two_processes(argv[1], library, host, host != NULL ? drive_memfd(0) : -1, P2PSAFE_MAPPING_IPC);
	printf(failed ? "%d failed\n" : "all good\n", failed);
	return failed != 0;
}
