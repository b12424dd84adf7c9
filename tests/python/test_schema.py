"""Reports of very different hosts against docs/report.schema.json: every key is described, every value fits, every word of the
header is allowed."""

import copy
import json
import unittest

import common
import header
import schema
from common import HOSTS, LibraryTest, p2psafe, quick

SCHEMA = json.loads((common.ROOT / "docs" / "report.schema.json").read_text(encoding="utf-8"))


def words(group):
    """Spellings of the words of a group that the library knows, without unknown."""
    lib = p2psafe.load()
    name = getattr(lib, "p2psafe_%s_name" % group.lower())
    numbers = [value for key, value in header.values().items() if key.startswith("P2PSAFE_%s_" % group)]
    return {name(number).decode() for number in numbers if number != 0}


class Schema(LibraryTest):
    def check(self, report):
        data = report.to_dict()
        self.assertEqual(schema.problems(data, SCHEMA, SCHEMA), [])
        self.assertEqual(schema.undescribed(data, SCHEMA, SCHEMA), [])
        return data

    def test_reports_of_hosts(self):
        for name in ("ok-2xh200-nvlink", "s01-founding-host", "f12-hang-unkillable", "x-bitflip", "no-gpu", "one-gpu"):
            with self.subTest(host=name):
                self.check(self.decide(HOSTS / name))

    def test_measured_probed_and_kept(self):
        host, cache = HOSTS / "ok-2xh200-nvlink", self.cache()
        self.check(p2psafe.probe(host_dir=host, environment=False))
        self.check(p2psafe.test(host_dir=host, cache_dir=cache, **quick(measure=True)))
        kept = p2psafe.decide(host_dir=host, cache_dir=cache, **quick())
        self.assertTrue(kept.kept)
        self.check(kept)

    def test_every_word_of_the_header_is_allowed(self):
        defs = SCHEMA["$defs"]
        allowed = {
            "VERDICT": defs["verdict"]["enum"],
            "TRANSPORT": defs["transport"]["enum"],
            "PATH": defs["pair"]["properties"]["path"]["enum"],
            "LEG": defs["leg"]["properties"]["leg"]["enum"],
            "MAPPING": defs["leg"]["properties"]["mapping"]["enum"],
            "DAMAGE": defs["leg"]["properties"]["damage"]["enum"],
            "CONSUMER": defs["setting"]["properties"]["consumer"]["enum"],
            "CONFIDENCE": defs["confidence"]["enum"],
            "GPU_STATE": defs["gpu"]["properties"]["state"]["enum"],
            "LEVEL": SCHEMA["properties"]["level"]["enum"],
            "IOMMU": SCHEMA["properties"]["iommu"]["properties"]["state"]["enum"],
            "SEVERITY": SCHEMA["properties"]["findings"]["items"]["properties"]["severity"]["enum"],
        }
        for group, enum in allowed.items():
            self.assertEqual(words(group) - set(enum), set(), group)
            self.assertGreater(len(words(group)), 2, group)

    def test_the_validator_notices(self):
        good = self.check(self.decide(HOSTS / "s01-founding-host"))
        changes = (
            lambda data: data.pop("findings"),
            lambda data: data["pairs"][0].update(verdict="FINE"),
            lambda data: data["pairs"][0].update(score=1001),
            lambda data: data["gpus"][0].update(bdf="01:00.0"),
            lambda data: data["decision"]["consumers"].pop("multicast"),
            lambda data: data["decision"]["consumers"]["nccl_p2p"].update(allowed=1),
            lambda data: data.update(schema=True),
        )
        for i, change in enumerate(changes):
            data = copy.deepcopy(good)
            change(data)
            self.assertNotEqual(schema.problems(data, SCHEMA, SCHEMA), [], "change %d" % i)


if __name__ == "__main__":
    unittest.main()
