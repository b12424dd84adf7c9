"""The program's answers about several GPUs and several nodes: groups, merge, and every form of the settings as its reader reads it.

usage: test_groups.py PROGRAM"""

import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

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
        (self.folder / "cache").mkdir(mode=0o700)

    def run_program(self, *words, **extra):
        env = {k: v for k, v in os.environ.items() if not k.startswith(("P2PSAFE_", "CUDA_", "NCCL_", "XDG_"))}
        env.update(P2PSAFE_CACHE=str(self.folder / "cache"), HOME=str(self.folder), **extra)
        done = subprocess.run([PROGRAM, *words], stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False, env=env,
                              timeout=120)
        return done.returncode, done.stdout, done.stderr


class Groups(Program):
    def setUp(self):
        super().setUp()
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
        self.assertEqual(self.groups("--best", "2", "--by", "ordinal", CUDA_VISIBLE_DEVICES="1,0")[1], "1,0\n")
        self.assertEqual(self.groups("--best", "2", "--by", "address")[1], "0000:43:00.0,0000:44:00.0\n")
        code, _, err = self.groups("--best", "2", "--by", "ordinal", CUDA_VISIBLE_DEVICES="3")
        self.assertEqual(code, 4)
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


class Merge(Program):
    def report(self, host, name):
        _, out, _ = self.run_program("--host", host, "decide", "--json", "--level", "quick")
        path = self.folder / name
        path.write_text(out)
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

    def test_usage(self):
        self.assertEqual(self.run_program("merge")[0], 2)
        self.assertEqual(self.run_program("merge", "--strict", "x")[0], 2)


class Forms(Program):
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
        code, out, _ = self.run_program("--host", HEALTHY, "env", "--level", "quick", "--format", "kubernetes")
        self.assertEqual((code, out), (0, "[]\n"))

    def test_nccl_conf(self):
        lines = [line for line in self.form("nccl-conf").splitlines() if not line.startswith("#")]
        self.assertEqual(dict(line.split("=", 1) for line in lines), {k: v for k, v in self.variables.items() if k.startswith("NCCL_")})


if __name__ == "__main__":
    PROGRAM = os.path.abspath(sys.argv.pop(1))
    unittest.main()
