"""Code that runs in our process: it starts and supervises programs, asks their drivers, and observes jobs."""
