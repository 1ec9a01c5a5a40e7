"""The command line, one module per command."""

import gc

# By default, Python looks for garbage after every 700 new objects. While modules are imported there
# is none: the search would take a tenth of the time in which a command starts.
gc.set_threshold(20_000)
