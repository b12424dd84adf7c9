/* Drives one worker process the way the conductor does. */
#ifndef P2S_TESTS_WORKER_DRIVE_H
#define P2S_TESTS_WORKER_DRIVE_H

#include <sys/types.h>

#include "core/word.h"
#include "helper/ops.h"

#define DRIVE_CHANNELS 8

struct drive {
	pid_t pid;
	int count;
	uint32_t init_mode; /* of INIT, P2S_INIT_* */
	int sock[DRIVE_CHANNELS];
	int control_fd[DRIVE_CHANNELS];
	struct p2s_control *control[DRIVE_CHANNELS];
	uint32_t seq[DRIVE_CHANNELS];
	struct p2s_op_device device[DRIVE_CHANNELS];
};

/* Starts a worker with count channels. library "-": the system's driver. host: folder of a simulated host, NULL none;
 * memory: its shared memory (a memfd), -1 for its own. Returns 1 on success. */
int drive_start(struct drive *d, const char *program, const char *library, const char *host, int memory, int count);
/* INIT of one channel. Returns the rc; the device is in d->device[channel]. */
int drive_init(struct drive *d, int channel, const char *address, struct p2s_op_answer *a);
/* One request, one answer. fd travels with it (-1 none); *got gets a descriptor of the answer (may be NULL). Returns rc, -1
 * when no answer came within 15 s, -2 at the end of the socket. */
int drive_ask(struct drive *d, int channel, struct p2s_op_request *q, int fd, int *got, struct p2s_op_answer *a);
int drive_send(struct drive *d, int channel, struct p2s_op_request *q, int fd);
int drive_receive(struct drive *d, int channel, int *got, struct p2s_op_answer *a);
/* Clears ready, go and abort of a channel before a waiting kernel. */
void drive_clear(struct drive *d, int channel);
/* Waits until ready[0..roles-1] are up (limit 10 s), then raises go. Returns 1 if it did. */
int drive_go(struct drive *d, int channel, int roles);
/* Waits up to ms for the process to end. Returns its exit status, 256 + signal, or -1 when it still runs. */
int drive_wait(struct drive *d, int ms);
/* Closes everything; kills the process if it does not end by itself within 2 s. */
void drive_end(struct drive *d);
/* A memfd of that size. */
int drive_memfd(uint64_t bytes);
/* A new folder for the cuda.json of a simulated host. Returns 1 on success. */
int drive_folder(char *folder, size_t cap);
void drive_folder_end(const char *folder);

#endif
