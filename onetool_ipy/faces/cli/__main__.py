"""`python -m onetool_ipy.faces.cli`."""

import sys

from onetool_ipy.faces.cli import main

sys.exit(main())
