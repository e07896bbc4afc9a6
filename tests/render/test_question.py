"""The question about a program's writes: the same rows in words and as HTML, and no tool's text is
markup."""

from __future__ import annotations

from onetool_ipy.core.question import ProposedCall, Question
from onetool_ipy.render.question import program_html, program_lines

QUESTION = Question(
    "the model",
    "2 writes",
    calls=(
        ProposedCall("crm.remind", args=(("customer", "7"),)),
        ProposedCall("crm.note", args=(("customer", "8"), ("text", '"<b>paid</b>"'))),
    ),
    program="import crm\nfor n in (7, 8):\n    crm.remind(customer=n)",
    details=("It has read: crm.customers 1×.", "May be <i>more</i>."),
)


def test_program_has_its_writes_as_rows_its_text_and_what_was_read() -> None:
    lines = program_lines(QUESTION)

    assert lines[:4] == [
        "2 writes",
        "  | import crm",
        "  | for n in (7, 8):",
        "  |     crm.remind(customer=n)",
    ]
    assert [line.split() for line in lines if line.lstrip().startswith(("1.", "2."))] == [
        ["1.", "crm.remind", "7"],
        ["2.", "crm.note", "8", '"<b>paid</b>"'],
    ]
    assert lines[-2:] == ["It has read: crm.customers 1×.", "May be <i>more</i>."]


def test_page_of_a_program_says_the_same_and_escapes_it() -> None:
    page = program_html(QUESTION)

    for text in (
        "2 writes",
        "    crm.remind(customer=n)",
        "crm.note",
        "It has read: crm.customers 1×.",
    ):
        assert text in page
    assert "&lt;b&gt;paid&lt;/b&gt;" in page
    assert "May be &lt;i&gt;more&lt;/i&gt;." in page
    assert "<b>paid" not in page


def test_many_arguments_are_one_column() -> None:
    wide = ProposedCall(
        "db.put", args=tuple((f"name{number}", str(number)) for number in range(30))
    )

    assert "name0=0, name1=1" in program_html(Question("the model", "1 write", calls=(wide,)))
