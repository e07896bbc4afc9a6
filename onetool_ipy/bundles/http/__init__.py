"""HTTP tools: a definition with `${var}` in it, and the runner that sends what it says. Everything goes over `net`.

    definition = HttpDefinition.model_validate(record["http"])       # pydantic's ValidationError for what is none
    runner = compile_http(
        definition, name="pets.get", arg_schema={...}, output_schema=None, limits=Limits(),
        road=box.road, rules=Rules.of(settings.http), secret=look_up, mask=box.mask, clock=box.clock,
    )                                                                 # InvalidTool for what cannot work

`secret(name) -> str | None` looks into secrets.yaml only, never into the environment; it is asked anew for each call.

- `runner.run(args, note=None)`, `await runner.arun(args, note=None)`: the value. Arguments are checked against
  argSchema, the value against outputSchema. Failures are CallFailures: InvalidArgs, MissingSecret, RateLimited,
  HostNotAllowed, CallTimeout (504), TooLarge, InvalidOutput, ExecutionFailed (502). `note({"status", "attempts"})` is
  called with each reply, for `meta`.
- `runner.preview(args)`: the masked requests, `[{method, url, headers, body?}]`, for `--dry`; nothing is sent, no
  secret is needed, and what a step takes from an earlier one stays `${step1.id}`.
- `runner.trace(args)`, `await runner.atrace(args)`: `{request, response, result}`, masked, for POST
  /onetool/tools/test; `result` is `{ok: true, value}` or `{ok: false, error}`. With steps these are of the last one
  that was sent, and `steps` lists them all. What fails before there is any response raises, as `run` does.
- `runner.secrets`: the names of all secrets it takes; `runner.missing_secrets()`: those that are not there now.
  A name declared in argSchema is never one of them; who PUTs must refuse an argument that is named as a secret is.

Calls per minute are counted, and OAuth2 tokens kept, in the runner: per process, as long as it lives.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from onetool_ipy.bundles.http.definition import HttpDefinition, Limits
    from onetool_ipy.bundles.http.runner import HttpRunner, compile_http

__all__ = ["HttpDefinition", "HttpRunner", "Limits", "compile_http"]

_HOMES = {"HttpDefinition": "definition", "Limits": "definition", "HttpRunner": "runner", "compile_http": "runner"}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    found = globals()[name] = getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    return found


def __dir__() -> list[str]:
    return sorted(__all__)
