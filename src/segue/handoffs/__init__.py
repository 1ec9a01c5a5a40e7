"""Handoffs: a live session moves to another place.

`request` is the sending side. It finds the destination, which is the home channel of a platform. It
requests the handoff, waits, and reports each step (`progress`).

`delivery` is the receiving side. A gateway claims the handoff and opens a thread. There the agent
confirms what it was doing (`greeting`). Then one transaction completes the handoff: before it
nothing has moved, after it everything has. `arrivals` makes messages wait in a chat where a session
is about to arrive.

A handoff (`values`) is a state machine in the store. Each step is one guarded UPDATE (`queries`),
so that of two processes only one wins, and a gateway that dies leaves a handoff that the next one
goes on with. `store` has the same operations as methods of the store that programs open.
"""

from segue.handoffs.progress import Completed as Completed
from segue.handoffs.progress import Failed as Failed
from segue.handoffs.progress import Held as Held
from segue.handoffs.progress import Kept as Kept
from segue.handoffs.progress import Progress as Progress
from segue.handoffs.progress import Stranded as Stranded
from segue.handoffs.progress import Waiting as Waiting
from segue.handoffs.progress import Working as Working
from segue.handoffs.request import STAYS as STAYS
from segue.handoffs.request import IfHeld as IfHeld
from segue.handoffs.request import arrived as arrived
from segue.handoffs.request import ask as ask
from segue.handoffs.request import destination as destination
from segue.handoffs.request import follow as follow
from segue.handoffs.request import grant as grant
from segue.handoffs.request import hand_off as hand_off
from segue.handoffs.request import hand_off_session as hand_off_session
from segue.handoffs.request import handed_over as handed_over
from segue.handoffs.request import way_back as way_back
