"""P2PSAFE_TEST_CONF: a file that is not to be believed is a veto with a reason, never the real machine in silence."""

import os
import shutil
import subprocess
import unittest
from pathlib import Path

from common import ASKED, BROKEN, HEALTHY, LOADER, PLUGIN, PluginTest, RANKS, Seen, VETO

NOBODY = 65534


class TestConf(PluginTest):
    def refused(self, conf, reason):
        seen = self.run_loader(self.environment(conf))
        self.assertEqual(seen.set(), VETO)
        self.assertEqual([level for level, _ in seen.log], ["warn"])
        self.assertIn("P2PSAFE_TEST_CONF cannot be used: " + reason, seen.log[0][1])
        self.assertFalse((self.folder / "cache").exists())

    def test_refused(self):
        self.refused(self.folder / "nowhere", "there is no such file")
        self.refused(self.conf(text="host=/x\n"), "it has a name other than")
        self.refused(self.conf(text="host_dir=tests/hosts\n"), "a path is not absolute")
        self.refused(self.conf(text=""), "it names neither")
        writable = self.conf(HEALTHY)
        writable.chmod(0o666)
        self.refused(writable, "others may write it")
        link = self.folder / "link"
        link.symlink_to(self.conf(HEALTHY))
        self.refused(link, "it is a link")
        if os.geteuid() == 0:
            foreign = self.conf(HEALTHY, name="foreign.conf")
            os.chown(foreign, NOBODY, NOBODY)
            self.refused(foreign, "it belongs to somebody else")

    def test_no_such_host(self):
        seen = self.run_loader(self.environment(self.conf(self.folder / "none")))
        self.assertEqual(seen.set(), VETO)
        self.assertIn("no report: ", seen.log[0][1])

    def test_a_driver_library(self):
        """The other name of the file: a libcuda that is none makes the answer simulated as well."""
        conf = self.conf(text="host_dir=%s\ncuda_library=/nowhere/libcuda.so.1\n" % HEALTHY)
        seen = self.run_loader(self.environment(conf))
        self.assertEqual(seen.set(), VETO)
        self.assertIn("SIMULATED", seen.log[0][1])

    def test_kept_only_where_told(self):
        seen = self.run_loader(self.environment(self.conf(BROKEN), cache=None))
        self.assertEqual(seen.set(), VETO)
        self.assertEqual([path.name for path in self.folder.iterdir()], ["test.conf"])

    def test_folders_that_users_can_write(self):
        """No test by a helper that every user could have put there: a veto that says so. A record needs no helper."""
        build = Path(PLUGIN).resolve().parents[1]
        tree = self.folder / "tree"
        shutil.copytree(build / "libexec", tree / "libexec", symlinks=True)
        (tree / "lib").mkdir()
        plugin = tree / "lib" / os.path.basename(PLUGIN)
        shutil.copy(PLUGIN, plugin)
        helper = tree / "libexec/p2psafe/p2psafe-helper"
        conf = self.conf(HEALTHY)
        for path in (tree / "lib", helper.parent, helper):
            mode = path.stat().st_mode & 0o777
            path.chmod(0o777)
            for seen in self.all([self.environment(conf, cache="bad")] * RANKS, plugin=plugin):
                self.assertEqual(seen.set(), VETO, path)
                self.assertIn("every user may write it", seen.log[0][1], path)
            shutil.rmtree(self.folder / "bad")
            path.chmod(mode)
        self.assertEqual(self.run_loader(self.environment(conf), plugin=plugin).set(), {})
        (tree / "lib").chmod(0o777)
        self.assertEqual(self.run_loader(self.environment(conf), plugin=plugin).set(), {})

    @unittest.skipUnless(os.geteuid() == 0, "needs root to make a setuid program")
    def test_setuid_believes_nothing(self):
        if os.statvfs(self.folder).f_flag & os.ST_NOSUID:
            self.skipTest("setuid is off where temporary files live")
        self.folder.chmod(0o755)
        loader = self.folder / "loader"
        plugin = self.folder / os.path.basename(PLUGIN)
        shutil.copy(PLUGIN, plugin)
        plugin.chmod(0o755)
        host = self.folder / "host"
        shutil.copytree(HEALTHY, host, symlinks=True)
        environment = self.environment(self.conf(host), cache=None, P2PSAFE_PLUGIN="0")
        for mode, off in ((0o755, True), (0o4755, False)):
            if loader.exists():
                loader.unlink()
            shutil.copy(LOADER, loader)
            loader.chmod(mode)
            done = subprocess.run([loader, plugin, "v2", "get", *ASKED], env=environment, user=NOBODY, group=NOBODY,
                                  extra_groups=[], stdin=subprocess.DEVNULL, capture_output=True, encoding="utf-8",
                                  timeout=200, check=True)
            seen = Seen(done.stdout, done.stderr, 0)
            if off:
                self.assertEqual((seen.set(), seen.log), ({}, []))
            else:
                # neither switched off nor simulated: it looked at the real machine, and beside the copied plugin is no helper
                self.assertEqual(seen.set(), VETO)
                self.assertNotIn("SIMULATED", seen.log[0][1])


if __name__ == "__main__":
    unittest.main()
