"""Values that driver and controller share: settings, launches, checkpoint facts, files of a program."""
