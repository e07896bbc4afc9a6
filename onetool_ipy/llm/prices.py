"""What a model costs: by the price in its settings, otherwise by the table of `genai-prices`, if that is installed.

The table is asked only for models at their provider's own address: a server of one's own may give its model any name.
It matches names loosely, so `matched` says which model's price was taken. Without a price there is no cost.
"""

from __future__ import annotations

from importlib.util import find_spec

from onetool_ipy.config.settings import Model
from onetool_ipy.llm.messages import TokenUsage

_TABLE = "genai_prices"
_PROVIDERS = {"openai": "openai", "anthropic": "anthropic", "gemini": "google"}
"""The names of our providers in the table."""


class ModelPrice:
    """The price of one model. `matched` is the id of the table's model, after the first cost was found there."""

    def __init__(self, client: object) -> None:
        model = getattr(client, "model", None)
        self._model = model if isinstance(model, Model) else None
        self.matched = ""

    def cost(self, usage: TokenUsage) -> float | None:
        """Return the dollars of one reply, or None if the price is not known."""
        if self._model is None:
            return None
        if (price := self._model.price) is not None:
            # The tokens from the cache are a part of the input, and a price is for a million tokens.
            cached = min(usage.cached, usage.input)
            dollars = (usage.input - cached) * price["input"] + cached * price.get("cached", price["input"])
            return (dollars + usage.output * price["output"]) / 1_000_000
        provider = _PROVIDERS.get(self._model.provider)
        if provider is None or self._model.base_url is not None or find_spec(_TABLE) is None:
            return None
        from genai_prices import Usage, calc_price  # late: it takes half a second

        counts = {
            "input_tokens": usage.input,
            "output_tokens": usage.output,
            "cache_read_tokens": min(usage.cached, usage.input),
        }
        try:
            calculation = calc_price(Usage(**counts), self._model.model, provider_id=provider)
        except (LookupError, ValueError):
            return None
        self.matched = calculation.model.id
        return float(calculation.total_price)
