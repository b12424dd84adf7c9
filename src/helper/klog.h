/* The kernel log during a run: read once since boot, then drained between steps without waiting, and once late. What matters
 * goes to the library as log_event; what forbids going on stops the run. An unreadable log is told as unreadable and stops
 * nothing. */
#ifndef P2S_HELPER_KLOG_H
#define P2S_HELPER_KLOG_H

#include <stdint.h>

struct p2s_run;

/* Opens the log and reads what was logged since boot, in a thread of its own: 256 KiB of it, and more if 250 ms
 * (in a probe 20) allow. Without memory or a thread the log stays unread. */
void p2s_klog_start(struct p2s_run *run);
/* Waits for that thread. */
void p2s_klog_join(struct p2s_run *run);
/* Takes out GPUs that logged a grave Xid since boot, unless asked to keep going. After p2s_klog_join(). */
void p2s_klog_refuse(struct p2s_run *run);
/* From now on a>b is the only directed pair with traffic; a == b: none. Drains first, so that what came before keeps its
 * pair. */
void p2s_klog_contact(struct p2s_run *run, uint32_t a, uint32_t b);
/* a and b begin (1) or end (0) to exchange data, both ways, beside other pairs. */
void p2s_klog_round(struct p2s_run *run, uint32_t a, uint32_t b, int begin);
/* Reads what is there. From any thread. */
void p2s_klog_drain(struct p2s_run *run);
/* The last look: IOMMU faults are logged by threads of the kernel, which may come late. Waits only where something was wrong,
 * at most until 200 ms after the last step. Sends log_state and the error counters. */
void p2s_klog_finish(struct p2s_run *run);

#endif
