"""Handoffs: moving a live session. `request` is the sending side, `delivery` the receiving side."""

from segue.handoff.progress import Completed as Completed
from segue.handoff.progress import Failed as Failed
from segue.handoff.progress import Held as Held
from segue.handoff.progress import Kept as Kept
from segue.handoff.progress import Progress as Progress
from segue.handoff.progress import Stranded as Stranded
from segue.handoff.progress import Waiting as Waiting
from segue.handoff.progress import Working as Working
from segue.handoff.request import STAYS as STAYS
from segue.handoff.request import IfHeld as IfHeld
from segue.handoff.request import arrived as arrived
from segue.handoff.request import ask as ask
from segue.handoff.request import destination as destination
from segue.handoff.request import follow as follow
from segue.handoff.request import grant as grant
from segue.handoff.request import hand_off as hand_off
from segue.handoff.request import hand_off_session as hand_off_session
from segue.handoff.request import handed_over as handed_over
from segue.handoff.request import way_back as way_back
