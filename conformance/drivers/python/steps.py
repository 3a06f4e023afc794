"""Runs named steps; prints "ok NAME" or "FAIL NAME: why"."""

import sys
import traceback

failures = 0


def report(name, error=None):
    global failures
    if error is None:
        print(f"ok {name}", flush=True)
    else:
        failures += 1
        where = traceback.extract_tb(error.__traceback__)
        lines = [str(frame.lineno) for frame in where if frame.filename.startswith(sys.path[0])]
        print(f"FAIL {name}: {type(error).__name__}: {error} (lines {' '.join(lines)})", flush=True)


def finish():
    sys.exit(1 if failures else 0)
