#include "sim/kmsg.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "sim/host.h"
#include "sim/lock.h"

#define INTERVAL_NS UINT64_C(5000000000)
#define BURST 10
#define FIRST_SEQ 100000

static const char *address(const struct sim_host *h, int gpu)
{
	return gpu >= 0 && gpu < h->config.gpu_count ? h->config.gpus[gpu].address : "?";
}

/* {src}, {dst} and {pid} are filled in; what is not printable becomes \xNN as in the kernel. */
static void expand(const struct sim_host *h, const char *text, int src, int dst, char *out, size_t cap)
{
	size_t n = 0;

	while (*text && n + 24 < cap) {
		if (!strncmp(text, "{src}", 5) || !strncmp(text, "{dst}", 5)) {
			n += (size_t)snprintf(out + n, cap - n, "%s", address(h, text[1] == 's' ? src : dst));
			text += 5;
		} else if (!strncmp(text, "{pid}", 5)) {
			n += (size_t)snprintf(out + n, cap - n, "%d", (int)getpid());
			text += 5;
		} else if ((unsigned char)*text < ' ' || *text == '\\') {
			n += (size_t)snprintf(out + n, cap - n, "\\x%02x", (unsigned char)*text++);
		} else {
			out[n++] = *text++;
		}
	}
	out[n] = 0;
}

/* One write, so that records of several processes never mix (the file is in append mode). */
static void put(struct sim_host *h, int fd, const char *text, int64_t delay_ms)
{
	int last = h->config.fault_count * h->config.gpu_count;
	uint32_t seq = __atomic_fetch_add(&h->kmsg[last].seq, 1, __ATOMIC_RELAXED);
	char line[800];
	int n = snprintf(line, sizeof(line), "3,%u,%llu,-;%s\n", FIRST_SEQ + seq,
			 (unsigned long long)(sim_now() / 1000 + (uint64_t)delay_ms * 1000), text);

	if (n > 0 && (size_t)n < sizeof(line) && write(fd, line, (size_t)n) < 0)
		sim_log("a line of the kernel log was lost");
}

void sim_kmsg_write(struct sim_host *h, int fault, int src, int dst)
{
	const struct sim_fault *f = &h->config.faults[fault];
	struct sim_kmsg_limit *limit = &h->kmsg[fault * h->config.gpu_count + (src < 0 ? 0 : src)];
	const char *fd = getenv("P2PSAFE_SIM_KMSG_FD");
	const char *function = strstr(f->kmsg, "AMD-Vi:") ? "amd_iommu_report_page_fault" : "dmar_fault";
	uint64_t now = sim_now();
	char text[600], swallowed[96];
	int print;

	if (!fd || !fd[0])
		return;
	swallowed[0] = 0;
	sim_lock(&limit->lock);
	if (!limit->begin_ns || now - limit->begin_ns > INTERVAL_NS) {
		if (limit->missed && (strstr(f->kmsg, "AMD-Vi:") || strstr(f->kmsg, "DMAR:")))
			snprintf(swallowed, sizeof(swallowed), "%s: %u callbacks suppressed", function, limit->missed);
		limit->begin_ns = now;
		limit->printed = limit->missed = 0;
	}
	print = limit->printed < BURST;
	if (print)
		limit->printed++;
	else
		limit->missed++;
	sim_unlock(&limit->lock);
	if (swallowed[0])
		put(h, atoi(fd), swallowed, f->kmsg_delay_ms);
	if (!print)
		return;
	expand(h, f->kmsg, src, dst, text, sizeof(text));
	put(h, atoi(fd), text, f->kmsg_delay_ms);
}
