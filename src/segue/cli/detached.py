"""What `segue gateway start` runs: it leaves at once, and its child is the gateway.

Whoever started it neither waits for the gateway nor has to clean up after it. It holds one end of a
pipe instead: the gateway says its process id there, and the end of the pipe is the gateway's end.
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
