#define _GNU_SOURCE
#include "conductor_player.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/names.h"

#define MS UINT64_C(1000000)

void play_init(struct play *p, const char *host_dir)
{
	memset(p, 0, sizeof *p);
	p->host_dir = host_dir;
	p->mode = P2S_MODE_TEST;
	p->level = P2PSAFE_LEVEL_QUICK;
	p->deadline_ms = 40000;
	p->risk_go = 1;
	p->protocol = P2S_PROTOCOL;
	p->version = P2S_VERSION_TEXT;
	p->sock = -1;
	memset(p->gpu_facts, 0xff, sizeof p->gpu_facts);
}

static void take_event(struct play *p, const struct p2s_lib_log_event *e)
{
	for (size_t i = 0; i < p->event_count; i++) {
		if (p->events[i].usec == e->usec && p->events[i].kind == e->kind && strcmp(p->events[i].text, e->text) == 0) {
			p->events[i] = *e;
			return;
		}
	}
	p->events = realloc(p->events, (p->event_count + 1) * sizeof *p->events);
	p->events[p->event_count++] = *e;
}

static int start(struct play *p)
{
	const char *helper = getenv("P2S_TEST_HELPER");
	int pair[2];

	if (helper == NULL || socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) != 0)
		return 0;
	p->pid = fork();
	if (p->pid == 0) {
		if (pair[1] != 3)
			dup2(pair[1], 3);
		else
			fcntl(3, F_SETFD, 0);
		execl(helper, "p2psafe-helper", "conductor", (char *)NULL);
		_exit(127);
	}
	close(pair[1]);
	p->sock = pair[0];
	return p->pid > 0;
}

static void ask(struct play *p)
{
	struct p2s_lib_run run = {.protocol = p->protocol,
	                          .mode = p->mode,
	                          .level = p->level,
	                          .flags = p->flags,
	                          .nonce = UINT64_C(0x1234567890abcdef),
	                          .gpu_count = p->n};

	snprintf(run.version, sizeof run.version, "%s", p->version);
	snprintf(run.host_dir, sizeof run.host_dir, "%s", p->host_dir != NULL ? p->host_dir : "");
	snprintf(run.cuda_library, sizeof run.cuda_library, "%s", p->cuda_library != NULL ? p->cuda_library : "");
	run.deadline_ns = p2s_now_ns() + p->deadline_ms * MS;
	run.soak_ns = p->soak_ms * MS;
	p2s_codec_send(p->sock, &p2s_lib_table, p2s_id_lib_run, &run, -1, p2s_now_ns() + 1000 * MS);
	for (uint32_t i = 0; i < p->n; i++) {
		struct p2s_lib_gpu_in in = {.index = i, .test = p->test[i]};

		snprintf(in.address, sizeof in.address, "%s", p->address[i]);
		p2s_codec_send(p->sock, &p2s_lib_table, p2s_id_lib_gpu_in, &in, -1, p2s_now_ns() + 1000 * MS);
	}
}

static void take(struct play *p, uint16_t id, const union p2s_lib_any *any, int fd)
{
	struct p2s_lib_risk_answer answer = {.go = p->risk_go};

	if (p->dones)
		p->after_done++;
	if (id == p2s_id_lib_hello) {
		p->hello = any->hello.protocol == P2S_PROTOCOL && strcmp(any->hello.version, P2S_VERSION_TEXT) == 0;
	} else if (id == p2s_id_lib_leg) {
		p->legs = realloc(p->legs, (p->leg_count + 1) * sizeof *p->legs);
		p->legs[p->leg_count++] = any->leg;
	} else if (id == p2s_id_lib_staged && p->staged_count < 512) {
		p->staged[p->staged_count++] = any->staged;
	} else if (id == p2s_id_lib_fact && p->fact_count < 512) {
		p->facts[p->fact_count++] = any->fact;
	} else if (id == p2s_id_lib_gpu_out && any->gpu_out.index < P2S_MAX_GPUS) {
		p->gpus[any->gpu_out.index] = any->gpu_out;
	} else if (id == p2s_id_lib_pair_out && any->pair_out.src < P2S_MAX_GPUS && any->pair_out.dst < P2S_MAX_GPUS) {
		p->pairs[any->pair_out.src][any->pair_out.dst] = any->pair_out;
	} else if (id == p2s_id_lib_log_event) {
		take_event(p, &any->log_event);
	} else if (id == p2s_id_lib_log_state) {
		p->log_state = any->log_state;
		p->log_states++;
	} else if (id == p2s_id_lib_gpu_fact && any->gpu_fact.gpu < P2S_MAX_GPUS && any->gpu_fact.which >= 0 && any->gpu_fact.which < 64) {
		p->gpu_facts[any->gpu_fact.gpu][any->gpu_fact.which] = any->gpu_fact.value;
	} else if (id == p2s_id_lib_hop && any->hop.gpu < P2S_MAX_GPUS && any->hop.position + 1 == any->hop.count) {
		p->hops[any->hop.gpu] = any->hop;
	} else if (id == p2s_id_lib_measure) {
		p->measures = realloc(p->measures, (p->measure_count + 1) * sizeof *p->measures);
		p->measures[p->measure_count++] = any->measure;
	} else if (id == p2s_id_lib_driver) {
		p->driver = any->driver;
		p->drivers++;
	} else if (id == p2s_id_lib_timing && p->timing_count < 64) {
		p->timings[p->timing_count++] = any->timing;
	} else if (id == p2s_id_lib_risk) {
		p->risks++;
		p2s_codec_send(p->sock, &p2s_lib_table, p2s_id_lib_risk_answer, &answer, -1, p2s_now_ns() + 1000 * MS);
	} else if (id == p2s_id_lib_worker && p->worker_count < P2S_MAX_GPUS + 4) {
		struct play_worker *w = &p->workers[p->worker_count++];

		w->pid = (pid_t)any->worker.pid;
		w->pidfd = fd;
		snprintf(w->role, sizeof w->role, "%s", any->worker.role);
		fd = -1;
	} else if (id == p2s_id_lib_worker_gone) {
		for (size_t i = 0; i < p->worker_count; i++) {
			if (p->workers[i].pid != (pid_t)any->worker_gone.pid)
				continue;
			p->workers[i].gone++;
			p->workers[i].left = any->worker_gone.left;
			snprintf(p->workers[i].how, sizeof p->workers[i].how, "%s", any->worker_gone.how);
		}
	} else if (id == p2s_id_lib_done) {
		p->done = any->done;
		p->dones++;
	}
	if (fd >= 0)
		close(fd);
}

int play_run(struct play *p)
{
	uint64_t begin = p2s_now_ns();
	int asked = 0;

	if (!start(p))
		return 0;
	for (;;) {
		union p2s_lib_any any;
		uint16_t id;
		int fd;
		enum p2s_io io =
			p2s_codec_recv(p->sock, &p2s_lib_table, &id, &any, sizeof any, &fd, p2s_now_ns() + (p->deadline_ms + 10000) * MS);

		if (io != P2S_IO_OK)
			break;
		take(p, id, &any, fd);
		if (!asked)
			ask(p);
		asked = 1;
		if (p->on_message != NULL && !p->on_message(p, id, &any))
			break;
	}
	close(p->sock);
	p->sock = -1;
	waitpid(p->pid, &p->status, 0);
	p->seconds = (double)(p2s_now_ns() - begin) / 1e9;
	if (getenv("P2S_TEST_DUMP") != NULL)
		play_dump(p);
	return 1;
}

void play_free(struct play *p)
{
	for (size_t i = 0; i < p->worker_count; i++)
		if (p->workers[i].pidfd >= 0)
			close(p->workers[i].pidfd);
	free(p->legs);
	free(p->events);
	free(p->measures);
	p->measures = NULL;
	p->legs = NULL;
	p->events = NULL;
}

const struct p2s_lib_leg *play_leg(const struct play *p, uint32_t src, uint32_t dst, int32_t leg, int32_t mapping)
{
	const struct p2s_lib_leg *last = NULL;

	for (size_t i = 0; i < p->leg_count; i++)
		if (p->legs[i].src == src && p->legs[i].dst == dst && p->legs[i].leg == leg && p->legs[i].mapping == mapping)
			last = &p->legs[i];
	return last;
}

int32_t play_verdict(const struct play *p, uint32_t src, uint32_t dst, int32_t leg, int32_t mapping)
{
	const struct p2s_lib_leg *l = play_leg(p, src, dst, leg, mapping);

	return l != NULL ? l->verdict : 0;
}

uint64_t play_measure(const struct play *p, uint32_t src, uint32_t dst, int32_t kind, uint64_t bytes)
{
	for (size_t i = p->measure_count; i-- > 0;) {
		const struct p2s_lib_measure *m = &p->measures[i];

		if (m->src == src && m->dst == dst && m->kind == kind && m->bytes == bytes)
			return m->value;
	}
	return 0;
}

uint64_t play_timing(const struct play *p, const char *name)
{
	for (size_t i = 0; i < p->timing_count; i++)
		if (strcmp(p->timings[i].name, name) == 0)
			return p->timings[i].ns;
	return 0;
}

int play_has_fact(const struct play *p, const char *code)
{
	for (size_t i = 0; i < p->fact_count; i++)
		if (strcmp(p->facts[i].code, code) == 0)
			return 1;
	return 0;
}

int play_left(const struct play *p)
{
	int left = 0;

	for (size_t i = 0; i < p->worker_count; i++) {
		struct pollfd f = {.fd = p->workers[i].pidfd, .events = POLLIN};

		left += f.fd >= 0 ? poll(&f, 1, 0) == 0 : kill(p->workers[i].pid, 0) == 0;
	}
	return left;
}

void play_dump(const struct play *p)
{
	fprintf(stderr, "%.3f s, status %d, hello %d, driver %d (%s) %d, risks %u, done %d x%d (%s)\n", p->seconds, p->status,
	        p->hello, p->driver.status, p->driver.text, p->driver.cuda_version, p->risks, p->done.status, p->dones,
	        p->done.text);
	for (uint32_t i = 0; i < p->n; i++)
		fprintf(stderr, "gpu %u state %d ordinal %d minor %d uuid %s name %s free %llu error %s\n", i, p->gpus[i].state,
		        p->gpus[i].ordinal, p->gpus[i].minor, p->gpus[i].uuid, p->gpus[i].name,
		        (unsigned long long)p->gpus[i].free_bytes, p->gpus[i].error);
	for (uint32_t a = 0; a < p->n; a++)
		for (uint32_t b = 0; b < p->n; b++)
			if (a != b)
				fprintf(stderr, "pair %u>%u path %s nccl %s can %d atomics %d links %d limit %llu\n", a, b,
				        p2s_word_name(P2S_GROUP_PATH, p->pairs[a][b].path),
				        p2s_word_name(P2S_GROUP_PATH, p->pairs[a][b].nccl_path), p->pairs[a][b].can_access,
				        p->pairs[a][b].native_atomics, p->pairs[a][b].nvlinks,
				        (unsigned long long)p->pairs[a][b].limit_bytes_per_s);
	for (size_t i = 0; i < p->leg_count; i++) {
		const struct p2s_lib_leg *l = &p->legs[i];

		fprintf(stderr, "%u>%u %-10s %-6s %-9s %-11s error %d bytes %llu rounds %llu of %llu %s", l->src, l->dst,
		        p2s_word_name(P2S_GROUP_LEG, l->leg), p2s_word_name(P2S_GROUP_MAPPING, l->mapping),
		        p2s_word_name(P2S_GROUP_VERDICT, l->verdict), p2s_word_name(P2S_GROUP_DAMAGE, l->damage), l->cuda_error,
		        (unsigned long long)l->bytes, (unsigned long long)l->rounds, (unsigned long long)l->coverage_of_bytes, l->note);
		if (l->has_detail)
			fprintf(stderr, " at %llx want %016llx found %016llx", (unsigned long long)l->offset,
			        (unsigned long long)l->expected, (unsigned long long)l->found);
		fputc('\n', stderr);
	}
	for (size_t i = 0; i < p->staged_count; i++)
		fprintf(stderr, "staged %u-%u %s bytes %llu %s\n", p->staged[i].a, p->staged[i].b,
		        p2s_word_name(P2S_GROUP_VERDICT, p->staged[i].verdict), (unsigned long long)p->staged[i].bytes,
		        p->staged[i].note);
	for (size_t i = 0; i < p->fact_count; i++)
		fprintf(stderr, "fact %s %d,%d %s: %s\n", p->facts[i].code, p->facts[i].src, p->facts[i].dst, p->facts[i].source,
		        p->facts[i].text);
	for (size_t i = 0; i < p->timing_count; i++)
		fprintf(stderr, "timing %s %.3f ms\n", p->timings[i].name, (double)p->timings[i].ns / 1e6);
	for (size_t i = 0; i < p->worker_count; i++)
		fprintf(stderr, "worker %s %d gone %d left %d %s\n", p->workers[i].role, p->workers[i].pid, p->workers[i].gone,
		        p->workers[i].left, p->workers[i].how);
}
