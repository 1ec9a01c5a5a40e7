"""The process that `segue gateway start` runs: it forks the gateway and exits at once.

So the starting process neither waits for the gateway nor has to reap it. It holds one end of a pipe
instead: the gateway writes its process id there, and the pipe closes when the gateway exits.
"""

from __future__ import annotations

import os
import sys

if __name__ == "__main__":
    if os.fork():
        os._exit(0)
    pipe, log, *options = sys.argv[1:]
    os.write(int(pipe), f"{os.getpid()}\n".encode())
    os.set_inheritable(int(pipe), False)
    sys.argv[0] = "segue"
    from segue.cli.main import main

    main(["gateway", "run", "--log", log, *options])
