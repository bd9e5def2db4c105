"""While nothing happens, milligpud sleeps: what it does of its own accord is counted in wake-ups, not in time."""

import http.client
import pathlib
import signal
import time

import harness

SECONDS = 10
# The writer's tick comes once a second, the informer looks every 5 s, the main thread for its files every 5 s: 1.4 a
# second, and fewer on a busy machine. With a clock in each loop it was 33.
WAKE_UPS = 2 * SECONDS


def wake_ups(process):
    """How often its threads gave the processor away so far; without the one that ThreadSanitizer starts first."""
    count = 0
    other = harness.is_race_test()
    for task in sorted(pathlib.Path(f"/proc/{process.pid}/task").iterdir(), key=lambda task: int(task.name)):
        if other and int(task.name) != process.pid:
            other = False
            continue
        count += int((task / "status").read_text().split("\nvoluntary_ctxt_switches:")[1].split()[0])
    return count


class Quiet(harness.Case):
    def sleeps(self, daemon):
        """At its best within some tries, since what came before takes a moment to end."""
        least = 1 << 30
        for _ in range(4):
            before = wake_ups(daemon.process)
            time.sleep(SECONDS)
            least = min(least, wake_ups(daemon.process) - before)
            if least <= WAKE_UPS:
                return
        self.fail(f"it woke up {least} times in {SECONDS} s")

    def test_idle_daemon__sleeps_until_a_signal(self):
        api, daemon = self.pair()
        daemon.schedule(harness.pod("a", 300))
        self.sleeps(daemon)
        daemon.process.send_signal(signal.SIGHUP)
        daemon.logs("settings reloaded")

    def test_idle_connection__costs_little(self):
        daemon = self.keep(harness.Daemon())
        kept = self.keep(http.client.HTTPConnection("127.0.0.1", daemon.port["probe"], timeout=harness.PATIENCE))
        kept.connect()
        kept.request("GET", "/livez")
        self.assertEqual(kept.getresponse().read(), b"ok")
        self.sleeps(daemon)
        kept.request("GET", "/livez")
        self.assertEqual(kept.getresponse().status, 200)


if __name__ == "__main__":
    harness.main()
