#!/usr/bin/env python3
"""Simulates a fleet: runs many short programs, each of which records a trace.

usage: generate.py [--processes N] [--stopworld PATH] [--jobs N] FOLDER

Every trace is of a real run. Three programs run on ten machines, on two days. On the second day the program `orders` has a new version with a bug: it
keeps trees that are four times as large, so its pauses get longer. The folders of a trace, host=H/process=P/version=V/day=D, say what a fleet's own
collecting of traces would say. The days are simulated: all runs are of now.
"""

import argparse
import concurrent.futures
import datetime
import os
import pathlib
import subprocess
import sys
import time

# The program, its version on each day, and the depth of its trees on each day.
PROGRAMS = [
    ("cart", ["1.0", "1.0"], [10, 10]),
    ("orders", ["2.3", "2.4"], [10, 12]),
    ("search", ["5.1", "5.2"], [11, 11]),
]
HOSTS = 10


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--processes", type=int, default=1000)
    parser.add_argument("--stopworld", default="stopworld")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("folder", type=pathlib.Path)
    arguments = parser.parse_args()
    today = datetime.datetime.now(datetime.timezone.utc).date()
    days = [today - datetime.timedelta(days=1), today]

    def run(number):
        program, versions, depths = PROGRAMS[number % len(PROGRAMS)]
        day = number // len(PROGRAMS) % len(days)
        host = f"web-{number // (len(PROGRAMS) * len(days)) % HOSTS}"
        folder = arguments.folder / f"host={host}" / f"process={program}" / f"version={versions[day]}" / f"day={days[day]}"
        folder.mkdir(parents=True, exist_ok=True)
        command = [arguments.stopworld, "run", "binary-trees", "--threads", "2", "--collections", "5"]
        command += ["--depth", str(depths[day]), "--trace", str(folder / f"{number:05}.nettrace")]
        return subprocess.run(command, capture_output=True, text=True)

    begin = time.monotonic()
    with concurrent.futures.ThreadPoolExecutor(arguments.jobs) as pool:
        for number, done in enumerate(pool.map(run, range(arguments.processes))):
            if done.returncode != 0:
                pool.shutdown(cancel_futures=True)
                sys.exit(f"generate.py: run {number} failed: {done.stderr.strip()}")
    files = list(arguments.folder.rglob("*.nettrace"))
    size = sum(file.stat().st_size for file in files)
    print(f"{arguments.processes} runs in {time.monotonic() - begin:.1f} s: {len(files)} traces, {size} bytes")


if __name__ == "__main__":
    main()
