"""Plots as plain data, one file for each: what is drawn, in which unit, and what it says in one sentence.

`plotly.py` makes a figure of any of them, for a page or a notebook. A plot that is not
to be had says why.
"""
