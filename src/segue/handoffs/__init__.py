"""Handoffs: a live session moves to another place.

1. `values`: a HandoffRequest is what the user asks for, and a Handoff what becomes of it, a state
   machine in the store.
2. `request`, the sending side: find the destination, which is the home channel of a platform,
   request the handoff, and follow it. If another process holds the session, ask it to let it go.
3. `delivery`, the receiving side: a gateway claims the handoff and opens a thread. There the agent
   confirms what it was doing (`greeting`). Then one transaction completes the handoff: before it
   nothing has moved, after it everything has.
4. `progress`: what the sending side sees meanwhile, and the farewell.

Each step is one guarded UPDATE (`queries`), so that of two processes only one wins, and a gateway
that dies leaves a handoff that the next one goes on with. `arrivals` makes messages wait in a chat
where a session is about to arrive. `store` has the operations as methods of the store that
programs open.
"""

from segue.handoffs.progress import Completed as Completed
from segue.handoffs.progress import Failed as Failed
from segue.handoffs.progress import Held as Held
from segue.handoffs.progress import Kept as Kept
from segue.handoffs.progress import Progress as Progress
from segue.handoffs.progress import Stranded as Stranded
from segue.handoffs.progress import Waiting as Waiting
from segue.handoffs.progress import Working as Working
from segue.handoffs.progress import arrived as arrived
from segue.handoffs.progress import handed_over as handed_over
from segue.handoffs.progress import way_back as way_back
from segue.handoffs.request import STAYS as STAYS
from segue.handoffs.request import destination as destination
from segue.handoffs.request import hand_off as hand_off
from segue.handoffs.request import hand_off_session as hand_off_session
from segue.handoffs.request import platform_named as platform_named
from segue.handoffs.values import HandoffRequest as HandoffRequest
from segue.handoffs.values import IfHeld as IfHeld
