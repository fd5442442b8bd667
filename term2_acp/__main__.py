"""`python -m term2_acp` is the program `term2`."""

import sys

from term2_acp.cli import main

sys.exit(main())
