"""What people are shown, made once: explanations and plot data for terminal, page and notebook alike."""
