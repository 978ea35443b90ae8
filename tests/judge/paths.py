"""Importing this lets the programs of this folder import the raw client of tests/integration."""

import os
import sys

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "integration"))
