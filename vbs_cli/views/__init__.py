"""Views, which read a trained network into a record of sub-predictions; the only code that runs a trained network.

One file is one view: patches, dropout draws, members of an ensemble, augmented inputs.
"""

from vbs_cli.registry import load_submodules
from vbs_cli.views.base import VIEWS, Place, Reader, View, folder_of

load_submodules(__name__, __path__, "vbs_cli.views")

__all__ = ["VIEWS", "Place", "Reader", "View", "folder_of"]
