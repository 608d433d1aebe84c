"""The pages for people at `/`: what each job runs at, whether it holds its target, what was tried, why, and what next.

HTML is made here, on the server; the browser's script draws plots, keeps pages up to date and asks before it acts.
"""
