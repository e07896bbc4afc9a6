"""The tools of the pack `weather`."""

from typing import Literal

__all__ = ["forecast"]


def forecast(city: str, unit: Literal["c", "f"] = "c") -> dict[str, object]:
    """Tell tomorrow's weather.

    Args:
        city: Where.
        unit: Celsius or Fahrenheit.
    """
    return {"city": city, "degrees": 20 if unit == "c" else 68}
