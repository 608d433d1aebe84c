"""Models of a running job, on their way to the library."""

from __future__ import annotations

from dataclasses import replace

from autotrascale.domain.errors import AuTraScaleError
from autotrascale.domain.job import Job
from autotrascale.knowledge import tags
from autotrascale.knowledge.cards import Card
from autotrascale.knowledge.library import Library
from autotrascale.plan.search.benefit_model import BenefitModel


class Learned:
    """Models of a running job, kept in the library; while that is away they wait."""

    def __init__(self, library: Library, job: Job, *, simulated: bool) -> None:
        self.library, self.job, self.simulated = library, job, simulated
        self.waiting: dict[float, BenefitModel] = {}  # the newest of each rate
        self.kept = 0
        self.trouble = ""

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

    def _register(self, model: BenefitModel) -> None:
        store = self.library.store
        card = Card.of(model, self.job, simulated=self.simulated)
        run_tags = {tags.KIND: "autoscaling", tags.JOB: self.job.name}
        name = f"autoscaling, {card.alias}"
        run = store.call(store.client.create_run, store.experiment(self.job.name), tags=run_tags, run_name=name)
        store.call(store.client.set_terminated, run.info.run_id, "FINISHED")
        self.library.register(model, replace(card, run_id=run.info.run_id), run.info.run_id)
