/* What a process of the helper gives up because it does not need it. */
#ifndef P2S_HELPER_DROP_H
#define P2S_HELPER_DROP_H

/* Every process: no core dump, which would hold pieces of other programs' GPU memory. */
void p2s_drop_core(void);
/* The host worker, which parses what devices say and starts nothing: no program it might execute gains rights, and of the
 * capabilities two stay, where they were: CAP_SYS_ADMIN, since the kernel shows config space beyond 64 bytes to nobody else,
 * and CAP_DAC_READ_SEARCH, for folders of other users. The other workers keep theirs: the driver's own setuid program, which
 * libcuda and libnvidia-ml start, has to work. */
void p2s_drop_host(void);

#endif
