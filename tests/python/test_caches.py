"""The peer-access caches of vLLM and SGLang: what is written, what their checkers read from it, and what is never touched."""

import json
import os
import shutil
import stat
import subprocess
import sys
import threading
import unittest

import common
import p2psafe
from checkers import BOTH, Tested, sglang, vllm
from common import BROKEN, HEALTHY, HOSTS, LibraryTest, quick
from p2psafe._caches import write_caches
from p2psafe._library import load

FAR = HOSTS / "x-far-pairs"  # two pairs of good neighbours, and nothing good between them

REPORTS = {}


class Caches(LibraryTest):
    def setUp(self):
        super().setUp()
        self.home = self.folder / "home"
        self.home.mkdir()

    def report(self, host):
        """Each host is decided once; a report never changes."""
        if host not in REPORTS:
            REPORTS[host] = self.decide(host)
        return REPORTS[host]

    def one_bad_pair(self):
        """Four healthy GPUs, and what the first stores into the last is lost."""
        host = self.folder / "host"
        shutil.copytree(HOSTS / "ok-4xpcie", host, symlinks=True)
        cuda = json.loads((host / "cuda.json").read_text(encoding="utf-8"))
        first, last = cuda["gpus"][0]["bdf"], cuda["gpus"][3]["bdf"]
        cuda["faults"] = [{"src": first, "dst": last, "op": "sm_store", "effect": "drop"}]
        (host / "cuda.json").write_text(json.dumps(cuda), encoding="utf-8")
        return host

    def write(self, report, visible=None, **more):
        return {c.framework: c for c in report.write_caches(visible=visible, home=str(self.home), environment=False, **more)}

    def states(self, report, visible=None, **more):
        return {name: cache.state for name, cache in self.write(report, visible, **more).items()}

    def environment(self, visible=None):
        environment = {"HOME": str(self.home)}
        if visible is not None:
            environment["CUDA_VISIBLE_DEVICES"] = visible
        return environment

    def files(self):
        return sorted(path for path in self.home.rglob("*") if not path.is_dir())

    def both(self, state):
        return {"vllm": state, "sglang": state}

    def test_veto_without_a_mask(self):
        report = self.report(BROKEN)
        self.assertEqual(self.states(report), self.both("written"))
        for framework in BOTH.values():
            checker = framework(self.environment(), 4)
            for rank in range(4):
                self.assertFalse(checker.may_use_custom_all_reduce(rank, 4))
                for peer in range(4):
                    self.assertIs(checker.access(rank, peer), False)
        self.assertEqual(len(self.files()), 2)
        for path in self.files():
            self.assertEqual(stat.S_IMODE(path.stat().st_mode) & 0o022, 0)
        self.assertEqual(self.states(report), self.both("same"))

    def test_veto_for_masks(self):
        """The group decides, not the mask: two GPUs whose own pair is good are vetoed by a bad pair elsewhere."""
        report = p2psafe.test(host_dir=self.one_bad_pair(), cache_dir=self.cache(), **quick(keep_going=True))
        good = [(p.src, p.dst) for p in report.pairs if report.group_allows((p.src, p.dst), "custom_all_reduce")]
        self.assertTrue(good)
        self.assertFalse(report.allows("custom_all_reduce"))
        for mask in ("0,1", "2,3", "1,0,3", "GPU-aaaa,GPU-bbbb", " 0, 1", "%d,%d" % good[0]):
            self.assertEqual(set(self.states(report, mask).values()) - {"written", "same"}, set(), mask)
            for framework in BOTH.values():
                n = mask.count(",") + 1
                checker = framework(self.environment(mask), n)
                self.assertEqual([checker.may_use_custom_all_reduce(rank, n) for rank in range(n)], [False] * n)

    def test_masks_that_need_no_file(self):
        report = self.report(BROKEN)
        for mask in ("", "0", "-1", "-1,0", ",0,1", "NoDevFiles", "GPU-aaaa"):
            self.assertEqual(self.states(report, mask), self.both("nothing"), mask)
        for mask in ("../../0,1", "0,1/2", ",".join(str(i) for i in range(200))):
            self.assertEqual(self.states(report, mask), self.both("failed"), mask)
        self.assertEqual(self.files(), [])

    def test_healthy_writes_nothing(self):
        """Without a veto the frameworks test by themselves: no "true" of ours lets them use what they would not have."""
        report = self.report(HEALTHY)
        self.assertEqual(self.states(report), self.both("nothing"))
        self.assertEqual(self.states(report, promote=True), self.both("nothing"))  # proven, but not measured
        self.assertEqual(list(self.home.iterdir()), [])
        with self.assertRaises(Tested):
            vllm(self.environment(), 2).access(0, 1)

    def test_promoted(self):
        """Permission only where it is asked for, and every pair was proven and measured faster than staging."""
        report = p2psafe.test(host_dir=HEALTHY, cache_dir=self.cache(), **quick(measure=True))
        self.assertTrue(all(pair.score is not None and pair.score > 0 for pair in report.pairs), report.pairs)
        self.assertEqual(self.states(report), self.both("nothing"))
        self.assertEqual(self.states(report, promote=True), self.both("written"))
        for framework in BOTH.values():
            self.assertTrue(framework(self.environment(), 2).may_use_custom_all_reduce(0, 2))
        self.assertEqual(self.states(report), self.both("removed"))  # no longer asked for
        self.assertEqual(self.states(self.report(BROKEN), "0,1", promote=True), self.both("written"))
        self.assertFalse(vllm(self.environment("0,1"), 2).may_use_custom_all_reduce(0, 2))

    def test_permission_is_for_all_gpus_or_none(self):
        """A "true" of ours is for every mask: one of two GPUs that were picked out says nothing of the others that it names."""
        report = p2psafe.test(host_dir=FAR, cache_dir=self.cache(), gpus="0000:43:00.0,0000:44:00.0", **quick(measure=True))
        self.assertTrue(all(pair.score is not None and pair.score > 0 for pair in report.pairs), report.pairs)
        self.assertTrue(report.allows("custom_all_reduce"))
        self.assertEqual(self.states(report, promote=True), self.both("nothing"))

    def test_a_gpu_that_did_not_come_up_leaves_the_name_open(self):
        """The file's name counts what CUDA shows, and nobody knows whether it shows that one."""
        report = p2psafe.test(host_dir=HOSTS / "x-lost-loading", cache_dir=self.cache(), **quick(measure=True))
        self.assertIn("failed", [gpu.state for gpu in report.gpus])
        self.assertEqual(self.states(report), self.both("failed"))
        self.assertEqual(self.files(), [])
        self.assertEqual(self.states(report, "0,1"), self.both("written"))

    def test_a_veto_that_no_longer_holds(self):
        self.states(self.report(BROKEN), "0,1")
        theirs = self.home / ".cache/sglang/gpu_p2p_access_cache_for_2,3.json"
        theirs.write_text('{"0->1": false}', encoding="utf-8")
        healthy = self.report(HEALTHY)
        self.assertEqual(self.states(healthy, "0,1"), self.both("removed"))
        self.assertEqual(self.states(healthy, "2,3"), self.both("nothing"))
        self.assertEqual(self.files(), [theirs])

    def test_files_of_others(self):
        report = self.report(BROKEN)
        texts = {
            "yes": '{"0->0": true, "0->1": true, "1->0": true, "1->1": true}',
            "half": '{"0->0": true, "0->1": false, "1->0": true, "1->1": true}',
            "short": '{"0->0": true, "0->1": false}',
            "broken": '{"0->0": tr',
            "empty": "",
            "list": "[false]",
        }
        folder = self.home / ".cache/vllm"
        folder.mkdir(parents=True)
        path = folder / "gpu_p2p_access_cache_for_0,1.json"
        for name, text in texts.items():
            path.write_text(text, encoding="utf-8")
            cache = self.write(report, "0,1")["vllm"]
            self.assertEqual((cache.state, cache.heard, cache.path), ("foreign", False, str(path)), name)
            self.assertEqual(path.read_text(encoding="utf-8"), text)
            self.assertEqual(self.write(report, "0,1", force=True)["vllm"].state, "written", name)
            self.assertIs(vllm(self.environment("0,1"), 2).access(0, 1), False)
        # it says so already: whoever wrote it
        text = '{"0->0": true, "0->1": false, "1->0": false, "1->1": true}'
        path.write_text(text, encoding="utf-8")
        self.assertEqual(self.write(report, "0,1")["vllm"].state, "same")
        self.assertEqual(path.read_text(encoding="utf-8"), text)
        # a link is replaced, never followed; a folder is neither
        target = self.folder / "target"
        target.write_text("kept", encoding="utf-8")
        path.unlink()
        path.symlink_to(target)
        self.assertEqual(self.write(report, "0,1")["vllm"].state, "foreign")
        self.assertEqual(self.write(report, "0,1", force=True)["vllm"].state, "written")
        self.assertEqual((target.read_text(encoding="utf-8"), path.is_symlink()), ("kept", False))
        path.unlink()
        path.mkdir()
        self.assertEqual(self.write(report, "0,1")["vllm"].state, "foreign")
        self.assertEqual(self.write(report, "0,1", force=True)["vllm"].state, "failed")

    def test_no_report_is_a_veto(self):
        library = load(common.LIBRARY)
        done = {c.framework: c for c in write_caches(library, None, visible="0,1", home=str(self.home), environment=False)}
        self.assertEqual({c.state for c in done.values()}, {"written"})
        self.assertIs(sglang(self.environment("0,1"), 2).access(1, 0), False)
        for cache in write_caches(library, None, home=str(self.home), environment=False):
            self.assertEqual(cache.state, "failed")  # nobody knows how many GPUs a program sees

    def test_places_that_cannot_be_used(self):
        report = self.report(BROKEN)
        (self.home / ".cache").write_text("a file", encoding="utf-8")
        self.assertEqual(self.states(report), self.both("failed"))
        self.assertEqual([c.heard for c in self.write(report).values()], [False, False])
        with self.assertRaises(p2psafe.P2PSafeError):
            report.write_caches(visible="0,1")  # simulated, and no home is named
        for home in ("", "relative/home"):
            done = report.write_caches(visible="0,1", home=home, environment=False)
            self.assertEqual({c.state for c in done}, {"failed"}, home)

    def test_folders_of_the_environment(self):
        """In a process of its own, whose environment is the server's. The veto without a report may go to a real home."""
        script = ("import os, sys; from p2psafe._caches import write_caches; from p2psafe._library import load\n"
                  "for c in write_caches(load(os.environ['P2PSAFE_LIBRARY']), None): print(c.framework, c.state, c.path)\n")
        home = str(self.home)
        rows = [
            ({"HOME": home}, home + "/.cache/vllm"),
            ({"HOME": home, "XDG_CACHE_HOME": home + "/xdg"}, home + "/xdg/vllm"),
            ({"HOME": home, "XDG_CACHE_HOME": "~/x"}, home + "/x/vllm"),
            ({"HOME": home, "XDG_CACHE_HOME": home + "/xdg", "VLLM_CACHE_ROOT": home + "/root"}, home + "/root"),
            ({"HOME": home, "VLLM_CACHE_ROOT": "~/root", "SGLANG_CACHE_DIR": home + "/sgl"}, home + "/root"),
            ({"HOME": home, "VLLM_CACHE_ROOT": "root"}, None),
            ({"HOME": home, "XDG_CACHE_HOME": ""}, None),
            ({}, None),
        ]
        for environment, folder in rows:
            full = dict(environment, CUDA_VISIBLE_DEVICES="4,6", PYTHONPATH=str(common.PACKAGE), P2PSAFE_LIBRARY=common.LIBRARY,
                        PYTHONDONTWRITEBYTECODE="1")
            for name in ("LD_PRELOAD", "ASAN_OPTIONS", "LD_LIBRARY_PATH"):
                if name in os.environ:
                    full[name] = os.environ[name]
            out = subprocess.run([sys.executable, "-c", script], env=full, check=True, capture_output=True, encoding="utf-8",
                                 timeout=100)
            lines = [line.split(" ", 2) for line in out.stdout.splitlines()]
            if folder is None:
                self.assertEqual(lines[0][:2], ["vllm", "failed"], environment)
                continue
            self.assertIn(lines[0][1], ("written", "same"), environment)
            self.assertEqual(lines[0][2], folder + "/gpu_p2p_access_cache_for_4,6.json")
            other = environment.get("SGLANG_CACHE_DIR", home + "/.cache/sglang")
            self.assertEqual(lines[1][2], other + "/gpu_p2p_access_cache_for_4,6.json")
            checker = vllm(dict(environment, CUDA_VISIBLE_DEVICES="4,6"), 2)
            self.assertEqual(checker.path, lines[0][2])
            self.assertIs(checker.access(0, 1), False)

    def test_readers_see_whole_files(self):
        """While files come and go, a checker reads either nothing or all of it."""
        vetoed, healthy = self.report(BROKEN), self.report(HEALTHY)
        stop = threading.Event()
        bad = []

        def read():
            checker = sglang(self.environment("0,1"), 2)
            while not stop.is_set():
                try:
                    if checker.access(0, 1) is not False:
                        bad.append("true")
                except (Tested, FileNotFoundError):
                    pass
                except (ValueError, KeyError) as exc:
                    bad.append(repr(exc))

        reader = threading.Thread(target=read)
        reader.start()
        for _ in range(40):
            self.states(vetoed, "0,1")
            self.states(healthy, "0,1")
        stop.set()
        reader.join()
        self.assertEqual(bad, [])
        self.assertEqual(self.files(), [])

    def test_the_file_itself(self):
        self.states(self.report(BROKEN), "0,1")
        path = self.home / ".cache/vllm/gpu_p2p_access_cache_for_0,1.json"
        content = json.loads(path.read_text(encoding="utf-8"))
        self.assertEqual(content, {"0->0": False, "0->1": False, "1->0": False, "1->1": False, "p2psafe": False})
        self.assertEqual([p.name for p in path.parent.iterdir()], [path.name])


if __name__ == "__main__":
    unittest.main()
