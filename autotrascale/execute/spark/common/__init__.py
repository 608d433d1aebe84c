"""Values that the driver and the controller share: settings, launches, checkpoint facts, files in a program's folder."""
