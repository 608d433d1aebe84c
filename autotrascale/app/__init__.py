"""Use cases: tune, scale, adopt a program, analyse a log. Command line and web pages call them."""
