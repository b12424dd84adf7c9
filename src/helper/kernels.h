/* The test kernels: names, arguments and results. One contract, two implementations: PTX text (kernels.ptx, run by the
 * driver) and twins in C (src/sim/twins.c, run by the simulated driver). A GPU test compares them.
 *
 * Every argument is one .u64. Pointers are device addresses (unified addressing). All pattern words follow
 * core/word.h. No kernel uses a stack. Kernels that wait obey three bounds: max_iters polls, max_ns of %globaltimer since
 * go, and the abort word of the control page.
 *
 * p2s_fill(dst, begin, end, seed)
 *     Stores the pattern bytes of seed at byte offsets [begin, end) of dst: 16-byte stores where both ends allow, bytes
 *     at the edges; then fence.acq_rel.sys. dst local: poison or source. dst a peer's memory: the SM store leg; it
 *     proves that plain stores of this accessor arrive, once the owner has checked them. Any grid.
 *
 * p2s_check(buf, begin, end, in_begin, in_end, seed, seed_out, res)
 *     Compares bytes [begin, end) of buf (multiples of 8) with seed inside [in_begin, in_end) and with seed_out outside:
 *     words across a border are compared byte-wise. Counts wrong words into struct p2s_check_result *res (device
 *     memory of the GPU that runs it; zeroed by the host first except first_bad = ~0 and compared), keeps the lowest wrong
 *     offset and up to P2S_SAMPLES samples, and adds the words that were compared: fewer than there are is no judgement.
 *     buf is always memory of the GPU that runs the kernel: this is the judge. Any grid of whole warps.
 *
 * p2s_load(dst, src, begin, end, mode)
 *     Copies bytes [begin, end) from src (a peer's memory) to dst (local, poisoned), same offsets. mode 0: plain 16-byte
 *     loads where alignment allows, bytes at the edges; mode 1: ld.relaxed.sys.u64 (begin, end multiples of 8); mode 2:
 *     ld.acquire.sys.u64 (likewise). The local copy is then judged by p2s_check. Any grid.
 *
 * p2s_mp(ctl, res, w_dst, r_src, w_seed, r_seed, rounds, words, slot_bytes, flag_off, idiom, pace_ns, max_ns, max_iters)
 *     Message passing. Grid of 2 blocks of 32 threads: block 0 is the writer (idle if w_dst = 0), block 1 the reader (idle if
 *     r_src = 0). An idle role still does ready and go and reports P2S_ROLE_IDLE.
 *     Handshake: thread 0 stores 1 to ctl->ready[block] (st.release.sys), then polls ctl->go (ld.acquire.sys) until it is
 *     not 0, abort is not 0, or P2S_GO_NS of %globaltimer have passed (then the role ends with P2S_ROLE_NO_GO).
 *     Slot k (k = 0..rounds-1) starts at base + k * slot_bytes; its payload is words 0..words-1 (8 bytes each); its flag is the word at
 *     flag_off inside the slot (flag_off >= words * 8, multiple of 8). With e = (k + 1) & 2047 and seed_k = p2s_seed_epoch(seed, e),
 *     payload word j is p2s_word(seed_k, (k * slot_bytes) / 8 + j), the flag is p2s_word(seed_k, (k * slot_bytes + flag_off) / 8).
 *     Offsets count from base (w_dst or r_src).
 *     Writer, round k: waits until go_time + k * pace_ns; the 32 threads store the payload (st.relaxed.sys.u64, idiom 2:
 *     st.volatile.u64), __syncwarp; then thread 0 publishes the flag. Slots are never reused, so directions do not depend on each
 *     other.
 *     Reader, round k: thread 0 polls the flag until it equals the expected word; then __syncwarp, and the 32 threads load
 *     the payload once and compare it at once. Never a second look: that would hide late payload.
 *     idiom 0 (NCCL's Simple): writer fence.acq_rel.sys, st.relaxed.sys flag; reader ld.relaxed.sys flag, fence.acq_rel.sys,
 *     payload by plain ld.v2.u64/ld.u64. idiom 1: st.release.sys / ld.acquire.sys, payload ld.relaxed.sys. idiom 2: membar.sys +
 *     st.volatile / ld.volatile + membar.sys, payload ld.volatile. idiom 3: round k uses idiom k % 3.
 *     A reader that meets a bound stops, with rounds_done = k, the flag it saw last in flag_found, and, for each of its
 *     payload words, whether it is there (payload_ok, payload_bad counts of that round).
 *     Bounds are looked at while it waits; the abort word also before each 32nd message, for one that finds every message there
 *     never waits. polls counts a reader's looks that found no flag.
 *
 * p2s_tear(ctl, res, w_dst, r_src, words, seed_a, seed_b, iters, max_ns, max_iters)
 *     8-byte single-copy atomicity. Same grid, handshake and roles as p2s_mp. The writer stores, iters times, alternately
 *     pattern a and pattern b to words 0..words-1 of w_dst (st.relaxed.sys.u64, 32 threads, thread t words t, t+32, ...), then
 *     fence.acq_rel.sys and p2s_word(seed_a, words) to word index `words` as the end mark. The reader loads words 0..words-1
 *     (ld.relaxed.sys.u64) again and again until it sees the end mark or a bound; every value must be a's word, b's word or
 *     the poison p2s_word(r_poison, i) with r_poison = seed_a ^ seed_b ^ P2S_TEAR_POISON. Others count as bad and are
 *     sampled. rounds_done counts passes; seen_a and seen_b count values: a test that never saw both has no power.
 *
 * p2s_atomic(ctl, res, ptr, count, cas_tries)
 *     Grid of 1 block of 32 threads. After the handshake (block index 0): each thread does `count` atom.add.sys.u64(ptr, 1); then
 *     thread 0 does `count` successful compare-and-swap increments of ptr[1] (atom.cas.sys.u64) with at most cas_tries
 *     attempts. rounds_done = adds done by all threads; cas_done = successful swaps. Run by accessor and owner at
 *     once; the owner then judges ptr[0] and ptr[1] in its own memory.
 *
 * p2s_wide(ctl, res, w_dst, r_src, w_seed, r_seed, rounds, words, slot_bytes, flag_off, idiom, pace_ns, max_ns, max_iters)
 *     p2s_mp by many warps: the same slots, words, flags, roles, bounds and results. Grid of 2 blocks of any number of whole
 *     warps. Writer: all threads store the payload, bar.sync, then thread 0 publishes the flag as in p2s_mp. Reader: thread 0 polls
 *     the flag and fences, bar, then all threads load and compare once. idiom bits 0 and 1 as in p2s_mp. Bit 2 (P2S_WIDE_BARE): no
 *     fence, release or acquire anywhere, the control. Bit 3 (P2S_WIDE_WARM): before it polls, every thread of the reader
 *     loads its words of the slot once by plain loads; seen_a is the sum of what they gave, of no meaning.
 *
 * p2s_ll(ctl, res, w_dst, r_src, w_seed, r_seed, rounds, words, slot_bytes, mode, pace_ns, max_ns, max_iters)
 *     Messages that carry their flags. Grid, handshake, bounds and roles as p2s_mp; 32 threads, two words each at a time. words
 *     even; base and slot_bytes multiples of 16 (mode 2: words multiple of 16, 128). seed_k as in p2s_mp.
 *     mode 0, 1: word j is the lower half of p2s_word(seed_k, (k * slot_bytes) / 8 + j) and, as its upper half, the upper half
 *     of p2s_word(seed_k, (k * slot_bytes) / 8): the flag. Stored by st.relaxed.sys.u64 (0) or st.volatile.v2.u64 (1). The
 *     reader loads a word until its flag is there and compares it as it was then. mode 2: word j is the pattern word; each 16th
 *     is the flag of its line of 128 bytes, whose eight threads compare what they loaded together with it.
 *     A reader that meets a bound: payload_ok words of the round were right, payload_bad of the 64 at work never came.
 */
#ifndef P2S_HELPER_KERNELS_H
#define P2S_HELPER_KERNELS_H

#include <stdint.h>

#define P2S_KERNEL_ARGS_MAX 14

/* P2S_KERNEL(name, number of arguments) */
#define P2S_KERNELS(K) \
	K(fill, 4)         \
	K(check, 8)        \
	K(load, 5)         \
	K(mp, 14)          \
	K(tear, 10)        \
	K(atomic, 5)       \
	K(wide, 14)        \
	K(ll, 13)

#define P2S_SAMPLES 32
#define P2S_GO_NS UINT64_C(2000000000) /* longest wait for go: the host may be slow, the GPU must not wait for ever */
#define P2S_WIDE_BARE 4
#define P2S_WIDE_WARM 8
enum { P2S_LL_SINGLE = 0, P2S_LL_PAIR = 1, P2S_LL_LINE = 2 };
#define P2S_SIM_GO_NS (4 * P2S_GO_NS) /* the twins' own: their clock stands still while they have no CPU */
#define P2S_TEAR_POISON UINT64_C(0x00fe000000000000)

struct p2s_sample {
	uint64_t offset; /* byte offset from the start of the handle (mp, tear: from base) */
	uint64_t found;
};

struct p2s_check_result {
	uint64_t bad_words;
	uint64_t first_bad; /* lowest wrong byte offset; ~0 none */
	uint64_t samples;   /* how many were taken; only the first P2S_SAMPLES are kept */
	struct p2s_sample sample[P2S_SAMPLES];
	uint64_t compared; /* what the host put there plus all words of [begin, end) */
};

enum { P2S_ROLE_NOT_RUN = 0, P2S_ROLE_DONE = 1, P2S_ROLE_IDLE = 2, P2S_ROLE_NO_GO = 3, P2S_ROLE_TIMEOUT = 4, P2S_ROLE_ABORTED = 5 };

/* One per role (block); res points to an array of two. Zeroed by the host first. Written by the GPU that runs the kernel, in
 * its own memory. */
struct p2s_role_result {
	uint64_t status; /* P2S_ROLE_* */
	uint64_t rounds_done;
	uint64_t bad_words;
	uint64_t flag_found;
	uint64_t payload_ok;
	uint64_t payload_bad;
	uint64_t polls;
	uint64_t seen_a;
	uint64_t seen_b;
	uint64_t cas_done;
	uint64_t elapsed_ns; /* %globaltimer from go to the end */
	uint64_t samples;
	struct p2s_sample sample[P2S_SAMPLES];
};

#endif
