"""The grammar of `%tool`: a table of odd lines, each with what it reads to or the error it gives."""

from __future__ import annotations

import math
import warnings
from typing import Any

import pytest

from onetool_ipy.base.errors import UsageProblem
from onetool_ipy.faces.line.grammar import Flags, Line, read_arguments, split_line

COMMANDS = ("list", "info")
SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "q": {"type": "string"},
        "count": {"type": "integer"},
        "ratio": {"type": "number"},
        "on": {"type": "boolean"},
        "values": {"type": "array", "items": {"type": "number"}},
        "data": {"type": "object"},
        "any": {},
        "maybe": {"anyOf": [{"type": "string"}, {"type": "null"}]},
        "either": {"type": ["integer", "string"]},
        "level": {"enum": ["auto", 1, 2]},
        "pick": {"type": ["string", "integer"], "enum": ["5", 6]},
        "X-Key": {"type": "string"},
        "my key": {"type": "string"},
        "a.b": {"type": "integer"},
        "filter[name]": {"type": "string"},
        "$top": {"$ref": "#/$defs/n"},
        "mixed": {"oneOf": [{"type": kind} for kind in ("string", "array", "object", "boolean")]},
    },
    "required": ["q"],
    "$defs": {"n": {"type": "integer"}},
}
NAMESPACE = {"x": 7, "name": "bob", "values": [1, 2, 3], "d": {"k": "v"}}


def evaluate(source: str) -> object:
    return eval(source, dict(NAMESPACE))


def read(line: str) -> dict[str, Any]:
    asked = split_line(line, COMMANDS)
    assert asked.kind == "call"
    return read_arguments(asked.rest, SCHEMA, evaluate)


# fmt: off
# ruff: noqa: E501
READ = [
    ("t q=hello", {'q': 'hello'}),
    ("t q=5", {'q': '5'}),
    ("t q=true", {'q': 'true'}),
    ("t q=null", {'q': 'null'}),
    ("t q=[1, 2]", {'q': '[1, 2]'}),
    ('t q={"a": 1}', {'q': '{"a": 1}'}),
    ("t q={'a': x}", {'q': "{'a': x}"}),
    ("t q={x}", {'q': 7}),
    ("t q={x + 1}", {'q': 8}),
    ("t q={name}", {'q': 'bob'}),
    ("t q={}", {'q': '{}'}),
    ("t q={1, 2}", {'q': (1, 2)}),
    ("t q={i for i in values}", {'q': {1, 2, 3}}),
    ('t q={d["k"]}', {'q': 'v'}),
    ('t q={{"a": 1}}', {'q': {'a': 1}}),
    ("t q={{x}}", {'q': {7}}),
    ("t q={name}-{x}", {'q': '{name}-{x}'}),
    ("t q=pre-{name}", {'q': 'pre-{name}'}),
    ("t q='a b'", {'q': 'a b'}),
    ('t q="a b"', {'q': 'a b'}),
    (r't q="a \"b\" c"', {'q': 'a "b" c'}),
    ('t q=\'a "b" c\'', {'q': 'a "b" c'}),
    ('t q="it\'s"', {'q': "it's"}),
    (r"t q='a\b'", {'q': 'a\\b'}),
    (r't q="a\\b"', {'q': 'a\\b'}),
    (r't q="a\nb"', {'q': 'a\\nb'}),
    (r't q="C:\temp\new"', {'q': 'C:\\temp\\new'}),
    (r"t q=C:\temp\new", {'q': 'C:\\temp\\new'}),
    (r"t q=\\server\share", {'q': '\\\\server\\share'}),
    ('t q=foo" bar"', {'q': 'foo bar'}),
    ("t q=foo' bar'", {'q': 'foo bar'}),
    ('t q="foo"\'bar\'', {'q': 'foobar'}),
    ("t q=don't", {'q': "don't"}),
    ("t q=don't count=5", {'q': "don't", 'count': 5}),
    ("t q=rock'n'roll", {'q': "rock'n'roll"}),
    ('t q=""', {'q': ''}),
    ("t q=''", {'q': ''}),
    ("t q=", {'q': ''}),
    ("t q= count=5", {'q': '', 'count': 5}),
    ("t q=a=b=c", {'q': 'a=b=c'}),
    ("t q=a==", {'q': 'a=='}),
    ('t q="=v"', {'q': '=v'}),
    ("t q=https://x.org/?a=1&b=2#x", {'q': 'https://x.org/?a=1&b=2#x'}),
    ("t https://x.org/?a=1&b=2#x", {'q': 'https://x.org/?a=1&b=2#x'}),
    ("t x.org?a=1", {'q': 'x.org?a=1'}),
    ("t q=$5", {'q': '$5'}),
    ("t $5", {'q': '$5'}),
    ("t q=${HOME}", {'q': '${HOME}'}),
    ("t q=😀", {'q': '😀'}),
    ("t 😀", {'q': '😀'}),
    ("t q=日本語 count=３", {'q': '日本語', 'count': '３'}),
    ("t q=naïve", {'q': 'naïve'}),
    ("t q=a,b,c", {'q': 'a,b,c'}),
    ("t q=a;b", {'q': 'a;b'}),
    ("t q=a;", {'q': 'a'}),
    ('t q="a;"', {'q': 'a;'}),
    ("t;", {}),
    ("t ;", {}),
    ("t q=#tag", {'q': '#tag'}),
    ("t #", {'q': '#'}),
    ("t q=x?", {'q': 'x?'}),
    ("t count=5", {'count': 5}),
    ("t count=-5", {'count': -5}),
    ("t count=+5", {'count': '+5'}),
    ("t count=1e3", {'count': 1000}),
    ("t count=1.0", {'count': 1}),
    ("t count=1.5", {'count': 1.5}),
    ("t count=1_000", {'count': 1000}),
    ("t count=0x10", {'count': 16}),
    ("t count=007", {'count': '007'}),
    ("t count=5abc", {'count': '5abc'}),
    ('t count="5"', {'count': '5'}),
    ("t count=x", {'count': 'x'}),
    ("t count={x}", {'count': 7}),
    ("t count={x * 2}", {'count': 14}),
    ("t count=None", {'count': None}),
    ("t count=NaN", {'count': 'NaN'}),
    ("t count=99999999999999999999", {'count': 99999999999999999999}),
    ("t ratio=1e3", {'ratio': 1000.0}),
    ("t ratio=.5", {'ratio': 0.5}),
    ("t ratio=5.", {'ratio': 5.0}),
    ("t ratio=-.5", {'ratio': -0.5}),
    ("t ratio=nan", {'ratio': 'nan'}),
    ("t ratio=1e999", {'ratio': '1e999'}),
    ("t ratio=5", {'ratio': 5}),
    ("t ratio=1j", {'ratio': '1j'}),
    ("t on=true", {'on': True}),
    ("t on=True", {'on': True}),
    ("t on=FALSE", {'on': 'FALSE'}),
    ("t on=no", {'on': 'no'}),
    ("t on=1", {'on': 1}),
    ("t values=[1, 2, 3]", {'values': [1, 2, 3]}),
    ("t values=[1,2,3]", {'values': [1, 2, 3]}),
    ("t values=[]", {'values': []}),
    ("t values=(1, 2)", {'values': [1, 2]}),
    ("t values=()", {'values': []}),
    ("t values=[1, 2] count=5", {'values': [1, 2], 'count': 5}),
    ("t values={[x, 2]}", {'values': [7, 2]}),
    ("t values={values}", {'values': [1, 2, 3]}),
    ('t values="[1, 2]"', {'values': '[1, 2]'}),
    ('t values=[true, null, \'a\', "b", -1]', {'values': [True, None, 'a', 'b', -1]}),
    (r"""t values=['it\'s', "a]b"]""", {'values': ["it's", 'a]b']}),
    ('t values=[[1, [2]], {"a": [3]}]', {'values': [[1, [2]], {'a': [3]}]}),
    ("t values=1", {'values': 1}),
    ('t data={"a": 1}', {'data': {'a': 1}}),
    ('t data={"a": true}', {'data': {'a': True}}),
    ("t data={'a': True}", {'data': {'a': True}}),
    ("t data={'a': x, **d}", {'data': {'a': 7, 'k': 'v'}}),
    ("t data={k: v for k, v in d.items()}", {'data': {'k': 'v'}}),
    ("t data={}", {'data': {}}),
    ("t data={d}", {'data': {'k': 'v'}}),
    ("t data=d", {'data': 'd'}),
    ("t any=5", {'any': 5}),
    ("t any=1.10", {'any': 1.1}),
    ("t any=text", {'any': 'text'}),
    ("t any=true", {'any': True}),
    ("t any=null", {'any': None}),
    ('t any=[1, "a"]', {'any': [1, 'a']}),
    ("t any=[a", {'any': '[a'}),
    ("t any={x}", {'any': 7}),
    ('t any="5"', {'any': '5'}),
    ("t any=2024-01-01", {'any': '2024-01-01'}),
    ("t any=+4915112345", {'any': '+4915112345'}),
    ("t any=NaN", {'any': 'NaN'}),
    ("t maybe=null", {'maybe': None}),
    ("t maybe=None", {'maybe': None}),
    ('t maybe="null"', {'maybe': 'null'}),
    ("t maybe=5", {'maybe': '5'}),
    ("t maybe=nullable", {'maybe': 'nullable'}),
    ("t either=5", {'either': 5}),
    ('t either="5"', {'either': '5'}),
    ("t either=five", {'either': 'five'}),
    ("t either=5.5", {'either': '5.5'}),
    ("t either=1e3", {'either': '1e3'}),
    ("t either=007", {'either': '007'}),
    ("t level=auto", {'level': 'auto'}),
    ("t level=1", {'level': 1}),
    ('t level="1"', {'level': '1'}),
    ("t level=3", {'level': 3}),
    ("t pick=5", {'pick': '5'}),
    ("t pick=6", {'pick': 6}),
    ("t pick=7", {'pick': 7}),
    ("t X-Key=1", {'X-Key': '1'}),
    ('t "my key"=5', {'my key': '5'}),
    ("t my key=5", {'key': 5, 'q': 'my'}),
    ("t a.b=5", {'a.b': 5}),
    ("t filter[name]=bob", {'filter[name]': 'bob'}),
    ("t $top=5", {'$top': 5}),
    ("t mixed=[1, 2]", {'mixed': [1, 2]}),
    ("t mixed=[draft]", {'mixed': '[draft]'}),
    ('t mixed={"a": 1}', {'mixed': {'a': 1}}),
    ("t mixed=true", {'mixed': True}),
    ("t mixed=5", {'mixed': '5'}),
    ("t unknown=5", {'unknown': 5}),
    ("t unknown=a", {'unknown': 'a'}),
    ("t unknown={x}", {'unknown': 7}),
    ("t cats", {'q': 'cats'}),
    ('t "cats and dogs"', {'q': 'cats and dogs'}),
    ("t cats count=3", {'count': 3, 'q': 'cats'}),
    ("t 5", {'q': '5'}),
    ("t -5", {'q': '-5'}),
    ("t -", {'q': '-'}),
    ("t [1, 2]", {'q': '[1, 2]'}),
    ('t {"q": "a"}', {'q': 'a'}),
    ('t {"q": "a", "count": 5}', {'q': 'a', 'count': 5}),
    ("t {'q': name}", {'q': 'bob'}),
    ("t {d}", {'k': 'v'}),
    ("t {}", {}),
    ('t{"q": "a"}', {'q': 'a'}),
    ('t(q="a")', {'q': 'a'}),
    ('t (q="a")', {'q': 'a'}),
    ("t(q='a', count=x + 1)", {'q': 'a', 'count': 8}),
    ("t()", {}),
    ('t(q=")")', {'q': ')'}),
    ('t(q=f"{name}!")', {'q': 'bob!'}),
    ('t("a")', {'q': 'a'}),
    ('t("a", 5)', {'q': 'a', 'count': 5}),
    ("t(name, count=2)", {'q': 'bob', 'count': 2}),
    ("t(*values)", {'q': 1, 'count': 2, 'ratio': 3}),
    ("t(**d)", {'k': 'v'}),
    ('t(**{"X-Key": "1"})', {'X-Key': '1'}),
    ("t(n := 5)", {'q': 5}),
    ('t(q="""a "b" c""")', {'q': 'a "b" c'}),
    ('t(values=[1, (2, 3)], data={"a": {"b": 1}})', {'values': [1, (2, 3)], 'data': {'a': {'b': 1}}}),
    ('t(q="日本" + "語")', {'q': '日本語'}),
    ('"t" q=a', {'q': 'a'}),
    ("t -- --soft", {'q': '--soft'}),
    ("t -- q=--soft", {'q': '--soft'}),
    ("-- t --soft", {'q': '--soft'}),
    ("t q=--soft", {'q': '--soft'}),
    ('t "--soft"', {'q': '--soft'}),
    ("t q=a --", {'q': 'a'}),
    ("t q=:( count=5", {'q': ':(', 'count': 5}),
    ("t q=:( any=[1, 2]", {'q': ':(', 'any': [1, 2]}),
    ("t q=items[? name == 'a b'].id", {'q': "items[? name == 'a b'].id"}),
    ("t q=f(a, b)", {'q': 'f(a, b)'}),
    ("t q=open(", {'q': 'open('}),
    ("t q=(a", {'q': '(a'}),
    ("t q=a)b", {'q': 'a)b'}),
    ("t q=a]", {'q': 'a]'}),
    ("t q=(don't know)", {'q': "(don't know)"}),
    ("t q=(don't) any=(won't)", {'q': "(don't)", 'any': "(won't)"}),
    ("t q=a|b>c<d&e", {'q': 'a|b>c<d&e'}),
    ("t q=*.py", {'q': '*.py'}),
    ("t q=~/x", {'q': '~/x'}),
    ("t q=%tool", {'q': '%tool'}),
    ("t q=!ls", {'q': '!ls'}),
    ("t q=@me", {'q': '@me'}),
    ("t q=a%20b", {'q': 'a%20b'}),
    ("t q=<b>x</b>", {'q': '<b>x</b>'}),
    ("t q=-5", {'q': '-5'}),
    ("t q=--", {'q': '--'}),
    ("t q=a--b", {'q': 'a--b'}),
    ("t q=x y=[", {'q': 'x', 'y': '['}),
    ("t maybe=~", {'maybe': '~'}),
    ('t q=a\tcount=5', {'q': 'a', 'count': 5}),
    ("t q=a count=5", {'q': 'a', 'count': 5}),
    ("t any=-0", {'any': 0}),
    ("t any=1e5", {'any': 100000.0}),
    ("t any=.", {'any': '.'}),
    ("t any=-", {'any': '-'}),
    ("t any=...", {'any': '...'}),
    ("t any=()", {'any': []}),
    ("t any=[1, 2,]", {'any': [1, 2]}),
    ('t any={"a": [1, 2]}', {'any': {'a': [1, 2]}}),
    ("t any={'a': (1, 2)}", {'any': {'a': (1, 2)}}),
    ("t any=[1, 2]x", {'any': '[1, 2]x'}),
    ("t on={x > 5}", {'on': True}),
    ("t count={len(values)}", {'count': 3}),
    ('t q="{name}"', {'q': '{name}'}),
    ('t q=\'{"a": 1}\'', {'q': '{"a": 1}'}),
    ('t q={"text"}', {'q': 'text'}),
    ("t q={'a' 'b'}", {'q': 'ab'}),
    ("t any={x},{x}", {'any': '{x},{x}'}),
    ("t a=1 b=2", {'a': 1, 'b': 2}),
    ("t 1=2", {'1': 2}),
    ("t -5=3", {'-5': 3}),
    ("t é=1", {'é': 1}),
    ("t a/b=c", {'q': 'a/b=c'}),
    ('t "a=b"', {'q': 'a=b'}),
    ('t q="a"b"c"', {'q': 'abc'}),
    ('t q=a""', {'q': 'a'}),
    ('t count=5""', {'count': '5'}),
    ("t q=[unfinished count=5", {'q': '[unfinished', 'count': 5}),
    ('t "" ', {'q': ''}),
    ("t q=a,", {'q': 'a,'}),
    ("t q=a, count=5", {'q': 'a,', 'count': 5}),
    ('t(q="a",)', {'q': 'a'}),
    ("t(*[1, 2])", {'q': 1, 'count': 2}),
    ("t(q=x if x else 0)", {'q': 7}),
    ("t(q=[i for i in values])", {'q': [1, 2, 3]}),
    ("t(q=d)", {'q': {'k': 'v'}}),
    ('t({"q": 1})', {'q': {'q': 1}}),
    ("t({x})", {'q': {7}}),
    ("t -5 count=2", {'count': 2, 'q': '-5'}),
    ("t q=a; count=5", {'q': 'a;', 'count': 5}),
    ('t {"q": "a"};', {'q': 'a'}),
    ('t(q="a");', {'q': 'a'}),
    ("t q={", {'q': '{'}),
    ("t any={", {'any': '{'}),
    ('"t" "a.b"=5', {'a.b': 5}),
    ('t "a.b"=5', {'a.b': 5}),
    ('t count="5"6', {'count': '56'}),
    ("t 5='a'b", {'5': 'ab'}),
    ("t any=[1],[2]", {'any': '[1],[2]'}),
    ("t any=(1),", {'any': '(1),'}),
    ("t values=(1)", {'values': 1}),
    ("t values=(1,)", {'values': [1]}),
    ("t any=(5)", {'any': 5}),
    ("t any=[1]]", {'any': '[1]]'}),
    ("t q=a  ", {'q': 'a'}),
    ("   t   q=a", {'q': 'a'}),
    ('t q=a\xa0count=5', {'q': 'a', 'count': 5}),
    ("t q='\xa0'", {'q': '\xa0'}),
    ('t q=\u200ba', {'q': '\u200ba'}),
    (r"t q=a\x00b", {'q': 'a\\x00b'}),
    ("t q=?", {'q': '?'}),
    ("t ???", {'q': '???'}),
]

REFUSED = [
    ("t q={hello world}", "'{hello world}' for 'q' is not a Python expression: "),
    ("t q={nope}", "'nope' for 'q' failed: NameError: name 'nope' is not defined"),
    ("t q={1/0}", "'1/0' for 'q' failed: ZeroDivisionError: division by zero"),
    ("t q={d['no']}", "'d['no']' for 'q' failed: KeyError: 'no'"),
    (r"t q=C:\new folder", "'folder' has no name (character 12)."),
    (r't q="C:\dir\"', r"""The quote at character 5 is never closed: 'q="C:\dir\"'."""),
    ("t q=foo'bar'", "The quote at character 12 is never closed: 'q=foo'bar''."),
    ("t q=dogs'", "The quote at character 9 is never closed: 'q=dogs''."),
    ("t q='don't'", "The quote at character 11 is never closed: 'q='don't''."),
    ('t q=5"', 'The quote at character 6 is never closed: \'q=5"\'.'),
    ('t q="', 'The quote at character 5 is never closed: \'q="\'.'),
    ("t q='", "The quote at character 5 is never closed: 'q=''."),
    ("t count=", "'count' has no value."),
    ("t q==v", "There is '==' in 'q==v' (character 4)."),
    ("t q== v", "There is '==' in 'q==' (character 4)."),
    ("t q = v", "Blanks around '=' in 'q =' (character 3)."),
    ("t q =v", "Blanks around '=' in 'q =v' (character 3)."),
    ("t q= v", "Blanks around '=' in 'q= v' (character 3)."),
    ("t count = 5", "Blanks around '=' in 'count =' (character 3)."),
    ("t = 5", "'=' has no name before '=' (character 3)."),
    ("t =5", "'=5' has no name before '=' (character 3)."),
    ("t ==", "'==' has no name before '=' (character 3)."),
    ("t q='a;", "The quote at character 5 is never closed: 'q='a;'."),
    ("t q=x # note", "'#' has no name (character 7)."),
    ("t q=1 ?", "'?' has no name (character 7)."),
    ("t -h", "No flag '-h'."),
    ("t values=[1, 2", "The '[' at character 10 is never closed: '[1, 2'."),
    ("t values=[1, 2)", "The '[' at character 10 is never closed: '[1, 2)'."),
    ("t values=1, 2]", "'2]' has no name (character 13)."),
    ("t values=[x, 2]", "'[x, 2]' for 'values' is neither JSON nor a Python literal."),
    ("t values=[1 2]", "'[1 2]' for 'values' is neither JSON nor a Python literal."),
    ("t data={'a': true}", "'{'a': true}' for 'data' failed: NameError: name 'true' is not defined"),
    ('t data={"a": 1, "a": 2}', "'a' is given twice in {...}."),
    ("t data={'a': 1, 'a': 2}", "'a' is given twice in {...}."),
    ('t data={"a": 1', 'The \'{\' at character 8 is never closed: \'{"a": 1\'.'),
    ('t data={"a": 1}}', '\'{"a": 1}}\' for \'data\' is neither JSON nor a Python literal.'),
    ("t data={a}", "'a' for 'data' failed: NameError: name 'a' is not defined"),
    ("t data={a: 1}", "'{a: 1}' for 'data' failed: NameError: name 'a' is not defined"),
    ("t count=1 count=2", "'count' is given twice."),
    ("t q=a q=b", "'q' is given twice."),
    ("t cats and dogs", "'cats' has no name (character 3)."),
    ("t count=3 cats", "'cats' has no name (character 11)."),
    ("t cats q=dogs", "'cats' has no name (character 3)."),
    ("t q=cats and dogs", "'and' has no name (character 10)."),
    ("t {name}", "'{name}' is of type str, not arguments by name."),
    ("t {x}", "'{x}' is of type int, not arguments by name."),
    ("t {5: 1}", "'{5: 1}' has a key that is not text."),
    ('t {"q": "a"} count=5', "'count=5' follows the brackets that hold all arguments (character 14)."),
    ('t {"q": "a"}x', "'x' follows the brackets that hold all arguments (character 13)."),
    ('t {"q": "a"', 'The \'{\' at character 3 is never closed: \'{"q": "a"\'.'),
    ('t {"q": "a", "q": "b"}', "'q' is given twice in {...}."),
    ("t {q: 1}", "'{q: 1}' failed: NameError: name 'q' is not defined"),
    ('t {"q" "a"}', '\'{"q" "a"}\' is of type str, not arguments by name.'),
    ("t(", "The '(' at character 2 is never closed: '('."),
    ('t(q="a"', 'The \'(\' at character 2 is never closed: \'(q="a"\'.'),
    ('t(q="a', 'The quote at character 5 is never closed: \'t(q="a\'.'),
    ('t(q="a)', '\'(q="a)\' is not a list of Python arguments: '),
    ("t(q=cats)", "'cats' for 'q' failed: NameError: name 'cats' is not defined"),
    ("t(q=cats and dogs)", "'cats and dogs' for 'q' failed: NameError: name 'cats' is not defined"),
    ('t("a", q="b")', "'q' is given twice."),
    ("t(*x)", "'*x' is of type int, not a list."),
    ("t(**x)", "'**x' is of type int, not arguments by name."),
    ('t(q="a", q="b")', "'q' is given twice."),
    ("t(q=true)", "'true' for 'q' failed: NameError: name 'true' is not defined"),
    ("t(q: 1)", "'(q: 1)' is not a list of Python arguments: "),
    ("t(q==1)", "'q==1' failed: NameError: name 'q' is not defined"),
    ("t(5 5)", "'(5 5)' is not a list of Python arguments: "),
    ('t(q="a") count=5', "'count=5' follows the brackets that hold all arguments (character 10)."),
    ('t(q="a")x', "'x' follows the brackets that hold all arguments (character 9)."),
    ("t(1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18)", "Arguments without a name: 18, but at most 17 fit."),
    ('(q="a")', '\'(q="a")\' is where a tool\'s name should be (character 1).'),
    ('{"q": 1}', '\'{"q": 1}\' is where a tool\'s name should be (character 1).'),
    ("q=5", "'q=5' is where a tool's name should be (character 1)."),
    ('"t', 'The quote at character 1 is never closed: \'"t\'.'),
    ("t q=a --timeout", "'--timeout' needs a number of seconds above 0."),
    ("t q=a --timeout x", "'--timeout' needs a number of seconds above 0, not 'x'."),
    ("t q=a --timeout -1", "'--timeout' needs a number of seconds above 0, not '-1'."),
    ("t q=a --timeout=inf", "'--timeout' needs a number of seconds above 0, not 'inf'."),
    ("t q=a --timeout --soft", "'--timeout' needs a number of seconds above 0."),
    ("t --timeout 5 --timeout 6", "'--timeout' is given twice."),
    ("t --soft=1", "'--soft' takes no value: '--soft=1'."),
    ("t --sfot q=a", "No flag '--sfot'. Did you mean '--soft'?"),
    ("t --nothing", "No flag '--nothing'."),
    ("t -x", "No flag '-x'."),
    ("t -o 5", "'-o' needs the name of a variable, not '5'."),
    ("t -o class", "'-o' needs the name of a variable, not 'class'."),
    ("t -o", "'-o' needs the name of a variable."),
    ("t -- q=a -- b", "'--' has no name (character 10)."),
    ("t q=[a b", "The '[' at character 5 is never closed: '[a b'."),
    ("t q=“a b”", "'b”' has no name (character 8)."),
    ("t q=`a b`", "'b`' has no name (character 8)."),
    (r"t q=a\ b", "'b' has no name (character 8)."),
    ("t q=x count=[", "The '[' at character 13 is never closed: '['."),
    ("t q=1 2 3", "'2' has no name (character 7)."),
    ('t q={"a":1', 'The \'{\' at character 5 is never closed: \'{"a":1\'.'),
    ('t data={"a":1', 'The \'{\' at character 8 is never closed: \'{"a":1\'.'),
    ('t any={"a":1', 'The \'{\' at character 7 is never closed: \'{"a":1\'.'),
    ("t values=[1, 2]x", "'[1, 2]x' for 'values' is neither JSON nor a Python literal."),
    ("t q={name!r}", "'{name!r}' for 'q' is not a Python expression: "),
    ("t q={name:>5}", "'{name:>5}' for 'q' is not a Python expression: "),
    ("t q=it's 5 o'clock", "'5' has no name (character 10)."),
    ('t q="unfinished count=5', 'The quote at character 5 is never closed: \'q="unfinished count=5\'.'),
    ("t q='unfinished count=5", "The quote at character 5 is never closed: 'q='unfinished count=5'."),
    ("t q=a count", "'count' has no name (character 7)."),
    ("t count 5", "'count' has no name (character 3)."),
    ("t values=[1, 2], count=5", "'[1, 2],' for 'values' is neither JSON nor a Python literal."),
    ("t(,)", "'(,)' is not a list of Python arguments: "),
    ("t(q=)", "'(q=)' is not a list of Python arguments: "),
    ("t(=1)", "'(=1)' is not a list of Python arguments: "),
    ('t(q="a" count=5)', '\'(q="a" count=5)\' is not a list of Python arguments: '),
    ('t(count=5, "a")', '\'(count=5, "a")\' is not a list of Python arguments: '),
    ("t(q=[)", "The '(' at character 2 is never closed: '(q=[)'."),
    ("t(q=])", "'(q=])' is not a list of Python arguments: "),
    ('t(*"ab")', '\'*"ab"\' is of type str, not a list.'),
    ("t(**{5: 1})", "'**{5: 1}' has a key that is not text."),
    ("t(q=nope)", "'nope' for 'q' failed: NameError: name 'nope' is not defined"),
    ("t(q=x.nope)", "'x.nope' for 'q' failed: AttributeError: 'int' object has no attribute 'nope'"),
    ("t=5 q=a", "'t=5' is where a tool's name should be (character 1)."),
    ('"" q=1', '\'""\' is where a tool\'s name should be (character 1).'),
    ('t --body ""', "'--body' needs a value."),
    ('t --body "a', 'The quote at character 10 is never closed: \'"a\'.'),
    ("t --Soft", "No flag '--Soft'. Did you mean '--soft'?"),
    ("t --s", "No flag '--s'. Did you mean '--soft'?"),
    ("t ---", "No flag '---'."),
    ("t -o x -o y", "'-o' is given twice."),
    ("t -o x=5", "'-o' needs the name of a variable, not 'x=5'."),
    ("t data={", "The '{' at character 8 is never closed: '{'."),
    ("t values=[1],[2]", "'[1],[2]' for 'values' is neither JSON nor a Python literal."),
    ("t q=f(x) y", "'y' has no name (character 10)."),
    ('t q=\xa0a', "Blanks around '=' in 'q= a' (character 3)."),
]

ASKED = [
    ("t?", Line('help', 't', "", Flags())),
    ("t??", Line('help', 't', "", Flags())),
    ("t ?", Line('help', 't', "", Flags())),
    ("t ??", Line('help', 't', "", Flags())),
    ("?", Line('help', '', "", Flags())),
    ("list?", Line('help', 'list', "", Flags())),
    ("t --help", Line('help', 't', "", Flags(help=True))),
    ("--help", Line('help', '', "", Flags(help=True))),
    ("--help t", Line('help', 't', "", Flags(help=True))),
    ("t)", Line('call', 't)', "", Flags())),
    ('t(q="a") --soft', Line('call', 't', '(q="a")', Flags(soft=True))),
    ("'list' q=a", Line('call', 'list', "q=a", Flags())),
    ("list", Line('command', 'list', "", Flags())),
    ("list --json foo", Line('command', 'list', "--json foo", Flags())),
    ('list "a b', Line('command', 'list', '"a b', Flags())),
    ("  list   x", Line('command', 'list', "x", Flags())),
    ("list(q=1)", Line('call', 'list', "(q=1)", Flags())),
    ("list.x q=a", Line('call', 'list.x', "q=a", Flags())),
    ("--soft t q=a", Line('call', 't', "q=a", Flags(soft=True))),
    ("t --soft q=a", Line('call', 't', "q=a", Flags(soft=True))),
    ("t q=a --soft", Line('call', 't', "q=a", Flags(soft=True))),
    ("--timeout 5 t q=a", Line('call', 't', "q=a", Flags(timeout=5.0))),
    ("--timeout=5 t q=a", Line('call', 't', "q=a", Flags(timeout=5.0))),
    ("t q=a --timeout 0.5", Line('call', 't', "q=a", Flags(timeout=0.5))),
    ("t -o r q=a", Line('call', 't', "q=a", Flags(output='r'))),
    ("t -o=r q=a", Line('call', 't', "q=a", Flags(output='r'))),
    ("t --body q", Line('call', 't', "", Flags(body='q'))),
    ("t --body=q --args", Line('call', 't', "", Flags(body='q', args=True))),
    ("t --bg --dry", Line('call', 't', "", Flags(bg=True, dry=True))),
    ("--", Line('empty', '', "", Flags())),
    ('"?"', Line('call', '?', "", Flags())),
    ('"t?"', Line('call', 't?', "", Flags())),
    ("t[1]", Line('call', 't[1]', "", Flags())),
    ("t.u.v q=a", Line('call', 't.u.v', "q=a", Flags())),
    ("t-u/v q=a", Line('call', 't-u/v', "q=a", Flags())),
    ("t@1.0 q=a", Line('call', 't@1.0', "q=a", Flags())),
    ("日本.語 q=a", Line('call', '日本.語', "q=a", Flags())),
    ('"a b" q=1', Line('call', 'a b', "q=1", Flags())),
    ("--soft", Line('empty', '', "", Flags(soft=True))),
    ("--soft --help", Line('help', '', "", Flags(soft=True, help=True))),
    ("-o x", Line('empty', '', "", Flags(output='x'))),
    ("--timeout 5", Line('empty', '', "", Flags(timeout=5.0))),
    ('t --timeout "5" q=a', Line('call', 't', "q=a", Flags(timeout=5.0))),
    ('t --body "my key"', Line('call', 't', "", Flags(body='my key'))),
    ("t --soft --soft q=a", Line('call', 't', "q=a", Flags(soft=True))),
    ("info t --json", Line('command', 'info', "t --json", Flags())),
    ("info", Line('command', 'info', "", Flags())),
    ("LIST", Line('call', 'LIST', "", Flags())),
    ("List x", Line('call', 'List', "x", Flags())),
    ("-- list x", Line('command', 'list', "x", Flags())),
    ("list -- --json", Line('command', 'list', "-- --json", Flags())),
    (";", Line('empty', '', "", Flags())),
    (";;", Line('call', ';', "", Flags())),
    ("t? q=a", Line('call', 't?', "q=a", Flags())),
    ("", Line('empty', '', "", Flags())),
    (" ", Line('empty', '', "", Flags())),
    ("t --help q=a junk junk", Line('help', 't', "", Flags(help=True))),
]

# fmt: on


@pytest.mark.parametrize(("line", "expected"), READ, ids=[row[0] for row in READ])
def test_a_line_reads_to_its_arguments(line: str, expected: dict[str, Any]) -> None:
    """Contract 8 and 15: three forms, values by their schema, quotes as in a shell."""
    assert split_line(line, COMMANDS).name == "t"
    got = read(line)
    assert got == expected
    assert repr(got) == repr(expected), "the types differ"


@pytest.mark.parametrize(("line", "message"), REFUSED, ids=[row[0] for row in REFUSED])
def test_a_bad_line_is_refused_in_a_few_true_lines(line: str, message: str) -> None:
    """Contract 4: what happened, the value in quotes, what to do next. ': ' ends what Python words."""
    with pytest.raises(UsageProblem) as caught:
        read(line)
    told = caught.value
    assert told.message.startswith(message)
    assert told.message == message or message.endswith(": ")
    assert told.hint
    assert len(told.lines()) <= 3
    assert all(len(shown) < 160 for shown in told.lines())


@pytest.mark.parametrize(("line", "asked"), ASKED, ids=[row[0] for row in ASKED])
def test_a_line_asks_for_one_thing(line: str, asked: Line) -> None:
    """Sub-commands win, flags stand before or after the name, `?` is help."""
    got = split_line(line, COMMANDS)
    assert (got.kind, got.name, got.rest.strip(), got.flags) == (
        asked.kind,
        asked.name,
        asked.rest,
        asked.flags,
    )


def test_there_are_more_than_two_hundred_odd_lines() -> None:
    """Issue 2: 200 odd `%tool` lines."""
    assert len({row[0] for row in (*READ, *REFUSED, *ASKED)}) > 400


def test_rest_keeps_its_columns() -> None:
    """The characters that an error counts are those of the typed line."""
    line = '--soft t --timeout 5 q="a" -o r count=5'
    rest = split_line(line, COMMANDS).rest
    assert rest.index("count") == line.index("count")
    assert rest.split() == ['q="a"', "count=5"]


def test_numbers_that_are_none_fit_a_number_only() -> None:
    """NaN and Infinity are numbers where text does not fit."""
    assert math.isnan(read("t ratio=NaN")["ratio"])
    assert read("t ratio=-Infinity") == {"ratio": -math.inf}
    assert read("t any=NaN maybe=Infinity") == {"any": "NaN", "maybe": "Infinity"}


def test_an_expression_gives_the_object_itself() -> None:
    """`{expression}` hands over the very object, never a copy."""
    thing = object()
    for text in ("q={thing}", "(q=thing)", "(thing)", "{'q': thing}"):
        got = read_arguments(text, SCHEMA, lambda source: eval(source, {"thing": thing}))
        assert got["q"] is thing


def test_an_error_of_an_expression_keeps_its_cause() -> None:
    """The user's own exception is the cause, for `%tool why`."""
    with pytest.raises(UsageProblem) as caught:
        read("t q={1/0}")
    assert isinstance(caught.value.__cause__, ZeroDivisionError)


def test_an_interrupt_passes_through() -> None:
    """Stop while an expression runs is not an error of the line."""

    def stop(source: str) -> object:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        read_arguments("q={x}", SCHEMA, stop)


def test_a_usage_problem_of_evaluate_is_kept() -> None:
    """What the magic itself refuses is not wrapped again."""

    def refuse(source: str) -> object:
        raise UsageProblem("no")

    with pytest.raises(UsageProblem, match=r"^no$"):
        read_arguments("q={x}", SCHEMA, refuse)


def test_call_form_evaluates_multi_line_and_named_expressions() -> None:
    """Python inside the brackets may be any expression, over lines too."""
    assert read("t(q='a',\n  count=[1,\r\n 2][0], ratio=1 +\n 2, any=(y := 5))") == {
        "q": "a",
        "count": 1,
        "ratio": 3,
        "any": 5,
    }


def test_a_lone_generator_reaches_the_first_argument() -> None:
    """`NAME(i for i in values)` is one argument."""
    assert list(read("t(i for i in values)")["q"]) == [1, 2, 3]


@pytest.mark.parametrize(
    ("schema", "text", "expected"),
    [
        pytest.param({}, "a=5 b=x", {"a": 5, "b": "x"}, id="nothing known"),
        pytest.param({"properties": None, "required": 5}, "a=5", {"a": 5}, id="nonsense"),
        pytest.param({"properties": {"a": True}}, "a=5", {"a": 5}, id="true"),
        pytest.param({"properties": {"a": False}}, "a=5", {"a": 5}, id="false"),
        pytest.param({"properties": {"a": {"$ref": "#/nowhere"}}}, "a=5", {"a": 5}, id="dangling"),
        pytest.param({"properties": {"a": {"$ref": "https://x.org/s.json"}}}, "a=5", {"a": 5}, id="remote"),
        pytest.param({"properties": {"a": {"$ref": "#/properties/a"}}}, "a=5", {"a": 5}, id="loop"),
        pytest.param(
            {"properties": {"a": {"anyOf": [{"$ref": "#/properties/a"}, {"type": "string"}]}}},
            "a=5",
            {"a": "5"},
            id="loop with a way out",
        ),
        pytest.param(
            {"$ref": "#/$defs/In", "$defs": {"In": {"properties": {"a": {"type": "string"}}}}},
            "a=5",
            {"a": "5"},
            id="root is a reference",
        ),
        pytest.param(
            {"allOf": [{"properties": {"a": {"type": "string"}}, "required": ["a"]}]},
            "5",
            {"a": "5"},
            id="allOf, bare word",
        ),
        pytest.param({"additionalProperties": {"type": "string"}}, "a=5", {"a": "5"}, id="additional"),
        pytest.param({"properties": {"a": {"const": "5"}}}, "a=5", {"a": "5"}, id="const"),
        pytest.param({"properties": {"a": {"const": 5}}}, "a=5", {"a": 5}, id="const number"),
        pytest.param(
            {"properties": {"a": {"type": "string", "allOf": [{"type": "integer"}]}}},
            "a=5",
            {"a": 5},
            id="contradiction",
        ),
        pytest.param(
            {"properties": {"a": {"$ref": "#/$defs/a~1b%20c"}}, "$defs": {"a/b c": {"type": "string"}}},
            "a=5",
            {"a": "5"},
            id="escaped pointer",
        ),
        pytest.param({"properties": {"a": {"enum": [True, "1", 2]}}}, "a=1", {"a": "1"}, id="true is not 1"),
        pytest.param({"properties": {"a": {"type": ["number", "string"]}}}, "a=5", {"a": 5}, id="5 is a number"),
        pytest.param({"properties": {"b": {}, "a": {}}}, "('x', 5)", {"b": "x", "a": 5}, id="order"),
        pytest.param(
            {"properties": {"b": {}, "a": {}}, "required": ["a"]},
            "('x', 5)",
            {"a": "x", "b": 5},
            id="required first",
        ),
        pytest.param({"properties": {"a": {}}}, "x", {"a": "x"}, id="the only argument"),
    ],
)
def test_a_schema_of_any_shape_is_survived(schema: dict[str, Any], text: str, expected: dict[str, Any]) -> None:
    """Hostile and odd schemas: references, loops, nonsense."""
    assert read_arguments(text, schema, eval) == expected


def test_a_deep_or_wide_schema_takes_no_time() -> None:
    """A schema that doubles at each of 60 references, and 5,000 levels of anyOf."""
    doubling: dict[str, Any] = {str(n): {"anyOf": [{"$ref": f"#/$defs/{n + 1}"}] * 2} for n in range(60)}
    schema = {"properties": {"a": {"$ref": "#/$defs/0"}}, "$defs": {**doubling, "60": {"type": "string"}}}
    assert read_arguments("a=5", schema, eval)["a"] in ("5", 5)
    deep: dict[str, Any] = {"type": "string"}
    for _ in range(5000):
        deep = {"anyOf": [deep]}
    assert read_arguments("a=5", {"properties": {"a": deep}}, eval)["a"] in ("5", 5)


def test_a_backslash_in_python_text_gives_no_warning_of_ours() -> None:
    """Reading a value never warns about a line that the user did not write."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert read_arguments(r"(q='\d')", SCHEMA, len) == {"q": 4}
        assert read_arguments(r"values=['\d']", SCHEMA, len) == {"values": ["\\d"]}


def test_default_flags_are_all_off() -> None:
    """A plain line has no flags."""
    assert split_line("t", COMMANDS).flags == Flags()
