from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from autotrascale.execute.spark.common.program_environment import ProgramOptions
from autotrascale.execute.spark.driver_agent.session_settings import PROVIDER, ROCKSDB, choose_session_settings

LOG = "file:///run/events"
ASKED = st.fixed_dictionaries(
    {},
    optional={
        "spark.master": st.sampled_from(["local[4]", "spark://host:7077", "yarn"]),
        "spark.eventLog.enabled": st.sampled_from(["true", "false"]),
        "spark.eventLog.dir": st.just("hdfs:///logs"),
        "spark.eventLog.compress": st.sampled_from(["true", "false"]),
        "spark.eventLog.rolling.enabled": st.sampled_from(["true", "false"]),
        "spark.decommission.enabled": st.sampled_from(["true", "false"]),
        "spark.storage.decommission.enabled": st.sampled_from(["true", "false"]),
        PROVIDER: st.sampled_from([ROCKSDB, "org.apache.HDFSBackedStateStoreProvider", "com.mine.Provider"]),
    },
)


@given(asked=ASKED, apply=st.booleans())
def test_the_authors_settings_are_kept(asked: dict[str, str], apply: bool) -> None:
    chosen = choose_session_settings(asked.get, LOG, ProgramOptions(apply=apply))
    assert not set(chosen.settings) & set(asked)
    assert all("\n" not in line for line in chosen.lines)


@given(asked=ASKED)
def test_advice_alone_changes_neither_state_nor_executors(asked: dict[str, str]) -> None:
    chosen = choose_session_settings(asked.get, LOG, ProgramOptions())
    assert all(name.startswith("spark.eventLog.") for name in chosen.settings)


@given(asked=ASKED)
def test_obstacles_are_reported(asked: dict[str, str]) -> None:
    said = " ".join(choose_session_settings(asked.get, LOG, ProgramOptions(apply=True)).lines)
    assert ("cannot be measured" in said) == (asked.get("spark.eventLog.enabled") == "false")
    assert ("cannot be moved" in said) == (PROVIDER in asked and asked[PROVIDER] != ROCKSDB)


def test_on_a_cluster_executors_are_bounded_and_leave_soon() -> None:
    asked = {"spark.master": "spark://host:7077", "spark.executor.cores": "2"}
    chosen = choose_session_settings(asked.get, LOG, ProgramOptions(apply=True, executors=(1, 6)))
    assert chosen.settings["spark.cores.max"] == "12"
    assert chosen.settings["spark.decommission.enabled"] == "true"
    assert chosen.settings["spark.storage.decommission.replicationReattemptInterval"] == "1s"
    bounded = choose_session_settings(
        {**asked, "spark.cores.max": "4"}.get, LOG, ProgramOptions(apply=True, executors=(1, 6))
    )
    assert any("2 executors of 2 cores, not 6" in line for line in bounded.lines)


def test_a_plain_program_gets_an_event_log_and_movable_state() -> None:
    chosen = choose_session_settings({"spark.master": "local[*]"}.get, LOG, ProgramOptions(apply=True))
    assert chosen.settings["spark.eventLog.dir"] == LOG
    assert chosen.settings[PROVIDER] == ROCKSDB
    assert "spark.decommission.enabled" not in chosen.settings  # one machine has no executors to give back
    assert len(chosen.lines) == 2
