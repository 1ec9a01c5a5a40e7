"""Handoffs: moving a live session. `request` is the sending side, `delivery` the receiving side."""

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
