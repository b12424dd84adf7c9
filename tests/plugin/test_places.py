"""Eight ranks on what looks like a real machine, with no place where a marker or a record could be: no test, one veto for all.
A simulated machine needs no marker, so /sys is exchanged below the plugin instead."""

import sys
import unittest
from pathlib import Path

from common import HEALTHY, PluginTest, RANKS, VETO

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tools"))
import namespace  # noqa: E402

ASKED = (*VETO, "NCCL_MNNVL_ENABLE", "NCCL_PROTO")
WANTED = dict(VETO, NCCL_MNNVL_ENABLE="0")
WHY_NOT = namespace.why_not()


@unittest.skipIf(WHY_NOT is not None, WHY_NOT)
class Places(PluginTest):
    def setUp(self):
        super().setUp()
        self.home = self.folder / "home"
        self.home.mkdir(mode=0o700)

    def ranks(self, *empty, **more):
        environment = {name: value for name, value in self.environment(None, cache=None, **more).items() if value is not None}
        prefix = namespace.prefix(HEALTHY, *empty)
        seen = self.all([environment] * RANKS, prefix=prefix, names=ASKED)
        for one in seen:
            self.assertEqual(one.set(), WANTED, one.out + one.err)
            self.assertNotIn("SIMULATED", one.log[0][1])
        return seen

    def no_test(self, reason, *empty, **more):
        for one in self.ranks(*empty, **more):
            self.assertIn("UNTESTED (NO_MARKER: ", one.log[0][1])
            self.assertIn(reason, one.log[0][1])

    def test_a_read_only_home(self):
        self.no_test("%s/.cache/p2psafe: not there and cannot be made" % self.home, self.home, HOME=str(self.home))

    def test_no_home(self):
        self.no_test("/var/cache/p2psafe: not there and cannot be made", HOME=None)

    def test_homes_that_are_none(self):
        plain = self.folder / "file"
        plain.write_text("x", encoding="ascii")
        for home in (plain, "/proc/none", "relative/home", ""):
            with self.subTest(home=str(home)):
                self.no_test("p2psafe: ", HOME=str(home))
        self.assertEqual(plain.read_text(encoding="ascii"), "x")

    def test_a_folder_that_others_may_write(self):
        for name in ("", ".cache/p2psafe"):
            path = self.home / name
            path.mkdir(parents=True, exist_ok=True)
            path.chmod(0o777)
            with self.subTest(path=str(path)):
                self.no_test(str(self.home), P2PSAFE_CACHE=str(path))
            self.assertEqual([p for p in self.home.rglob("*") if p.is_file()], [])

    def test_a_lock_that_cannot_be_made(self):
        """Ranks that cannot wait for each other do not test side by side."""
        kept = self.home / ".cache/p2psafe"
        (kept / "lock").mkdir(parents=True)
        kept.chmod(0o700)
        self.no_test("%s: no lock can be made there" % kept, HOME=str(self.home))
        self.assertEqual([p.name for p in kept.iterdir()], ["lock"])

    def test_a_home_like_any_other(self):
        """With a place the ranks do begin a test: there is no driver library here, which one finds out and all say."""
        for one in self.ranks(HOME=str(self.home)):
            self.assertIn("UNTESTED (DRIVER_MISSING: ", one.log[0][1])
        self.assertEqual([p.name for p in (self.home / ".cache/p2psafe").glob("*.json")], ["1.json"])


if __name__ == "__main__":
    unittest.main()
