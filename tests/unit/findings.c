/* Every rule of findings.def: a machine that triggers it, and the same machine with the one difference that must not. */
#include "findings_machines.h"
#include "unit.h"

#include "evidence/log.h"
#include "rules/explain.h"
#include "rules/rules.h"

#define HOST (-1)

/* YES: the rule's machine. NO: with the difference. Both start from base(). */
#define YES(name) static void yes_##name(struct p2s_model *m)
#define NO(name) static void no_##name(struct p2s_model *m)

YES(translated) { translate(m); CORRUPT(m); }
NO(translated) { translate(m); OK(m); }
YES(translated_probe) { translate(m); }
NO(translated_probe) { (void)m; }
YES(translated_log) { translate(m); CORRUPT(m); logged(m, P2S_LOG_AMD_FAULT, 0, "fault")->in_test = 1; }
NO(translated_log) { translate(m); OK(m); logged(m, P2S_LOG_AMD_FAULT, 0, "fault"); }
YES(translated_gpu)
{
	CORRUPT(m);
	result(m, 1, 0, P2PSAFE_VERDICT_OK);
	snprintf(m->gpus[0].domain_type, sizeof m->gpus[0].domain_type, "DMA");
}
/* the accessor's domain decides: the owner's does not matter */
NO(translated_gpu)
{
	result(m, 0, 1, P2PSAFE_VERDICT_OK);
	result(m, 1, 0, P2PSAFE_VERDICT_CORRUPT);
	snprintf(m->gpus[0].domain_type, sizeof m->gpus[0].domain_type, "DMA");
}
YES(fault) { logged(m, P2S_LOG_DMAR_FAULT, 1, "fault")->in_test = 1; }
NO(fault) { logged(m, P2S_LOG_DMAR_FAULT, -1, "of another device")->in_test = 1; }
YES(acs_shared) { translate(m); CORRUPT(m); one_switch(m, 0x1d); }
NO(acs_shared) { translate(m); CORRUPT(m); one_switch(m, 0x01); } /* source validation alone is harmless */
YES(acs_slow) { one_switch(m, 0x04); result(m, -1, -1, P2PSAFE_VERDICT_DEGRADED); }
NO(acs_slow) { one_switch(m, P2S_ACS_UNREAD); result(m, -1, -1, P2PSAFE_VERDICT_DEGRADED); } /* not read is not on */
YES(acs_root) { translate(m); CORRUPT(m); root_ports(m, 0x1d); }
NO(acs_root) { translate(m); CORRUPT(m); root_ports(m, 0x1d); host(m)->snp = P2S_YES; }
YES(bar_small) { m->gpus[1].bar1_bytes = UINT64_C(256) << 20; REFUSED(m); }
NO(bar_small) { m->gpus[1].bar1_bytes = UINT64_C(256) << 20; REFUSED(m); guest(m, -2); } /* a guest cannot see the real one */
/* RTX A6000 and T4 leave the factory with 256 MiB, and their peers need no more; a patched driver's do */
YES(bar_ampere) { m->gpus[1].cc_major = 8; m->gpus[1].bar1_bytes = UINT64_C(256) << 20; CORRUPT(m); host(m)->patched = P2S_YES; }
NO(bar_ampere) { m->gpus[1].cc_major = 8; m->gpus[1].bar1_bytes = UINT64_C(256) << 20; CORRUPT(m); }
YES(bar_hopper) { m->gpus[1].cc_major = 9; m->gpus[1].bar1_bytes = UINT64_C(256) << 20; CORRUPT(m); }
NO(bar_hopper) { m->gpus[1].cc_major = 9; m->gpus[1].bar1_bytes = UINT64_C(256) << 20; OK(m); }
YES(bar_ampere_full) { m->gpus[1].cc_major = 8; yes_bar_small(m); m->pairs[0].legs[0].cuda_error = 205; }
NO(bar_ampere_full) { m->gpus[1].cc_major = 8; yes_bar_small(m); }
YES(bar_lt_vram) { m->gpus[1].bar1_bytes = UINT64_C(32) << 30; REFUSED(m); }
NO(bar_lt_vram) { m->gpus[1].bar1_bytes = UINT64_C(48) << 30; REFUSED(m); }
YES(bar_no_space) { logged(m, P2S_LOG_BAR_NO_SPACE, 1, "BAR 1 [mem size 0x800000000 64bit pref]: can't assign; no space"); }
NO(bar_no_space) { logged(m, P2S_LOG_BAR_NO_SPACE, 1, "BAR 6 [mem size 0x80000 pref]: can't assign; no space"); }
/* not 1, but a window of SR-IOV, as kernels before 6.10 number it */
YES(bar_no_space_old) { no_room(m, "BAR 1: no space for [mem size 0x1000000000 64bit pref]"); }
NO(bar_no_space_old) { no_room(m, "BAR 10: no space for [mem size 0x1000000000 64bit pref]"); }
/* where BAR0 has 64 bits, the window is number 2 */
YES(bar_no_space_wide) { wide(m); no_room(m, "BAR 2 [mem size 0x4000000000 64bit pref]: can't assign; no space"); }
NO(bar_no_space_wide) { wide(m); no_room(m, "BAR 12 [mem size 0x4000000000 64bit pref]: can't assign; no space"); }
YES(bar_no_space_unread) { unread_window(m); no_room(m, "BAR 2: no space for [mem size 0x4000000000 64bit pref]"); }
NO(bar_no_space_unread) { unread_window(m); no_room(m, "BAR 4: no space for [mem size 0x2000000 64bit pref]"); }
YES(bar_unassigned) { m->gpus[1].facts.bar1_assigned = P2S_NO; }
NO(bar_unassigned) { m->gpus[1].facts.bar1_assigned = P2S_UNREAD; }
YES(bar_unaligned)
{
	struct p2s_log_event *e = logged(m, P2S_LOG_NVRM_BAR1_UNALIGNED, -1, "NVRM: not aligned");

	e->owner = 1;
	e->fault_address = 0x6000400000;
	e->flags = 0x20000000;
}
NO(bar_unaligned) { logged(m, P2S_LOG_NVRM_PEER_MAP, 1, "NVRM: another line"); }
YES(peer_map) { CORRUPT(m); logged(m, P2S_LOG_NVRM_PEER_MAP, -1, "NVRM: IOMMU mapping failed from GPU0 to GPU1")->in_test = 1; }
NO(peer_map) { CORRUPT(m); logged(m, P2S_LOG_NVRM_IOVA, -1, "NVRM: another line"); }
YES(peer_map_before) { REFUSED(m); logged(m, P2S_LOG_NVRM_PEER_MAP, -1, "NVRM: Failed to DMA map MMIO range"); }
NO(peer_map_before) /* of a device that is none of these GPUs */
{
	struct p2s_log_event *e = logged(m, P2S_LOG_NVRM_PEER_MAP, -1, "NVRM: 0000:99:00.0: DMA address not in addressable range");

	snprintf(e->device, sizeof e->device, "0000:99:00.0");
}
NO(p2p_false_mapped) { yes_peer_map(m); } /* the log says why */
YES(p2p_false_mapped) { no_peer_map(m); }
YES(display) { m->gpus[1].facts.display_active = P2S_YES; CORRUPT(m); }
NO(display) { m->gpus[1].facts.display_active = P2S_YES; OK(m); }
YES(below_4g) { m->gpus[0].bar_start[1] = 0x90000000; m->gpus[0].bar1_bytes = m->gpus[0].bar_bytes[1] = UINT64_C(256) << 20; }
NO(below_4g) { m->gpus[0].bar1_bytes = m->gpus[0].bar_bytes[1] = UINT64_C(256) << 20; }
YES(bottleneck) { m->gpus[0].facts.hops[0].width_now = 4; }
NO(bottleneck) { m->gpus[0].facts.hops[0].width_now = m->gpus[0].facts.hops[0].width_max = 0; } /* not read */
YES(no_clique) { guest(m, -2); REFUSED(m); }
NO(no_clique) { guest(m, 1); REFUSED(m); }
YES(no_clique_unread) { guest(m, P2S_UNREAD); REFUSED(m); }
NO(no_clique_unread) { REFUSED(m); }
YES(false_clique) { guest(m, 1); CORRUPT(m); }
NO(false_clique) { guest(m, -2); CORRUPT(m); }
YES(passthrough) { guest(m, -2); CORRUPT(m); }
NO(passthrough) { guest(m, 1); CORRUPT(m); }
YES(cloud) { guest(m, -2); REFUSED(m); snprintf(host(m)->dmi_vendor, sizeof host(m)->dmi_vendor, "Amazon EC2"); }
NO(cloud) { REFUSED(m); snprintf(host(m)->dmi_vendor, sizeof host(m)->dmi_vendor, "Amazon EC2"); } /* .metal */
YES(cloud_nvlink) { yes_cloud(m); by_nvlink(m); }
NO(cloud_nvlink) { yes_cloud(m); by_nvlink(m); OK(m); offer(m); }
YES(topology) { guest(m, -2); m->gpus[0].numa_node = m->gpus[1].numa_node = -1; }
NO(topology) { m->gpus[0].numa_node = m->gpus[1].numa_node = -1; }
YES(wsl) { host(m)->wsl = P2S_YES; }
NO(wsl) { host(m)->wsl = P2S_UNREAD; }
YES(cc_guest) { host(m)->confidential_guest = P2S_YES; }
NO(cc_guest) { host(m)->confidential_guest = P2S_UNREAD; }
YES(cc_gpu) { m->gpus[1].facts.confidential = P2S_YES; }
NO(cc_gpu) { m->gpus[1].facts.confidential = P2S_NO; }
YES(mig) { m->gpus[1].facts.mig = P2S_YES; }
NO(mig) { m->gpus[1].facts.mig = P2S_UNREAD; }
YES(translated_unbound) { translate(m); unbind(m, ""); }
NO(translated_unbound) { translate(m); unbind(m, "vfio-pci"); } /* vfio's own domain is in force */
YES(acs_unbound) { translate(m); one_switch(m, 0x1d); unbind(m, "nouveau"); }
NO(acs_unbound) { translate(m); one_switch(m, 0); unbind(m, "nouveau"); }
YES(risky) { xid(m, 79); }
NO(risky) { xid(m, 79); OK(m); } /* it was tested all the same */
YES(risky_mode) { m->gpus[0].facts.compute_mode = 3; }
NO(risky_mode) { m->gpus[0].facts.compute_mode = 0; }
YES(risky_patched) { translate(m); host(m)->patched = P2S_YES; }
YES(risky_unread) { host(m)->patched = P2S_YES; domain(m, ""); }
NO(risky_unread) { host(m)->patched = P2S_YES; domain(m, ""); no_iommu(m); }
YES(risky_geforce_unread) { geforce(m); domain(m, "unknown"); offer(m); }
NO(risky_geforce_unread) { domain(m, "unknown"); offer(m); } /* whose word about peers is an observation */
NO(risky_patched) { host(m)->patched = P2S_YES; } /* no translation: raw addresses are right */
YES(grave) { xid(m, 119); }
NO(grave) { xid(m, 31); }
YES(action) { asked_for(m, P2S_RECOVERY_NONE); asked_for(m, P2S_RECOVERY_RESET); }
NO(action) { asked_for(m, P2S_RECOVERY_RESET); asked_for(m, P2S_RECOVERY_NONE); } /* and was given it */
YES(risky_action) { asked_for(m, P2S_RECOVERY_RESET); asked_for(m, P2S_RECOVERY_NONE); asked_for(m, P2S_RECOVERY_UNREAD); }
NO(risky_action) { asked_for(m, P2S_RECOVERY_RESET); asked_for(m, P2S_RECOVERY_NONE); }
/* the same once more is one event with the number of the younger */
YES(action_again) { asked_for(m, P2S_RECOVERY_RESET)->seq = 9; asked_for(m, P2S_RECOVERY_NONE)->seq = 7; }
NO(action_again) { asked_for(m, P2S_RECOVERY_NONE)->seq = 9; asked_for(m, P2S_RECOVERY_RESET)->seq = 7; }
YES(action_elsewhere) { asked_for(m, P2S_RECOVERY_RESET); asked_for(m, P2S_RECOVERY_NONE)->gpu = 1; }
NO(action_elsewhere) { asked_for(m, P2S_RECOVERY_NONE)->gpu = 1; }
YES(action_in_test) { asked_for(m, P2S_RECOVERY_RESET)->in_test = 1; asked_for(m, P2S_RECOVERY_NONE)->in_test = 1; }
NO(action_in_test) { asked_for(m, P2S_RECOVERY_NONE)->in_test = 1; }
YES(nvlink_xid) { xid(m, 74); }
NO(nvlink_xid) { xid(m, 13); }
YES(xid) { xid(m, 31)->in_test = 1; }
NO(xid) { xid(m, 43)->own_pid = 1; } /* our own killed worker */
YES(mixed) { m->gpus[1].device = 0x2684; REFUSED(m); }
NO(mixed) { m->gpus[1].device = 0x2684; OK(m); }
YES(geforce_no) { geforce(m); REFUSED(m); }
NO(geforce_no) { REFUSED(m); }
YES(geforce_false) { geforce(m); CORRUPT(m); }
NO(geforce_false) { geforce(m); CORRUPT(m); translate(m); }
YES(p2p_false) { CORRUPT(m); }
NO(p2p_false) { CORRUPT(m); translate(m); }
YES(known_bad) { CORRUPT(m); snprintf(m->driver_version, sizeof m->driver_version, "545.23.08"); }
NO(known_bad) { CORRUPT(m); snprintf(m->driver_version, sizeof m->driver_version, "535.154.05"); }
/* the last that offered them, and the first that did not */
YES(launch_driver) { CORRUPT(m); snprintf(m->driver_version, sizeof m->driver_version, "525.89.02"); }
NO(launch_driver) { CORRUPT(m); snprintf(m->driver_version, sizeof m->driver_version, "525.105.17"); }
YES(patched) { host(m)->patched = P2S_YES; snprintf(host(m)->patched_why, sizeof host(m)->patched_why, "driver version 570.1-p2p"); }
NO(patched) { host(m)->patched = P2S_UNREAD; }
YES(looks_patched) { OK(m); geforce(m); offer(m); snprintf(m->driver_version, sizeof m->driver_version, "570.124.06"); }
YES(first_refusal) { OK(m); geforce(m); offer(m); snprintf(m->driver_version, sizeof m->driver_version, "525.105.17"); }
NO(first_refusal) { OK(m); geforce(m); offer(m); snprintf(m->driver_version, sizeof m->driver_version, "525.89.02"); }
NO(looks_patched) { OK(m); geforce(m); offer(m); snprintf(m->driver_version, sizeof m->driver_version, "520.56.06"); }
YES(forced) { host(m)->force_p2p_keys = P2S_YES; snprintf(host(m)->registry_dwords, sizeof host(m)->registry_dwords, "ForceP2P=17"); }
NO(forced) { host(m)->force_p2p_keys = P2S_NO; }
YES(peer_limit) { REFUSED(m); m->pairs[0].legs[0].cuda_error = 711; }
NO(peer_limit) { REFUSED(m); m->pairs[0].legs[0].cuda_error = 217; }
YES(ipc) { handle_refused(m, 1); }
NO(ipc) { handle_refused(m, 0); }
YES(ipc_container) { handle_refused(m, 1); snprintf(m->container, sizeof m->container, "docker"); }
NO(ipc_container) { handle_refused(m, 1); snprintf(m->container, sizeof m->container, "none"); }
YES(shm) { CORRUPT(m); host(m)->shm_bytes = UINT64_C(64) << 20; }
NO(shm) { OK(m); host(m)->shm_bytes = UINT64_C(64) << 20; }
YES(fabric) { m->gpus[0].facts.fabric_state = 2; }
NO(fabric) { m->gpus[0].facts.fabric_state = 3; } /* how it ended was not told */
YES(fabric_failed) { m->gpus[0].facts.fabric_state = 3; m->gpus[0].facts.fabric_status = 999; }
NO(fabric_failed) { m->gpus[0].facts.fabric_state = 3; m->gpus[0].facts.fabric_status = 0; }
YES(partial) { m->gpus[0].facts.nvlinks_active = 17; m->gpus[0].facts.nvlinks_total = 18; }
NO(partial) { m->gpus[0].facts.nvlinks_active = 0; m->gpus[0].facts.nvlinks_total = 4; } /* no bridge plugged in */
YES(nvlink_errors) { m->gpus[0].facts.nvlink_errors[0] = 2; m->gpus[0].facts.nvlink_errors[1] = 5; }
NO(nvlink_errors) { m->gpus[0].facts.nvlink_errors[1] = 5; } /* before: not read */
YES(pcie_errors) { m->gpus[0].facts.aer_nonfatal[0] = 0; m->gpus[0].facts.aer_nonfatal[1] = 1; }
NO(pcie_errors) { m->gpus[0].facts.aer_nonfatal[0] = 7; m->gpus[0].facts.aer_nonfatal[1] = 7; }
YES(port_errors) { one_switch(m, 0); m->gpus[0].facts.hops[2].errors[2] = 1; }
NO(port_errors) { one_switch(m, 0); m->gpus[0].facts.hops[3].errors[2] = 1; } /* the GPU itself has a row of its own */
YES(aer_fatal) { one_switch(m, 0); snprintf(logged(m, P2S_LOG_AER_FATAL, -1, "fatal")->device, P2S_BDF_TEXT, "0000:04:00.0"); m->facts.log[0].in_test = 1; }
NO(aer_fatal) { one_switch(m, 0); snprintf(logged(m, P2S_LOG_AER_FATAL, -1, "fatal")->device, P2S_BDF_TEXT, "0000:ff:1f.7"); m->facts.log[0].in_test = 1; }
YES(above) { CORRUPT(m); measure(m, 103880000000, 12000000000, 63000000000); }
NO(above) { CORRUPT(m); measure(m, 31000000000, 12000000000, 63000000000); } /* 16 lanes of 16 GT/s: 31508 MB/s */
YES(above_right) { OK(m); measure(m, 33000000000, 12000000000, 30000000000); }
NO(above_right) { yes_above_right(m); host(m)->hypervisor = P2S_UNREAD; } /* a hypervisor draws links as it likes */
YES(above_row) { OK(m); measure(m, 20000000000, 12000000000, 30000000000); sweep(m, 4096, 40000000000); }
NO(above_row) { yes_above_row(m); m->gpus[1].facts.hops[0].width_max = 0; } /* a hop that was not read */
YES(above_nvlink) { OK(m); nvlink(m, 450000000000); measure(m, 500000000000, 12000000000, 450000000000); }
NO(above_nvlink) { OK(m); nvlink(m, 450000000000); measure(m, 395000000000, 12000000000, 450000000000); }
YES(slower) { result(m, -1, -1, P2PSAFE_VERDICT_DEGRADED); measure(m, 2010000000, 42500000000, 63000000000); }
NO(slower) { OK(m); measure(m, 50000000000, 42500000000, 63000000000); }
YES(not_nvlink) { yes_above_nvlink(m); measure(m, 13000000000, 5000000000, 450000000000); p2s_rules_judge(m, NULL); }
NO(not_nvlink) { no_above_nvlink(m); p2s_rules_judge(m, NULL); }
YES(collapse) { OK(m); measure(m, 25000000000, 12000000000, 0); m->pairs[0].bandwidth.loaded = 12000000000; }
NO(collapse) { OK(m); measure(m, 25000000000, 12000000000, 0); m->pairs[0].bandwidth.loaded = 13000000000; }
YES(many_in) { OK(m); measure(m, 25000000000, 12000000000, 0); m->gpus[1].facts.all_to_one = 6000000000; }
NO(many_in) { OK(m); measure(m, 25000000000, 12000000000, 0); m->gpus[1].facts.all_to_one = 24000000000; }
YES(many_out) { OK(m); measure(m, 25000000000, 12000000000, 0); m->gpus[1].facts.one_to_all = 6000000000; }
NO(many_out) { OK(m); m->gpus[1].facts.one_to_all = 6000000000; } /* nothing to compare with */
YES(uplink) { two_switches(m); p2s_model_pair(m, 0, 2)->bandwidth.loaded = 12500000000; }
NO(uplink) { two_switches(m); p2s_model_pair(m, 0, 1)->bandwidth.loaded = 12500000000; } /* below one switch: its uplink is not on the way */
YES(far) { sockets(m); }
NO(far) { sockets(m); m->gpus[3].numa_node = m->gpus[0].numa_node; }
YES(host_slow) { m->gpus[0].facts.to_host = 7000000000; m->gpus[0].facts.from_host = 25000000000; }
NO(host_slow) { m->gpus[0].facts.to_host = m->gpus[0].facts.from_host = 8000000000; }
YES(host_slow_from) { m->gpus[0].facts.to_host = 25000000000; m->gpus[0].facts.from_host = 7000000000; }
NO(host_slow_from) { yes_host_slow_from(m); host(m)->hypervisor = P2S_YES; }
YES(lanes) { m->gpus[0].facts.hops[1].width_now = 8; }
NO(lanes) { m->gpus[0].facts.hops[1].width_now = 8; m->gpus[0].facts.hops[0].width_max = 8; } /* the slot has no more */
YES(slow_link) { m->gpus[0].facts.hops[1].speed_loaded_mts = 8000; m->gpus[0].facts.hops[1].width_loaded = 16; }
NO(slow_link) { m->gpus[0].facts.hops[1].speed_now_mts = 2500; } /* idle */
YES(unproven) { OK(m); measure(m, 12500000000, 12000000000, 63000000000); }
NO(unproven) { OK(m); measure(m, 25000000000, 12000000000, 63000000000); }
YES(boot) { logged(m, P2S_LOG_NVRM_INIT_FAILED, 0, "NVRM: GPU 0000:01:00.0: RmInitAdapter failed! (0x62:0x40:2168)"); }
NO(boot) { yes_boot(m); OK(m); } /* it was started since */
YES(boot_identity)
{
	logged(m, P2S_LOG_NVRM_FSP_ERROR, -1, "NVRM: FSP response reported error. Error code: 0x177")->flags = 0x177;
	logged(m, P2S_LOG_NVRM_INIT_FAILED, 0, "NVRM: GPU 0000:01:00.0: RmInitAdapter failed!");
}
NO(boot_identity) { logged(m, P2S_LOG_NVRM_FSP_ERROR, -1, "NVRM: FSP response reported error. Error code: 0x177"); }
YES(mismatch) { translate(m); OK(m); host(m)->cmd_off = P2S_YES; }
NO(mismatch) { OK(m); host(m)->cmd_pt = P2S_YES; }
YES(mismatch_off) { m->iommu_state = P2PSAFE_IOMMU_NONE; host(m)->cmd_intel_on = P2S_YES; }
NO(mismatch_off) { m->iommu_state = P2PSAFE_IOMMU_NONE; host(m)->cmd_off = P2S_YES; }
YES(amd_on) { host(m)->cmd_amd_on = P2S_YES; }
NO(amd_on) { host(m)->cmd_amd_on = P2S_UNREAD; }
YES(comma) { host(m)->cmd_acs_list_comma = P2S_YES; }
NO(comma) { host(m)->cmd_acs_option = P2S_YES; }
YES(override) { host(m)->cmd_acs_override = P2S_YES; }
NO(override) { host(m)->cmd_acs_override = P2S_NO; }
YES(noacs) { host(m)->cmd_noacs = P2S_YES; }
NO(noacs) { host(m)->cmd_noacs = P2S_NO; }

static const struct {
	const char *code;
	int32_t src, dst, severity, confidence;
	void (*yes)(struct p2s_model *m);
	void (*no)(struct p2s_model *m);
} cases[] = {
#define CASE(name, code, src, dst, severity, confidence) \
	{code, src, dst, P2PSAFE_SEVERITY_##severity, P2PSAFE_CONFIDENCE_##confidence, yes_##name, no_##name}
	CASE(translated, "IOMMU_TRANSLATED", HOST, HOST, ERROR, MEDIUM),
	CASE(translated_probe, "IOMMU_TRANSLATED", HOST, HOST, WARNING, LOW),
	CASE(translated_unbound, "IOMMU_TRANSLATED", HOST, HOST, WARNING, LOW),
	CASE(acs_unbound, "ACS_REDIRECT", 0, HOST, ERROR, HIGH),
	CASE(translated_log, "IOMMU_TRANSLATED", HOST, HOST, ERROR, HIGH),
	CASE(translated_gpu, "IOMMU_TRANSLATED", 0, HOST, ERROR, MEDIUM),
	CASE(fault, "IOMMU_FAULT_LOGGED", 1, HOST, ERROR, HIGH),
	CASE(acs_shared, "ACS_REDIRECT", 0, HOST, ERROR, HIGH),
	CASE(acs_slow, "ACS_REDIRECT", 1, HOST, WARNING, HIGH),
	CASE(acs_root, "ACS_REDIRECT", 1, HOST, ERROR, HIGH),
	CASE(peer_map, "PEER_MAP_FAILED", HOST, HOST, ERROR, HIGH),
	CASE(peer_map_before, "PEER_MAP_FAILED", HOST, HOST, ERROR, MEDIUM),
	CASE(p2p_false_mapped, "P2P_FALSE_CAPABILITY", 1, 0, ERROR, MEDIUM),
	CASE(bar_small, "BAR1_SMALL", 1, HOST, ERROR, MEDIUM),
	CASE(bar_ampere, "BAR1_SMALL", 1, HOST, ERROR, MEDIUM),
	CASE(bar_hopper, "BAR1_SMALL", 1, HOST, ERROR, MEDIUM),
	CASE(bar_ampere_full, "BAR1_SMALL", 1, HOST, ERROR, HIGH),
	CASE(bar_lt_vram, "BAR1_LT_VRAM", 1, HOST, ERROR, MEDIUM),
	CASE(bar_no_space, "BAR1_NO_SPACE", 1, HOST, ERROR, HIGH),
	CASE(bar_no_space_old, "BAR1_NO_SPACE", 1, HOST, ERROR, HIGH),
	CASE(bar_no_space_wide, "BAR1_NO_SPACE", 1, HOST, ERROR, HIGH),
	CASE(bar_no_space_unread, "BAR1_NO_SPACE", 1, HOST, ERROR, HIGH),
	CASE(bar_unassigned, "BAR1_NO_SPACE", 1, HOST, ERROR, HIGH),
	CASE(bar_unaligned, "BAR1_UNALIGNED", 1, HOST, ERROR, HIGH),
	CASE(display, "BAR1_DISPLAY_RESERVED", 1, HOST, WARNING, LOW),
	CASE(below_4g, "BAR_BELOW_4G", 0, HOST, INFO, HIGH),
	CASE(bottleneck, "LINK_BOTTLENECK", 0, HOST, INFO, HIGH),
	CASE(no_clique, "VM_NO_CLIQUE", HOST, HOST, WARNING, MEDIUM),
	CASE(no_clique_unread, "VM_NO_CLIQUE", HOST, HOST, WARNING, LOW),
	CASE(false_clique, "VM_FALSE_CLIQUE", 0, 1, ERROR, HIGH),
	CASE(passthrough, "VM_PASSTHROUGH", 1, 0, ERROR, MEDIUM),
	CASE(cloud, "CLOUD_VM_NO_P2P", HOST, HOST, WARNING, MEDIUM),
	CASE(cloud_nvlink, "CLOUD_VM_NO_P2P", HOST, HOST, WARNING, MEDIUM),
	CASE(topology, "VM_TOPOLOGY_HIDDEN", HOST, HOST, INFO, HIGH),
	CASE(wsl, "WSL2", HOST, HOST, WARNING, HIGH),
	CASE(cc_guest, "CC_MODE", HOST, HOST, WARNING, HIGH),
	CASE(cc_gpu, "CC_MODE", 1, HOST, WARNING, HIGH),
	CASE(mig, "MIG", 1, HOST, WARNING, HIGH),
	CASE(risky, "PROBE_RISK_HIGH", 0, HOST, WARNING, HIGH),
	CASE(risky_mode, "PROBE_RISK_HIGH", 0, HOST, WARNING, HIGH),
	CASE(risky_unread, "PROBE_RISK_HIGH", 1, HOST, WARNING, HIGH),
	CASE(risky_geforce_unread, "PROBE_RISK_HIGH", 0, HOST, WARNING, HIGH),
	CASE(risky_patched, "PROBE_RISK_HIGH", 1, HOST, WARNING, HIGH),
	CASE(grave, "GRAVE_XID", 0, HOST, DANGER, HIGH),
	CASE(action, "GRAVE_XID", 0, HOST, DANGER, HIGH),
	CASE(action_again, "GRAVE_XID", 0, HOST, DANGER, HIGH),
	CASE(action_elsewhere, "GRAVE_XID", 0, HOST, DANGER, HIGH),
	CASE(action_in_test, "GRAVE_XID", 0, HOST, DANGER, HIGH),
	CASE(risky_action, "PROBE_RISK_HIGH", 0, HOST, WARNING, HIGH),
	CASE(nvlink_xid, "NVLINK_FATAL_XID", 0, HOST, DANGER, HIGH),
	CASE(xid, "XID_LOGGED", 0, HOST, WARNING, HIGH),
	CASE(mixed, "MIXED_GPU", 0, 1, WARNING, MEDIUM),
	CASE(geforce_no, "GEFORCE_NO_P2P", 0, 1, WARNING, HIGH),
	CASE(geforce_false, "GEFORCE_FALSE_CAPABILITY", 0, 1, ERROR, MEDIUM),
	CASE(p2p_false, "P2P_FALSE_CAPABILITY", 1, 0, ERROR, MEDIUM),
	CASE(patched, "DRIVER_PATCHED", HOST, HOST, INFO, HIGH),
	CASE(looks_patched, "DRIVER_PATCHED", HOST, HOST, INFO, LOW),
	CASE(first_refusal, "DRIVER_PATCHED", HOST, HOST, INFO, LOW),
	CASE(forced, "DRIVER_FORCED_P2P", HOST, HOST, INFO, HIGH),
	CASE(known_bad, "DRIVER_KNOWN_BAD", HOST, HOST, WARNING, LOW),
	CASE(launch_driver, "DRIVER_KNOWN_BAD", HOST, HOST, WARNING, LOW),
	CASE(peer_limit, "PEER_LIMIT", 0, 1, ERROR, HIGH),
	CASE(ipc, "IPC_OPEN_FAILED", 0, 1, WARNING, HIGH),
	CASE(ipc_container, "CONTAINER_IPC_ISOLATED", 0, 1, WARNING, LOW),
	CASE(shm, "CONTAINER_SHM_SMALL", HOST, HOST, WARNING, HIGH),
	CASE(fabric, "NVLINK_FABRIC_NOT_READY", 0, HOST, ERROR, HIGH),
	CASE(fabric_failed, "NVLINK_FABRIC_NOT_READY", 0, HOST, ERROR, HIGH),
	CASE(partial, "NVLINK_PARTIAL", 0, HOST, WARNING, HIGH),
	CASE(nvlink_errors, "NVLINK_ERRORS", 0, HOST, ERROR, HIGH),
	CASE(pcie_errors, "PCIE_ERRORS", 0, HOST, ERROR, HIGH),
	CASE(port_errors, "PCIE_ERRORS", 0, HOST, DANGER, HIGH),
	CASE(aer_fatal, "PCIE_ERRORS", 0, HOST, DANGER, HIGH),
	CASE(above, "BANDWIDTH_ABOVE_LINK", 0, 1, ERROR, HIGH),
	CASE(above_right, "BANDWIDTH_ABOVE_LINK", 0, 1, WARNING, MEDIUM),
	CASE(above_row, "BANDWIDTH_ABOVE_LINK", 0, 1, WARNING, MEDIUM),
	CASE(above_nvlink, "BANDWIDTH_ABOVE_LINK", 0, 1, WARNING, MEDIUM),
	CASE(not_nvlink, "PATH_UNPROVEN", 0, 1, WARNING, HIGH),
	CASE(collapse, "POSTED_WRITE_COLLAPSE", 0, 1, WARNING, HIGH),
	CASE(many_in, "POSTED_WRITE_COLLAPSE", 1, HOST, WARNING, HIGH),
	CASE(many_out, "POSTED_WRITE_COLLAPSE", 1, HOST, WARNING, HIGH),
	CASE(uplink, "SWITCH_UPLINK_SHARED", 0, 2, INFO, HIGH),
	CASE(far, "NUMA_FAR_LINK_NARROW", 0, 3, INFO, HIGH),
	CASE(host_slow, "HOST_LINK_SLOW", 0, HOST, WARNING, HIGH),
	CASE(host_slow_from, "HOST_LINK_SLOW", 0, HOST, WARNING, HIGH),
	CASE(lanes, "LINK_DEGRADED", 0, HOST, WARNING, HIGH),
	CASE(slow_link, "LINK_DEGRADED", 0, HOST, WARNING, HIGH),
	CASE(slower, "P2P_SLOWER_THAN_STAGED", 0, 1, WARNING, HIGH),
	CASE(unproven, "PATH_UNPROVEN", 0, 1, INFO, HIGH),
	CASE(boot, "GPU_INIT_FAILED", 0, HOST, ERROR, HIGH),
	CASE(boot_identity, "GPU_INIT_FAILED", 0, HOST, ERROR, HIGH),
	CASE(mismatch, "CMDLINE_MISMATCH", HOST, HOST, WARNING, HIGH),
	CASE(mismatch_off, "CMDLINE_MISMATCH", HOST, HOST, INFO, HIGH),
	CASE(amd_on, "CMDLINE_NO_OPTION", HOST, HOST, INFO, HIGH),
	CASE(noacs, "CMDLINE_NO_OPTION", HOST, HOST, INFO, HIGH),
	CASE(comma, "CMDLINE_ACS_LIST_COMMA", HOST, HOST, WARNING, HIGH),
	CASE(override, "ACS_OVERRIDE_PRESENT", HOST, HOST, INFO, HIGH),
#undef CASE
};

static const struct p2s_finding *find(const struct p2s_model *m, const char *code, int32_t src, int32_t dst)
{
	for (size_t i = 0; i < m->finding_count; i++)
		if (strcmp(m->findings[i].code, code) == 0 && m->findings[i].src == src && m->findings[i].dst == dst)
			return &m->findings[i];
	return NULL;
}

static void every_rule(void **state)
{
	(void)state;
	for (size_t i = 0; i < COUNT(cases); i++) {
		struct p2s_model m;
		const struct p2s_finding *f;

		base(&m, 2);
		cases[i].yes(&m);
		assert_int_equal(p2s_rules_find(&m), 1);
		f = find(&m, cases[i].code, cases[i].src, cases[i].dst);
		if (f == NULL)
			fail_msg("case %zu: no %s", i, cases[i].code);
		if (f->severity != cases[i].severity || f->confidence != cases[i].confidence)
			fail_msg("case %zu: %s has severity %d and confidence %d", i, cases[i].code, (int)f->severity, (int)f->confidence);
		assert_true(f->evidence_count > 0);
		for (size_t k = 0; k < f->evidence_count; k++) {
			assert_true(f->evidence[k].source[0] != '\0' && f->evidence[k].text[0] != '\0');
			if (strchr(f->evidence[k].text, '{') != NULL)
				fail_msg("case %zu: %s: %s", i, cases[i].code, f->evidence[k].text);
		}
		p2s_model_free(&m);

		base(&m, 2);
		cases[i].no(&m);
		assert_int_equal(p2s_rules_find(&m), 1);
		if (find(&m, cases[i].code, cases[i].src, cases[i].dst) != NULL)
			fail_msg("case %zu: %s where it must not be", i, cases[i].code);
		p2s_model_free(&m);
	}
}

/* A rule without a case above is not tested. */
static void no_rule_without_a_case(void **state)
{
	static const char *const codes[] = {
#define P2S_FINDING(code, role, severity, confidence, asked, predicate, source, text, reference) #code,
#define P2S_ELSEWHERE(code, role, made_by)
#include "rules/findings.def"
#undef P2S_FINDING
#undef P2S_ELSEWHERE
	};

	(void)state;
	for (size_t i = 0; i < COUNT(codes); i++) {
		size_t k = 0;

		while (k < COUNT(cases) && strcmp(cases[k].code, codes[i]) != 0)
			k++;
		if (k == COUNT(cases))
			fail_msg("%s has no case", codes[i]);
	}
}

static void nothing_is_found_on_a_healthy_machine(void **state)
{
	struct p2s_model m;

	(void)state;
	base(&m, 4);
	OK(&m);
	assert_int_equal(p2s_rules_explain(&m), 1);
	assert_int_equal(m.finding_count, 0);
	p2s_model_free(&m);
	/* and nothing is made of what could not be read */
	unit_model(&m, 4, 0);
	for (size_t i = 0; i < m.gpu_count; i++)
		m.gpus[i].domain_type[0] = '\0';
	assert_int_equal(p2s_rules_find(&m), 1);
	assert_int_equal(m.finding_count, 0);
	p2s_model_free(&m);
}

static void twice_is_once(void **state)
{
	struct p2s_model m;
	size_t findings;
	size_t remedies;

	(void)state;
	base(&m, 2);
	yes_translated_log(&m);
	yes_acs_root(&m);
	assert_int_equal(p2s_rules_explain(&m), 1);
	findings = m.finding_count;
	remedies = m.remedy_count;
	assert_true(findings >= 4 && remedies > 3);
	assert_int_equal(p2s_rules_explain(&m), 1);
	assert_int_equal(m.finding_count, findings);
	assert_int_equal(m.remedy_count, remedies);
	p2s_model_free(&m);
}

static void many_pairs_are_one_finding(void **state)
{
	struct p2s_model m;
	const struct p2s_finding *f;

	(void)state;
	base(&m, 8);
	CORRUPT(&m);
	assert_int_equal(p2s_rules_find(&m), 1);
	assert_int_equal(m.finding_count, 1);
	f = find(&m, "P2P_FALSE_CAPABILITY", HOST, HOST);
	assert_non_null(f);
	assert_int_equal(f->evidence_count, 7);
	assert_non_null(strstr(f->evidence[0].text, "0000:01:00.0>0000:02:00.0: "));
	assert_string_equal(f->evidence[6].text, "and 50 more directions");
	p2s_model_free(&m);
}

static void a_storm_in_the_log_is_cut(void **state)
{
	struct p2s_model m;
	const struct p2s_finding *f;
	char text[40];

	(void)state;
	base(&m, 2);
	for (int i = 0; i < 4000; i++) {
		snprintf(text, sizeof text, "fault %d", i);
		logged(&m, P2S_LOG_AMD_FAULT, 0, text)->in_test = 1;
	}
	m.facts.log[0].repeats = 100;
	assert_int_equal(p2s_rules_find(&m), 1);
	f = find(&m, "IOMMU_FAULT_LOGGED", 0, HOST);
	assert_non_null(f);
	assert_int_equal(f->evidence_count, 7);
	assert_non_null(strstr(f->evidence[6].text, "and 4094 more lines"));
	p2s_model_free(&m);
}

static void a_fault_is_attributed(void **state)
{
	struct p2s_model m;
	struct p2s_log_event *e;
	const struct p2s_finding *f;

	(void)state;
	base(&m, 2);
	translate(&m);
	CORRUPT(&m);
	e = logged(&m, P2S_LOG_AMD_FAULT, 0, "AMD-Vi: Event logged [IO_PAGE_FAULT]");
	e->owner = 1;
	e->owner_bar = 1;
	e->owner_offset = 0x10000;
	e->in_test = 1;
	e->src = 0;
	e->dst = 1;
	assert_int_equal(p2s_rules_find(&m), 1);
	f = find(&m, "IOMMU_FAULT_LOGGED", 0, HOST);
	assert_non_null(f);
	assert_non_null(strstr(f->evidence[0].text, "byte 0x10000 of BAR 1 of 0000:02:00.0"));
	assert_non_null(strstr(f->evidence[0].text, "during 0000:01:00.0>0000:02:00.0"));
	f = find(&m, "IOMMU_TRANSLATED", HOST, HOST);
	assert_non_null(strstr(f->evidence[0].text, "raw BAR address"));
	p2s_model_free(&m);
}

/* GPUs outside an IOMMU that is there: it is not off. */
static void a_unit_that_is_there_is_not_off(void **state)
{
	struct p2s_model m;

	(void)state;
	base(&m, 2);
	m.iommu_state = P2PSAFE_IOMMU_NONE;
	host(&m)->cmd_intel_on = P2S_YES;
	assert_int_equal(p2s_rules_find(&m), 1);
	assert_non_null(find(&m, "CMDLINE_MISMATCH", HOST, HOST));
	p2s_model_free(&m);
	base(&m, 2);
	m.iommu_state = P2PSAFE_IOMMU_NONE;
	host(&m)->cmd_intel_on = P2S_YES;
	host(&m)->iommu_class_count = 1;
	assert_int_equal(p2s_rules_find(&m), 1);
	assert_null(find(&m, "CMDLINE_MISMATCH", HOST, HOST));
	p2s_model_free(&m);
}

static int32_t severity_of(struct p2s_model *m, const char *code, int32_t gpu)
{
	const struct p2s_finding *f;

	while (m->finding_count > 0)
		free(m->findings[--m->finding_count].evidence);
	assert_int_equal(p2s_rules_find(m), 1);
	f = find(m, code, gpu, HOST);
	assert_non_null(f);
	return f->severity;
}

/* The kernel tried again, or the driver was loaded again: what was logged before is no cause of what is now. */
static void an_old_line_does_not_outweigh_what_is_there(void **state)
{
	static const uint64_t small = UINT64_C(256) << 20;
	struct p2s_model m;
	size_t pairs;

	(void)state;
	base(&m, 3);
	yes_bar_no_space(&m);
	CORRUPT(&m);
	assert_int_equal(severity_of(&m, "BAR1_NO_SPACE", 1), P2PSAFE_SEVERITY_ERROR);
	assert_null(find(&m, "P2P_FALSE_CAPABILITY", 0, 1));
	m.gpus[1].facts.bar1_assigned = P2S_YES; /* all of the memory */
	assert_int_equal(severity_of(&m, "BAR1_NO_SPACE", 1), P2PSAFE_SEVERITY_INFO);
	assert_non_null(find(&m, "P2P_FALSE_CAPABILITY", 0, 1));
	assert_non_null(strstr(find(&m, "BAR1_NO_SPACE", 1, HOST)->evidence[0].text, "has one now"));
	assert_int_equal(p2s_rules_remedy(&m), 1);
	for (size_t i = 0; i < m.remedy_count; i++)
		assert_string_not_equal(m.remedies[i].code, "B1");
	m.gpus[1].memory_bytes = 0; /* not told: then as large as the line says, 32 GiB */
	assert_int_equal(severity_of(&m, "BAR1_NO_SPACE", 1), P2PSAFE_SEVERITY_INFO);
	m.gpus[1].bar1_bytes = small;
	assert_int_equal(severity_of(&m, "BAR1_NO_SPACE", 1), P2PSAFE_SEVERITY_ERROR);
	m.gpus[1].memory_bytes = UINT64_C(48) << 30;
	assert_int_equal(severity_of(&m, "BAR1_NO_SPACE", 1), P2PSAFE_SEVERITY_ERROR);
	result(&m, 1, -1, P2PSAFE_VERDICT_OK); /* one end alone does not do */
	assert_int_equal(severity_of(&m, "BAR1_NO_SPACE", 1), P2PSAFE_SEVERITY_ERROR);
	result(&m, -1, 1, P2PSAFE_VERDICT_OK); /* others of this machine may fail for other reasons */
	assert_int_equal(severity_of(&m, "BAR1_NO_SPACE", 1), P2PSAFE_SEVERITY_INFO);
	p2s_model_free(&m);

	base(&m, 3);
	yes_bar_unaligned(&m);
	result(&m, 0, 1, P2PSAFE_VERDICT_CORRUPT);
	result(&m, 1, 0, P2PSAFE_VERDICT_OK);
	assert_int_equal(severity_of(&m, "BAR1_UNALIGNED", 1), P2PSAFE_SEVERITY_ERROR);
	assert_null(find(&m, "P2P_FALSE_CAPABILITY", 0, 1));
	OK(&m);
	assert_int_equal(severity_of(&m, "BAR1_UNALIGNED", 1), P2PSAFE_SEVERITY_INFO);
	m.facts.log[0].owner = -1; /* no GPU of ours has that address: as all of them are */
	assert_int_equal(severity_of(&m, "BAR1_UNALIGNED", HOST), P2PSAFE_SEVERITY_INFO);
	result(&m, 2, 0, P2PSAFE_VERDICT_DEGRADED);
	assert_int_equal(severity_of(&m, "BAR1_UNALIGNED", HOST), P2PSAFE_SEVERITY_ERROR);
	pairs = m.pair_count;
	m.pair_count = 0; /* nothing tested is nothing right */
	assert_int_equal(severity_of(&m, "BAR1_UNALIGNED", HOST), P2PSAFE_SEVERITY_ERROR);
	m.pair_count = pairs;
	p2s_model_free(&m);
}

/* Three GPUs, two of them joined: what is wrong with PCIe is no reason for what is wrong with NVLink. */
static void what_is_wrong_with_pcie_explains_no_nvlink(void **state)
{
	struct p2s_model m;

	(void)state;
	base(&m, 3);
	translate(&m);
	CORRUPT(&m);
	for (size_t i = 0; i < m.pair_count; i++)
		if (m.pairs[i].src != 2 && m.pairs[i].dst != 2)
			m.pairs[i].path = P2PSAFE_PATH_NVL;
	assert_int_equal(p2s_rules_find(&m), 1);
	assert_non_null(find(&m, "IOMMU_TRANSLATED", HOST, HOST));
	assert_non_null(find(&m, "P2P_FALSE_CAPABILITY", 0, 1));
	assert_null(find(&m, "P2P_FALSE_CAPABILITY", 0, 2));
	p2s_model_free(&m);
}

/* An earlier load of the driver could not; this one can. */
static void an_earlier_mapping_that_failed_is_no_cause_where_all_is_right(void **state)
{
	struct p2s_model m;

	(void)state;
	base(&m, 2);
	OK(&m);
	logged(&m, P2S_LOG_NVRM_PEER_MAP, -1, "NVRM: IOMMU mapping failed from GPU0 to GPU1");
	assert_int_equal(severity_of(&m, "PEER_MAP_FAILED", HOST), P2PSAFE_SEVERITY_INFO);
	m.facts.log[0].in_test = 1;
	assert_int_equal(severity_of(&m, "PEER_MAP_FAILED", HOST), P2PSAFE_SEVERITY_ERROR);
	p2s_model_free(&m);
}

/* The group's type was changed since, or a driver loaded that does it right. */
static void an_earlier_fault_is_no_cause_where_all_is_right(void **state)
{
	struct p2s_model m;
	struct p2s_log_event *e;

	(void)state;
	base(&m, 2);
	OK(&m);
	e = logged(&m, P2S_LOG_AMD_FAULT, 0, "AMD-Vi: Event logged [IO_PAGE_FAULT]");
	e->owner = e->owner_bar = 1;
	assert_int_equal(severity_of(&m, "IOMMU_FAULT_LOGGED", 0), P2PSAFE_SEVERITY_INFO);
	result(&m, 0, 1, P2PSAFE_VERDICT_CORRUPT);
	assert_int_equal(severity_of(&m, "IOMMU_FAULT_LOGGED", 0), P2PSAFE_SEVERITY_ERROR);
	OK(&m);
	m.facts.log[0].in_test = 1; /* it is of this test, whatever the bytes say */
	assert_int_equal(severity_of(&m, "IOMMU_FAULT_LOGGED", 0), P2PSAFE_SEVERITY_ERROR);
	p2s_model_free(&m);
}

/* GPUDirect RDMA of a network card, say: it is told, and explains nothing between GPUs. */
static void a_fault_of_another_device_is_no_cause(void **state)
{
	struct p2s_model m;
	struct p2s_log_event *e;

	(void)state;
	base(&m, 2);
	translate(&m);
	CORRUPT(&m);
	e = logged(&m, P2S_LOG_AMD_FAULT, -1, "mlx5_core 0000:41:00.0: AMD-Vi: Event logged [IO_PAGE_FAULT]");
	e->owner = e->owner_bar = 1;
	snprintf(e->device, sizeof e->device, "0000:41:00.0");
	assert_int_equal(severity_of(&m, "IOMMU_FAULT_LOGGED", HOST), P2PSAFE_SEVERITY_INFO);
	assert_non_null(strstr(find(&m, "IOMMU_TRANSLATED", HOST, HOST)->evidence[0].text, "log of faults: none"));
	domain(&m, "identity");
	assert_int_equal(severity_of(&m, "IOMMU_FAULT_LOGGED", HOST), P2PSAFE_SEVERITY_INFO);
	assert_non_null(find(&m, "P2P_FALSE_CAPABILITY", 0, 1));
	/* without a segment it may be of either of two GPUs */
	snprintf(m.facts.log[0].device, sizeof m.facts.log[0].device, "%s", strchr(m.gpus[0].address, ':') + 1);
	assert_int_equal(severity_of(&m, "IOMMU_FAULT_LOGGED", HOST), P2PSAFE_SEVERITY_ERROR);
	p2s_model_free(&m);
}

/* Only an address of a peer's BAR shows that the driver handed it out raw. */
static void a_fault_elsewhere_is_no_raw_address(void **state)
{
	struct p2s_model m;
	const struct p2s_finding *f;

	(void)state;
	base(&m, 2);
	translate(&m);
	CORRUPT(&m);
	logged(&m, P2S_LOG_AMD_FAULT, 0, "AMD-Vi: Event logged [IO_PAGE_FAULT]")->in_test = 1;
	assert_int_equal(p2s_rules_find(&m), 1);
	f = find(&m, "IOMMU_TRANSLATED", HOST, HOST);
	assert_non_null(f);
	assert_int_equal(f->confidence, P2PSAFE_CONFIDENCE_HIGH);
	assert_null(strstr(f->evidence[0].text, "raw BAR"));
	assert_non_null(strstr(f->evidence[0].text, "IO_PAGE_FAULT"));
	p2s_model_free(&m);
}

/* A stock driver on an old kernel without SME maps its peers: translation alone is no warning there. */
static void what_is_expected_of_translation(void **state)
{
	struct p2s_model m;

	(void)state;
	base(&m, 2);
	translate(&m);
	host(&m)->kernel_minor = 8;
	host(&m)->remap_peer_mmio = P2S_YES;
	host(&m)->sme = P2S_NO;
	host(&m)->patched = P2S_NO;
	assert_int_equal(p2s_rules_find(&m), 1);
	assert_int_equal(find(&m, "IOMMU_TRANSLATED", HOST, HOST)->severity, P2PSAFE_SEVERITY_INFO);
	p2s_model_free(&m);
	base(&m, 2);
	translate(&m);
	host(&m)->kernel_minor = 8;
	host(&m)->remap_peer_mmio = P2S_YES;
	host(&m)->sme = P2S_YES;
	host(&m)->patched = P2S_NO;
	assert_int_equal(p2s_rules_find(&m), 1);
	assert_int_equal(find(&m, "IOMMU_TRANSLATED", HOST, HOST)->severity, P2PSAFE_SEVERITY_WARNING);
	p2s_model_free(&m);
}

/* No fault in the part that was read is not "no fault". */
static void a_log_read_in_part_is_told_as_such(void **state)
{
	struct p2s_model m;

	(void)state;
	base(&m, 2);
	translate(&m);
	host(&m)->log_lost = 1;
	assert_int_equal(p2s_rules_find(&m), 1);
	assert_non_null(strstr(find(&m, "IOMMU_TRANSLATED", HOST, HOST)->evidence[0].text, "faults: none in what could be read"));
	p2s_model_free(&m);
}

static void pairs_over_nvlink_meet_no_iommu(void **state)
{
	struct p2s_model m;

	(void)state;
	base(&m, 2);
	translate(&m);
	CORRUPT(&m);
	for (size_t i = 0; i < m.pair_count; i++)
		m.pairs[i].path = P2PSAFE_PATH_NVL;
	assert_int_equal(p2s_rules_find(&m), 1);
	assert_null(find(&m, "IOMMU_TRANSLATED", HOST, HOST));
	assert_non_null(find(&m, "P2P_FALSE_CAPABILITY", 0, 1));
	p2s_model_free(&m);
}

static void a_gpu_that_did_not_start_is_failed(void **state)
{
	struct p2s_model m;

	(void)state;
	base(&m, 2);
	m.gpus[0].state = m.gpus[1].state = P2PSAFE_GPU_STATE_UNKNOWN;
	yes_boot_identity(&m);
	assert_int_equal(p2s_rules_explain(&m), 1);
	assert_int_equal(m.gpus[0].state, P2PSAFE_GPU_STATE_FAILED);
	assert_non_null(strstr(m.gpus[0].error, "firmware boot failed while the group is identity"));
	assert_int_equal(m.gpus[1].state, P2PSAFE_GPU_STATE_UNKNOWN);
	p2s_model_free(&m);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_rule),
		cmocka_unit_test(no_rule_without_a_case),
		cmocka_unit_test(nothing_is_found_on_a_healthy_machine),
		cmocka_unit_test(twice_is_once),
		cmocka_unit_test(many_pairs_are_one_finding),
		cmocka_unit_test(a_storm_in_the_log_is_cut),
		cmocka_unit_test(a_fault_is_attributed),
		cmocka_unit_test(an_old_line_does_not_outweigh_what_is_there),
		cmocka_unit_test(a_fault_elsewhere_is_no_raw_address),
		cmocka_unit_test(what_is_wrong_with_pcie_explains_no_nvlink),
		cmocka_unit_test(an_earlier_mapping_that_failed_is_no_cause_where_all_is_right),
		cmocka_unit_test(an_earlier_fault_is_no_cause_where_all_is_right),
		cmocka_unit_test(a_fault_of_another_device_is_no_cause),
		cmocka_unit_test(a_unit_that_is_there_is_not_off),
		cmocka_unit_test(what_is_expected_of_translation),
		cmocka_unit_test(a_log_read_in_part_is_told_as_such),
		cmocka_unit_test(pairs_over_nvlink_meet_no_iommu),
		cmocka_unit_test(a_gpu_that_did_not_start_is_failed),
	};

	return cmocka_run_group_tests_name("findings", tests, NULL, NULL);
}
