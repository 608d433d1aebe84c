"""The programs of examples/gallery, with inputs for them and the results that plain Python computes."""

from __future__ import annotations

import json
import os
import random
import sqlite3
import time
from abc import ABC, abstractmethod
from collections import Counter, defaultdict
from collections.abc import Iterable
from contextlib import closing
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import unquote, urlparse

import pyarrow.parquet

PROGRAMS = Path(__file__).parents[2] / "examples" / "gallery"
PHASES, FILES, ROWS = 3, 2, 40
_START = 1_700_000_000
_END = "2030-01-01T00:00:00Z"  # a late record that moves every watermark to the end

Rows = Counter[tuple[Any, ...]]


class Exhibit(ABC):
    """A program with its input, which arrives in phases of a few files. Its queries are rescaled between phases."""

    program: ClassVar[str]
    queries: ClassVar[int] = 1
    suffix: ClassVar[str] = ".json"

    def __init__(self, folder: Path, seed: int) -> None:
        self.folder, self.draw = folder, random.Random(seed)
        self.source, self.output = folder / "in", folder / "out"
        self.source.mkdir(parents=True)
        self._written = 0

    @property
    def command(self) -> list[str]:
        return [str(PROGRAMS / self.program), *self.arguments()]

    @property
    def checkpoint(self) -> Path:
        """The checkpoint of the query, for programs that choose it themselves."""
        return self.output / "checkpoint"

    def arguments(self) -> list[str]:
        return [str(self.source), str(self.output)]

    def feed(self, phase: int) -> None:
        for file in range(FILES):
            self.write(self.lines(phase * FILES + file))
        if phase == PHASES - 1:
            self.finish()

    def finish(self) -> None:
        """Write the last input, after which all results must appear."""
        return

    def write(self, lines: Iterable[Any], source: Path | None = None) -> None:
        """Add one file to the input. It appears atomically, and files are read in the order of these calls."""
        source = source or self.source
        fresh = source / f".{self._written}"
        fresh.write_text("".join(line if isinstance(line, str) else json.dumps(line) + "\n" for line in lines))
        at = time.time() - 1000 + self._written
        os.utime(fresh, (at, at))
        fresh.rename(source / f"{self._written:04}{self.suffix}")
        self._written += 1

    @abstractmethod
    def lines(self, number: int) -> list[Any]:
        """Return the lines of a file, and add them to the expected results."""

    @abstractmethod
    def expected(self) -> Rows:
        """Return the rows that the program must write."""

    @abstractmethod
    def found(self) -> Rows:
        """Return the rows that the program has written."""


def format_second(second: float) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(_START + second))


class Readings(Exhibit):
    program = "readings_by_window.py"

    def __init__(self, folder: Path, seed: int) -> None:
        super().__init__(folder, seed)
        self.sums: dict[tuple[int, str], list[int]] = defaultdict(lambda: [0, 0])

    def lines(self, number: int) -> list[Any]:
        lines = []
        for _ in range(ROWS):
            second, sensor, value = self.draw.randrange(number * 8, number * 8 + 8), f"s{self.draw.randrange(6)}", 1
            value = self.draw.randrange(100)
            held = self.sums[(_START + second) // 10 * 10, sensor]
            held[0], held[1] = held[0] + 1, held[1] + value
            lines.append({"sensor": sensor, "at": format_second(second), "value": value})
        return lines

    def finish(self) -> None:
        self.write([{"sensor": "end", "at": _END, "value": 0}])

    def expected(self) -> Rows:
        return Counter((*key, *held) for key, held in self.sums.items())

    def found(self) -> Rows:
        return _json_rows(self.output / "sums", "start", "sensor", "n", "sum")


class Visits(Exhibit):
    program = "visits.py"

    def __init__(self, folder: Path, seed: int) -> None:
        super().__init__(folder, seed)
        self.clicks: dict[str, list[int]] = defaultdict(list)

    def lines(self, number: int) -> list[Any]:
        lines = []
        for _ in range(ROWS // 2):
            second, user = self.draw.randrange(number * 10, number * 10 + 10), f"u{self.draw.randrange(12)}"
            self.clicks[user].append(second)
            lines.append({"user": user, "at": format_second(second)})
        return lines

    def finish(self) -> None:
        self.write([{"user": "end", "at": _END}])

    def expected(self) -> Rows:
        visits: Rows = Counter()
        for user, seconds in self.clicks.items():
            start, last, clicks = None, 0, 0
            for second in sorted(seconds):
                if start is not None and second - last > 5:  # Spark merges sessions that touch
                    visits[user, _START + start, clicks] += 1
                    start = None
                start, clicks = (second, 0) if start is None else (start, clicks)
                last, clicks = second, clicks + 1
            visits[user, _START + (start or 0), clicks] += 1
        return visits

    def found(self) -> Rows:
        return _json_rows(self.output / "visits", "user", "start", "clicks")


class ClicksAndViews(Exhibit):
    program = "clicks_and_views.py"

    def __init__(self, folder: Path, seed: int) -> None:
        super().__init__(folder, seed)
        self.clicks_folder = folder / "clicks"
        self.clicks_folder.mkdir()
        self.viewed: dict[int, int] = {}
        self.clicked: list[tuple[int, int]] = []

    def arguments(self) -> list[str]:
        return [str(self.source), str(self.clicks_folder), str(self.output)]

    def lines(self, number: int) -> list[Any]:
        """Return views of this file, and write clicks on views of this file and the file before it."""
        views = range(number * ROWS, number * ROWS + ROWS)
        self.viewed |= {view: number * 20 + self.draw.randrange(20) for view in views}
        clicks = [(self.draw.choice(list(self.viewed)[-2 * ROWS :]), number * 20 + 19) for _ in range(ROWS // 2)]
        clicks = [click for click in clicks if click[1] >= self.viewed[click[0]]]
        self.clicked += clicks
        self.write([{"of": view, "clicked": format_second(second)} for view, second in clicks], self.clicks_folder)
        return [{"view": view, "viewed": format_second(self.viewed[view])} for view in views]

    def expected(self) -> Rows:
        after = ((view, second - self.viewed[view]) for view, second in self.clicked)
        return Counter((view, seconds) for view, seconds in after if seconds <= 60)

    def found(self) -> Rows:
        return _json_rows(self.output / "clicked", "view", "after")


class FirstSeen(Exhibit):
    program = "first_seen.py"
    table = "orders_seen"
    warehouse: ClassVar[Path]

    def __init__(self, folder: Path, seed: int) -> None:
        super().__init__(folder, seed)
        self.amounts: dict[str, int] = {}

    def arguments(self) -> list[str]:
        return [str(self.source), str(self.output), self.table]

    def lines(self, number: int) -> list[Any]:
        lines = []
        for _ in range(ROWS):
            order = f"o{self.draw.randrange(150)}"
            amount = self.amounts.setdefault(order, self.draw.randrange(1000))
            lines.append({"id": order, "at": format_second(number), "amount": amount})
        return lines

    def expected(self) -> Rows:
        return Counter(self.amounts.items())

    def found(self) -> Rows:
        files = _committed(self.warehouse / self.table)
        return Counter(
            (row["id"], row["amount"]) for file in files for row in pyarrow.parquet.read_table(file).to_pylist()
        )


class InDatabase(Exhibit):
    """A program that keeps totals by one or two names in tables of a database."""

    tables: ClassVar[tuple[str, ...]]

    def __init__(self, folder: Path, seed: int) -> None:
        super().__init__(folder, seed)
        self.database = folder / "results.sqlite"
        self.totals: dict[tuple[str, str], list[int]] = defaultdict(lambda: [0, 0])

    @property
    def checkpoint(self) -> Path:
        return self.output

    def arguments(self) -> list[str]:
        return [str(self.source), str(self.database), str(self.output)]

    def found(self) -> Rows:
        rows: Rows = Counter()
        with closing(sqlite3.connect(self.database, timeout=60)) as database:
            there = {name for (name,) in database.execute("SELECT name FROM sqlite_master")}
            for table in there.intersection(self.tables):
                rows.update((table, *row) for row in database.execute(f"SELECT * FROM {table}"))
        return rows


class Balances(InDatabase):
    program, tables = "balances.py", ("balances",)

    def lines(self, _: int) -> list[Any]:
        lines = []
        for _ in range(ROWS):
            account, amount = f"a{self.draw.randrange(25)}", self.draw.randrange(-50, 100)
            self.totals["balances", account][0] += amount
            lines.append({"account": account, "amount": amount})
        return lines

    def expected(self) -> Rows:
        return Counter((*key, total) for key, (total, _) in self.totals.items())


class Players(InDatabase):
    program, tables = "players.py", ("players",)

    def lines(self, _: int) -> list[Any]:
        lines = []
        for _ in range(ROWS):
            player, won = f"p{self.draw.randrange(20)}", self.draw.randrange(2)
            games = self.totals["players", player]
            games[0], games[1] = games[0] + 1, games[1] + won
            lines.append({"player": player, "won": won})
        return lines

    def expected(self) -> Rows:
        return Counter((*key, *totals) for key, totals in self.totals.items())


class TwoReports(InDatabase):
    program, tables, queries = "two_reports.py", ("by_shop", "by_day"), 2

    def lines(self, _: int) -> list[Any]:
        lines = []
        for _ in range(ROWS):
            shop, day, amount = f"s{self.draw.randrange(15)}", f"d{self.draw.randrange(7)}", self.draw.randrange(100)
            self.totals["by_shop", shop][0] += amount
            self.totals["by_day", day][0] += amount
            lines.append({"shop": shop, "day": day, "amount": amount})
        return lines

    def expected(self) -> Rows:
        return Counter((*key, total) for key, (total, _) in self.totals.items())


class WithPrices(Exhibit):
    program = "with_prices.py"

    def __init__(self, folder: Path, seed: int) -> None:
        super().__init__(folder, seed)
        self.prices = {f"i{item}": self.draw.randrange(100, 1000) for item in range(20)}
        (folder / "prices.csv").write_text("".join(f"{item},{price}\n" for item, price in self.prices.items()))
        self.sold: Rows = Counter()

    def arguments(self) -> list[str]:
        return [str(self.source), str(self.folder / "prices.csv"), str(self.output)]

    def lines(self, _: int) -> list[Any]:
        lines = []
        for _ in range(ROWS):
            item, day, pieces = f"i{self.draw.randrange(25)}", f"d{self.draw.randrange(3)}", self.draw.randrange(1, 9)
            if item in self.prices:
                self.sold[item, self.prices[item] * pieces * 119 // 100] += 1
            lines.append({"item": item, "day": day, "pieces": pieces})
        return lines

    def expected(self) -> Rows:
        return self.sold

    def found(self) -> Rows:
        return _json_rows(self.output, "item", "cents")


class LatestWords(Exhibit):
    program, suffix = "latest_words.py", ".txt"

    def __init__(self, folder: Path, seed: int) -> None:
        super().__init__(folder, seed)
        self.words: Counter[str] = Counter()

    def arguments(self) -> list[str]:
        return [str(self.source), str(self.output)]

    def lines(self, _: int) -> list[Any]:
        lines = [[f"w{self.draw.randrange(30)}" for _ in range(5)] for _ in range(ROWS // 2)]
        self.words.update(word for line in lines for word in line)
        return [" ".join(line) + "\n" for line in lines]

    def expected(self) -> Rows:
        return Counter(self.words.items())

    def found(self) -> Rows:
        return Counter(json.loads(self.output.read_text()).items() if self.output.exists() else ())


EXHIBITS: tuple[type[Exhibit], ...] = (
    Readings,
    Visits,
    ClicksAndViews,
    FirstSeen,
    Balances,
    WithPrices,
    Players,
    TwoReports,
    LatestWords,
)


def _json_rows(folder: Path, *fields: str) -> Rows:
    lines = (line for file in _committed(folder) for line in file.read_text().splitlines())
    rows = map(json.loads, lines)
    return Counter(tuple(row[field] for field in fields) for row in rows)


def _committed(folder: Path) -> list[Path]:
    """Return the files that Spark's own log names. Other files are left over from an interrupted batch."""
    log = folder / "_spark_metadata"
    entries: dict[int, Path] = {}
    for entry in log.iterdir() if log.is_dir() else ():
        number, _, compact = entry.name.partition(".")
        if number.isdecimal() and compact in ("", "compact"):
            entries[int(number)] = entry
    compacted = max((number for number, entry in entries.items() if entry.suffix), default=-1)
    files = []
    for number, entry in sorted(entries.items()):
        if number >= compacted:
            files += [json.loads(line)["path"] for line in entry.read_text().splitlines()[1:]]
    return [Path(unquote(urlparse(file).path)) for file in files]
