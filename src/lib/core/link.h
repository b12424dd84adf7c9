/* What a PCI Express link can carry, from its transfers per second, its lanes and the payload of its packets. */
#ifndef P2S_CORE_LINK_H
#define P2S_CORE_LINK_H

#include <stdint.h>

#define P2S_LINK_HEADER 24 /* bytes around the payload of a memory write: 4-dword header, sequence, framing, LCRC */
/* A zeroed field means 128 bytes and is also what a machine shows that does not fill it. A limit that is too low would call
 * honest speed impossible, so nothing below this is believed. */
#define P2S_LINK_PAYLOAD_MIN 256

/* Bytes per second in one direction. payload 0: without packet headers, which nothing can exceed; else what writes of that payload
 * can reach. 0: speed or width not known, or nonsense. */
static inline uint64_t p2s_link_limit(uint32_t mts, uint32_t lanes, uint32_t payload)
{
	uint64_t bits = (uint64_t)mts * 1000000 * lanes;

	if (mts == 0 || lanes == 0 || mts > 1000000 || lanes > 64)
		return 0;
	/* 8b/10b up to 5 GT/s, 128b/130b up to 32 GT/s, flits of 256 bytes with 236 of transactions from 64 GT/s on */
	bits = mts < 6000 ? bits * 8 / 10 : mts < 60000 ? bits * 128 / 130 : bits * 236 / 256;
	if (payload == 0)
		return bits / 8;
	if (payload < P2S_LINK_PAYLOAD_MIN)
		payload = P2S_LINK_PAYLOAD_MIN;
	return bits / 8 * payload / (payload + P2S_LINK_HEADER);
}

#endif
