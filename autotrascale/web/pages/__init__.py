"""The pages for people, at `/`: jobs with their control loops, tuning runs, models, and executor sizes.

The server renders HTML. The browser's script draws plots, updates regions of a page, and asks before it sends commands.
"""
