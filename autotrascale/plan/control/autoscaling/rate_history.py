"""What the input rate does: its level, its trend, its jumps, and the rate that a job should be sized for.

    symbol    meaning                                                              unit
    r(t)      rate of one window, all sources together                             records/s
    L, s      level and slope of a straight line through the windows since the last jump
    σ         scatter of the windows around that line, relative to L
    need      the rate that must be carried until the next look, noise included     records/s
    ahead     … and until the horizon                                               records/s

A window that lies far from the line is a jump: the line starts anew there, and the first window, which lies across
the change, is not trusted to say how far it went.

Whoever plans for a horizon of seconds has no hour to see a trend in: windows are a fifth of the horizon then, and the
line is a ramp through the last few of them where that is what they lie on, jumps or not.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

WINDOW_SECONDS = 60.0  # shorter looks are averaged into one of this many seconds
MAX_WINDOWS = 90  # windows
JUMP = 0.15  # of the level: beyond, and beyond what scatter explains, it is no noise
TREND = 30  # windows that the line is drawn through
FEWEST = 20  # windows that a trend is read from
FEW = 5  # … and a scatter
PER_HORIZON = 5  # windows in a horizon, at least
RAMP = 8  # windows that a short horizon reads a trend from …
_RAMP_SURE = 3.0  # … and standard errors of its slope
_SPREADS = 1.0  # scatters by which the rate is taken to stand above its line
_SURE = 4.0  # standard errors of a slope: every look asks anew, and by chance one in many would find a trend


@dataclass(frozen=True)
class RateWindow:
    """One window: when it ended, how long it was, the rate in it, and the highest of the looks it is made of."""

    at: float
    seconds: float
    rate: float
    highest: float


@dataclass(frozen=True)
class RateLine:
    """level + slope · (t − middle). `scatter` is relative."""

    middle: float = 0.0
    level: float = 0.0
    slope: float = 0.0
    scatter: float = 0.0

    def at(self, t: float) -> float:
        return max(0.0, self.level + self.slope * (t - self.middle))


@dataclass(frozen=True)
class RateHistory:
    windows: tuple[RateWindow, ...] = ()
    jumped_at: float | None = None
    jumped: bool = False  # the newest look lies across a jump
    line: RateLine = field(default_factory=RateLine)  # through the windows since the last jump

    def adding(self, at: float, seconds: float, rate: float, horizon: float = math.inf) -> RateHistory:
        """One look more. Looks that are closer than `WINDOW` become one window."""
        width = min(WINDOW_SECONDS, horizon / PER_HORIZON)
        new, usual = RateWindow(at, seconds, rate, rate), self.line.at(at)
        far = bool(self.windows) and abs(rate - usual) > max(JUMP, 3 * self.line.scatter) * max(usual, 1e-9)
        if width < WINDOW_SECONDS and (ramp := _ramp((*self.windows, new))) is not None:
            return RateHistory((*self.windows, new)[-MAX_WINDOWS:], self.jumped_at, line=ramp)
        if far or self.jumped:  # after a jump the first whole window begins a line of its own
            return _with_line(RateHistory((*self.windows, new)[-MAX_WINDOWS:], at, far and not self.jumped))
        return _with_line(replace(self, windows=_joined(self.windows, new, self.jumped_at, width)[-MAX_WINDOWS:]))

    def need(self, now: float, headroom: float) -> float:
        """What must be carried now."""
        if not self.windows:
            return 0.0
        return self.line.at(now) * (1 + _SPREADS * self.line.scatter) * (1 + headroom)

    def ahead(self, now: float, horizon: float, headroom: float, most: float) -> float:
        """What must be carried at the horizon, as far as the trend says, and `most` times the need at most."""
        need, line = self.need(now, headroom), self.line
        if line.at(now) <= 0:
            return need
        return min(max(need, need * line.at(now + horizon) / line.at(now)), need * most)

    def lately(self, now: float, within: float, headroom: float) -> float:
        """What had to be carried lately, a spike included."""
        rates = [each.rate for each in self.windows if now - each.at <= within]
        return max([self.need(now, headroom), *(rate * (1 + headroom) for rate in rates)])

    @property
    def growth(self) -> float:
        """Of the level, each second; below zero where it falls."""
        return self.line.slope / level if self.windows and (level := self.line.at(self.windows[-1].at)) > 0 else 0.0

    def stayed_below(self, rate: float, now: float, headroom: float) -> float | None:
        """For how long `rate` would have been enough; None: for as long as is remembered."""
        most = rate / (1 + headroom) / (1 + _SPREADS * self.line.scatter)
        return next((now - each.at for each in reversed(self.windows) if each.rate > most), None)


def round_rate_up(rate: float, step: float) -> float:
    """The next rate of a geometric grid: 1, step, step², … A job that comes back to a rate is sized as it was before.

    >>> sizing_rate(1000.0, 1.08) == sizing_rate(1010.0, 1.08)
    True
    """
    return step ** math.ceil(math.log(rate) / math.log(step) - 1e-9)


def round_rate_to_grid(rate: float, step: float) -> float:
    """The rate of the same grid that is nearest."""
    return step ** round(math.log(rate) / math.log(step))


def _with_line(rates: RateHistory) -> RateHistory:
    recent = [each for each in rates.windows if rates.jumped_at is None or each.at >= rates.jumped_at]
    return replace(rates, line=_fit(recent[-TREND:]))


def _joined(
    windows: tuple[RateWindow, ...], new: RateWindow, jumped_at: float | None, width: float
) -> tuple[RateWindow, ...]:
    if not windows or windows[-1].seconds + new.seconds > width or windows[-1].at == jumped_at:
        return (*windows, new)
    last = windows[-1]
    seconds = last.seconds + new.seconds
    rate = (last.rate * last.seconds + new.rate * new.seconds) / seconds
    return (*windows[:-1], RateWindow(new.at, seconds, rate, max(last.highest, new.highest)))


def _ramp(windows: Sequence[RateWindow]) -> RateLine | None:
    """Through the last few windows, where they lie on a slope, the newest too."""
    if len(windows) < RAMP:
        return None
    line, newest = _fit(windows[-RAMP:], RAMP, _RAMP_SURE), windows[-1]
    near = abs(newest.rate - line.at(newest.at)) <= JUMP * max(line.at(newest.at), 1e-9)
    return line if line.slope and line.scatter < JUMP and near else None


def _fit(windows: Sequence[RateWindow], fewest: int = FEWEST, sure: float = _SURE) -> RateLine:
    """Least squares. Too few windows have a level and no trend; a slope that scatter explains is none."""
    if not windows:
        return RateLine()
    n = len(windows)
    middle, level = sum(w.at for w in windows) / n, sum(w.rate for w in windows) / n
    spread = sum((w.at - middle) ** 2 for w in windows)
    slope = 0.0
    if n >= fewest and spread > 0:
        slope = sum((w.at - middle) * (w.rate - level) for w in windows) / spread
    left = [w.rate - level - slope * (w.at - middle) for w in windows]
    variance = sum(each**2 for each in left) / max(1, n - 2)
    if slope and slope**2 * spread < sure**2 * variance:
        slope, variance = 0.0, sum((w.rate - level) ** 2 for w in windows) / max(1, n - 1)
    return RateLine(middle, level, slope, math.sqrt(variance) / level if level > 0 and n >= FEW else 0.0)
