"""Facts about the client: python3 -m unittest discover -s clients/python/tests"""

import json
import os
import sys
import tempfile
import threading
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import sluice  # noqa: E402


class Bench(unittest.TestCase):
    def setUp(self):
        self.temporary = tempfile.TemporaryDirectory()
        self.addCleanup(self.temporary.cleanup)
        self.dir = self.temporary.name
        self.poll = sluice.POLL_SECONDS
        sluice.POLL_SECONDS = 0.0
        self.addCleanup(setattr, sluice, "POLL_SECONDS", self.poll)

    def order(self, drain_id, state):
        path = os.path.join(self.dir, "drain.json")
        with open(path + ".t", "w") as file:
            json.dump({"version": 1, "drain_id": drain_id, "state": state}, file)
        os.rename(path + ".t", path)

    def said(self, kind, rank=0):
        with open(os.path.join(self.dir, "%s.%d.json" % (kind, rank))) as file:
            return json.load(file)

    def drain(self, **more):
        return sluice.Drain(directory=self.dir, **more)


class Facts(Bench):
    def test_it_says_hello_with_its_rank(self):
        self.drain(rank=3)
        hello = self.said("hello", 3)
        self.assertEqual((hello["rank"], hello["pid"]), (3, os.getpid()))

    def test_without_a_directory_every_call_does_nothing(self):
        drain = sluice.Drain(directory="")
        self.assertFalse(drain.step(1))
        drain.saved(1, "x")
        drain.failed(1, ValueError("x"))
        drain.park()
        self.assertEqual(os.listdir(self.dir), [])

    def test_nothing_is_asked_until_the_agent_asks(self):
        drain = self.drain()
        self.assertFalse(drain.step(1))
        self.order("drain-1", "continue")
        self.assertFalse(drain.step(2))

    def test_it_saves_once_for_each_drain_and_says_how_far_it_is(self):
        drain = self.drain()
        self.order("drain-1", "save")
        self.assertTrue(drain.step(7))
        self.assertEqual(self.said("ack")["phase"], "saving")
        drain.saved(7, "/ckpt/7")
        ack = self.said("ack")
        self.assertEqual(
            (ack["drain_id"], ack["phase"], ack["step"], ack["path"]), ("drain-1", "saved", 7, "/ckpt/7")
        )
        self.order("drain-1", "continue")
        drain.park()
        self.assertEqual(self.said("ack")["phase"], "resumed")
        self.order("drain-1", "save")
        self.assertFalse(drain.step(8), "that drain has been answered")
        self.order("drain-2", "save")
        self.assertTrue(drain.step(9))

    def test_a_failure_is_told_in_its_own_words(self):
        drain = self.drain()
        self.order("drain-1", "save")
        drain.step(7)
        drain.failed(7, OSError("disk full"))
        self.assertEqual((self.said("ack")["phase"], self.said("ack")["error"]), ("failed", "disk full"))

    def test_steps_may_be_of_a_frameworks_own_type(self):
        class Step:
            def __int__(self):
                return 7

        drain = self.drain()
        self.order("drain-1", "save")
        self.assertTrue(drain.step(Step()))
        drain.saved(Step(), "/c")
        self.assertEqual((self.said("ack")["phase"], self.said("ack")["step"]), ("saved", 7))

    def test_it_stays_parked_until_it_is_told_to_go_on(self):
        drain = self.drain()
        self.order("drain-1", "save")
        drain.step(7)
        drain.saved(7)
        parked = threading.Thread(target=drain.park, daemon=True)
        parked.start()
        parked.join(3 * sluice.PARK_POLL_SECONDS)
        self.assertTrue(parked.is_alive())
        self.order("drain-1", "continue")
        parked.join(30)
        self.assertFalse(parked.is_alive())

    def test_the_order_of_another_drain_ends_the_parking(self):
        drain = self.drain()
        self.order("drain-1", "save")
        drain.step(7)
        self.order("drain-2", "save")
        drain.park()
        self.assertTrue(drain.step(8))

    def test_half_a_file_or_rubbish_asks_for_nothing(self):
        drain = self.drain()
        for text in ("", "{", "[]", "null", '{"state": "save"', "\x00" * 10):
            with open(os.path.join(self.dir, "drain.json"), "w") as file:
                file.write(text)
            self.assertFalse(drain.step(1), text)

    def test_it_looks_at_most_once_a_second(self):
        sluice.POLL_SECONDS = 3600.0
        drain = self.drain()
        self.assertFalse(drain.step(1))
        self.order("drain-1", "save")
        self.assertFalse(drain.step(2))

    def test_the_vote_decides_also_for_a_rank_that_has_not_looked(self):
        sluice.POLL_SECONDS = 3600.0
        votes = []
        drain = self.drain(rank=1, agree=lambda asked: votes.append(asked) or True)
        self.order("drain-1", "save")
        drain._looked_at = float("inf")
        self.assertTrue(drain.step(5))
        self.assertEqual(votes, [False])
        self.assertEqual(self.said("ack", 1)["drain_id"], "drain-1")

    def test_a_vote_against_keeps_a_rank_from_saving_alone(self):
        drain = self.drain(agree=lambda asked: False)
        self.order("drain-1", "save")
        self.assertFalse(drain.step(5))

    def test_a_directory_that_vanishes_does_not_end_the_training(self):
        drain = self.drain()
        self.order("drain-1", "save")
        self.assertTrue(drain.step(5))
        self.temporary.cleanup()
        drain.saved(5)
        drain.park()
        self.assertFalse(drain.step(6))

    def test_files_are_replaced_in_one_piece(self):
        self.drain()
        self.assertEqual(os.listdir(self.dir), ["hello.0.json"])

    def test_it_is_small_and_needs_nothing(self):
        with open(sluice.__file__) as file:
            lines = [line for line in file.read().split('"""')[2].splitlines() if line.strip()]
        self.assertLessEqual(len(lines), 100)


if __name__ == "__main__":
    unittest.main()
