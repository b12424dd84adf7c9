/* No lock: a fork in the middle of the decision would leave a locked one behind in the child, for ever. */
#define _GNU_SOURCE
#include "answer.h"

#include <stdatomic.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define FRESH UINT64_C(0)
/* Beyond any deadline of the library without options: 20 s, 2 s for each of at most 64 GPUs, one more to end. */
#define PATIENCE_MS 160000

static struct p2s_veto made;                      /* written by the owner only, before it is the answer */
static _Atomic(const struct p2s_veto *) answer;   /* NULL until there is one; then it never changes */
static _Atomic uint64_t owner;                    /* FRESH, or process (high half) and thread that decide */
static atomic_int told;

static uint64_t process_of(uint64_t who)
{
	return who >> 32;
}

static uint64_t me(void)
{
	return (uint64_t)getpid() << 32 | (uint64_t)syscall(SYS_gettid);
}

/* The first answer stays. */
static const struct p2s_veto *settle(const struct p2s_veto *mine)
{
	const struct p2s_veto *none = NULL;

	return atomic_compare_exchange_strong(&answer, &none, mine) ? mine : none;
}

const struct p2s_veto *p2s_plugin_answer(void)
{
	struct timespec pause = {.tv_nsec = 1000000};
	const struct p2s_veto *a;
	int waited_ms = 0;

	while ((a = atomic_load(&answer)) == NULL) {
		uint64_t who = atomic_load(&owner);
		uint64_t self = me();

		if (who == self)
			return &p2s_veto_of_all;
		/* The thread that decides in the parent process does not exist in its child. */
		if (who == FRESH || process_of(who) != process_of(self)) {
			if (!atomic_compare_exchange_strong(&owner, &who, self))
				continue;
			p2s_veto_decide(&made);
			return settle(&made);
		}
		if (waited_ms++ >= PATIENCE_MS)
			return settle(&p2s_veto_of_all);
		nanosleep(&pause, NULL);
	}
	return a;
}

int32_t p2s_plugin_first_to_tell(void)
{
	return atomic_load(&answer) != NULL && atomic_exchange(&told, 1) == 0;
}
