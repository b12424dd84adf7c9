/* Which machine, guest and container this is, from trees of files. */
#define _GNU_SOURCE
#include "unit.h"

#include "inventory/host.h"
#include "inventory/where.h"
#include "tmpdir.h"

#define CPU(flags) "processor\t: 0\nvendor_id\t: AuthenticAMD\nflags\t\t: fpu vme " flags " lm\n\n"

static char base[64];

static int setup(void **state)
{
	(void)state;
	tmp_make(base, sizeof base);
	tmp_host(base, 2);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	tmp_remove(base);
	return 0;
}

static void look(struct p2s_model *m)
{
	struct p2s_fsroot root;
	struct p2s_seam seam;
	struct p2s_host h;

	assert_int_equal(p2s_host_json_read(base, &seam, NULL), 0);
	assert_int_equal(p2s_fsroot_open(&root, base), 1);
	p2s_model_init(m);
	p2s_host_read(&root, &seam, m, &h);
	p2s_host_read_more(&root, &seam, m);
	p2s_fsroot_close(&root);
}

static void expect_machine(const char *virtualization, int32_t hypervisor)
{
	struct p2s_model m;

	look(&m);
	assert_string_equal(m.virtualization, virtualization);
	assert_int_equal(m.facts.host.hypervisor, hypervisor);
	p2s_model_free(&m);
}

static void firmware_names(void **state)
{
	static const struct {
		const char *flags, *product, *vendor, *word;
		int32_t guest;
	} rows[] = {{CPU(""), "PowerEdge R7525", "Dell Inc.", "none", 0},
	            {CPU("hypervisor"), "PowerEdge R7525", "Dell Inc.", "vm", 1},
	            {CPU("hypervisor"), "Standard PC (Q35 + ICH9, 2009)", "QEMU", "kvm", 1},
	            {CPU(""), "Standard PC (Q35 + ICH9, 2009)", "QEMU", "kvm", 1}, /* a hidden hypervisor */
	            {CPU("hypervisor"), "KVM", "Red Hat", "kvm", 1},
	            {CPU("hypervisor"), "RHEL", "Red Hat", "kvm", 1},
	            {CPU("hypervisor"), "Virtual Machine", "Microsoft Corporation", "microsoft", 1},
	            {CPU(""), "Surface", "Microsoft Corporation", "none", 0},
	            {CPU("hypervisor"), "VMware7,1", "VMware, Inc.", "vmware", 1},
	            {CPU("hypervisor"), "p5.48xlarge", "Amazon EC2", "amazon", 1},
	            {CPU(""), "p5.metal", "Amazon EC2", "none", 0},
	            {CPU("hypervisor"), "Google Compute Engine", "Google", "google", 1},
	            {CPU("hypervisor"), "HVM domU", "Xen", "xen", 1},
	            {CPU("hypervisor"), "VirtualBox", "innotek GmbH", "oracle", 1},
	            {"processor\t: 0\nBogoMIPS\t: 50.00\n", "KVM Virtual Machine", "QEMU", "kvm", 1},
	            {"processor\t: 0\nBogoMIPS\t: 50.00\n", "Grace", "NVIDIA", "none", 0}};

	(void)state;
	for (size_t i = 0; i < COUNT(rows); i++) {
		tmp_write(base, "root/proc/cpuinfo", rows[i].flags);
		tmp_write(base, "root/sys/class/dmi/id/product_name", rows[i].product);
		tmp_write(base, "root/sys/class/dmi/id/sys_vendor", rows[i].vendor);
		expect_machine(rows[i].word, rows[i].guest);
	}
}

static void signatures(void **state)
{
	(void)state;
	assert_string_equal(p2s_where_signature("KVMKVMKVM"), "kvm");
	assert_string_equal(p2s_where_signature("TCGTCGTCGTCG"), "qemu");
	assert_null(p2s_where_signature("NoSuchThing!"));
	tmp_write(base, "root/proc/cpuinfo", CPU("hypervisor"));
	tmp_write(base, "host.json", "{\"description\": \"a\", \"source\": \"b\", \"cpuid_signature\": \"KVMKVMKVM\"}");
	expect_machine("kvm", P2S_YES);
	tmp_write(base, "host.json", "{\"description\": \"a\", \"source\": \"b\", \"cpuid_signature\": \"NoSuchThing!\"}");
	expect_machine("vm", P2S_YES);
}

static void nothing_readable_is_unknown(void **state)
{
	(void)state;
	tmp_write(base, "root/proc/cpuinfo", "");
	expect_machine("", P2S_UNREAD);
}

static void xen_domains(void **state)
{
	(void)state;
	tmp_write(base, "root/proc/cpuinfo", CPU("hypervisor"));
	tmp_write(base, "root/sys/hypervisor/type", "xen\n");
	expect_machine("xen", P2S_YES);
	tmp_write(base, "root/sys/hypervisor/properties/features", "00000a01\n"); /* bit 11 */
	expect_machine("none", P2S_NO);
	tmp_write(base, "root/proc/xen/capabilities", "control_d\n");
	expect_machine("none", P2S_NO);
}

static void expect_container(const char *word)
{
	struct p2s_model m;

	look(&m);
	assert_string_equal(m.container, word);
	p2s_model_free(&m);
}

static void write_environment(const char *text, size_t len)
{
	char path[128];
	FILE *f;

	tmp_write(base, "root/proc/1/environ", "");
	snprintf(path, sizeof path, "%s/root/proc/1/environ", base);
	f = fopen(path, "w");
	assert_non_null(f);
	assert_int_equal(fwrite(text, 1, len, f), len);
	assert_int_equal(fclose(f), 0);
}

#define ENVIRONMENT(text) write_environment(text, sizeof(text))

static void containers(void **state)
{
	(void)state;
	expect_container(""); /* nothing to read: unknown, not none */
	ENVIRONMENT("HOME=/\0TERM=linux");
	expect_container("none");
	ENVIRONMENT("TERM=linux\0xcontainer=no\0container=lxc");
	expect_container("lxc");
	ENVIRONMENT("PATH=/bin\0KUBERNETES_SERVICE_HOST=10.0.0.1");
	expect_container("kubernetes");
	tmp_write(base, "root/.dockerenv", "");
	expect_container("docker");
	tmp_write(base, "root/run/.containerenv", "");
	expect_container("podman");
	tmp_write(base, "root/run/systemd/container", "systemd-nspawn\n");
	expect_container("systemd-nspawn");
	tmp_write(base, "root/run/host/container-manager", "lxc-libvirt\n");
	expect_container("lxc-libvirt");
	tmp_write(base, "root/proc/sys/kernel/osrelease", "5.15.167.4-microsoft-standard-WSL2\n");
	expect_container("wsl");
}

static void encryption_and_snp(void **state)
{
	static const char parameter[] = "root/sys/module/kvm_amd/parameters/sev_snp";
	struct p2s_model m;

	(void)state;
	tmp_write(base, "root/proc/cpuinfo", CPU("sev_snp sme"));
	look(&m); /* the flag alone proves nothing; this kernel shows sme also when it is off */
	assert_int_equal(m.snp_host, P2S_UNREAD);
	assert_int_equal(m.facts.host.sme, P2S_UNREAD);
	assert_int_equal(m.facts.host.amd_cpu, P2S_YES);
	assert_int_equal(m.facts.host.confidential_guest, P2S_NO);
	p2s_model_free(&m);
	tmp_write(base, "root/proc/sys/kernel/osrelease", "6.14.11-4-pve\n");
	tmp_write(base, parameter, "Y\n");
	look(&m);
	assert_int_equal(m.snp_host, P2S_YES);
	assert_int_equal(m.facts.host.snp, P2S_YES);
	assert_string_equal(m.facts.host.snp_source, "/sys/module/kvm_amd/parameters/sev_snp");
	assert_int_equal(m.facts.host.sme, P2S_YES);
	assert_int_equal(m.facts.host.kernel_major, 6);
	assert_int_equal(m.facts.host.kernel_minor, 14);
	p2s_model_free(&m);
	tmp_write(base, parameter, "N\n");
	look(&m);
	assert_int_equal(m.snp_host, P2S_NO);
	p2s_model_free(&m);
	tmp_write(base, parameter, "\n");
	tmp_write(base, "root/proc/cpuinfo", CPU(""));
	look(&m);
	assert_int_equal(m.snp_host, P2S_NO);
	assert_int_equal(m.facts.host.sme, P2S_NO);
	p2s_model_free(&m);
	tmp_write(base, "root/proc/cpuinfo", "");
	look(&m);
	assert_int_equal(m.snp_host, P2S_UNREAD);
	assert_int_equal(m.facts.host.sme, P2S_UNREAD);
	assert_int_equal(m.facts.host.confidential_guest, P2S_UNREAD);
	p2s_model_free(&m);
}

static void confidential_guests(void **state)
{
	struct p2s_model m;

	(void)state;
	tmp_write(base, "root/proc/cpuinfo", CPU("hypervisor"));
	look(&m);
	assert_int_equal(m.facts.host.confidential_guest, P2S_NO);
	p2s_model_free(&m);
	tmp_write(base, "root/proc/cpuinfo", CPU("hypervisor sev"));
	look(&m); /* it may be one: only a register that needs privilege would tell */
	assert_int_equal(m.facts.host.confidential_guest, P2S_UNREAD);
	p2s_model_free(&m);
	tmp_write(base, "root/sys/devices/system/cpu/sev/vmpl", "0\n");
	look(&m);
	assert_int_equal(m.facts.host.confidential_guest, P2S_YES);
	assert_int_equal(m.snp_host, P2S_NO); /* a guest hosts none */
	p2s_model_free(&m);
	tmp_write(base, "root/proc/cpuinfo", CPU("hypervisor tdx_guest"));
	look(&m);
	assert_int_equal(m.facts.host.confidential_guest, P2S_YES);
	assert_int_equal(m.facts.host.tdx, P2S_YES);
	p2s_model_free(&m);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test_setup_teardown(firmware_names, setup, teardown),
	                                   cmocka_unit_test_setup_teardown(signatures, setup, teardown),
	                                   cmocka_unit_test_setup_teardown(nothing_readable_is_unknown, setup, teardown),
	                                   cmocka_unit_test_setup_teardown(xen_domains, setup, teardown),
	                                   cmocka_unit_test_setup_teardown(containers, setup, teardown),
	                                   cmocka_unit_test_setup_teardown(encryption_and_snp, setup, teardown),
	                                   cmocka_unit_test_setup_teardown(confidential_guests, setup, teardown)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
