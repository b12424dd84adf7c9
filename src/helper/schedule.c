#include "helper/schedule.h"

uint32_t p2s_schedule_rounds(uint32_t n)
{
	return n < 2 ? 0 : n - 1 + n % 2;
}

int p2s_schedule_pair(uint32_t n, uint32_t round, uint32_t i, uint32_t *a, uint32_t *b)
{
	uint32_t even = n + n % 2; /* an odd field gets a ghost, number n: who meets it rests */
	uint32_t circle = even - 1;
	uint32_t x, y;

	if (n < 2 || round >= circle || i >= even / 2)
		return 0;
	if (i == 0) {
		x = even - 1;
		y = round;
	} else {
		x = (round + i) % circle;
		y = (round + circle - i) % circle;
	}
	if (x >= n || y >= n)
		return 0;
	*a = x < y ? x : y;
	*b = x < y ? y : x;
	return 1;
}

uint64_t p2s_schedule_until(uint64_t now_ns, uint64_t end_ns, uint32_t parts)
{
	if (now_ns >= end_ns || parts == 0)
		return end_ns;
	return now_ns + (end_ns - now_ns) / parts;
}
