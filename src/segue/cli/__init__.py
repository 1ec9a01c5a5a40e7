"""The command line, one module per command.

`main` is the program, and imports the module of a command only when the command runs. What several
commands share is in `common`, and their completion in `completion`. `single_turn` is `segue -p`,
`first_model` the way to a model for those who have none, and `daemon` the process that
starts a gateway in the background.
"""

import gc

# By default, Python looks for garbage after every 700 new objects. While modules are imported there
# is none: the search would take a tenth of the time in which a command starts.
gc.set_threshold(20_000)
