"""The items of a crawl: Visits, which end in our pipelines, and those of a user's own spider."""

from __future__ import annotations

from contextlib import suppress
from typing import Any, Final

from scrapy.exceptions import DropItem
from scrapy.pipelines import ItemPipelineManager
from scrapy.settings import Settings
from scrapy.utils.misc import load_object

from smartcrawl.model.pages import Visit

#: The pipelines of a Visit, in their order.
VISIT_PIPELINES: Final = (
    "smartcrawl.pipelines.ExtractPipeline",
    "smartcrawl.pipelines.DecidePipeline",
    "smartcrawl.pipelines.CommitPipeline",
)


class VisitDone(DropItem):
    """The end of a Visit: no later pipeline, feed or receiver of ``item_scraped`` gets it."""

    def __init__(self) -> None:
        super().__init__("its pipelines are through", log_level="DEBUG")


class VisitsFirst(ItemPipelineManager):
    """Scrapy's chain of pipelines, in which those of a Visit come before any of the user's.

    They are there whatever ITEM_PIPELINES has: without them no page would be stored.
    """

    @classmethod
    def _get_mwlist_from_settings(cls, settings: Settings) -> list[Any]:
        ours = [load_object(path) for path in VISIT_PIPELINES]
        listed = map(load_object, super()._get_mwlist_from_settings(settings))
        return [*ours, *(step for step in listed if step not in ours)]

    async def process_item_async(self, item: Any) -> Any:
        """Pass an item through its pipelines.

        Raises:
            VisitDone: always for a Visit, which ends here.
            DropItem: a Visit is not committed, or a pipeline of the user drops its item.
        """
        if not isinstance(item, Visit):
            return await super().process_item_async(item)
        await self._commit(item)
        raise VisitDone

    async def take(self, visit: Visit) -> None:
        """Pass a Visit through its pipelines, apart from the engine's items.

        One that is dropped has no end that anybody waits for.
        """
        if self.middlewares[0].waits(visit):  # as all 304s of a login: no need of an exception
            return
        with suppress(DropItem):
            await self._commit(visit)

    async def take_settled(self, visit: Visit) -> None:
        """Pass on a Visit that waited for the proof of a login, likewise."""
        with suppress(DropItem):
            await self._commit(visit)

    async def _commit(self, visit: Visit) -> None:
        extract, decide, commit = self.middlewares[: len(VISIT_PIPELINES)]
        read = await extract.take(visit)
        decide.take(read)
        await commit.take(read)
