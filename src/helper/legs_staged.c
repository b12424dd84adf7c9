/* The path through host memory: what every pair falls back to must be proven too. One GPU's copy engine writes into pinned
 * memory that both processes share, the other's reads it; the receiving GPU checks in its own memory. */
#define _GNU_SOURCE
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "core/word.h"
#include "helper/legs.h"
#include "helper/near.h"

#define SLICE P2S_MIB /* each pair of a round uses a slice of its own, numbered by its lower GPU */

static void map_host(struct p2s_run *run, uint32_t g, int fd, uint64_t bytes)
{
	struct p2s_device *d = &run->gpu[g];
	struct p2s_op_request req = {.op = P2S_OP_HOST_MAP, .buf = P2S_BUF(g, P2S_B_HOST), .len = bytes};
	struct p2s_op_answer answer;

	p2s_chan_post(run, &d->chan[P2S_CHAN_GPU], &req, fd);
	d->host_mapped = p2s_chan_wait(run, &d->chan[P2S_CHAN_GPU], &answer, NULL) == P2S_RC_OK;
}

/* Each slice beside the GPU that it is numbered by, as the buffers of NCCL's shared memory are; pages stay where they are
 * first touched, so that is done here, before a worker pins all of them. A wish: on one node, or where the kernel forbids it,
 * they lie anywhere. */
static void place(struct p2s_run *run)
{
	unsigned char *at;

	if (run->simulated) /* nodes of this machine say nothing about it */
		return;
	at = mmap(NULL, SLICE * run->n, PROT_READ | PROT_WRITE, MAP_SHARED, run->host_fd, 0);
	if (at == MAP_FAILED)
		return;
	for (uint32_t i = 0; i < run->tested_count; i++) {
		uint32_t g = run->tested[i];
		int32_t node = p2s_near_node(run->gpu[g].address);

		if (node >= 0 && p2s_near_place(node, at + g * SLICE, SLICE))
			memset(at + g * SLICE, 0, SLICE);
	}
	munmap(at, SLICE * run->n);
}

static void map_host_task(struct p2s_run *run, uint32_t g, int kind)
{
	if (kind == P2S_CHAN_GPU && run->gpu[g].bytes[P2S_B_PLAIN] >= SLICE)
		map_host(run, g, run->host_fd, SLICE * run->n);
}

static int step(struct p2s_run *run, uint32_t g, struct p2s_op_request *req, struct p2s_lib_staged *out,
                struct p2s_op_answer *answer)
{
	int rc = p2s_chan_call(run, &run->gpu[g].chan[P2S_CHAN_GPU], req, answer);

	if (rc == P2S_RC_OK)
		return 1;
	if (rc == P2S_RC_TIMEOUT || rc == P2S_RC_STUCK) {
		out->verdict = P2PSAFE_VERDICT_HANG;
		p2s_run_wedged(run, &run->gpu[g].chan[P2S_CHAN_GPU], out->a, out->b, "copy through host memory");
	} else if (rc == P2S_RC_ERROR || rc == P2S_RC_GONE) {
		out->verdict = P2PSAFE_VERDICT_ERROR;
	}
	snprintf(out->note, sizeof out->note, "%s: error %d", answer->where, (int)answer->cuda_error);
	return 0;
}

static int fill(struct p2s_run *run, uint32_t g, uint64_t seed, struct p2s_lib_staged *out)
{
	struct p2s_op_request req = {.op = P2S_OP_FILL, .buf = P2S_BUF(g, P2S_B_PLAIN), .len = SLICE, .seed = seed};
	struct p2s_op_answer answer;

	return step(run, g, &req, out, &answer);
}

static int host_copy(struct p2s_run *run, uint32_t g, uint64_t slice, uint32_t to_device, struct p2s_lib_staged *out)
{
	struct p2s_op_request req = {.op = P2S_OP_HOST_COPY,
	                             .buf = P2S_BUF(g, P2S_B_PLAIN),
	                             .buf2 = P2S_BUF(g, P2S_B_HOST),
	                             .off2 = slice * SLICE,
	                             .len = SLICE,
	                             .mode = to_device};
	struct p2s_op_answer answer;

	return step(run, g, &req, out, &answer);
}

/* Bytes of src arrive in dst by way of the host. The slice first holds dst's poison: a copy that did nothing is seen. */
static int one_way(struct p2s_run *run, uint32_t src, uint32_t dst, uint64_t slice, struct p2s_lib_staged *out)
{
	uint64_t key = p2s_run_key(run, src, dst, P2PSAFE_LEG_STAGED, P2S_M_COUNT);
	uint64_t seed = p2s_seed(key, src, dst, P2PSAFE_LEG_STAGED, 1);
	struct p2s_expect e = {.want = {key, seed},
	                       .outside = p2s_seed(key, src, dst, 0, 0),
	                       .has_before = 1,
	                       .in_end = SLICE,
	                       .src = src,
	                       .dst = dst,
	                       .leg = P2PSAFE_LEG_STAGED,
	                       .gpus = run->n,
	                       .bytes = SLICE};
	struct p2s_op_request check = {
		.op = P2S_OP_CHECK, .buf = P2S_BUF(dst, P2S_B_PLAIN), .len = SLICE, .in_len = SLICE, .seed = seed, .seed2 = seed};
	struct p2s_sample samples[P2S_SAMPLES];
	struct p2s_op_answer answer;
	struct p2s_judgement j;
	size_t count;

	if (!fill(run, dst, e.outside, out) || !host_copy(run, dst, slice, 0, out) || !fill(run, src, seed, out) ||
	    !host_copy(run, src, slice, 0, out) || !host_copy(run, dst, slice, 1, out) || !step(run, dst, &check, out, &answer))
		return 0;
	count = answer.samples_len / sizeof samples[0];
	count = count < P2S_SAMPLES ? count : P2S_SAMPLES;
	memcpy(samples, answer.samples, count * sizeof samples[0]);
	p2s_judge_check(&e, answer.bad_words, answer.first_bad, samples, count, &j);
	out->bytes += SLICE;
	if (j.verdict == P2PSAFE_VERDICT_OK)
		return 1;
	out->verdict = j.verdict;
	out->damage = j.damage;
	snprintf(out->note, sizeof out->note, "%u to %u through host memory", src, dst);
	return 0;
}

static void staged_pair(struct p2s_run *run, uint32_t a, uint32_t b)
{
	struct p2s_lib_staged out = {.a = a, .b = b, .verdict = P2PSAFE_VERDICT_UNTESTED};

	if (!p2s_run_may_start(run) || atomic_load(&run->gpu[a].out) || atomic_load(&run->gpu[b].out))
		return;
	if (!run->gpu[a].host_mapped || !run->gpu[b].host_mapped)
		snprintf(out.note, sizeof out.note, "host memory could not be shared with both GPUs");
	else if (one_way(run, a, b, a, &out) && one_way(run, b, a, a, &out))
		out.verdict = P2PSAFE_VERDICT_OK;
	p2s_run_way(run, a, b)->staged_ok = p2s_run_way(run, b, a)->staged_ok = out.verdict == P2PSAFE_VERDICT_OK;
	p2s_link_send(run, p2s_id_lib_staged, &out, -1);
	p2s_link_progress(run);
}

void p2s_staged_run(struct p2s_run *run)
{
	p2s_link_phase(run, "staged", run->tested_count * (run->tested_count - 1) / 2);
	run->host_fd = memfd_create("p2psafe-staged", MFD_CLOEXEC);
	if (run->host_fd < 0 || ftruncate(run->host_fd, (off_t)(SLICE * run->n)) != 0)
		return;
	place(run);
	p2s_run_each(run, 1, map_host_task);
	p2s_run_rounds(run, staged_pair);
	close(run->host_fd);
	run->host_fd = -1;
}
