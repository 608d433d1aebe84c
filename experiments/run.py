"""The papers' figures and tables, measured: python -m experiments.run [CLAIM ...] [--processes 2]

All of them without a name. What was measured before is not measured again; plots, results and the figures that
documents quote are written anew.
"""

from __future__ import annotations

from experiments.shared.running import main

if __name__ == "__main__":
    main()
