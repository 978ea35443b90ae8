"""What a node says of damage that it can do without."""

import glob
import os

from clustercase import ClusterCase
from lqcluster import wait_until


class Damage(ClusterCase):
    n_nodes = 1
    options = ("--snapshot-entries=100", "--trailing-entries=100")

    def snapshots(self):
        return sorted(glob.glob(os.path.join(self.cluster[1].data_dir, "snapshot-*[0-9]")))

    def test_the_newest_snapshot(self):
        """An older one and the log do; the log of the node tells which file to look at."""
        node, key = self.cluster[1], self.key()
        token = self.grant(self.to(node), key, lease=120)
        c = self.to(node)

        def has_two():
            self.settle(c)
            return len(self.snapshots()) == 2

        wait_until("two snapshots", has_two)
        node.kill()
        newest = self.snapshots()[-1]
        with open(newest, "r+b") as f:
            f.seek(os.path.getsize(newest) // 2)
            byte = f.read(1)[0]
            f.seek(-1, os.SEEK_CUR)
            f.write(bytes([byte ^ 1]))
        node.start().wait_ready()
        line = node.wait_for_log(lambda pairs: "is damaged" in pairs.get("msg", ""), 5)
        self.assertIsNotNone(line, node.story())
        self.assertIn(os.path.basename(newest), line["what"])
        self.assertReleased(self.to(node), key, token)
