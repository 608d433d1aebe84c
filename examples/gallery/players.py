"""Games and wins of each player, with custom state.  players.py INPUT DATABASE CHECKPOINT"""

import sqlite3
import sys
from contextlib import closing

import pandas as pd
from pyspark.sql import SparkSession
from pyspark.sql.streaming.state import GroupStateTimeout

source, database_file, checkpoint = sys.argv[1:]


def count(key, frames, state):
    games, wins = state.get if state.exists else (0, 0)
    for frame in frames:
        games += len(frame)
        wins += int(frame["won"].sum())
    state.update((games, wins))
    yield pd.DataFrame({"player": [key[0]], "games": [games], "wins": [wins]})


def write(batch, number):
    with closing(sqlite3.connect(database_file, timeout=60)) as database, database:
        database.execute("CREATE TABLE IF NOT EXISTS players (player TEXT PRIMARY KEY, games INTEGER, wins INTEGER)")
        database.executemany("INSERT OR REPLACE INTO players VALUES (?, ?, ?)", [tuple(row) for row in batch.collect()])


spark = SparkSession.builder.appName("players").getOrCreate()
games = spark.readStream.schema("player STRING, won INT").option("maxFilesPerTrigger", 1).json(source)
players = games.groupBy("player").applyInPandasWithState(
    count, "player STRING, games LONG, wins LONG", "games LONG, wins LONG", "update", GroupStateTimeout.NoTimeout
)
query = players.writeStream.outputMode("update").foreachBatch(write).start(checkpointLocation=checkpoint)
query.awaitTermination()
