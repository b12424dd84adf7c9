#include "sim/lock.h"

#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define SPINS 64
#define ASK_NS UINT64_C(20000000)    /* a holder keeps a lock for microseconds: after 20 ms ask whether it lives */
#define STEAL_NS UINT64_C(5000000000) /* a stopped holder: no waiter may block for ever */

/* Asked for in every access: no call of the loader to find it. */
static __thread uint32_t own_id __attribute__((tls_model("initial-exec")));

uint64_t sim_now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * UINT64_C(1000000000) + (uint64_t)t.tv_nsec;
}

void sim_sleep_ns(uint64_t ns)
{
	struct timespec t = { (time_t)(ns / UINT64_C(1000000000)), (long)(ns % UINT64_C(1000000000)) };

	nanosleep(&t, NULL);
}

void sim_relax(uint32_t *turns)
{
	uint32_t n = (*turns)++;

	if (n < 8)
		return;
	if (n < 64)
		sched_yield();
	else
		sim_sleep_ns(n < 256 ? 20000 : 100000);
}

/* Without /proc, which may be another PID namespace's: a container's numbers mean other processes there. Only of a whole process
 * can a descriptor be had; a thread that ends leaves nothing behind. */
int sim_alive(uint32_t id)
{
	struct pollfd p = { .fd = (int)syscall(SYS_pidfd_open, (pid_t)id, 0), .events = POLLIN };
	int ended;

	if (p.fd < 0)
		return !(kill((pid_t)id, 0) && errno == ESRCH);
	ended = poll(&p, 1, 0) > 0; /* also one that nobody has waited for yet */
	close(p.fd);
	return !ended;
}

int sim_trylock(uint32_t *word)
{
	uint32_t zero = 0;

	if (!own_id)
		own_id = (uint32_t)syscall(SYS_gettid);
	return __atomic_load_n(word, __ATOMIC_RELAXED) == 0 &&
	       __atomic_compare_exchange_n(word, &zero, own_id, 0, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED);
}

void sim_lock(uint32_t *word)
{
	uint64_t start, asked;
	int i;

	for (i = 0; i < SPINS; i++)
		if (sim_trylock(word))
			return;
	start = asked = sim_now();
	for (;;) {
		uint32_t holder;
		uint64_t now;

		if (sim_trylock(word))
			return;
		sched_yield();
		now = sim_now();
		if (now - asked < ASK_NS)
			continue;
		asked = now;
		holder = __atomic_load_n(word, __ATOMIC_RELAXED);
		if (!holder || (sim_alive(holder) && now - start < STEAL_NS))
			continue;
		if (__atomic_compare_exchange_n(word, &holder, own_id, 0, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
			return;
	}
}

void sim_unlock(uint32_t *word)
{
	/* Only if it is still ours: a waiter may have taken it from a thread that was stopped for seconds. */
	uint32_t mine = own_id;

	__atomic_compare_exchange_n(word, &mine, 0, 0, __ATOMIC_RELEASE, __ATOMIC_RELAXED);
}
