/* For people: plays one run against a host folder and prints everything the conductor said.
 * conductor_play HOST LEVEL(1..3) FLAGS ADDRESS... */
#include <stdio.h>
#include <stdlib.h>

#include "conductor_player.h"
#include "core/names.h"

/* When each result came, with the name of its leg: shows where the time goes. */
static int stamp(struct play *p, uint16_t id, const union p2s_lib_any *any)
{
	static uint64_t first;
	uint64_t now = p2s_now_ns();

	(void)p;
	if (first == 0)
		first = now;
	if (id == p2s_id_lib_leg)
		printf("%9.3f ms %u>%u %s %s\n", (double)(now - first) / 1e6, any->leg.src, any->leg.dst,
		       p2s_word_name(P2S_GROUP_LEG, any->leg.leg), p2s_word_name(P2S_GROUP_MAPPING, any->leg.mapping));
	return 1;
}

int main(int argc, char **argv)
{
	static struct play p;

	if (argc < 5 || argc - 4 > P2S_MAX_GPUS)
		return 2;
	play_init(&p, argv[1]);
	p.level = atoi(argv[2]);
	p.flags = (uint64_t)atoi(argv[3]);
	p.deadline_ms = 300000;
	p.on_message = stamp;
	for (int i = 4; i < argc; i++) {
		snprintf(p.address[p.n], sizeof p.address[0], "%s", argv[i]);
		p.test[p.n++] = 1;
	}
	if (!play_run(&p))
		return 1;
	play_dump(&p);
	play_free(&p);
	return 0;
}
