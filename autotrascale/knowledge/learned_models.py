"""Models that a control loop learns, on their way to the library.

A session of the loop has one MLflow run for all of its models. Each model is a step of that run.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from autotrascale.domain.errors import AuTraScaleError
from autotrascale.domain.job import Job
from autotrascale.knowledge import tags
from autotrascale.knowledge.lineage import DESCRIPTION_TAG
from autotrascale.knowledge.model_card import ModelCard
from autotrascale.knowledge.model_library import FOLDER, ModelLibrary
from autotrascale.plan.search.benefit_model import BenefitModel

if TYPE_CHECKING:
    from mlflow.entities import Run

_DIGEST_DIGITS = 8  # that make the name of a model's folder unique


class LearnedModels:
    """The models of one session of a control loop. Models wait in memory while the library is unreachable.

    Args:
        library: library for the models.
        job: the job of the loop.
        simulated: whether the job is simulated.
        session: id of the session. A session that continues uses its existing run.
    """

    def __init__(self, library: ModelLibrary, job: Job, *, simulated: bool, session: str) -> None:
        self.library, self.job, self.simulated, self.session = library, job, simulated, session
        self.waiting: dict[float, BenefitModel] = {}  # the newest model of each rate
        self.kept = 0
        self.trouble = ""
        self._run_id: str | None = None
        self._step = 0

    def keep(self, model: BenefitModel) -> None:
        """Register a model and all waiting models. On failure they wait, and `trouble` has the reason."""
        self.waiting[model.rate] = model
        try:
            for rate, each in list(self.waiting.items()):
                self._register(each)
                del self.waiting[rate]
                self.kept += 1
            self.trouble = ""
        except AuTraScaleError as error:
            self.trouble = str(error)

    def end(self, *, finished: bool) -> None:
        """End the run, if there is one. An unreachable store is reported in `trouble` and does not stop the loop."""
        if self._run_id is None:
            return
        store = self.library.store
        try:
            store.call(store.client.set_terminated, self._run_id, "FINISHED" if finished else "KILLED")
        except AuTraScaleError as error:
            self.trouble = str(error)

    def _register(self, model: BenefitModel) -> None:
        run_id = self._run()
        card = ModelCard.for_model(model, self.job, simulated=self.simulated, run_id=run_id)
        folder = f"{FOLDER}-{card.alias}-{card.digest[:_DIGEST_DIGITS]}"
        self.library.register(model, card, run_id, step=self._step + 1, folder=folder)
        self._step += 1
        self._log_step(run_id, model)

    def _log_step(self, run_id: str, model: BenefitModel) -> None:
        from autotrascale.knowledge.run_journal import log_batches

        steps = {"model/rate": model.rate, "model/runs": float(len(model.samples))}
        log_batches(self.library.store, run_id, {}, steps, {}, step=self._step)

    def _run(self) -> str:
        """Return the run of the session, which is resumed or made at the first model."""
        if self._run_id is not None:
            return self._run_id
        store, experiment = self.library.store, self.library.store.experiment(self.job.name)
        wanted = f"tags.`{tags.SESSION}` = '{self.session}'"
        found = store.call(store.client.search_runs, [experiment], wanted, max_results=1)
        if found:
            return self._resume(found[0])
        run_tags = {
            tags.KIND: tags.AUTOSCALING,
            tags.JOB: self.job.name,
            tags.SESSION: self.session,
            tags.SIMULATED: str(self.simulated).lower(),
            DESCRIPTION_TAG: f"Models that the control loop of {self.job.name} learned in its session {self.session}."
            f" Its decisions: autotrascale explain {self.session}",
        }
        name = f"autoscaling, session {self.session}"
        run = store.call(store.client.create_run, experiment, tags=run_tags, run_name=name)
        self._run_id = run_id = str(run.info.run_id)
        return run_id

    def _resume(self, run: Run) -> str:
        store, run_id = self.library.store, str(run.info.run_id)
        self._run_id = run_id
        store.call(store.client.update_run, run_id, status="RUNNING")
        self._step = len(store.call(store.client.get_metric_history, run_id, "model/rate"))
        return run_id
