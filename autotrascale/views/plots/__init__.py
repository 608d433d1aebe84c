"""Plots as plain data, one module for each kind: series with units, and a caption of one or two sentences.

`plotly.py` turns a plot into a figure for a page or a notebook, `terminal.py` into text. A plot without data says why.
"""
