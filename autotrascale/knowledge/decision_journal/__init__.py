"""The journal of the control loop: every look and decision of it, and how a past day is decided again."""
