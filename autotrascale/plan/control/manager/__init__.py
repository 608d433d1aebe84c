"""The scaling manager (DS2, OSDI '18, §4.2): when to act on a policy's answer, and within which bounds."""
