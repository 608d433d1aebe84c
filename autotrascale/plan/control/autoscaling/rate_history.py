"""The history of the input rate: its level, trend and jumps, and the rate that a job should be sized for.

    symbol    meaning                                                               unit
    r(t)      rate of one window, all sources together                              records/s
    L, s      level and slope of a line through the windows since the last jump     records/s, records/s²
    σ         scatter of the windows around that line, relative to L
    need      rate that must be carried until the next observation: L (1 + σ)       records/s
    ahead     rate that must be carried until the horizon                           records/s

A window far from the line is a jump: the line starts anew there. The first window of a jump lies across the change, so
it does not say how far the rate went.

A horizon of seconds is too short for windows of a minute. Then windows last a fifth of the horizon, and the line is a
ramp through the last few windows if they lie on one, whether or not they jumped.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

WINDOW_SECONDS = 60.0  # shorter observations are averaged into a window of this length
MAX_WINDOWS = 90
JUMP = 0.15  # of the level; a larger deviation that scatter does not explain is a jump
TREND_WINDOWS = 30  # that the line is drawn through
MIN_TREND_WINDOWS = 20  # for a slope
MIN_SCATTER_WINDOWS = 5  # for a scatter
WINDOWS_PER_HORIZON = 5  # at least
RAMP_WINDOWS = 8  # for a short horizon
_RAMP_SURE = 3.0  # standard errors of a ramp's slope
_SURE = 4.0  # standard errors of a slope; with fewer, one of many observations finds a trend by chance
_SCATTERS = 1.0  # scatters by which the need lies above the line


@dataclass(frozen=True)
class RateWindow:
    """The mean rate of one window."""

    at: float  # its end
    seconds: float
    rate: float  # records/s


@dataclass(frozen=True)
class RateLine:
    """The line level + slope · (t − middle). `scatter` is relative to the level."""

    middle: float = 0.0
    level: float = 0.0
    slope: float = 0.0
    scatter: float = 0.0

    def at(self, t: float) -> float:
        return max(0.0, self.level + self.slope * (t - self.middle))


@dataclass(frozen=True)
class RateHistory:
    """The windows of the input rate and the line through them."""

    windows: tuple[RateWindow, ...] = ()
    jumped_at: float | None = None
    jumped: bool = False  # the newest observation lies across a jump
    line: RateLine = field(default_factory=RateLine)  # through the windows since the last jump

    def add(self, at: float, seconds: float, rate: float, horizon: float = math.inf) -> RateHistory:
        """Return the history with one more observation.

        Args:
            at: the end of the observation, in seconds on the loop's clock.
            seconds: its length.
            rate: records/s.
            horizon: seconds that are planned ahead; a short horizon makes windows shorter than a minute.
        """
        width = min(WINDOW_SECONDS, horizon / WINDOWS_PER_HORIZON)
        new, usual = RateWindow(at, seconds, rate), self.line.at(at)
        is_far = bool(self.windows) and abs(rate - usual) > max(JUMP, 3 * self.line.scatter) * max(usual, 1e-9)
        if width < WINDOW_SECONDS and (ramp := _fit_ramp((*self.windows, new))) is not None:
            return RateHistory((*self.windows, new)[-MAX_WINDOWS:], self.jumped_at, line=ramp)
        if is_far or self.jumped:  # the first whole window after a jump begins a line of its own
            jumped = is_far and not self.jumped
            return RateHistory((*self.windows, new)[-MAX_WINDOWS:], at, jumped)._with_line()
        windows = _join(self.windows, new, self.jumped_at, width)
        return replace(self, windows=windows[-MAX_WINDOWS:])._with_line()

    def need(self, now: float, headroom: float) -> float:
        """Return the records/s that must be carried now, with `headroom` (a share of it) on top."""
        if not self.windows:
            return 0.0
        return self.line.at(now) * (1 + _SCATTERS * self.line.scatter) * (1 + headroom)

    def ahead(self, now: float, horizon: float, headroom: float, most: float) -> float:
        """Return the need at the horizon by the trend, at least the present need and at most `most` times it."""
        need, line = self.need(now, headroom), self.line
        if line.at(now) <= 0:
            return need
        return min(max(need, need * line.at(now + horizon) / line.at(now)), need * most)

    def recent_need(self, now: float, within: float, headroom: float) -> float:
        """Return the largest need of the last `within` seconds, spikes included."""
        rates = [each.rate for each in self.windows if now - each.at <= within]
        return max([self.need(now, headroom), *(rate * (1 + headroom) for rate in rates)])

    @property
    def growth(self) -> float:
        """The slope relative to the level, in 1/s; below zero while the rate falls."""
        return self.line.slope / level if self.windows and (level := self.line.at(self.windows[-1].at)) > 0 else 0.0

    def seconds_below(self, rate: float, now: float, headroom: float) -> float | None:
        """Return for how long `rate` would have been enough. None: in all windows of the history."""
        most = rate / (1 + headroom) / (1 + _SCATTERS * self.line.scatter)
        return next((now - each.at for each in reversed(self.windows) if each.rate > most), None)

    def _with_line(self) -> RateHistory:
        recent = [each for each in self.windows if self.jumped_at is None or each.at >= self.jumped_at]
        return replace(self, line=_fit_line(recent[-TREND_WINDOWS:]))


def round_rate_up(rate: float, step: float) -> float:
    """Return the next rate of the grid 1, step, step², … A job that comes back to a rate is sized as before.

    >>> round_rate_up(1000.0, 1.08) == round_rate_up(1010.0, 1.08)
    True
    """
    return step ** math.ceil(math.log(rate) / math.log(step) - 1e-9)


def round_rate_to_grid(rate: float, step: float) -> float:
    """Return the nearest rate of the grid 1, step, step², …"""
    return step ** round(math.log(rate) / math.log(step))


def _join(
    windows: tuple[RateWindow, ...], new: RateWindow, jumped_at: float | None, width: float
) -> tuple[RateWindow, ...]:
    """Add an observation to the last window, or as a new one if that would be longer than `width`."""
    if not windows or windows[-1].seconds + new.seconds > width or windows[-1].at == jumped_at:
        return (*windows, new)
    last = windows[-1]
    seconds = last.seconds + new.seconds
    rate = (last.rate * last.seconds + new.rate * new.seconds) / seconds
    return (*windows[:-1], RateWindow(new.at, seconds, rate))


def _fit_ramp(windows: Sequence[RateWindow]) -> RateLine | None:
    """Fit a slope through the last few windows. None if they do not lie on one, or the newest window does not."""
    if len(windows) < RAMP_WINDOWS:
        return None
    line, newest = _fit_line(windows[-RAMP_WINDOWS:], RAMP_WINDOWS, _RAMP_SURE), windows[-1]
    is_near = abs(newest.rate - line.at(newest.at)) <= JUMP * max(line.at(newest.at), 1e-9)
    return line if line.slope and line.scatter < JUMP and is_near else None


def _fit_line(windows: Sequence[RateWindow], fewest: int = MIN_TREND_WINDOWS, sure: float = _SURE) -> RateLine:
    """Fit a line by least squares. The slope is 0 for fewer than `fewest` windows, or if scatter explains it."""
    if not windows:
        return RateLine()
    n = len(windows)
    middle, level = sum(w.at for w in windows) / n, sum(w.rate for w in windows) / n
    spread = sum((w.at - middle) ** 2 for w in windows)
    slope = 0.0
    if n >= fewest and spread > 0:
        slope = sum((w.at - middle) * (w.rate - level) for w in windows) / spread
    residuals = [w.rate - level - slope * (w.at - middle) for w in windows]
    variance = sum(each**2 for each in residuals) / max(1, n - 2)
    if slope and slope**2 * spread < sure**2 * variance:
        slope, variance = 0.0, sum((w.rate - level) ** 2 for w in windows) / max(1, n - 1)
    scatter = math.sqrt(variance) / level if level > 0 and n >= MIN_SCATTER_WINDOWS else 0.0
    return RateLine(middle, level, slope, scatter)
