/* A helper that touches nothing: it speaks the protocol and plays what its script says. For tests of the library only.
 *
 * P2PSAFE_SIM_SCRIPT names the script: one word per line.
 *     version TEXT     say hello with another version
 *     silent           never say anything
 *     die              end before the first message
 *     sleep MS         wait before the results
 *     count FILE       append one byte to FILE for each run that tests
 *     worker           start a child that ignores its socket, and announce it
 *     cut              end after the first half of the pairs, without done
 *     no_done          end after the results, without done
 *     pause            stop the caller, say everything meanwhile, and wake it half a second after its deadline
 *     node FILE        make that file before the results of a test
 *     garbage          send frames that are no messages
 *     bad SRC DST      leg sm_store of SRC>DST is CORRUPT over cumem
 *     hang SRC DST     leg mp_push of SRC>DST is HANG over cumem
 *     refuse MAPPING   every leg over that mapping is UNSUPPORTED
 *     noatomics        atomics are UNSUPPORTED
 *     missing LEG      never sent
 *     nodriver         driver status NO_LIBRARY
 *     staged VERDICT   word
 *     linger           stay after done until the socket closes
 *     stall            after the risk question, wait for ever
 *     no_risk          never ask before a pair
 *     far_risk         ask about a GPU that is not there first, and end if that may go
 *     state GPU WORD   told of the GPU at the end
 *     lost             and before it that this GPU was lost
 *     no_pairs         nothing is sent about any pair
 *     speed PEER STAGED  bytes/s of every pair and of staging, sent when the caller wants numbers
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "core/names.h"
#include "fake_fault.h"
#include "ipc/proto.h"
#include "p2psafe/p2psafe.h"

#define SOCK 3
#define FAR (p2s_now_ns() + UINT64_C(60000000000))

struct script {
	char version[32];
	char count[500];
	char node[500];
	int silent, die, worker, cut, garbage, noatomics, nodriver, linger, stall, no_risk, far_risk;
	int no_pairs, no_done, pause, lost;
	int ends; /* GPU whose state is told at the end; -1 none */
	int32_t end;
	int measure; /* the caller wants numbers */
	unsigned long long peer, staged_speed;
	long sleep_ms;
	int bad[2], hang[2];
	int refuse, missing, staged;
};

static void say(uint16_t id, const void *message, int fd)
{
	fault_before(SOCK, id);
	if (p2s_codec_send(SOCK, &p2s_lib_table, id, message, fd, FAR) != P2S_IO_OK)
		_exit(0);
}

static void add_byte(const char *path)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_APPEND, 0600);

	if (fd < 0 || write(fd, "x", 1) != 1)
		_exit(9);
	close(fd);
}

static void read_script(struct script *s)
{
	const char *path = getenv("P2PSAFE_SIM_SCRIPT");
	char line[600];
	char word[500];
	FILE *f = path != NULL ? fopen(path, "re") : NULL;

	s->bad[0] = s->hang[0] = s->ends = -1;
	s->staged = P2PSAFE_VERDICT_OK;
	snprintf(s->version, sizeof s->version, "%s", P2S_VERSION_TEXT);
	while (f != NULL && fgets(line, sizeof line, f) != NULL) {
		if (sscanf(line, "version %31s", s->version) == 1 || sscanf(line, "sleep %ld", &s->sleep_ms) == 1 ||
		    sscanf(line, "bad %d %d", &s->bad[0], &s->bad[1]) == 2 || sscanf(line, "hang %d %d", &s->hang[0], &s->hang[1]) == 2)
			continue;
		if (sscanf(line, "speed %llu %llu", &s->peer, &s->staged_speed) == 2)
			continue;
		if (sscanf(line, "state %d %499s", &s->ends, word) == 2)
			s->end = p2s_word_value(P2S_GROUP_GPU_STATE, word);
		else if (sscanf(line, "count %499s", word) == 1)
			snprintf(s->count, sizeof s->count, "%s", word);
		else if (sscanf(line, "node %499s", word) == 1)
			snprintf(s->node, sizeof s->node, "%s", word);
		else if (sscanf(line, "refuse %499s", word) == 1)
			s->refuse = p2s_word_value(P2S_GROUP_MAPPING, word);
		else if (sscanf(line, "missing %499s", word) == 1)
			s->missing = p2s_word_value(P2S_GROUP_LEG, word);
		else if (sscanf(line, "staged %499s", word) == 1)
			s->staged = p2s_word_value(P2S_GROUP_VERDICT, word);
		s->silent |= strncmp(line, "silent", 6) == 0;
		s->die |= strncmp(line, "die", 3) == 0;
		s->worker |= strncmp(line, "worker", 6) == 0;
		s->cut |= strncmp(line, "cut", 3) == 0;
		s->garbage |= strncmp(line, "garbage", 7) == 0;
		s->noatomics |= strncmp(line, "noatomics", 9) == 0;
		s->nodriver |= strncmp(line, "nodriver", 8) == 0;
		s->linger |= strncmp(line, "linger", 6) == 0;
		s->stall |= strncmp(line, "stall", 5) == 0;
		s->no_risk |= strncmp(line, "no_risk", 7) == 0;
		s->far_risk |= strncmp(line, "far_risk", 8) == 0;
		s->no_pairs |= strncmp(line, "no_pairs", 8) == 0;
		s->no_done |= strncmp(line, "no_done", 7) == 0;
		s->pause |= strncmp(line, "pause", 5) == 0;
		s->lost |= strncmp(line, "lost", 4) == 0;
	}
	if (f != NULL)
		fclose(f);
}

static void start_worker(void)
{
	struct p2s_lib_worker w = {0};
	pid_t pid = fork();
	int fd;

	if (pid == 0) {
		close(SOCK);
		for (;;)
			pause();
	}
	fd = (int)syscall(SYS_pidfd_open, pid, 0);
	w.pid = (uint32_t)pid;
	snprintf(w.role, sizeof w.role, "gpu fake");
	say(p2s_id_lib_worker, &w, fd);
}

/* The waking is another process's business: the socket may be full before everything is said. */
static void stop_caller(uint64_t deadline_ns)
{
	pid_t caller = getppid();

	if (kill(caller, SIGSTOP) != 0 || fork() != 0)
		return;
	while (p2s_now_ns() < deadline_ns + UINT64_C(500000000)) {
		struct timespec ts = {.tv_nsec = 10000000};

		nanosleep(&ts, NULL);
	}
	kill(caller, SIGCONT);
	_exit(0);
}

static void send_leg(const struct script *s, uint32_t a, uint32_t b, int32_t leg, int32_t mapping)
{
	struct p2s_lib_leg l = {.src = a, .dst = b, .leg = leg, .mapping = mapping, .initiator = a};

	if (leg == s->missing)
		return;
	l.verdict = P2PSAFE_VERDICT_OK;
	l.bytes = 4096;
	l.rounds = 1;
	if (mapping == s->refuse || (leg == P2PSAFE_LEG_ATOMICS && s->noatomics)) {
		l.verdict = P2PSAFE_VERDICT_UNSUPPORTED;
		l.bytes = 0;
	} else if ((int)a == s->bad[0] && (int)b == s->bad[1] && leg == P2PSAFE_LEG_SM_STORE && mapping == P2PSAFE_MAPPING_CUMEM) {
		l.verdict = P2PSAFE_VERDICT_CORRUPT;
		l.damage = P2PSAFE_DAMAGE_DROPPED;
		l.has_detail = 1;
		l.offset = 64;
		l.expected = UINT64_C(0x1122334455667788);
		l.found = 0;
	} else if ((int)a == s->hang[0] && (int)b == s->hang[1] && leg == P2PSAFE_LEG_MP_PUSH && mapping == P2PSAFE_MAPPING_CUMEM) {
		l.verdict = P2PSAFE_VERDICT_HANG;
	}
	say(p2s_id_lib_leg, &l, -1);
}

static void send_speed(uint32_t a, uint32_t b, int32_t kind, uint64_t bytes, unsigned long long value)
{
	struct p2s_lib_measure q = {.src = a, .dst = b, .kind = kind, .bytes = bytes, .value = value};

	if (value != 0)
		say(p2s_id_lib_measure, &q, -1);
}

static void send_pair(const struct script *s, uint32_t a, uint32_t b)
{
	struct p2s_lib_pair_out p = {.src = a, .dst = b, .path = P2PSAFE_PATH_NVL, .nccl_path = P2PSAFE_PATH_NVL, .can_access = 1,
	                             .native_atomics = 1, .nvlinks = 18};

	say(p2s_id_lib_pair_out, &p, -1);
	for (int32_t mapping = P2PSAFE_MAPPING_PEER; mapping <= P2PSAFE_MAPPING_CUMEM; mapping++)
		for (int32_t leg = 1; leg <= P2PSAFE_LEG_STALE; leg++)
			send_leg(s, a, b, leg, mapping);
	if (s->measure) {
		send_speed(a, b, P2S_MEASURE_CE_WRITE, 0, s->peer);
		send_speed(a, b, P2S_MEASURE_SIZE, 4096, s->peer);
		send_speed(a, b, P2S_MEASURE_STAGED, 0, s->staged_speed);
	}
	if (a < b) {
		struct p2s_lib_staged st = {.a = a, .b = b, .verdict = s->staged, .bytes = 4096};

		say(p2s_id_lib_staged, &st, -1);
	}
}

static int32_t ask_risk(uint32_t a, uint32_t b)
{
	struct p2s_lib_risk q = {.src = a, .dst = b, .leg = P2PSAFE_LEG_SM_STORE};
	union p2s_lib_any any;
	uint16_t id;

	say(p2s_id_lib_risk, &q, -1);
	if (p2s_codec_recv(SOCK, &p2s_lib_table, &id, &any, sizeof any, NULL, FAR) != P2S_IO_OK || id != p2s_id_lib_risk_answer)
		_exit(0);
	return any.risk_answer.go;
}

static void results(const struct script *s, const struct p2s_lib_run *run, const int32_t *test)
{
	struct p2s_lib_done done = {.status = P2S_DONE_COMPLETE};
	int sent = 0;

	for (uint32_t i = 0; i < run->gpu_count; i++) {
		struct p2s_lib_gpu_out g = {.index = i, .state = P2PSAFE_GPU_STATE_READY, .ordinal = (int32_t)i, .minor = (int32_t)i,
		                            .cc_major = 9, .memory_bytes = UINT64_C(1) << 37};

		if (run->mode != P2S_MODE_TEST) {
			struct p2s_lib_gpu_out minor = {.index = i, .ordinal = -1, .minor = (int32_t)i};

			say(p2s_id_lib_gpu_out, &minor, -1);
		}
		if (!test[i] || run->mode != P2S_MODE_TEST)
			continue;
		snprintf(g.uuid, sizeof g.uuid, "GPU-0000000%u-0000-0000-0000-000000000000", i % 10);
		snprintf(g.name, sizeof g.name, "Fake %u", i);
		say(p2s_id_lib_gpu_out, &g, -1);
	}
	if (s->far_risk && run->mode == P2S_MODE_TEST && (ask_risk(UINT32_MAX, 0) || ask_risk(0, UINT32_MAX - 1)))
		_exit(0);
	for (uint32_t a = 0; a < run->gpu_count && run->mode == P2S_MODE_TEST && !s->no_pairs; a++) {
		for (uint32_t b = 0; b < run->gpu_count; b++) {
			if (a == b || !test[a] || !test[b])
				continue;
			if (s->cut && sent++ > 0)
				_exit(0);
			if (!s->no_risk && !ask_risk(a, b)) {
				done.status = P2S_DONE_STOPPED;
				say(p2s_id_lib_done, &done, -1);
				_exit(0);
			}
			if (s->stall)
				for (;;)
					pause();
			send_pair(s, a, b);
		}
	}
	if (s->ends >= 0 && run->mode == P2S_MODE_TEST) {
		struct p2s_lib_gpu_out g = {.index = (uint32_t)s->ends, .state = s->end, .ordinal = -1, .driver_order = -1, .minor = -1};
		struct p2s_lib_fact f = {.code = "GPU_LOST", .severity = P2PSAFE_SEVERITY_DANGER, .confidence = P2PSAFE_CONFIDENCE_HIGH,
		                         .src = s->ends, .dst = -1, .source = "test", .text = "error 46"};

		if (s->lost)
			say(p2s_id_lib_fact, &f, -1);
		say(p2s_id_lib_gpu_out, &g, -1);
	}
	if (s->no_done && run->mode == P2S_MODE_TEST)
		_exit(0);
	say(p2s_id_lib_done, &done, -1);
}

int main(void)
{
	static struct script s;
	static int32_t test[64];
	struct p2s_lib_hello hello = {.protocol = P2S_PROTOCOL};
	struct p2s_lib_run run = {0};
	union p2s_lib_any any;
	uint16_t id;

	read_script(&s);
	if (s.die)
		return 1;
	if (s.silent)
		for (;;)
			pause();
	snprintf(hello.version, sizeof hello.version, "%s", s.version);
	say(p2s_id_lib_hello, &hello, -1);
	if (p2s_codec_recv(SOCK, &p2s_lib_table, &id, &any, sizeof any, NULL, FAR) != P2S_IO_OK || id != p2s_id_lib_run)
		return 0;
	run = any.run;
	s.measure = (run.flags & P2PSAFE_FLAG_MEASURE) != 0;
	if (s.count[0] != '\0' && run.mode == P2S_MODE_TEST)
		add_byte(s.count);
	for (uint32_t i = 0; i < run.gpu_count && i < 64; i++) {
		if (p2s_codec_recv(SOCK, &p2s_lib_table, &id, &any, sizeof any, NULL, FAR) != P2S_IO_OK || id != p2s_id_lib_gpu_in)
			return 0;
		test[any.gpu_in.index % 64] = any.gpu_in.test;
	}
	if (s.garbage)
		for (int i = 0; i < 4; i++)
			if (send(SOCK, "not a frame at all", 18, MSG_NOSIGNAL) < 0)
				return 0;
	if (s.worker)
		start_worker();
	if (s.pause && run.mode == P2S_MODE_TEST)
		stop_caller(run.deadline_ns);
	if (s.sleep_ms > 0) {
		struct timespec ts = {.tv_sec = s.sleep_ms / 1000, .tv_nsec = s.sleep_ms % 1000 * 1000000};

		nanosleep(&ts, NULL);
	}
	if (s.node[0] != '\0' && run.mode == P2S_MODE_TEST)
		add_byte(s.node);
	if (s.nodriver) {
		struct p2s_lib_driver d = {.status = P2S_DRIVER_NO_LIBRARY, .text = "libcuda.so.1: not found"};
		struct p2s_lib_done done = {.status = P2S_DONE_NO_DRIVER};

		say(p2s_id_lib_driver, &d, -1);
		say(p2s_id_lib_done, &done, -1);
		return 0;
	}
	results(&s, &run, test);
	while (s.linger && p2s_codec_recv(SOCK, &p2s_lib_table, &id, &any, sizeof any, NULL, FAR) == P2S_IO_OK)
		continue;
	return 0;
}
