"""`python -m onetool_ipy`: the command line, where its script is not on the PATH."""

import sys

from onetool_ipy.faces.cli import main

sys.exit(main())
