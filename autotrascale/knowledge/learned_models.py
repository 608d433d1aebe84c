"""Models of a running job, on their way to the library. A session of the control loop has one run in MLflow, whatever
the number of its models: each is a step of it."""

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

_DIGITS = 8  # of a model's digest, which make a folder its own


class LearnedModels:
    """Models of a running job, kept in the library; while that is away they wait. `session` is the loop's, which goes
    on in the run that it has, if it has one."""

    def __init__(self, library: ModelLibrary, job: Job, *, simulated: bool, session: str) -> None:
        self.library, self.job, self.simulated, self.session = library, job, simulated, session
        self.waiting: dict[float, BenefitModel] = {}  # the newest of each rate
        self.kept = 0
        self.trouble = ""
        self._run_id: str | None = None
        self._step = 0

    def keep(self, model: BenefitModel) -> None:
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
        """The loop is over; a run is only there where something was learned. A store that is away keeps nobody from
        ending: the session goes on in the same run the next time."""
        if self._run_id is None:
            return
        store = self.library.store
        try:
            store.call(store.client.set_terminated, self._run_id, "FINISHED" if finished else "KILLED")
        except AuTraScaleError as error:
            self.trouble = str(error)

    def _register(self, model: BenefitModel) -> None:
        run_id = self._run()
        card = ModelCard.of(model, self.job, simulated=self.simulated, run_id=run_id)
        folder = f"{FOLDER}-{card.alias}-{card.digest[:_DIGITS]}"
        self.library.register(model, card, run_id, step=self._step + 1, folder=folder)
        self._step += 1
        self._log_step(run_id, model)

    def _log_step(self, run_id: str, model: BenefitModel) -> None:
        from autotrascale.knowledge.run_journal import log_batches

        steps = {"model/rate": model.rate, "model/runs": float(len(model.samples))}
        log_batches(self.library.store, run_id, {}, steps, {}, step=self._step)

    def _run(self) -> str:
        """The session's, gone on with where it has one already."""
        if self._run_id is not None:
            return self._run_id
        store, experiment = self.library.store, self.library.store.experiment(self.job.name)
        wanted = f"tags.`{tags.SESSION}` = '{self.session}'"
        found = store.call(store.client.search_runs, [experiment], wanted, max_results=1)
        if found:
            return self._go_on(found[0])
        run_tags = {
            tags.KIND: tags.AUTOSCALING,
            tags.JOB: self.job.name,
            tags.SESSION: self.session,
            tags.SIMULATED: str(self.simulated).lower(),
            DESCRIPTION_TAG: f"What the control loop of {self.job.name} learned in its session {self.session}."
            f" What it decided: autotrascale explain {self.session}",
        }
        run = store.call(
            store.client.create_run, experiment, tags=run_tags, run_name=f"autoscaling, session {self.session}"
        )
        self._run_id = run_id = str(run.info.run_id)
        return run_id

    def _go_on(self, run: Run) -> str:
        store, run_id = self.library.store, str(run.info.run_id)
        self._run_id = run_id
        store.call(store.client.update_run, run_id, status="RUNNING")
        self._step = len(store.call(store.client.get_metric_history, run_id, "model/rate"))
        return run_id
