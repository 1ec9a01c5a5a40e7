"""The fixtures of turns: the tools for jobs are used in one."""

from tests.turns.conftest import cwd as cwd
from tests.turns.conftest import desk as desk
from tests.turns.conftest import open_store as open_store
from tests.turns.conftest import session as session
from tests.turns.conftest import settings as settings
