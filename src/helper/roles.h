/* The roles of the helper program other than the gpu and peer workers. Each returns the exit status. */
#ifndef P2S_HELPER_ROLES_H
#define P2S_HELPER_ROLES_H

int p2s_conductor_main(void);                            /* the library's socket is descriptor 3 */
int p2s_host_worker_main(int sock);                      /* libpci and files that need the driver */
int p2s_nvml_worker_main(int sock, const char *library); /* NULL: the system's libnvidia-ml.so.1 */

#endif
