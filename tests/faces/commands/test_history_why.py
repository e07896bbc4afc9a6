"""`%tool why`: the whole story of the last failure, in a real kernel."""

from __future__ import annotations

from tests.harness.kernel import Kernel
from tests.harness.stub import Stub

BOOM = '''
from onetool_ipy import tool

@tool
def boom(n: int) -> float:
    """Divide one by n."""
    part = 1 / n
    return part

@tool
def away() -> None:
    """Fail."""
    raise OSError("away")
'''


def test_why_tells_the_whole_story(loaded: Kernel) -> None:
    assert "Nothing has failed" in loaded.execute("%tool why").result_text
    loaded.execute(BOOM)
    loaded.execute("%tool nb.boom n=0", allow_errors=True)
    story = loaded.execute("%tool why").result_text
    assert "'nb.boom' failed: execution_error\nZeroDivisionError" in story
    assert "Arguments as received:\n  n = 0" in story
    assert "part = 1 / n" in story
    assert "executor.py" not in story
    assert "executor.py" in loaded.execute("%tool why --internals").result_text

    loaded.execute("%tool nb.away", allow_errors=True)
    assert "Arguments as received:\n  none" in loaded.execute("%tool why").result_text

    loaded.execute("x = %tool nb.boom m=1 --soft")
    soft = loaded.execute("%tool why").result_text
    assert "'nb.boom' failed: invalid_args" in soft
    assert "Arguments as received:\n  m = 1" in soft
    assert "Wanted:\n  nb.boom(n: int)" in soft
    assert "- missing argument 'n'" in soft
    assert "Traceback" not in soft

    loaded.execute("nb.boom(n='three')", allow_errors=True)
    assert 'Arguments as received:\n  n = "three"' in loaded.execute("%tool why").result_text


def test_why_shows_the_request_and_what_the_server_said(loaded: Kernel) -> None:
    with Stub(lambda _asked: (422, {"error": "The wind is too strong."})) as stub:
        url = stub.url("/flights/{number}?to=Wien")
        loaded.execute(
            f"%tool new http air.book --url '{url}' --method POST --header 'X-Api-Key:"
            ' tok-91b7e2f4c0\' --body \'{"seat": "$seat"}\' --arg number:integer --allow-host'
            " --save-secrets"
        )
        failed = loaded.execute("%tool air.book number=7 seat=A1", allow_errors=True)
        assert failed.error is not None
        story = loaded.execute("%tool why").result_text

    assert stub.asked[0].headers["x-api-key"] == "tok-91b7e2f4c0"
    assert 'Arguments as received:\n  number = 7\n  seat = "A1"' in story
    request, response = story.partition("\nRequest:\n")[2].split("\nResponse:\n")
    assert request.startswith(f"  POST {stub.url('/flights/7?to=Wien')}\n")
    assert "  X-Api-Key: ***\n" in request
    assert '{"seat": "A1"}' in request.replace('":"', '": "')
    assert response.startswith("  HTTP 422\n")
    assert "The wind is too strong." in response
    assert "executor.py" not in story
    assert "tok-91b7e2f4c0" not in story + failed.text
