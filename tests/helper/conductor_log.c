/* What the kernel logs before and during a run: told to the right pair, stopping what must stop, unread said as unread. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "conductor_hosts.h"
#include "evidence/log.h"

static struct play p; /* large */

#define READABLE ", \"kmsg\": \"readable\""
#define MOVING "\"op\": [\"ce_write\", \"ce_read\", \"sm_store\", \"sm_load\", \"flag\", \"atomic\"]"
#define IO_FAULT "AMD-Vi: Event logged [IO_PAGE_FAULT domain=0x0003 address=%s flags=0x0020]"
#define LINE(n, text) "3," #n "," #n "000000,-;" text "\n"

/* GPU i has BAR0 of 16 MiB and BAR1 of 64 GiB at (i + 1) << 41. */
static void add_bars(const struct made_host *h, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++) {
		char address[32], path[64], attributes[240];
		unsigned long long bar1 = (unsigned long long)(i + 1) << 41;

		snprintf(address, sizeof address, "0000:%02x:00.0", 16 * (i + 1));
		snprintf(path, sizeof path, "pci0000:%02x/0000:%02x:00.0", 16 * (i + 1) - 1, 16 * (i + 1));
		snprintf(attributes, sizeof attributes,
		         "resource=0x%016x 0x%016x 0x40200\n0x%016llx 0x%016llx 0x14220c\n0x0 0x0 0x0\n;"
		         "aer_dev_correctable=RxErr 3\nBadTLP 4\nTOTAL_ERR_COR 7\n;aer_dev_nonfatal=CmpltTO 1\nTOTAL_ERR_NONFATAL %u\n",
		         0xe0000000U + (i << 24), 0xe0ffffffU + (i << 24), bar1, bar1 + (1ULL << 36) - 1, i);
		host_add_device(h, address, path, attributes);
	}
}

static void make(struct made_host *h, uint32_t n, const char *faults, const char *more)
{
	host_make(h, n, "pcie", faults, "", more);
	add_bars(h, n);
	host_play(&p, h, n);
}

static void run(int32_t done)
{
	assert_true(play_run(&p));
	if (p.dones != 1 || p.done.status != done)
		play_dump(&p);
	assert_int_equal(p.dones, 1);
	assert_int_equal(p.done.status, done);
	assert_int_equal(p.after_done, 0);
	assert_int_equal(play_left(&p), 0);
}

static void end(struct made_host *h)
{
	play_free(&p);
	host_remove(h);
}

static const struct p2s_lib_log_event *event_of(int32_t kind, int32_t src, int32_t dst)
{
	for (size_t i = 0; i < p.event_count; i++)
		if (p.events[i].kind == kind && p.events[i].src == src && p.events[i].dst == dst)
			return &p.events[i];
	return NULL;
}

static size_t events_of(int32_t kind)
{
	size_t n = 0;

	for (size_t i = 0; i < p.event_count; i++)
		n += p.events[i].kind == kind;
	return n;
}

static void a_fault_is_told_with_pair_owner_and_offset(void **state)
{
	struct made_host h;
	const struct p2s_lib_log_event *e;

	(void)state;
	make(&h, 2,
	     "{\"src\": \"0000:10:00.0\", " MOVING ", \"effect\": \"drop\", \"kmsg\": \"nvidia {src}: AMD-Vi: Event logged [IO_PAGE_FAULT "
	     "domain=0x0003 address=0x40000010000 flags=0x0020]\"},"
	     "{\"src\": \"0000:20:00.0\", " MOVING ", \"effect\": \"drop\", \"kmsg\": \"DMAR: [DMA Write NO_PASID] Request device [20:00.0] "
	     "fault addr 0x20000000000 [fault reason 0x05] PTE Write access is not set\"}",
	     READABLE);
	run(P2S_DONE_COMPLETE);
	assert_int_equal(p.log_state.state, P2S_LOG_READABLE);
	assert_int_equal(p.log_state.lost, 0);
	e = event_of(P2S_LOG_AMD_FAULT, 0, 1);
	assert_non_null(e);
	assert_int_equal(e->in_test, 1);
	assert_int_equal(e->gpu, 0);
	assert_int_equal(e->owner, 1);
	assert_int_equal(e->owner_bar, 1);
	assert_int_equal(e->owner_offset, 0x10000);
	assert_int_equal(e->flags, 0x20);
	assert_string_equal(e->device, "0000:10:00.0");
	e = event_of(P2S_LOG_DMAR_FAULT, 1, 0);
	assert_non_null(e);
	assert_int_equal(e->owner, 0);
	assert_int_equal(e->owner_offset, 0);
	assert_null(event_of(P2S_LOG_AMD_FAULT, 1, 0));
	assert_null(event_of(P2S_LOG_AMD_FAULT, -1, -1));
	assert_int_equal(play_verdict(&p, 0, 1, P2PSAFE_LEG_SM_STORE, P2PSAFE_MAPPING_CUMEM), P2PSAFE_VERDICT_CORRUPT);
	end(&h);
}

static void a_fault_stops_although_the_bytes_are_right(void **state)
{
	struct made_host h;

	(void)state;
	make(&h, 3,
	     "{\"src\": \"0000:10:00.0\", \"dst\": \"0000:20:00.0\", \"op\": \"sm_store\", \"effect\": \"log\", \"kmsg\": \"nvidia {src}: "
	     "AMD-Vi: Event logged [IO_PAGE_FAULT domain=0x0003 address=0x40000010000 flags=0x0020]\"}",
	     READABLE);
	run(P2S_DONE_COMPLETE);
	assert_non_null(event_of(P2S_LOG_AMD_FAULT, 0, 1));
	/* no pair is cleared, and none is said to be wrong */
	for (uint32_t a = 0; a < 3; a++)
		for (uint32_t b = 0; b < 3; b++)
			if (a != b)
				assert_int_equal(play_verdict(&p, a, b, P2PSAFE_LEG_SM_STORE, P2PSAFE_MAPPING_CUMEM), P2PSAFE_VERDICT_UNTESTED);
	assert_string_equal(play_leg(&p, 0, 1, P2PSAFE_LEG_SM_STORE, P2PSAFE_MAPPING_CUMEM)->note, "an IOMMU fault of this pair was logged");
	assert_string_equal(play_leg(&p, 2, 1, P2PSAFE_LEG_SM_STORE, P2PSAFE_MAPPING_CUMEM)->note,
	                    "stopped because an IOMMU fault was logged");
	/* the one message that names the damage */
	assert_int_equal(play_verdict(&p, 0, 1, P2PSAFE_LEG_MP_PUSH, P2PSAFE_MAPPING_CUMEM), P2PSAFE_VERDICT_OK);
	assert_int_equal(play_leg(&p, 0, 1, P2PSAFE_LEG_MP_PUSH, P2PSAFE_MAPPING_CUMEM)->rounds, 1);
	end(&h);
	/* asked to keep going, the others are tested all the same; this pair is not clean */
	make(&h, 3,
	     "{\"src\": \"0000:10:00.0\", \"dst\": \"0000:20:00.0\", \"op\": \"sm_store\", \"effect\": \"log\", \"kmsg\": \"nvidia {src}: "
	     "AMD-Vi: Event logged [IO_PAGE_FAULT domain=0x0003 address=0x40000010000 flags=0x0020]\"}",
	     READABLE);
	p.flags = P2PSAFE_FLAG_KEEP_GOING;
	run(P2S_DONE_COMPLETE);
	assert_int_equal(play_verdict(&p, 0, 1, P2PSAFE_LEG_SM_STORE, P2PSAFE_MAPPING_CUMEM), P2PSAFE_VERDICT_UNTESTED);
	assert_int_equal(play_verdict(&p, 1, 2, P2PSAFE_LEG_SM_STORE, P2PSAFE_MAPPING_CUMEM), P2PSAFE_VERDICT_OK);
	end(&h);
}

/* No IOMMU is on the way of NVLink: a line of that time that names no peer's memory is about something else. Others on PCIe are
 * careful, as after every fault. */
static void a_fault_beside_nvlink_is_not_its_own(void **state)
{
	static const char *const address[] = {"0x80000040", "0x40000010000"};
	struct made_host h;
	char fault[320];

	(void)state;
	for (int named = 0; named < 2; named++) {
		const int32_t verdict = named ? P2PSAFE_VERDICT_UNTESTED : P2PSAFE_VERDICT_OK;

		snprintf(fault, sizeof fault,
		         "{\"src\": \"0000:10:00.0\", \"dst\": \"0000:20:00.0\", \"op\": \"sm_store\", \"effect\": \"log\", \"count\": 1, "
		         "\"kmsg\": \"nvidia {src}: " IO_FAULT "\"}", address[named]);
		host_make(&h, 3,
		          "{\"default\": {\"kind\": \"pcie\"}, \"pairs\": [{\"src\": \"0000:10:00.0\", \"dst\": \"0000:20:00.0\", \"kind\": "
		          "\"nvlink\", \"nvlinks\": 4}, {\"src\": \"0000:20:00.0\", \"dst\": \"0000:10:00.0\", \"kind\": \"nvlink\", "
		          "\"nvlinks\": 4}]}", fault, "", READABLE);
		add_bars(&h, 3);
		host_play(&p, &h, 3);
		run(P2S_DONE_COMPLETE);
		assert_non_null(event_of(P2S_LOG_AMD_FAULT, 0, 1));
		assert_int_equal(event_of(P2S_LOG_AMD_FAULT, 0, 1)->owner, named ? 1 : -1);
		assert_int_equal(play_verdict(&p, 0, 1, P2PSAFE_LEG_SM_STORE, P2PSAFE_MAPPING_CUMEM), verdict);
		assert_int_equal(play_verdict(&p, 1, 0, P2PSAFE_LEG_SM_STORE, P2PSAFE_MAPPING_CUMEM), verdict);
		assert_string_equal(play_leg(&p, 0, 2, P2PSAFE_LEG_SM_STORE, P2PSAFE_MAPPING_CUMEM)->note,
		                    "stopped because an IOMMU fault was logged");
		end(&h);
	}
}

static void faults_of_other_devices_stop_nothing(void **state)
{
	static const char *const lines[] = {
		"mlx5_core 0000:50:00.0: AMD-Vi: Event logged [IO_PAGE_FAULT domain=0x0003 address=0x40000010000 flags=0x0020]",
		"mlx5_core 0000:50:00.0: AMD-Vi: Event logged [IO_PAGE_FAULT domain=0x0003 address=0x1000 flags=0x0020]",
		"DMAR: DRHD: handling fault status reg 2", "AMD-Vi: Completion-Wait loop timed out"};
	struct made_host h;
	char fault[320];

	(void)state;
	for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++) {
		snprintf(fault, sizeof fault, "{\"op\": \"sm_store\", \"effect\": \"log\", \"kmsg\": \"%s\"}", lines[i]);
		make(&h, 2, fault, READABLE);
		run(P2S_DONE_COMPLETE);
		assert_int_equal(play_verdict(&p, 0, 1, P2PSAFE_LEG_SM_STORE, P2PSAFE_MAPPING_CUMEM), P2PSAFE_VERDICT_OK);
		assert_int_equal(play_verdict(&p, 1, 0, P2PSAFE_LEG_SM_STORE, P2PSAFE_MAPPING_PEER), P2PSAFE_VERDICT_OK);
		if (i == 0) {
			const struct p2s_lib_log_event *e = event_of(P2S_LOG_AMD_FAULT, -1, -1);

			assert_non_null(e);
			assert_int_equal(e->gpu, -1);
			assert_int_equal(e->owner, 1);
		} else if (i == 1) {
			assert_int_equal(p.event_count, 0);
		}
		end(&h);
	}
}

static void a_late_line_is_waited_for_where_something_is_wrong(void **state)
{
	struct made_host h;

	(void)state;
	make(&h, 2,
	     "{\"src\": \"0000:10:00.0\", " MOVING ", \"effect\": \"drop\", \"kmsg_delay_ms\": 150, \"kmsg\": \"nvidia {src}: AMD-Vi: Event "
	     "logged [IO_PAGE_FAULT domain=0x0003 address=0x40000010000 flags=0x0020]\"}",
	     READABLE);
	run(P2S_DONE_COMPLETE);
	assert_non_null(event_of(P2S_LOG_AMD_FAULT, 0, 1)); /* by device and owner, whatever ran when it came */
	end(&h);
}

static void an_unreadable_log_is_said_to_be_so(void **state)
{
	static const struct {
		const char *host;
		int32_t want;
	} cases[] = {{", \"kmsg\": \"denied\"", P2S_LOG_DENIED}, {", \"kmsg\": \"absent\"", P2S_LOG_ABSENT}, {"", P2S_LOG_ABSENT}};
	struct made_host h;

	(void)state;
	for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
		make(&h, 2, "{" MOVING ", \"effect\": \"drop\", \"kmsg\": \"nvidia {src}: AMD-Vi: Event logged [IO_PAGE_FAULT domain=0x0003 "
		            "address=0x40000010000 flags=0x0020]\"}", cases[i].host);
		run(P2S_DONE_COMPLETE);
		assert_int_equal(p.log_state.state, cases[i].want);
		assert_int_equal(p.event_count, 0);
		end(&h);
	}
}

#define XID79 LINE(5, "NVRM: Xid (PCI:0000:20:00): 79, pid=4711, name=python3, GPU has fallen off the bus.")

static void a_gpu_with_a_grave_error_is_not_tested(void **state)
{
	struct made_host h;
	const struct p2s_lib_log_event *e;

	(void)state;
	make(&h, 3, "", "");
	host_write(&h, "kmsg", LINE(1, "iommu: Default domain type: Translated") XID79 LINE(9, "nvme 0000:99:00.0: x"));
	run(P2S_DONE_COMPLETE);
	assert_int_equal(p.gpus[1].state, P2PSAFE_GPU_STATE_RISKY);
	assert_non_null(strstr(p.gpus[1].error, "Xid 79"));
	assert_int_equal(play_has_fact(&p, "PROBE_RISK_HIGH"), 1);
	assert_int_equal(play_verdict(&p, 0, 1, P2PSAFE_LEG_SM_STORE, P2PSAFE_MAPPING_CUMEM), P2PSAFE_VERDICT_UNTESTED);
	assert_int_equal(play_verdict(&p, 1, 2, P2PSAFE_LEG_SM_STORE, P2PSAFE_MAPPING_CUMEM), P2PSAFE_VERDICT_UNTESTED);
	assert_int_equal(play_verdict(&p, 0, 2, P2PSAFE_LEG_SM_STORE, P2PSAFE_MAPPING_CUMEM), P2PSAFE_VERDICT_OK);
	assert_int_equal(p.event_count, 2);
	e = event_of(P2S_LOG_XID, -1, -1);
	assert_non_null(e);
	assert_int_equal(e->in_test, 0);
	assert_int_equal(e->gpu, 1);
	assert_int_equal(e->xid, 79);
	assert_int_equal(e->usec, 5000000);
	assert_null(strstr(e->text, "4711"));
	assert_null(strstr(e->text, "python3"));
	assert_int_equal(p.gpu_facts[2][P2S_GPU_FACT_AER_CORRECTABLE_BEFORE], 7);
	assert_int_equal(p.gpu_facts[2][P2S_GPU_FACT_AER_CORRECTABLE_AFTER], 7);
	assert_int_equal(p.gpu_facts[2][P2S_GPU_FACT_AER_NONFATAL_AFTER], 2);
	assert_true(p.gpu_facts[2][P2S_GPU_FACT_AER_FATAL_AFTER] == UINT64_MAX); /* no such file: not read */
	end(&h);

	make(&h, 3, "", "");
	host_write(&h, "kmsg", XID79);
	p.flags = P2PSAFE_FLAG_KEEP_GOING;
	run(P2S_DONE_COMPLETE);
	assert_int_equal(play_has_fact(&p, "PROBE_RISK_HIGH"), 1);
	assert_int_equal(play_verdict(&p, 0, 1, P2PSAFE_LEG_SM_STORE, P2PSAFE_MAPPING_CUMEM), P2PSAFE_VERDICT_OK);
	end(&h);
}

static void the_driver_is_obeyed(void **state)
{
	static const struct {
		const char *log;
		int32_t state;
	} cases[] = {
		{LINE(5, "NVRM: Xid (PCI:0000:10:00): 154, GPU recovery action changed from 0x0 (None) to 0x2 (Node Reboot Required)"),
	         P2PSAFE_GPU_STATE_RISKY},
		{LINE(5, "NVRM: Xid (PCI:0000:10:00): 154, GPU recovery action changed from 0x0 (None) to 0x1 (GPU Reset Required)")
	         LINE(6, "NVRM: Xid (PCI:0000:10:00): 154, GPU recovery action changed from 0x1 (GPU Reset Required) to 0x0 (None)"),
	         P2PSAFE_GPU_STATE_READY},
		{LINE(5, "NVRM: Xid (PCI:0000:10:00): 31, pid=1, Ch 8") LINE(6, "NVRM: Xid (PCI:0000:90:00): 79, x"), P2PSAFE_GPU_STATE_READY},
	};
	struct made_host h;

	(void)state;
	for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
		make(&h, 2, "", "");
		host_write(&h, "kmsg", cases[i].log);
		run(P2S_DONE_COMPLETE);
		assert_int_equal(p.gpus[0].state, cases[i].state);
		if (i == 0)
			assert_non_null(strstr(p.gpus[0].error, "a reboot of the machine"));
		end(&h);
	}
}

static void a_grave_error_during_the_test_ends_it(void **state)
{
	struct made_host h;
	const struct p2s_lib_log_event *e;

	(void)state;
	make(&h, 3,
	     "{\"src\": \"0000:10:00.0\", \"op\": \"sm_store\", \"effect\": \"log\", \"kmsg\": \"NVRM: Xid (PCI:0000:10:00): 79, pid={pid}, "
	     "name=p2psafe-helper, GPU has fallen off the bus.\"}",
	     READABLE);
	run(P2S_DONE_STOPPED);
	assert_int_equal(play_has_fact(&p, "GRAVE_XID"), 1);
	assert_int_equal(p.gpus[0].state, P2PSAFE_GPU_STATE_RISKY);
	e = event_of(P2S_LOG_XID, 0, 1);
	assert_non_null(e);
	assert_int_equal(e->in_test, 1);
	assert_int_equal(e->own_pid, 0); /* its process was not killed by us */
	assert_int_equal(play_verdict(&p, 1, 2, P2PSAFE_LEG_SM_STORE, P2PSAFE_MAPPING_CUMEM), P2PSAFE_VERDICT_UNTESTED);
	end(&h);
}

static void what_a_killed_worker_leaves_is_its_own(void **state)
{
	struct made_host h;
	const struct p2s_lib_log_event *e;

	(void)state;
	make(&h, 2,
	     "{\"src\": \"0000:10:00.0\", \"op\": \"sm_store\", \"effect\": \"wedge\", \"kmsg\": \"NVRM: Xid (PCI:0000:10:00): 45, pid={pid}, "
	     "name=p2psafe-helper, Ch 00000008\"}",
	     READABLE);
	run(P2S_DONE_STOPPED);
	e = event_of(P2S_LOG_XID, 0, 1);
	assert_non_null(e);
	assert_int_equal(e->own_pid, 1);
	assert_int_equal(play_has_fact(&p, "GRAVE_XID"), 0);
	end(&h);
}

static void storms_are_counted(void **state)
{
	struct made_host h;
	static char text[60000];
	size_t at = 0;

	(void)state;
	make(&h, 2, "", "");
	for (int i = 0; i < 100; i++)
		at += (size_t)snprintf(text + at, sizeof text - at,
		                       "3,%d,%d000,-;nvidia 0000:10:00.0: AMD-Vi: Event logged [IO_PAGE_FAULT domain=0x0003 "
		                       "address=0x%x flags=0x0020]\n 3 SUBSYSTEM=pci\n DEVICE=+pci:0000:10:00.0\n", i + 1, i + 1, i < 50 ? 0x1000 : i << 12);
	at += (size_t)snprintf(text + at, sizeof text - at, "4,101,101000,-;amd_iommu_report_page_fault: 1000 callbacks suppressed\n");
	at += (size_t)snprintf(text + at, sizeof text - at, "3,102,102000,-;" "nvme 0000:77:00.0: " IO_FAULT "\n", "0x5000");
	at += (size_t)snprintf(text + at, sizeof text - at, "4,103,103000,-;amd_iommu_report_page_fault: 7 callbacks suppressed\n");
	snprintf(text + at, sizeof text - at, "4,104,104000,-;dmar_fault: 9 callbacks suppressed\n");
	host_write(&h, "kmsg", text);
	p.mode = P2S_MODE_PROBE;
	run(P2S_DONE_COMPLETE);
	assert_int_equal(p.log_state.state, P2S_LOG_READABLE);
	assert_int_equal(events_of(P2S_LOG_AMD_FAULT), 16);
	at = 0;
	for (size_t i = 0; i < p.event_count; i++)
		at += p.events[i].kind == P2S_LOG_AMD_FAULT ? p.events[i].repeats + 1 : 0;
	assert_int_equal(at, 100 + 1000); /* the seven belong to another device */
	assert_int_equal(events_of(P2S_LOG_SUPPRESSED), 1); /* those lines are gone from the log */
	end(&h);
}

/* However much was logged before the test, what is logged during it is told. */
static void a_full_log_leaves_room_for_the_test(void **state)
{
	struct made_host h;
	static char text[200000];
	size_t at = 0;

	(void)state;
	make(&h, 2,
	     "{\"src\": \"0000:10:00.0\", \"op\": \"sm_store\", \"effect\": \"log\", \"kmsg\": \"nvidia {src}: AMD-Vi: Event logged "
	     "[IO_PAGE_FAULT domain=0x0003 address=0x40000010000 flags=0x0020]\"}",
	     READABLE);
	for (int i = 0; i < 70 * 16; i++)
		at += (size_t)snprintf(text + at, sizeof text - at,
		                       "4,%d,%d000,-;nvme 0000:%02x:00.0: PCIe Bus Error: severity=Correctable, type=Physical Layer, "
		                       "(Receiver ID) %d\n",
		                       i + 1, i + 1, 0xa0 + i / 16, i);
	host_write(&h, "kmsg", text);
	run(P2S_DONE_COMPLETE);
	assert_in_range(events_of(P2S_LOG_AER_CORRECTABLE), 100, 70 * 16 - 1);
	assert_true(p.log_state.lost > 0); /* those that are not told are missed */
	assert_non_null(event_of(P2S_LOG_AMD_FAULT, 0, 1));
	assert_int_equal(event_of(P2S_LOG_AMD_FAULT, 0, 1)->in_test, 1);
	end(&h);
}

static void a_captured_log_is_read(void **state)
{
	struct made_host h;

	(void)state;
	make(&h, 2, "", "");
	host_write(&h, "dmesg.txt", "[    0.000000] Linux version 6.1 (someone@somewhere)\n[    1.0] iommu: Default domain type: Translated \n"
	                            "[    2.5] DMAR: DRHD: handling fault status reg 2\n[    2.500001] DMAR: [DMA Read NO_PASID] Request device "
	                            "[10:00.0] fault addr 0xe1000000 [fault reason 0x06] PTE Read access is not set\n");
	p.mode = P2S_MODE_PROBE;
	run(P2S_DONE_COMPLETE);
	assert_int_equal(p.event_count, 2);
	assert_int_equal(p.events[1].kind, P2S_LOG_DMAR_FAULT);
	assert_int_equal(p.events[1].usec, 2500001);
	assert_int_equal(p.events[1].gpu, 0);
	assert_int_equal(p.events[1].owner, 1);
	assert_int_equal(p.events[1].owner_bar, 0);
	end(&h);
}

/* Both ways in which drivers tell NVLink errors, and GPUs that tell none. */
static void error_counters_are_read_before_and_after(void **state)
{
	static const struct {
		const char *link, *old;
		uint64_t before, after;
	} cases[] = {{"nvlink", "false", 5, 7}, {"nvlink", "true", 5, 7}, {"pcie", "true", UINT64_MAX, UINT64_MAX}};
	struct made_host h;
	char more[240];

	(void)state;
	for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
		char link[64];

		snprintf(link, sizeof link, "{\"default\": {\"kind\": \"%s\", \"nvlinks\": %d}}", cases[i].link, cases[i].link[0] == 'n' ? 4 : 0);
		snprintf(more, sizeof more,
		         "\"nvml\": {\"pcie_replays\": 3, \"pcie_replays_step\": 1, \"nvlink_errors\": 5, \"nvlink_errors_step\": 2, "
		         "\"old_counters\": %s},", cases[i].old);
		host_make(&h, 2, link, "", more, "");
		host_play(&p, &h, 2);
		run(P2S_DONE_COMPLETE);
		for (int g = 0; g < 2; g++) {
			assert_int_equal(p.gpu_facts[g][P2S_GPU_FACT_PCIE_REPLAYS_BEFORE], 3);
			assert_int_equal(p.gpu_facts[g][P2S_GPU_FACT_PCIE_REPLAYS_AFTER], 4);
			assert_true(p.gpu_facts[g][P2S_GPU_FACT_NVLINK_ERRORS_BEFORE] == cases[i].before);
			assert_true(p.gpu_facts[g][P2S_GPU_FACT_NVLINK_ERRORS_AFTER] == cases[i].after);
		}
		end(&h);
	}
	/* one that hangs is not waited for, neither before nor behind */
	host_make(&h, 2, "pcie", "", "\"nvml\": {\"hang\": true},", "");
	host_play(&p, &h, 2);
	run(P2S_DONE_COMPLETE);
	assert_true(p.gpu_facts[0][P2S_GPU_FACT_PCIE_REPLAYS_AFTER] == UINT64_MAX);
	assert_true(p.seconds < 15);
	end(&h);
}

/* This machine's own log, as far as this process may read it. */
static void the_real_log_has_a_state(void **state)
{
	(void)state;
	play_init(&p, "");
	p.mode = P2S_MODE_PROBE;
	p.n = 0;
	run(P2S_DONE_COMPLETE);
	assert_true(p.log_states >= 1);
	assert_in_range(p.log_state.state, P2S_LOG_READABLE, P2S_LOG_ABSENT);
	if (access("/dev/kmsg", F_OK) != 0)
		assert_int_equal(p.log_state.state, P2S_LOG_ABSENT);
	if (p.log_state.state != P2S_LOG_READABLE)
		assert_int_equal(p.event_count, 0);
	play_free(&p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_fault_is_told_with_pair_owner_and_offset),
		cmocka_unit_test(a_fault_stops_although_the_bytes_are_right),
		cmocka_unit_test(a_fault_beside_nvlink_is_not_its_own),
		cmocka_unit_test(faults_of_other_devices_stop_nothing),
		cmocka_unit_test(a_late_line_is_waited_for_where_something_is_wrong),
		cmocka_unit_test(an_unreadable_log_is_said_to_be_so),
		cmocka_unit_test(a_gpu_with_a_grave_error_is_not_tested),
		cmocka_unit_test(the_driver_is_obeyed),
		cmocka_unit_test(a_grave_error_during_the_test_ends_it),
		cmocka_unit_test(what_a_killed_worker_leaves_is_its_own),
		cmocka_unit_test(storms_are_counted),
		cmocka_unit_test(a_full_log_leaves_room_for_the_test),
		cmocka_unit_test(a_captured_log_is_read),
		cmocka_unit_test(error_counters_are_read_before_and_after),
		cmocka_unit_test(the_real_log_has_a_state),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
