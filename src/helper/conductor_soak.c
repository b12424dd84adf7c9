/* Thorough: the whole test again, at least once, and again until the time that was asked for is over. What failed stays failed,
 * what passed adds up: tally.h. */
#include "helper/legs.h"

static uint64_t left(const struct p2s_run *run)
{
	uint64_t gone = p2s_now_ns() - run->soak_ns;

	return gone < run->ask.soak_ns ? run->ask.soak_ns - gone : 0;
}

void p2s_soak_run(struct p2s_run *run)
{
	uint64_t sweep_ns = 0;
	unsigned told = ~0U;

	p2s_link_phase(run, "soak", run->ask.soak_ns < P2S_SEC ? 1 : (uint32_t)(run->ask.soak_ns / P2S_SEC));
	run->soak_ns = p2s_now_ns();
	/* A cycle in which no leg could be run would be followed by others like it. */
	for (run->cycle = 1; run->cycle == 1 || left(run) > 0; run->cycle++) {
		uint64_t since;

		if (atomic_load(&run->legs_told) == told || !p2s_run_may_start(run))
			break;
		told = atomic_load(&run->legs_told);
		p2s_run_rounds(run, p2s_bulk_pair);
		p2s_run_rounds(run, p2s_order_pair);
		since = p2s_now_ns();
		/* The sweep takes its time: not once more when that is not left. */
		if (run->cycle == 1 || left(run) > sweep_ns)
			p2s_sweep_run(run);
		sweep_ns = p2s_now_ns() - since > sweep_ns ? p2s_now_ns() - since : sweep_ns;
		p2s_load_run(run);
		p2s_link_progress(run);
	}
	run->soak_ns = 0; /* progress of what follows is counted as before */
}
