"""Many processes at one run: commands out, what they tell and how they ended back. Nothing here knows what they do."""

from vbs_cli.crews.base import Crew, Outcome
from vbs_cli.crews.local import Local, cores
from vbs_cli.crews.relay import Messages, Relay, is_child

__all__ = ["Crew", "Local", "Messages", "Outcome", "Relay", "cores", "is_child"]
