"""Several clients run the same steps at the same time; what each of them was told is printed client by client.

A scenario is a function of one client. The lines are the same whoever stands between program and PostgreSQL, so the
test compares those of two runs. Lines that begin with # are remarks and are not compared; FAIL marks what a program
itself holds to be wrong. Arguments: names of scenarios to leave out, each after a dash, or to run alone.
"""

import asyncio
import os
import sys
import threading
import traceback

CLIENTS = 6
SECONDS_MAX = 120
# Servers that a client can reach: a scenario that shows a change of servers asks until it has seen as many.
SERVERS = int(os.environ.get("TX_SERVERS", "1"))


class Client:
    """One of the clients of a scenario, with its own lines."""

    def __init__(self, scenario, number, barrier):
        self.scenario = scenario
        self.number = number
        self.barrier = barrier
        self.lines = []

    def say(self, step, *values):
        """What the client was told at a step."""
        text = " ".join(str(value) for value in values)
        self.lines.append(f"{self.scenario}[{self.number}] {step}: {text}".replace("\n", " | "))

    def remark(self, text):
        """What may differ between runs."""
        self.lines.append(f"# {text}")

    def fails(self, step, error):
        """An error that the client was to be told: the driver's class for it and its SQLSTATE."""
        causes = (error, getattr(error, "orig", None), error.__cause__)
        states = [cause.sqlstate for cause in causes if getattr(cause, "sqlstate", None)]
        self.say(step, type(error).__name__, *states[:1])

    def broken(self, error):
        """What no client should be told."""
        frames = traceback.extract_tb(error.__traceback__)
        lines = [str(frame.lineno) for frame in frames if frame.filename.startswith(sys.path[0])]
        text = f"FAIL {self.scenario}[{self.number}] {type(error).__name__}: {error} (lines {' '.join(lines)})"
        self.lines.append(text.replace("\n", " | "))

    def meet(self):
        """Waits until every client is here; for threads."""
        self.barrier.wait(SECONDS_MAX / 2)

    async def meet_async(self):
        """Waits until every client is here; for tasks."""
        async with asyncio.timeout(SECONDS_MAX / 2):
            await self.barrier.wait()


def chosen(scenarios):
    """The scenarios that the arguments leave."""
    skipped = {name[1:] for name in sys.argv[1:] if name.startswith("-")}
    wanted = {name for name in sys.argv[1:] if not name.startswith("-")}
    unknown = (skipped | wanted) - {scenario.__name__ for scenario in scenarios}
    if unknown:
        sys.exit(f"no such scenario: {' '.join(sorted(unknown))}")
    return [one for one in scenarios if one.__name__ not in skipped and (not wanted or one.__name__ in wanted)]


def show(scenario, clients):
    """Prints what the clients were told; false if something broke."""
    good = True
    for client in clients:
        for line in client.lines:
            good = good and not line.startswith("FAIL")
            print(line)
    print(f"done {scenario.__name__}", flush=True)
    return good


def run_threads(scenarios):
    """Runs each scenario by CLIENTS threads at a time, then ends the process."""
    good = True
    for scenario in chosen(scenarios):
        barrier = threading.Barrier(CLIENTS)
        clients = [Client(scenario.__name__, number, barrier) for number in range(CLIENTS)]

        def one(client, scenario=scenario, barrier=barrier):
            try:
                scenario(client)
            except BaseException as error:
                barrier.abort()
                client.broken(error)

        threads = [threading.Thread(target=one, args=(client,), daemon=True) for client in clients]
        for thread in threads:
            thread.start()
        for thread, client in zip(threads, clients):
            thread.join(SECONDS_MAX)
            if thread.is_alive():
                client.lines.append(f"FAIL {scenario.__name__}[{client.number}] hangs")
        good = show(scenario, clients) and good
    # Threads that hang must not hold up the end.
    sys.stdout.flush()
    os._exit(0 if good else 1)


async def run_tasks(scenarios):
    """Runs each scenario by CLIENTS tasks at a time; true if nothing broke."""
    good = True
    for scenario in chosen(scenarios):
        barrier = asyncio.Barrier(CLIENTS)
        clients = [Client(scenario.__name__, number, barrier) for number in range(CLIENTS)]

        async def one(client, scenario=scenario, barrier=barrier):
            try:
                async with asyncio.timeout(SECONDS_MAX):
                    await scenario(client)
            except BaseException as error:
                await barrier.abort()
                client.broken(error)

        await asyncio.gather(*(one(client) for client in clients))
        good = show(scenario, clients) and good
    return good
