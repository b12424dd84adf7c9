"""The program's answers about several GPUs and several nodes: groups, merge, and every form of the settings as its reader reads it.

usage: test_groups.py PROGRAM"""

import json
import os
import pathlib
import re
import resource
import subprocess
import sys
import tempfile
import unittest
from xml.etree import ElementTree

HOSTS = pathlib.Path(__file__).resolve().parent
HEALTHY = str(HOSTS / "ok-2xh200-nvlink")
FOUNDING = str(HOSTS / "s01-founding-host")
FAR = str(HOSTS / "x-far-pairs")
PROGRAM = ""


class Program(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="p2psafe-groups-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.cache = self.folder / "cache"
        self.cache.mkdir(mode=0o700)

    def run_program(self, *words, deadline="240", stdin=subprocess.DEVNULL, **extra):
        env = {k: v for k, v in os.environ.items() if not k.startswith(("P2PSAFE_", "CUDA_", "NCCL_", "XDG_"))}
        env.update(P2PSAFE_CACHE=str(self.cache), HOME=str(self.folder), **extra)
        # a busy machine may take its time: what is tested here are answers, not deadlines
        patient = [] if words[0] == "merge" or "cache" in words else ["--deadline", deadline]
        done = subprocess.run([PROGRAM, *patient, *words], stdin=stdin, capture_output=True, text=True, errors="surrogateescape",
                              check=False, env=env, timeout=300)
        return done.returncode, done.stdout, done.stderr


class OneCache(Program):
    """Tests that only read: one folder of kept answers for all of them."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        folder = tempfile.TemporaryDirectory(prefix="p2psafe-kept-")
        cls.addClassCleanup(folder.cleanup)
        cls.kept = pathlib.Path(folder.name)
        os.chmod(cls.kept, 0o700)

    def setUp(self):
        super().setUp()
        self.cache = self.kept


class Groups(OneCache):
    def setUp(self):
        super().setUp()
        if not list(self.kept.iterdir()):
            self.assertEqual(self.run_program("--host", FAR, "test", "--keep-going", "--level", "quick", "--no-measure")[0], 1)
        self.uuids = {g["bdf"]: g["uuid"] for g in json.loads((HOSTS / "x-far-pairs" / "cuda.json").read_text())["gpus"]}

    def groups(self, *words, **extra):
        return self.run_program("--host", FAR, "groups", "--level", "quick", *words, **extra)

    def test_listing(self):
        code, out, err = self.groups()
        self.assertEqual(code, 1)
        self.assertIn("SIMULATED", err)
        self.assertIn("best 2 (PCIE) 0000:43:00.0 0000:44:00.0\n", out)
        self.assertEqual(out.count(" 0000:83:00.0 0000:84:00.0\n"), 2)

    def test_best_is_what_a_mask_takes(self):
        code, out, _ = self.groups("--best", "2")
        self.assertEqual((code, out), (0, "%s,%s\n" % (self.uuids["0000:43:00.0"], self.uuids["0000:44:00.0"])))
        self.assertEqual(self.groups("--best", "2", "--by", "ordinal")[1], "0,1\n")
        self.assertEqual(self.groups("--best", "2", "--by", "address")[1], "0000:43:00.0,0000:44:00.0\n")

    def test_a_mask_takes_ordinals_that_no_mask_has_changed(self):
        """The list replaces the mask that the caller has, so it counts as CUDA does without one."""
        for mask in ("2,0,1,3", "", self.uuids["0000:84:00.0"]):
            for words in (("--best", "2"), ("--order", "2")):
                code, out, _ = self.groups(*words, "--by", "ordinal", CUDA_VISIBLE_DEVICES=mask)
                self.assertEqual((code, out), (0, "0,1\n" if words[0] == "--best" else "0,1,2,3\n"), mask)

    def test_an_unknown_name_prints_no_part_of_a_list(self):
        """Which ordinals two of three different models have, the driver told nobody who asked about all of them."""
        self.cache = self.folder / "own"
        self.cache.mkdir(mode=0o700)
        code, out, err = self.run_program("--host", str(HOSTS / "ok-mixed-models"), "groups", "--level", "quick", "--gpus", "0,1",
                                          "--best", "2", "--by", "ordinal")
        self.assertEqual((code, out), (4, ""))
        self.assertIn("not known", err)

    def test_there_is_none(self):
        for words in (("--best", "3"), ("--best", "200"), ("--order", "3")):
            code, out, err = self.groups(*words)
            self.assertEqual((code, out), (1, ""), words)
            self.assertIn("no safe group", err)

    def test_order(self):
        code, out, _ = self.groups("--order", "2", "--by", "ordinal")
        self.assertEqual((code, out), (0, "0,1,2,3\n"))

    def test_usage(self):
        for words in (("--best", "1"), ("--best", "x"), ("--best", "2", "--order", "2"), ("--by", "name"), ("extra",)):
            self.assertEqual(self.groups(*words)[0], 2, words)


class Topology(Program):
    """Files for NCCL, read as NCCL reads them: GPUs below one invented switch are near, all others far."""

    DISPLAY = str(HOSTS / "f09-display-gpu")  # three GPUs, the first one's pairs are wrong
    GUEST = str(HOSTS / "s04-kvm-guest")

    def setUp(self):
        super().setUp()
        self.file = self.folder / "topology.xml"

    def read(self, path):
        """NUMA node and parent of each GPU; the address of its parent is None directly below the node."""
        root = ElementTree.parse(path).getroot()
        self.assertEqual((root.tag, root.get("version")), ("system", "1"))
        found = {}
        for cpu in root:
            self.assertEqual(cpu.tag, "cpu")
            for device in cpu:
                below = list(device)
                for gpu in below or [device]:
                    self.assertEqual(list(gpu), [])
                    self.assertRegex(gpu.get("busid"), r"^[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]$")
                    self.assertTrue(gpu.get("class").startswith("0x03"))
                    found[gpu.get("busid")] = (int(cpu.get("numaid")), device.get("busid") if below else None)
        for gpu in root.iter():
            self.assertIsNone(gpu.get("dev"))
            self.assertIsNone(gpu.get("rank"))
        return found

    def measured(self, host, wanted=1):
        """Keeps a measured answer. Measuring gives up where the machine that runs this test is too busy: then once more."""
        for _ in range(5):
            code, out, _ = self.run_program("--host", host, "test", "--keep-going", "--level", "quick", "--json")
            report = json.loads(out)
            numbers = [p["bandwidth"]["ce_write"] for p in report["pairs"] if p["verdict"] in ("OK", "DEGRADED")]
            numbers += [s["bandwidth"]["ce_write"] for s in report["staged"]]
            if None not in numbers:
                self.assertEqual(code, wanted)
                return
            self.run_program("--host", host, "cache", "clear")
        self.fail("never measured: %s" % (numbers,))

    def promoted(self, *words, **extra):
        code, out, err = self.run_program("--host", self.DISPLAY, "env", "--level", "quick", "--promote", *words, **extra)
        self.assertEqual(code, 0, err)
        return out, err

    def test_islands_only_with_promote_and_measured(self):
        self.assertEqual(self.run_program("--host", self.DISPLAY, "test", "--keep-going", "--level", "quick", "--no-measure")[0], 1)
        out, _ = self.promoted("--topology", self.file)
        self.assertIn("export NCCL_P2P_DISABLE='1'\n", out)
        self.assertFalse(self.file.exists())
        self.run_program("--host", self.DISPLAY, "cache", "clear")
        self.measured(self.DISPLAY)
        _, out, _ = self.run_program("--host", self.DISPLAY, "env", "--level", "quick")
        self.assertIn("export NCCL_P2P_DISABLE='1'\n", out)
        out, _ = self.promoted("--topology", self.file)
        self.assertIn("export NCCL_P2P_LEVEL='PXB'\n", out)
        self.assertIn("export NCCL_TOPO_FILE='%s'\n" % self.file, out)
        self.assertIn("export NCCL_WIN_ENABLE='0'\n", out)
        self.assertNotIn("NCCL_P2P_DISABLE", out)
        self.assertNotIn("GGML_CUDA_P2P=", out)
        found = self.read(self.file)
        switch = found["0000:41:00.0"][1]
        self.assertEqual(found, {"0000:01:00.0": (0, None), "0000:41:00.0": (0, switch), "0000:61:00.0": (0, switch)})
        self.assertFalse((HOSTS / "f09-display-gpu/root/sys/bus/pci/devices" / switch).exists())
        self.assertEqual(self.file.stat().st_mode & 0o777, 0o644)
        first = self.file.read_bytes()
        self.promoted("--topology", self.file)
        self.assertEqual(self.file.read_bytes(), first)
        # a form for another environment stays off
        out, _ = self.promoted("--topology", self.file, "--format", "docker")
        self.assertIn("NCCL_P2P_DISABLE=1\n", out)
        self.assertNotIn("NCCL_P2P_LEVEL", out)
        # the permission of the whole group does not change
        code, out, _ = self.run_program("--host", self.DISPLAY, "decide", "--level", "quick", "--promote", "--json")
        decision = json.loads(out)["decision"]
        self.assertEqual((code, decision["consumers"]["nccl_p2p"]["allowed"]), (1, False))
        self.assertTrue((self.cache / "nccl-topology.xml").exists())

    def test_a_topology_of_the_users_is_never_replaced(self):
        self.measured(self.DISPLAY)
        out, err = self.promoted("--topology", self.file, NCCL_TOPO_FILE="/etc/topology.xml")
        self.assertIn("export NCCL_P2P_DISABLE='1'\n", out)
        self.assertNotIn("NCCL_TOPO_FILE=", out)
        self.assertFalse(self.file.exists())
        for mine in ("<system version='1'/>", ""):
            self.file.write_text(mine)
            out, err = self.promoted("--topology", self.file)
            self.assertIn("not ours", err)
            self.assertEqual(self.file.read_text(), mine)
            self.assertIn("export NCCL_P2P_DISABLE='1'\n", out)
        self.file.unlink()
        self.file.symlink_to(self.folder / "elsewhere")
        self.promoted("--topology", self.file)
        self.assertFalse((self.folder / "elsewhere").exists())
        out, err = self.promoted("--topology", "/nonexistent/topology.xml")
        self.assertIn("export NCCL_P2P_DISABLE='1'\n", out)
        self.assertIn("/nonexistent/topology.xml", err)
        self.assertEqual(self.run_program("--host", self.DISPLAY, "env", "--promote", "--topology", "relative.xml")[0], 2)

    def test_no_islands_where_a_bad_pair_is_near(self):
        """Without the file NCCL would use such a pair by itself: then nothing may rest on the file."""
        self.measured(str(HOSTS / "x-far-pairs"))
        code, out, _ = self.run_program("--host", FAR, "env", "--level", "quick", "--promote", "--topology", self.file)
        self.assertEqual(code, 0)
        self.assertIn("export NCCL_P2P_LEVEL='PXB'\n", out)
        found = self.read(self.file)
        self.assertEqual(found["0000:43:00.0"][1], found["0000:44:00.0"][1])
        self.assertNotEqual(found["0000:43:00.0"][1], found["0000:83:00.0"][1])
        self.assertEqual([found[a][0] for a in sorted(found)], [0, 0, 1, 1])

    def test_placement(self):
        gpus = sorted(g["bdf"] for g in json.loads((HOSTS / "s04-kvm-guest/cuda.json").read_text())["gpus"])
        place = self.folder / "placement"
        place.write_text("# true nodes\n" + "".join("%s %d\n" % (bdf, i // 4) for i, bdf in enumerate(gpus)))
        words = ["--host", self.GUEST, "env", "--level", "quick", "--placement", place, "--topology", self.file]
        code, out, _ = self.run_program(*words)
        self.assertEqual(code, 0)
        self.assertIn("export NCCL_TOPO_FILE='%s'\n" % self.file, out)
        self.assertIn("export NCCL_P2P_DISABLE='1'\n", out)
        self.assertEqual(self.read(self.file), {bdf: (i // 4, None) for i, bdf in enumerate(gpus)})
        self.file.unlink()
        limits = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (64, limits[1]))  # a longer write would end the process with SIGXFSZ
        try:
            code, out, err = self.run_program(*words)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        self.assertEqual(code, 0, err)
        self.assertNotIn("NCCL_TOPO_FILE", out)
        self.assertIn("topology file", err)
        self.assertEqual([path.name for path in self.folder.iterdir() if path.name.startswith(self.file.name)], [])
        _, out, err = self.run_program(*words, NCCL_TOPO_FILE="/mine.xml")
        self.assertNotIn("NCCL_TOPO_FILE=", out)
        self.assertIn("the user's own topology stays", err)
        for text in ("", "0000:01:00.0\n", "0000:01:00.0 0\n", "0000:99:00.0 0\n", "nonsense 0\n", place.read_text() + gpus[0] + " 1\n",
                     place.read_text().replace(" 1", " -1"), "\0"):
            place.write_text(text)
            code, out, err = self.run_program(*words)
            self.assertEqual(code, 2, text)
            self.assertIn("placement_file", err)
            self.assertIn("export NCCL_P2P_DISABLE='1'\n", out)
        place.unlink()
        self.assertEqual(self.run_program(*words)[0], 2)
        words = words[:words.index("--placement")] + ["--topology", self.file]
        self.placed_from_a_pipe(words, "".join("%s %d\n" % (bdf, i // 4) for i, bdf in enumerate(gpus)))

    def placed_from_a_pipe(self, words, text):
        """What writes it may take its time, but not more than the call has."""
        pipe = self.folder / "pipe"
        os.mkfifo(pipe)
        code, out, err = self.run_program(*words, "--placement", pipe, deadline="1")
        self.assertEqual(code, 2)
        self.assertIn("placement_file", err)
        self.assertIn("within the deadline", err)
        self.assertIn("export NCCL_P2P_DISABLE='1'\n", out)
        for name in (pipe, "/dev/stdin"):
            late = "sleep 0.2; printf '# true nodes\n'; sleep 0.2; printf '%s' \"$1\""
            late = "exec >\"$2\"; " + late if name == pipe else late
            with subprocess.Popen(["sh", "-c", late, "sh", text, str(pipe)], stdout=subprocess.PIPE) as writer:
                code, _, err = self.run_program(*words, "--placement", name, stdin=writer.stdout)
                writer.stdout.close()
            self.assertEqual((code, writer.returncode), (0, 0), err)
            self.assertEqual(len(self.read(self.file)), text.count("\n"))
            self.file.unlink()
        place = self.folder / "placement"
        place.write_text(text)
        strange = os.fsdecode(os.fsencode(self.folder) + b"/topology \xff.xml")  # JSON cannot say it
        words[-1] = strange
        code, out, err = self.run_program(*words, "--placement", place, "--format", "json")
        self.assertEqual(code, 0, err)
        self.assertEqual([s["value"] for s in json.loads(out) if s["name"] == "NCCL_TOPO_FILE"], [str(self.folder / "topology ?.xml")])
        self.assertTrue(os.path.exists(strange))

    def test_all_proven_and_faster(self):
        """Nothing is to be taken away: a level as far as the farthest pair, and no file."""
        four = str(HOSTS / "ok-4xpcie")
        self.measured(four, 0)
        code, out, _ = self.run_program("--host", four, "env", "--level", "quick")
        self.assertNotIn("export NCCL_P2P", out)
        code, out, _ = self.run_program("--host", four, "env", "--level", "quick", "--promote")
        self.assertIn("export NCCL_P2P_LEVEL='PHB'\n", out)
        self.assertIn("export GGML_CUDA_P2P='1'\n", out)
        self.assertNotIn("NCCL_TOPO_FILE", out)
        self.assertEqual(self.run_program("--host", four, "env", "--level", "quick", "--promote", NCCL_P2P_LEVEL="PHB")[1], out)
        for mine in ("PIX", "SYS", "", "LOC'"):  # further is the user's own business, too: this is no veto
            _, text, _ = self.run_program("--host", four, "env", "--level", "quick", "--promote", NCCL_P2P_LEVEL=mine)
            self.assertNotIn("export NCCL_P2P_LEVEL", text)
            self.assertIn("# NCCL_P2P_LEVEL: ", text)
            self.assertEqual([line for line in out.splitlines() if "NCCL_P2P_LEVEL" not in line],
                             [line for line in text.splitlines() if "NCCL_P2P_LEVEL" not in line])
        _, out, _ = self.run_program("--host", four, "run", "--level", "quick", "--promote", "env", NCCL_P2P_LEVEL="PIX")
        self.assertIn("NCCL_P2P_LEVEL=PIX\n", out)  # permission never wins over the user


class Merge(Program):
    texts = {}

    def report(self, host, name):
        if host not in self.texts:
            self.texts[host] = self.run_program("--host", host, "decide", "--json", "--level", "quick")[1]
        path = self.folder / name
        path.write_text(self.texts[host])
        return str(path)

    def test_worst_over_nodes(self):
        good, bad = self.report(HEALTHY, "a.json"), self.report(FOUNDING, "b.json")
        code, out, err = self.run_program("merge", good)
        self.assertEqual((code, out), (0, ""))
        self.assertEqual(err.count("\n"), 1)
        self.assertIn("SIMULATED", err)
        code, out, _ = self.run_program("merge", good, bad)
        self.assertEqual(code, 1)
        self.assertIn("export NCCL_P2P_DISABLE='1'\n", out)
        code, out, _ = self.run_program("merge", "--json", good, bad)
        self.assertEqual((code, json.loads(out)["decision"]["exit_code"]), (1, 1))
        code, out, _ = self.run_program("merge", "--format", "docker", bad)
        self.assertIn("NCCL_P2P_DISABLE=1\n", out)

    def test_damaged_and_missing_files(self):
        good = self.report(HEALTHY, "a.json")
        cut = self.folder / "cut.json"
        cut.write_text(pathlib.Path(good).read_text()[:500])
        for bad in (str(cut), str(self.folder / "nowhere"), str(self.folder), "/dev/null"):
            code, out, err = self.run_program("merge", good, bad)
            self.assertEqual(code, 4, bad)
            self.assertIn("export NCCL_P2P_DISABLE='1'\n", out, bad)
            self.assertIn(bad, err)
            self.assertIn("1 of 2 reports cannot be used", err)

    def test_the_same_machine_twice(self):
        good = self.report(HEALTHY, "a.json")
        twin = self.folder / "twin.json"
        twin.write_text(pathlib.Path(good).read_text())
        code, out, err = self.run_program("merge", good, str(twin))
        self.assertEqual((code, out), (0, ""))
        self.assertIn("speak of the same machine", err)
        strange = os.path.join(os.fsencode(self.folder), b"\xff.json")
        os.rename(good, strange)
        code, out, err = self.run_program("merge", os.fsdecode(strange), str(twin))
        self.assertEqual((code, out), (0, ""))
        self.assertIn("%s and %s speak of the same machine" % (os.fsdecode(strange), twin), err)

    def test_usage(self):
        self.assertEqual(self.run_program("merge")[0], 2)
        self.assertEqual(self.run_program("merge", "--strict", "x")[0], 2)


class Forms(OneCache):
    """Each form through its reader: a shell, and readers written from the rules of docker, systemd, nccl.conf and YAML."""

    def setUp(self):
        super().setUp()
        self.settings = json.loads(self.form("json"))
        self.variables = {s["name"]: s["value"] for s in self.settings if s["kind"] == "env"}
        self.removed = [s["name"] for s in self.settings if s["kind"] == "unset"]
        self.assertGreater(len(self.variables), 5)
        self.assertIn("GGML_CUDA_P2P", self.removed)

    def form(self, name):
        code, out, _ = self.run_program("--host", FOUNDING, "env", "--level", "quick", "--format", name)
        self.assertEqual(code, 0, name)
        return out

    def test_shell(self):
        before = {name: "user" for name in list(self.variables) + self.removed}
        done = subprocess.run(["/bin/sh", "-euc", self.form("shell") + "env -0"], env=before, capture_output=True, text=True, check=True)
        after = dict(line.split("=", 1) for line in done.stdout.split("\0") if line)
        self.assertEqual({k: v for k, v in after.items() if k in before}, self.variables)

    def test_docker(self):
        """One NAME=VALUE a line, # at the start of a line is a comment, nothing is quoted."""
        lines = [line for line in self.form("docker").splitlines() if not line.startswith("#")]
        self.assertEqual(dict(line.split("=", 1) for line in lines), self.variables)

    def test_what_a_form_cannot_say_is_said(self):
        for name in ("docker", "systemd", "kubernetes"):
            text = self.form(name)
            for variable in self.removed:
                self.assertRegex(text, r"(?m)^# .*not set: %s:" % variable, name)
            self.assertIn("--disable-custom-all-reduce", text)

    def test_systemd_environment_file(self):
        """systemd.exec(5): lines without = and comments are ignored; "..." is unquoted, a backslash protects one character."""
        seen = {}
        for line in self.form("systemd").splitlines():
            if line.startswith(("#", ";")) or "=" not in line:
                continue
            name, value = line.split("=", 1)
            if value.startswith('"'):
                value = re.sub(r'\\(["\\`$])', r"\1", value[1:-1])
            seen[name] = value
        self.assertEqual(seen, self.variables)

    def test_systemd_unit(self):
        lines = self.form("systemd-unit").splitlines()
        self.assertEqual(lines[0], "[Service]")
        self.assertEqual([line for line in lines if line.startswith("UnsetEnvironment=")],
                         ["UnsetEnvironment=" + name for name in self.removed])
        seen = [re.fullmatch(r'Environment="(\w+)=(.*)"', line) for line in lines if line.startswith("Environment=")]
        self.assertEqual({m.group(1): m.group(2).replace("%%", "%") for m in seen}, self.variables)

    def test_kubernetes(self):
        lines = [line for line in self.form("kubernetes").splitlines() if not line.startswith("#")]
        names = [re.fullmatch(r"- name: (\w+)", line).group(1) for line in lines[::2]]
        values = [json.loads(re.fullmatch(r"  value: (\".*\")", line).group(1)) for line in lines[1::2]]
        self.assertEqual(dict(zip(names, values)), self.variables)
        self.cache = self.folder / "cache"  # another machine's answer would replace the kept one
        code, out, _ = self.run_program("--host", HEALTHY, "env", "--level", "quick", "--format", "kubernetes")
        self.assertEqual((code, out), (0, "[]\n"))

    def test_nccl_conf(self):
        lines = [line for line in self.form("nccl-conf").splitlines() if not line.startswith("#")]
        self.assertEqual(dict(line.split("=", 1) for line in lines), {k: v for k, v in self.variables.items() if k.startswith("NCCL_")})


if __name__ == "__main__":
    PROGRAM = os.path.abspath(sys.argv.pop(1))
    unittest.main()
