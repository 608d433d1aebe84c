"""Messages between controller and driver, and the channel that carries them."""
