/* The nvidia driver as the system shows it without asking the driver: version, flavour, parameters in force. */
#ifndef P2S_INVENTORY_DRIVER_H
#define P2S_INVENTORY_DRIVER_H

#include "core/fsroot.h"
#include "core/model.h"

/* Fills driver_version, driver_flavour and driver_parameters. */
void p2s_driver_read(const struct p2s_fsroot *root, struct p2s_model *m);
/* Fills the driver part of facts.host from what was read. */
void p2s_driver_facts(struct p2s_model *m);
/* 1 if RegistryDwords text ("a=1;b=2", quoted or not) holds a key of that name; keys are compared without case, as the driver
 * does. */
int32_t p2s_driver_has_key(const char *dwords, const char *key);

#endif
