"""The examples: run on simulated hosts, as far as a machine without their surroundings can.

usage: test_examples.py [UNITTEST ARGS]
P2PSAFE_PROGRAM, P2PSAFE_LIBRARY: what is tested; P2PSAFE_UNIT: the boot unit as it is installed; P2PSAFE_C, P2PSAFE_CPP, P2PSAFE_README: the
C and the C++ example, the latter if built, and the program that README.md shows.
"""

import json
import os
import re
import shlex
import shutil
import stat
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "examples"
HOSTS = ROOT / "tests" / "hosts"
HEALTHY = HOSTS / "ok-2xh200-nvlink"
BROKEN = HOSTS / "s01-founding-host"
FAR = HOSTS / "x-far-pairs"
UNTESTED = HOSTS / "driver-too-old"
SINGLE = HOSTS / "one-gpu"
PROGRAM = os.environ.get("P2PSAFE_PROGRAM", "")
UNIT = os.environ.get("P2PSAFE_UNIT", "")


class Example(unittest.TestCase):
    def setUp(self):
        self.assertTrue(os.access(PROGRAM, os.X_OK), "P2PSAFE_PROGRAM does not name the program")
        folder = tempfile.TemporaryDirectory(prefix="p2psafe-examples-")
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.bin = self.folder / "bin"
        self.bin.mkdir()

    def machine(self, host):
        """A `p2psafe` first in PATH that is the program on a simulated host, quick, with a record of its own."""
        cache = Path(tempfile.mkdtemp(prefix="cache-", dir=str(self.folder)))
        wrapper = self.bin / "p2psafe"
        # the level goes to the commands that take one, and not twice
        wrapper.write_text(
            "#!/bin/sh\nexport P2PSAFE_CACHE=%s\nlevel='--level quick'\ncase \" $* \" in *' --level '*|*' explain '*) level= ;; esac\n"
            "case \"$1\" in decide|env|run|groups) command=$1; shift; exec %s \"$command\" --host %s $level \"$@\" ;; esac\n"
            "exec %s --host %s \"$@\"\n" % (*(shlex.quote(str(word)) for word in (cache, PROGRAM, host, PROGRAM, host)),)
        )
        wrapper.chmod(0o755)
        return cache

    def kept_place(self):
        """An empty folder for a record; nobody else may write it."""
        return Path(tempfile.mkdtemp(prefix="kept-", dir=str(self.folder)))

    @staticmethod
    def kept(cache):
        """Records in that folder, which is empty again then."""
        names = sorted(path.name for path in cache.glob("*.json"))
        for path in cache.iterdir():
            path.unlink()
        return names

    def without_program(self):
        (self.bin / "p2psafe").unlink()

    def environ(self, **more):
        environ = {name: value for name, value in os.environ.items() if not name.startswith(("P2PSAFE_", "NCCL_", "CUDA_", "GGML_"))}
        environ.update(PATH="%s:/usr/bin:/bin" % self.bin, HOME=str(self.folder))
        environ.update({name: str(value) for name, value in more.items()})
        return environ

    def run_words(self, words, wanted=0, **more):
        done = subprocess.run([str(word) for word in words], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              universal_newlines=True, env=self.environ(**more), cwd=str(self.folder), check=False, timeout=120)
        self.assertEqual(done.returncode, wanted, "%s\n%s" % (words, done.stdout))
        return done.stdout


def assignments(text):
    return dict(line.split("=", 1) for line in text.splitlines() if re.match(r"[A-Za-z_]\w*=", line))


class C(Example):
    """What the workers of server_start have, whatever the operator had set."""

    def settings(self, host, wanted=0):
        words = [PROGRAM, "--host", host, "env", "--format", "json"]
        done = subprocess.run([str(word) for word in words], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=False, timeout=120,
                              universal_newlines=True, env=self.environ(P2PSAFE_CACHE=self.folder))
        self.assertEqual(done.returncode, wanted)
        return [s for s in json.loads(done.stdout) if s["applied"]]

    def worker(self, host, **mine):
        return assignments(self.run_words([os.environ["P2PSAFE_C"], "--host", host, "--", "/usr/bin/env"], P2PSAFE_CACHE=self.folder, **mine))

    def check(self, host, needed, wanted=0):
        settings = self.settings(host, wanted)
        self.assertLessEqual(needed, {s["name"] for s in settings})
        self.assertEqual([s["name"] for s in settings if s["gives_permission"]], [])
        got = self.worker(host, **{s["name"]: "mine" for s in settings})
        for s in settings:
            self.assertEqual(got.get(s["name"]), s["value"] if s["kind"] == "env" else None, s["name"])

    def test_a_veto_of_one_who_is_allowed_wins_over_the_operator(self):
        host = HOSTS / "x-torn-lines"
        self.run_words([PROGRAM, "--host", host, "test", "--no-measure", "--deadline", "100"], P2PSAFE_CACHE=self.folder)
        self.check(host, {"NCCL_PROTO"})

    def test_without_a_report_nothing_of_the_full_veto_is_missing(self):
        self.check(self.folder / "nowhere", {"NCCL_P2P_DISABLE", "NCCL_MNNVL_ENABLE", "VLLM_SKIP_P2P_CHECK", "GGML_CUDA_P2P"}, wanted=2)

    def test_the_program_of_the_readme(self):
        """It finds the place that the environment names, so that its second start finds an answer. Nobody but root has another."""
        cache = self.kept_place()
        self.assertEqual(self.run_words([os.environ["P2PSAFE_README"], HEALTHY], P2PSAFE_CACHE=cache), "1\n")
        self.assertTrue(self.kept(cache), "the next start would test again")


class Cpp(Example):
    def test_both_hosts(self):
        program = os.environ.get("P2PSAFE_CPP", "")
        if not program:
            self.skipTest("not built: no C++ compiler")
        cache = self.kept_place()
        self.assertIn("own kernels over peer memory", self.run_words([program, HEALTHY], P2PSAFE_CACHE=cache))
        self.assertTrue(self.kept(cache), "the next start would test again")
        out = self.run_words([program, BROKEN], P2PSAFE_CACHE=cache)
        self.assertIn("all-reduce: NCCL", out)
        self.assertEqual(assignments(out)["NCCL_P2P_DISABLE"], "1")
        # no report: everything is vetoed
        self.assertEqual(assignments(self.run_words([program, self.folder], wanted=1))["NCCL_P2P_DISABLE"], "1")


class Python(Example):
    def environ(self, **more):
        preload = {name: os.environ[name] for name in ("LD_PRELOAD", "ASAN_OPTIONS") if name in os.environ}
        own = {"PYTHONPATH": ROOT / "bindings" / "python", "P2PSAFE_LIBRARY": os.environ["P2PSAFE_LIBRARY"]}
        return super().environ(**{**own, **preload, **more})

    def serve(self, host):
        show = "import os, sys; print(sys.argv[1:]); [print('%s=%s' % item) for item in os.environ.items()]"
        return self.run_words([sys.executable, EXAMPLES / "python" / "serve.py", "--host", host, "--", sys.executable, "-c", show],
                              GGML_CUDA_P2P="1")

    def test_serve(self):
        out = self.serve(HEALTHY)
        self.assertIn("\n[]\n", "\n" + out)
        self.assertNotIn("NCCL_P2P_DISABLE", assignments(out))
        out = self.serve(BROKEN)
        self.assertIn("['--disable-custom-all-reduce']", out)  # not Hopper: nothing is fused
        self.assertEqual(assignments(out)["NCCL_P2P_DISABLE"], "1")
        self.assertNotIn("GGML_CUDA_P2P", assignments(out))
        out = self.serve(HOSTS / "no-driver")
        self.assertIn("['--disable-custom-all-reduce', '--compilation-config.pass_config.fuse_allreduce_rms=false']", out)

    def test_the_recipe_for_sitecustomize(self):
        recipe = re.search(r"```python\n(.*?)```", (EXAMPLES / "README.md").read_text(encoding="utf-8"), re.DOTALL).group(1)
        site = self.folder / "site"
        site.mkdir()
        (site / "sitecustomize.py").write_text(recipe)
        if Path("/proc/driver/nvidia/version").exists():
            self.skipTest("there is a driver here, so the answer is this machine's")
        # no driver: nothing can be tested, so everything is vetoed
        out = self.run_words([sys.executable, "-c", "import os; print('NCCL_P2P_DISABLE=%s' % os.environ.get('NCCL_P2P_DISABLE'))"],
                             PYTHONPATH="%s:%s" % (site, ROOT / "bindings" / "python"))
        self.assertEqual(assignments(out)["NCCL_P2P_DISABLE"], "1", out)


class Unit(Example):
    """The boot unit. Nothing here talks to systemd."""

    def settings(self, path):
        found = {}
        for line in Path(path).read_text(encoding="utf-8").splitlines():
            if "=" in line and not line.startswith("#"):
                name, value = line.split("=", 1)
                found.setdefault(name, []).append(value)
        return found

    def test_systemd_accepts_both(self):
        tool = shutil.which("systemd-analyze")
        if tool is None:
            self.skipTest("systemd-analyze is not installed")
        boot, service = self.folder / "p2psafe.service", self.folder / "inference.service"
        # the commands that the units name must exist here
        text = Path(UNIT).read_text(encoding="utf-8")
        installed = re.search(r"^ExecStart=(\S+/p2psafe) decide", text, re.MULTILINE).group(1)
        boot.write_text(text.replace(installed, PROGRAM))
        service.write_text((EXAMPLES / "systemd" / "inference.service").read_text(encoding="utf-8").replace("/usr/bin/p2psafe", PROGRAM))
        done = subprocess.run([tool, "--man=no", "verify", str(boot), str(service)], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, universal_newlines=True, check=False, timeout=60,
                              env=dict(self.environ(), SYSTEMD_UNIT_PATH="%s:" % self.folder))
        if re.search(r"Failed to (?:initialize manager|create runtime directory|load credential)", done.stdout):
            self.skipTest("systemd-analyze cannot run here: %s" % done.stdout.strip())
        ours = [line for line in done.stdout.splitlines() if "p2psafe.service" in line or "inference.service" in line]
        self.assertEqual((done.returncode, ours), (0, []), done.stdout)

    def test_what_it_runs(self):
        settings = self.settings(UNIT)
        self.assertEqual(settings["Type"], ["oneshot"])
        decide, env = settings["ExecStart"]
        good = {0} | {int(word) for word in settings["SuccessExitStatus"][0].split()}
        runtime = self.folder / "run"
        runtime.mkdir()
        for host, wanted in ((HEALTHY, 0), (BROKEN, 1), (UNTESTED, 3)):
            cache = self.machine(host)
            words = shlex.split(decide)
            self.assertTrue(words[0].endswith("/p2psafe"), words)
            self.assertIn("--recheck", words)
            self.assertIn(wanted, good)
            self.run_words(["p2psafe", *words[1:]], wanted=wanted)
            self.run_words(["/bin/sh", "-c", shlex.split(env)[2].replace(words[0], "p2psafe").replace("/run/p2psafe", str(runtime))])
            text = (runtime / "environment").read_text(encoding="utf-8")
            self.assertEqual(assignments(text).get("NCCL_P2P_DISABLE"), None if wanted == 0 else "1", text)
            self.assertEqual(os.listdir(str(runtime)), ["environment"])
            self.assertTrue(list(cache.glob("*.json")))


class Kubernetes(Example):
    @staticmethod
    def documents(name):
        try:
            import yaml
        except ImportError:
            raise unittest.SkipTest("no YAML reader for %s" % sys.executable)
        with open(str(EXAMPLES / "kubernetes" / name), encoding="utf-8") as stream:
            return list(yaml.safe_load_all(stream))

    def mounted(self, spec):
        """Every container mounts volumes that exist, and names an image and a command or nothing."""
        volumes = {volume["name"] for volume in spec["volumes"]}
        for container in spec["initContainers"] + spec["containers"]:
            self.assertTrue(container["image"])
            for mount in container.get("volumeMounts", []):
                self.assertIn(mount["name"], volumes)

    def test_init_container(self):
        (pod,) = self.documents("init-container.yaml")
        self.assertEqual((pod["apiVersion"], pod["kind"]), ("v1", "Pod"))
        spec = pod["spec"]
        self.mounted(spec)
        init, server = spec["initContainers"][0], spec["containers"][0]
        self.assertEqual(init["resources"], server["resources"])
        shared = self.folder / "shared"
        shared.mkdir()
        show = ["/usr/bin/env"]
        # before the decision: the server must not start
        done = subprocess.run([*server["command"], *show], env=self.environ(P2PSAFE_SHARED=shared), check=False,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        self.assertNotEqual(done.returncode, 0)
        self.assertNotIn(b"PATH=", done.stdout)
        for host, wanted in ((BROKEN, "1"), (UNTESTED, "1"), (HEALTHY, None)):
            self.machine(host)
            self.run_words(init["command"], P2PSAFE_SHARED=shared)
            out = assignments(self.run_words([*server["command"], *show], P2PSAFE_SHARED=shared, GGML_CUDA_P2P="1"))
            self.assertEqual(out.get("NCCL_P2P_DISABLE"), wanted)
            self.assertEqual("GGML_CUDA_P2P" in out, wanted is None)
        # a level counts in the environment that was looked at, and the server's is another
        self.machine(FAR)
        self.run_words(["p2psafe", "test", "--level", "quick", "--keep-going", "--no-measure"], wanted=1)
        self.assertIn("NCCL_P2P_LEVEL", self.run_words(["p2psafe", "env"]))
        self.run_words(init["command"], P2PSAFE_SHARED=shared)
        out = assignments(self.run_words([*server["command"], *show], P2PSAFE_SHARED=shared))
        self.assertEqual((out.get("NCCL_P2P_DISABLE"), out.get("NCCL_P2P_LEVEL")), ("1", None))
        # the program is missing: the init container fails and nothing half is left
        self.without_program()
        shutil.rmtree(str(shared))
        shared.mkdir()
        done = subprocess.run(init["command"], env=self.environ(P2PSAFE_SHARED=shared), check=False, stderr=subprocess.DEVNULL)
        self.assertNotEqual(done.returncode, 0)
        self.assertFalse((shared / "env").exists())

    def test_node_feature(self):
        (daemon,) = self.documents("node-feature.yaml")
        spec = daemon["spec"]["template"]["spec"]
        self.assertEqual(daemon["spec"]["selector"]["matchLabels"], daemon["spec"]["template"]["metadata"]["labels"])
        self.mounted(spec)
        command = spec["initContainers"][0]["command"]
        features = self.folder / "features"
        features.mkdir()
        for host, wanted in ((HEALTHY, "proven"), (SINGLE, "single"), (BROKEN, "vetoed"), (UNTESTED, "untested")):
            self.machine(host)
            self.run_words(command, FEATURES=features)
            self.assertEqual((features / "p2psafe").read_text(), "p2psafe.state=%s\n" % wanted)
            self.assertEqual(os.listdir(str(features)), ["p2psafe"])
        # no decision: no label, also not the old one
        self.without_program()
        self.run_words(command, wanted=1, FEATURES=features)
        self.assertEqual(os.listdir(str(features)), [])


class Slurm(Example):
    SCRIPTS = ("prolog.sh", "task_prolog.sh")

    def test_shell(self):
        for name in self.SCRIPTS:
            path = EXAMPLES / "slurm" / name
            self.assertTrue(path.stat().st_mode & stat.S_IXUSR, name)
            self.run_words(["/bin/sh", "-n", path])
            if shutil.which("shellcheck"):
                self.run_words([shutil.which("shellcheck"), path])

    def environment_of_a_task(self, environ):
        """What Slurm makes of the lines that a TaskProlog prints."""
        for line in self.run_words([EXAMPLES / "slurm" / "task_prolog.sh"]).splitlines():
            exported = re.fullmatch(r"export ([A-Za-z_]\w*)=(.*)", line)
            removed = re.fullmatch(r"unset ([A-Za-z_]\w*)", line)
            self.assertTrue(exported or removed, line)
            if exported:
                environ[exported.group(1)] = exported.group(2)
            else:
                environ.pop(removed.group(1), None)
        return environ

    def test_prolog_and_tasks(self):
        for host, vetoed in ((HEALTHY, False), (BROKEN, True), (UNTESTED, True)):
            cache = self.machine(host)
            self.run_words([EXAMPLES / "slurm" / "prolog.sh"])  # never drains the node
            self.assertTrue(list(cache.glob("*.json")), "%s: nothing is kept for the tasks" % host.name)
            task = self.environment_of_a_task({"GGML_CUDA_P2P": "1", "NCCL_P2P_DISABLE": "0"})
            self.assertEqual(task["NCCL_P2P_DISABLE"], "1" if vetoed else "0")
            self.assertEqual("GGML_CUDA_P2P" in task, not vetoed)

    def test_the_full_veto_reaches_the_tasks(self):
        self.machine(self.folder / "nowhere")  # no report: the program prints everything and exits 2
        task = self.environment_of_a_task({"GGML_CUDA_P2P": "1", "NCCL_P2P_DISABLE": "0", "NCCL_MNNVL_ENABLE": "1"})
        self.assertEqual((task["NCCL_P2P_DISABLE"], task["NCCL_MNNVL_ENABLE"], task.get("GGML_CUDA_P2P")), ("1", "0", None))

    def test_without_the_program(self):
        self.machine(HEALTHY)
        self.without_program()
        self.run_words([EXAMPLES / "slurm" / "prolog.sh"])
        self.assertEqual(self.environment_of_a_task({}), {"NCCL_P2P_DISABLE": "1"})


class Table(unittest.TestCase):
    def test_every_example_is_in_the_table(self):
        text = (EXAMPLES / "README.md").read_text(encoding="utf-8")
        for path in sorted(EXAMPLES.rglob("*")):
            if path.is_file() and path.suffix not in (".txt", ".md", ".pyc"):
                self.assertIn("(%s)" % path.relative_to(EXAMPLES), text)


if __name__ == "__main__":
    unittest.main()
