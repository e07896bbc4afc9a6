"""What people mistype, over all faces, and the whole message that each of them reads.

FOLDER stands for the folder of the project. Most messages say what to do next, in at most four
lines.
"""

from __future__ import annotations

import ast
import json
import queue
import re
from collections.abc import Mapping
from pathlib import Path

import pytest

from onetool_ipy import InvalidConfig, Toolbox, open_toolbox
from onetool_ipy.base.values import Json
from onetool_ipy.faces.cli import main
from onetool_ipy.faces.mcp.server import ToolboxServer
from onetool_ipy.faces.widgets.requests import ScreenRequests
from tests.faces.rest.serving import Server
from tests.harness.kernel import Kernel
from tests.harness.patience import HANG_S

PACK = '''
def price(item: str, count: int = 1) -> int:
    """Tell a price."""
    return 2 * count


def fail() -> int:
    """Fail."""
    raise ValueError("no such thing")
'''

NOTEBOOK = {
    "%tool shop.prize item=a": "ToolCallError: No tool 'shop.prize'. Did you mean 'shop.price'?\n  See all with: %tool list",
    "%tool nosuch": "ToolCallError: No tool 'nosuch'.\n  See all with: %tool list",
    "%tool hlep": "ToolCallError: No tool or command 'hlep'. Did you mean '%tool help'?\n  See all with: %tool help",
    "%tool shop.price": "ToolCallError: 'shop.price': missing argument 'item'\n  Usage: shop.price(item: str, count: int = 1)",
    "%tool shop.price itm=a": "ToolCallError: 'shop.price': unknown argument 'itm' (did you mean 'item'?)\n  Usage: shop.price(item: str, count: int = 1)",
    "%tool shop.price item=a count=few": "ToolCallError: 'shop.price': argument 'count': 'few' is not a whole number\n  Usage: shop.price(item: str, count: int = 1)",
    "%tool shop.price tea cups": "UsageProblem: 'tea' names no argument (character 12).\n  Text with blanks goes in quotes: item=\"...\".",
    "%tool shop.price item=a item=b": "UsageProblem: 'item' is given twice.\n  Keep one of them.",
    "%tool shop.price item={cup}": "UsageProblem: 'cup' for 'item' failed: NameError: name 'cup' is not defined\n  Define 'cup' first, or put text in quotes.",
    "%tool shop.price item={1/0}": "UsageProblem: '1/0' for 'item' failed: ZeroDivisionError: division by zero\n  Correct the expression, or put the value in quotes if it is text.",
    "%tool shop.price(item=": "UsageProblem: The '(' at character 11 is never closed: '(item='.\n  Close it, or put the value in quotes.",
    '%tool shop.price {"item": }': "UsageProblem: '{\"item\": }' is not a Python expression: invalid syntax.\n  If it is text, put it in quotes.",
    "%tool shop.price --timeout soon item=a": "UsageProblem: '--timeout' needs a number of seconds above 0, not 'soon'.\n  Write --timeout 5.",
    "%tool shop.price --dryy item=a": "UsageProblem: No flag '--dryy'. Did you mean '--dry'?\n  Flags: --args, --bg, --body, --dry, --help, --save, --soft, --timeout, --unchecked, -o. After -- come only arguments.",
    "%tool shop --dry": "UsageProblem: 'shop' is a pack, not a tool.\n  See its tools with: %tool shop",
    "%tool info": "UsageProblem: %tool info needs one name.\n  For example: %tool info time.now",
    "%tool info shop.prise": "ToolCallError: No tool 'shop.prise'. Did you mean 'shop.price'?\n  See all with: %tool list",
    "%tool list zzz": "UsageProblem: No tool has 'zzz' in its name.\n  See all with: %tool list",
    "%%tool list\nzzz": "UsageProblem: %tool list takes no cell body.\n  Write it as: %tool list",
    "%tool browse a b": "UsageProblem: %tool browse takes at most one name.\n  For example: %tool browse time.now",
    "%tool save": "UsageProblem: %tool save needs one pack.\n  For example: %%tool save geo, and the functions below it.",
    "%%tool save my pack\nx = 1": "UsageProblem: %tool save needs one pack.\n  For example: %%tool save geo, and the functions below it.",
    "%tool history --since lately": "UsageProblem: --since does not understand 'lately'.\n  For example: today, yesterday, 2h, 3d, 2026-11-15 or 2026-11-15T09:30",
    "%tool history rerun 9": "UsageProblem: No call '9' in the history.\n  See: %tool history",
    "%tool history diff 1": "UsageProblem: %tool history diff needs two calls.\n  For example: %tool history diff 2 1",
    "%tool stats yesterday": "UsageProblem: %tool stats does not know the period 'yesterday'.\n  One of: day, week, month, all.",
    "%tool results zzz": "UsageProblem: No stored result has 'zzz' as its handle or in its tool's name.\n  See all with: %tool results",
    "%tool view zzz": "UsageProblem: Handle not found: 'zzz'.\n  ot.results() lists the handles there are.",
    "%tool jobs 9": "UsageProblem: No job '9'.\n  See: %tool jobs",
    "%tool replay calls.jsonl --only": "UsageProblem: There is no replay file 'FOLDER/calls.jsonl', and only recorded calls may be answered here.\n  Record it first where there is a network: %tool replay FOLDER/calls.jsonl   or ot.replay() without a mode.",
    "%tool adopt 5": "UsageProblem: 5 is not a tool, nor an object with tools.\n  Adopt a function, an object with methods, a module, or another framework's tool.",
    "%tool adopt cup": "UsageProblem: 'cup' is not a value of this notebook: name 'cup' is not defined.\n  Define it first, or name a module and what is in it: module:name",
    "%tool sql": "UsageProblem: %tool sql needs a query.\n  For example: %tool sql select tool, count(*) from calls group by all",
    "%tool sql selct 1": "ToolCallError: The SQL is wrong at line 1, character 1: syntax error at or near 'selct'.\n  selct 1\n  ^",
    "%tool sql select * from cups": "ToolCallError: No table 'cups'.\n  There are: calls.",
    "%tool sql drop table calls": "ToolCallError: A query is one SELECT: it only reads.\n  For example: select tool, count(*) from calls group by all",
    "%tool lock chek": "UsageProblem: %tool lock does not know 'chek'. Did you mean 'check'?\n  See: %tool lock --help",
    "%tool lock check a b": "UsageProblem: %tool lock check needs one name.\n  For example: %tool lock check time.now",
    "%tool trust me": "UsageProblem: %tool trust does not know 'me'.\n  See: %tool trust --help",
    "%tool install": "UsageProblem: %tool install needs one of --lazy, --always, --remove.\n  --lazy loads onetool_ipy at the first %tool, --always at every start.",
    "%tool new": "UsageProblem: %tool new makes HTTP tools.\n  For example: %tool new http my-api.get-user --url ...",
    "%tool new http geo.": "UsageProblem: 'geo.' is not a valid tool name.\n  Write BUNDLE.TOOL, as in my-api.get-user.",
    "%tool new http geo.town --curl hello": "UsageProblem: The command does not begin with 'curl'.\n  Paste it whole, from 'curl' on.",
    "%tool import nosuch.json": "UsageProblem: There is no file 'nosuch.json'.\n  Name a file, or an address: https://host/path.",
    "%tool server nosuch": "UsageProblem: %tool server does not know 'nosuch'.\n  It knows: list, add, import, export, login, logout, test, logs, remove, resources, prompts, start, stop, restart, trace, read. For one of them: %tool server test NAME",
    "%tool server start nosuch": "UsageProblem: No server 'nosuch'.\n  See them with: %tool server",
    "%tool server add x": "UsageProblem: %tool server add needs a name, and a command or --url.\n  %tool server add NAME COMMAND ARGUMENTS   or   %tool server add NAME https://example.com/mcp",
    "%tool server add x pip install mcp-server-time": "UsageProblem: x: not added. 'pip install' installs a program and does not run a server. Run it in a terminal. Then add what it installed: %tool server add NAME mcp-server-time",
    "%tool server add x npx -y": "UsageProblem: x: not added. 'npx -y' names no package. For example: npx -y @modelcontextprotocol/server-everything",
    "%%tool program\nprint(1": "ToolCallError: The program stops in the middle: a bracket, a quote or a block is open.",
    "%tool server add x --url hello": "UsageProblem: x: not added. x.url: 'hello' is not an http:// or https:// address.",
    "%tool bundle show nosuch": "UsageProblem: No bundle 'nosuch'.\n  See them with: %tool bundle list",
    "%ask --shwo hello": "UsageProblem: No flag '--shwo'. Did you mean '--show'?\n  Flags: --model, --with-tools, --tools, --no-tools, --allow, --tool-allow, --approve, --max-steps, --session, --as, --show, --code, --plan, --waiting, --resume, --drop, --distil, --soft, -o, --help. After -- come only arguments.",
    "%ask hello @cup": "UsageProblem: The prompt names '@cup', and there is no variable of that name.\n  Nothing was sent. Write @@cup for an @ that is text.",
    "$nosuch": "ToolCallError: No snippet, alias or tool 'nosuch'.\n  See: ot.snippets(), ot.aliases()",
    "%snippet nosuch": "ToolCallError: No snippet, alias or tool 'nosuch'.\n  See: ot.snippets(), ot.aliases()",
    "shop.prize": "ToolCallError: No tool 'shop.prize'. Did you mean 'shop.price'?\n  See all with: %tool list",
    "shop.price(5)": "ToolCallError: 'shop.price': argument 'item': 5 is not text\n  Usage: shop.price(item: str, count: int = 1)",
    'shop.price("a", cuont=1)': "ToolCallError: 'shop.price': unknown argument 'cuont' (did you mean 'count'?)\n  Usage: shop.price(item: str, count: int = 1)",
    'ot.result("zzz")': "Error: Handle not found: 'zzz'. ot.results() lists the handles there are.",
    'ot.map("shop.price", 5)': "ToolCallError: 5 is not a table.\n  Give a DataFrame, a Series, a list, or a dict of lists.",
    'ot.map("shop.price", [{"itm": "a"}])': "ToolCallError: 'shop.price' has no argument 'itm'. Did you mean 'item'?\n  shop.price(item: str, count: int = 1)",
    "ot.diff(1)": "ToolCallError: 'ot.diff': missing argument 'b'\n  Usage: ot.diff(a: Any, b: Any, key: Any = None)",
    'ot.replay("x", mode="maybe")': "UsageProblem: No mode 'maybe' of replay.\n  Valid: auto, replay, refresh.",
    "ot.adopt(5)": "UsageProblem: 5 is not a tool, nor an object with tools.\n  Adopt a function, an object with methods, a module, or another framework's tool.",
    "from onetool_ipy.live import shpo": "UsageProblem: No pack 'shpo'. Did you mean 'shop'?",
    "%tool list --frob": "UsageProblem: No flag '--frob'.\n  There are none here. After -- come only arguments.",
    '%tool shop.price item="a': "UsageProblem: The quote at character 17 is never closed: 'item=\"a'.\n  Close it, or put the whole value in the other kind of quotes.",
    "%tool shop.price item=a, count=2": "UsageProblem: A comma stands behind 'a' (character 18).\n  Blanks separate arguments; a comma that is text goes in quotes.",
    "%tool stats --since 3d": "UsageProblem: %tool stats takes --since with --view alone.\n  Write: %tool stats --view --since 3d",
    "%tool sql select": "ToolCallError: The SQL is wrong: SELECT clause without selection list.\n  For example: select tool, count(*) from calls group by all",
    "%tool import ftp://a/b": "UsageProblem: 'ftp://a/b' is not an address that can be fetched.\n  Write http:// or https://, or name a file.",
    'ot.adopt("sk-live-0000")': "UsageProblem: This text is not of the form 'module:name'.\n  For example: ot.adopt(\"math:sqrt\")",
    'ot.adopt({"key": "sk-live-0000"})': "UsageProblem: This dict is not a tool, nor an object with tools.\n  Adopt a function, an object with methods, a module, or another framework's tool.",
    "ot.replay(5)": 'UsageProblem: A replay needs the path of a file, not 5.\n  For example: ot.replay("calls.jsonl")',
    "%tool shop.price =a": "UsageProblem: '=a' has no name before '=' (character 12).\n  Write key=value.",
    "%tool shop.price -o 1x item=a": "UsageProblem: '-o' needs the name of a variable, not '1x'.\n  Write -o x.",
    "%tool shop.price item=a count=1.5": "ToolCallError: 'shop.price': argument 'count': 1.5 is not a whole number\n  Usage: shop.price(item: str, count: int = 1)",
    "%tool history -1": "UsageProblem: '-1' is not a number of calls.\n  For example: %tool history 20",
    "%tool stats week month": "UsageProblem: %tool stats takes at most one period.\n  For example: %tool stats week",
    "%%tool shop.price --body nosuch\nhello": "UsageProblem: --body: no argument 'nosuch'.\n  There are: item, count.",
    "%%tool save time\ndef f(): pass": "UsageProblem: 'time' is the name of a built-in pack.\n  Choose another name: time_tools",
    "%%tool save geo\nx = 1": "UsageProblem: The cell has no function that could be a tool.\n  Write: def my_tool(text: str) ...",
    "%%tool save geo\nx = ": "UsageProblem: The cell is not plain Python (line 1): invalid syntax.\n  Magics and ! cannot be in a pack file.",
    "%%snippet a\n{{ b": "UsageProblem: The snippet 'a': Its body cannot be read. Line 1: unexpected end of template, expected 'end of print statement'.\n  Write {{ name }} where a value goes.",
    "%%snippet a b\n{{ c }} {{ d }}": "UsageProblem: The snippet 'a': Its body uses 'c', which is not among its params.\n  Name all that it uses: %%snippet a b c d",
    "$greet Ann": "UsageProblem: 'Ann' names no parameter.\n  Write name=Ann",
    "%snippet greet --shwo": "UsageProblem: No flag '--shwo'.\n  There are --show and --save: %snippet NAME --show",
    "%%tool\nhello": "UsageProblem: The text of the cell goes to no tool.\n  Name one in the first line: %%tool NAME",
    "%%tool program\nshop.price(item='a')": "ToolCallError: Line 1: Name `shop` used when not defined. Write above it: import shop\n      shop.price(item='a')",
    "%ask $nosuch.prompt x=1": "UsageProblem: No server has a prompt 'nosuch.prompt'.\n  Nothing was sent. See them with: %tool server prompts NAME",
    "%tool history nosuchword": "No call matches. See all with: %tool history",
    "%tool import http://127.0.0.1:9/openapi.json": "UsageProblem: The host '127.0.0.1:9' is not allowed.\n  If you trust it, add --allow-host.",
    "%tool import .onetool/tools/shop.py": "UsageProblem: This is not the description of an API: it is neither JSON nor YAML (line 1: is not valid YAML: mapping values are not allowed in this context)\n  OpenAPI, Swagger and Postman files are imported.",
    'ot.map("shop.price", ["a"], retires=2)': "ToolCallError: 'shop.price' has no argument 'retires'. Did you mean 'retries'?\n  shop.price(item: str, count: int = 1)",
    "%%tool new http geo.town\ncurl": "UsageProblem: The command has no URL; it needs exactly one.\n  Quote a URL that has blanks or & in it.",
    "%%tool shop.price --args\n[1]": "UsageProblem: --args: the body is not a mapping: '[1]'.\n  Write lines like  key: value",
    "%tool sql select 1; select 2": "ToolCallError: One query at a time.\n  For example: select tool, count(*) from calls group by all",
    "%tool adopt math:nosuch": "UsageProblem: 'math:nosuch' cannot be imported: module 'math' has no attribute 'nosuch'.",
    "%tool new http geo.town --url https://a.b --method FROB": "UsageProblem: The method 'FROB' cannot be sent.\n  One of GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS.",
    "%tool server add shop mcp-x": "UsageProblem: shop: not added. 'shop' is the name of a pack of this project. Choose another name: shop_server",
    "%tool server import nosuch.json": "UsageProblem: 'nosuch.json' cannot be read: there is no such file.\n  Name a file with servers, such as .mcp.json.",
    'ot.map("shop.price", ["a"], engine="fast")': 'ToolCallError: No engine \'fast\'.\n  Valid: "threads", "dask", a distributed.Client, an Executor.',
    'ot.map("shop.price", ["a"], item="x")': "ToolCallError: A list is for one argument, and no argument of 'shop.price' is left for it.\n  Leave out the one that the list is for, or give a table: {'column': [...]}.",
    "ot.refresh(5)": "ToolCallError: No call is known that gave this value.\n  Give a result, its .df or its handle.",
    'shop.price("a", 1, 2)': "UsageProblem: 'shop.price': it takes 2 arguments by position, not 3.\n  Usage: shop.price(item: str, count: int = 1)",
    "%tool server add uvx mcp-server-time": "UsageProblem: 'uvx' stands where the server's name goes.\n  Write: %tool server add NAME uvx mcp-server-time",
    "%tool server add s example.com": "UsageProblem: s: not added. There is no program 'example.com' on your PATH. Install it first, or correct its name. For an address, write https://example.com",
    "%tool import example.com/openapi.json": "UsageProblem: There is no file 'example.com/openapi.json'.\n  Name a file, or an address: https://example.com/openapi.json",
    "%tool import .": "UsageProblem: '.' is a folder.\n  Name a file in it.",
    "%tool fs.list_dir path=no/such": "ToolCallError: Cannot open 'no/such': No such file or directory.\n  See what is there: %tool fs.list_dir path=\".\"",
    "%tool new http geo.town --url ftp://a.b/c": "UsageProblem: 'ftp://a.b/c' is not a complete http:// or https:// address.\n  Write it as in https://api.example.com/users",
    "%tool new http geo.town --url https://a.b/{id": "UsageProblem: A brace of 'https://a.b/{id' has no other half.\n  Write {name} for an argument.",
    "%%tool new http geo.town --allow-hosts\ncurl https://a.b": "UsageProblem: No flag '--allow-hosts'. Did you mean '--allow-host'?",
    '%%tool new http geo.town\ncurl "https://a.b': "UsageProblem: The quote \" that begins at '\"https://a.b' has no end.\n  Close it, or copy the whole command again.",
    "%%tool new http geo.my_town\ncurl https://a.b": "UsageProblem: 'geo.my_town': 'my_town' holds '_'.\n  Use letters, digits and '-', as in 'my-town'.",
    "%tool new http time.town --url https://a.b": "UsageProblem: Built-in bundles are read-only; they can only be turned on and off.\n  Put the tool into a bundle with a name of its own.",
    "%%tool save geo\ndef f(x: int): pass\ndef f(x: str): pass": "UsageProblem: The cell defines 'f' more than once.\n  Keep one of them. Nothing was saved.",
    "%tool sql select * from 'a.csv'": "ToolCallError: A query reads tables alone: no files, no addresses, no settings.\n  Read a file with Python first: its DataFrame is a table by its name.",
    "%%tool program\nimport shpo": "ToolCallError: Line 1: Cannot resolve imported module `shpo`. A program imports packs, see: %tool list\n      import shpo",
    "%%tool program @cup\n1": "UsageProblem: There is no variable 'cup'.\n  Write cup = ... in a cell first.",
    "%tool torn.f": "ToolCallError: No tool 'torn.f'. FOLDER/.onetool/tools/torn.py: line 1: SyntaxError: invalid syntax.\n  Correct the file; the next call reads it again.",
    'ot.map(len, ["a"])': 'ToolCallError: ot.map takes the name of a tool first, not a builtin_function_or_method.\n  For example: ot.map("nb.len", table)',
    'import pandas as pd; ot.map("shop.price", {"cup": ["a"]}, item=pd.Series(["a"]))': "ToolCallError: 'item' is given an array with a value for each row.\n  Name its column: item='column'. The whole array in each row: const={'item': ...}",
    "tool('bad name')(write)": "UsageProblem: The name 'bad name' holds blanks or unprintable characters.\n  Write it as in 'geo.locate'.",
}
"""Cells."""

COMMAND_LINE = {
    "frob": "No command 'frob'. See all with: onetool-ipy --help",
    "list": "No command 'list'. Did you mean 'tools list'?",
    "tools frob": "onetool-ipy tools does not know 'frob'.\nIt knows: list, info, invoke. For one of them: onetool-ipy tools info NAME",
    "server start nosuch": "A server runs in the notebook that started it: %tool server start NAME",
    "export a.txt": "'a.txt' is not a notebook: it is not JSON: line 1, column 1: Expecting value.\nGive the path of an .ipynb file.",
    "tools info": "onetool-ipy tools info needs one name.\nFor example: onetool-ipy tools info time.now",
    "tools invoke shop.price tea": "'tea' is not KEY=VALUE.\nFor example: onetool-ipy tools invoke shop.price item=... or --args '{\"item\": ...}'",
    "tools invoke shop.price --args {oops": '--args is not JSON: Expecting property name enclosed in double quotes: line 1 column 2 (char 1)\nWrite it as an object, e.g. --args \'{"message": "hello"}\'.',
    "tools invoke shop.price item=a --timeout soon": "'--timeout' needs a number of seconds above 0, not 'soon'.\nWrite --timeout 5.",
    "history --since lately": "--since does not understand 'lately'.\nFor example: today, yesterday, 2h, 3d, 2026-11-15 or 2026-11-15T09:30",
    "stats yesterday": "onetool-ipy stats does not know the period 'yesterday'.\nOne of: day, week, month, all.",
    "server test nosuch": "No server 'nosuch'.\nSee them with: onetool-ipy server",
    "new http": "onetool-ipy new http needs a name: BUNDLE or BUNDLE.TOOL.\nFor example: onetool-ipy new http my-api.get-user --url https://api.example.com/users/{id} --arg id:integer",
    "seal nosuch.ipynb": "There is no notebook 'nosuch.ipynb'.\nGive the path of its .ipynb file.",
    "open nosuch.zip": "There is no file 'nosuch.zip'.\nMake one: onetool-ipy seal NB.ipynb",
    "export nosuch.ipynb": "There is no notebook 'nosuch.ipynb'.\nGive the path of its .ipynb file.",
    "mock nosuch.jsonl": "There is no recording 'nosuch.jsonl'.\nRecord one in a notebook: %tool replay calls.jsonl",
    "completion csh": "completion needs a shell: bash, zsh, fish, powershell.\nFor example: source <(onetool-ipy completion bash), in ~/.bashrc",
    "trust nosuch": "There is no folder 'nosuch'.\nGive that of a project: onetool-ipy trust .",
    "mcp --port abc": "'--port' needs a whole number, not 'abc'.\nWrite --port 10.",
    "--config nowhere.yaml tools list": "FOLDER/nowhere.yaml: there is no such file. Give the path of an onetool.yaml, or run: onetool-ipy init",
    "health --frob": "No flag '--frob'.\nFlags: --config, --help, -h, --json. After -- come only arguments.",
    "tools invoke nosuch": "No tool 'nosuch'.\nSee all with: onetool-ipy tools list",
    "tools invoke shop.price item=a item=b": "'item' is given twice.\nKeep one of them.",
    "stats week month": "onetool-ipy stats takes at most one period.\nFor example: onetool-ipy stats week",
    "mcp --port 8123": "--port goes with --http.\nFor example: onetool-ipy mcp --http --port 8765",
    "mcp --attach nowhere": "'nowhere' is not a folder.\nName the folder of the project.",
    "server import nosuch.json": "'nosuch.json' cannot be read: there is no such file.\nName a file with servers, such as .mcp.json.",
    "lock frob": "onetool-ipy lock does not know 'frob'.\nSee: onetool-ipy lock --help",
    "init a b": "init takes one folder.\nFor example: onetool-ipy init",
    "ask": 'ask needs one prompt, in quotes.\nFor example: onetool-ipy ask "What is in README.md?"',
    "bundle delete nosuch": "No bundle 'nosuch'.\nSee them with: onetool-ipy bundle list",
    "--config": "'--config' needs a value.\nWrite --config VALUE.",
    "tools.echo message=a": "No command 'tools.echo'. Did you mean 'tools invoke tools.echo'?",
    "history why": "Only a notebook remembers its last failure. In a shell: onetool-ipy history --failed",
    "lock check nosuch": "There is no lock file 'FOLDER/.onetool/onetool.lock'.\nWrite one: onetool-ipy lock",
    "init a.txt": "'a.txt' is a file, not a folder.\nName the folder of the project.",
    "seal a.txt": "'a.txt' is not a notebook: it is not JSON: line 1, column 1: Expecting value.\nGive the path of an .ipynb file.",
    "server add x https://a.example/mcp --save": "'--save' stands behind the address.\nOptions go before the name: onetool-ipy server add --save x https://a.example/mcp",
    "server add python3 server.py": "'python3' stands where the server's name goes.\nWrite: onetool-ipy server add NAME python3 server.py",
}
"""Words behind `onetool-ipy`."""

CONFIG = {
    "version: 1\n  a: [\n": ".onetool/onetool.yaml:2: is not valid YAML: mapping values are not allowed in this context.",
    "- a\n": ".onetool/onetool.yaml:1: holds a list at its top, not 'key: value' lines.",
    "versoin: 1\n": ".onetool/onetool.yaml:1: versoin: unknown key. Did you mean 'version'?",
    "version: 9\n": ".onetool/onetool.yaml:1: version: '9' is not a version this release knows. Update onetool-ipy, or write 1.",
    "timeouts: {local_s: soon}\n": ".onetool/onetool.yaml:2: timeouts.local_s: 'soon' is not a number.",
    "timeouts: {local_s: -1}\n": ".onetool/onetool.yaml:2: timeouts.local_s: '-1' is too small; it must be more than 0.",
    "models: {m: {provider: opnai, model: x}}\n": ".onetool/onetool.yaml:2: models.m.provider: 'opnai' is not one of openai, ollama, gemini, anthropic. Did you mean 'openai'?",
    "servers: {x: {}}\n": ".onetool/onetool.yaml:2: servers.x: has no 'command'. Correct it there, then run: ot.reload()",
    "aliases: {p: shop.prise}\n": "alias 'p': There is no tool 'shop.prise'. Did you mean 'shop.price'?",
    'models: {m: {provider: openai, model: x, api_key: "${NOSUCH_KEY}"}}\n': ".onetool/onetool.yaml:2: models.m.api_key: ${NOSUCH_KEY} is neither in secrets.yaml nor in the environment. Add NOSUCH_KEY to one of them.",
    "http:\n\tallowed_hosts: []\n": ".onetool/onetool.yaml:3: a tab indents this line. Use spaces.",
}
"""The text of an onetool.yaml."""

MCP = {
    "('shop_prize', {})": "tool_not_found: No tool 'shop_prize'. Did you mean 'shop.price'?",
    "('shop_price', {})": "invalid_args (schema): 'shop.price': missing argument 'item'",
    "('shop_price', {'item': 5})": "invalid_args (schema): 'shop.price': argument 'item': 5 is not text",
    "('shop_price', {'item': 'a', 'cuont': 1})": "invalid_args (schema): 'shop.price': unknown argument 'cuont' (did you mean 'count'?)",
    "('ot_result', {'handle': 'zzz'})": "execution_error: Error: Handle not found: 'zzz'.",
    "('fs_read_file', {'path': 'nosuch.txt'})": "execution_error: Cannot open 'nosuch.txt': No such file or directory.",
}
"""Calls of an MCP client."""

REST = {
    "GET nosuch": "There is no /some/base/onetool/nosuch. All paths are in onetool/openapi.json.",
    "GET tools/tools?pageSize=many": "'pageSize' must be a whole number.",
    "GET tools/tools/search": "'q' is missing.",
    'PUT tools/bundles/0190d6c0-0000-7000-8000-000000000000 {"slug": "My Api", "displayName": "x"}': "slug: 'My Api' holds ' '. Use letters, digits and '-', as in 'My-Api'.",
    'PUT tools/bundles/0190d6c0-0000-7000-8000-000000000000 {"displayName": "x"}': "'slug' is missing.",
    'PUT tools/bundles/nosuch {"slug": "a", "displayName": "x"}': "bundleID: 'nosuch' is not a UUIDv7. Make one with box.bundles.new_id().",
    "DELETE tools/bundles/0190d6c0-0000-7000-8000-000000000000": "There is no bundle '0190d6c0-0000-7000-8000-000000000000'. See all with box.bundles.list_bundles().",
    'POST tools/import {"source": 5}': "'document' is missing; 'bundle' is missing; 'source': no such field.",
    "POST tools/test {}": "'tool' is missing.",
    'POST tools/import "hello"': "An object is needed, not 'hello'.",
    "GET tools/tools?pageToken=zzz": "pageToken: 'zzz' does not belong to this list. Ask for the first page again, without a token.",
    "GET tools/bundles/0190d6c0-0000-7000-8000-000000000000": "GET is not possible here. Possible: PUT, PATCH, DELETE.",
    "POST tools/tools {}": "POST is not possible here. Possible: GET.",
    'PUT tools/bundles/0190d6c0-0000-7000-8000-000000000000 {"slug": ': "The body is not JSON: Expecting value: line 1 column 10 (char 9).",
    'POST tools/import {"document": "hello", "bundle": {"slug": "a", "displayName": "a"}}': "'hello' is one line of text, and not the description of an API. Paste the whole document, or its address. A file is read by: %tool import FILE",
}
"""Requests: verb, path below onetool/, body."""

WIDGETS = {
    'tool {"name": "shop.prize"}': "No tool 'shop.prize'. Did you mean 'shop.price'? See all with: %tool list",
    'check {"name": "shop.price", "args": 5}': "The arguments are an object.",
    'server {"name": "nosuch", "action": "start"}': "No server 'nosuch'. Refresh the list.",
    'pasted {"text": ""}': "Nothing was pasted. Paste a curl command, an address, the description of an API, or the command line or JSON of an MCP server.",
    'pasted {"text": "hello world"}': "There is no program 'hello' on your PATH. Install it first, or correct its name.",
    'open {"handle": "zzz"}': "Handle not found: 'zzz'. ot.results() lists the handles there are.",
    'saveTool {"name": "bad name", "source": ""}': "'bad name' is not a valid pack name. Use small letters, digits and _.",
    'saveTool {"name": "geo", "source": "x ="}': "The cell is not plain Python (line 1): invalid syntax. Magics and ! cannot be in a pack file.",
    "testModel {}": "Choose the kind of the server.",
}
"""Requests of a screen: their kind, and what is sent with it."""

FACES: tuple[Mapping[str, str], ...] = (
    NOTEBOOK,
    COMMAND_LINE,
    CONFIG,
    MCP,
    REST,
    WIDGETS,
)
ONLY_WHAT_IS_WRONG = (
    "%tool sql selct 1",
    "%tool server add x --url hello",
    "version: 1\n  a: [\n",
    "- a\n",
    "timeouts: {local_s: soon}\n",
    "('ot_result', {'handle': 'zzz'})",
    "('fs_read_file', {'path': 'nosuch.txt'})",
    'POST tools/import "hello"',
    "%tool adopt math:nosuch",
    'PUT tools/bundles/0190d6c0-0000-7000-8000-000000000000 {"slug": ',
    'check {"name": "shop.price", "args": 5}',
)
"""Those whose message does not say what to do, name what is meant, or list what there is."""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project with one pack, as working directory."""
    write_project(tmp_path / "work")
    monkeypatch.chdir(tmp_path / "work")
    monkeypatch.setenv("ONETOOL_STATE", str(tmp_path / "state"))
    return tmp_path / "work"


def write_project(folder: Path, config: str = "") -> None:
    (folder / ".onetool" / "tools").mkdir(parents=True, exist_ok=True)
    (folder / ".onetool" / "tools" / "shop.py").write_text(PACK, encoding="utf-8")
    text = config if config.startswith(("version", "versoin", "-")) else f"version: 1\n{config}"
    (folder / ".onetool" / "onetool.yaml").write_text(text, encoding="utf-8")


def told(text: str, folder: Path) -> str:
    """A message without what differs from machine to machine."""
    text = text.replace(str(folder), "FOLDER").rstrip()
    return re.sub(r"FOLDER[\\\w.]*", lambda path: path[0].replace("\\", "/"), text)


def in_notebook(kernel: Kernel) -> dict[str, str]:
    write_project(kernel.cwd)
    (kernel.cwd / ".onetool" / "tools" / "torn.py").write_text("def f(:\n", encoding="utf-8")
    kernel.execute(
        "%load_ext onetool_ipy\n%tool trust\nfrom onetool_ipy import tool\ndef write(): pass"
    )
    kernel.execute("%%snippet greet name\n'{{ name }}'")
    shown = {}
    for cell in NOTEBOOK:
        outcome = kernel.execute(cell, allow_errors=True)
        shown[cell] = told(outcome.text, kernel.cwd)
    return shown


def on_the_command_line(folder: Path, capsys: pytest.CaptureFixture[str]) -> dict[str, str]:
    (folder / "a.txt").touch()
    shown = {}
    for line in COMMAND_LINE:
        assert main(line.split()) in (1, 2), line
        shown[line] = told(capsys.readouterr().err, folder)
    return shown


def in_a_config_file(folder: Path) -> dict[str, str]:
    shown = {}
    for number, text in enumerate(CONFIG):
        place = folder / str(number)
        write_project(place, text)
        try:
            with open_toolbox(place) as box:
                (problem,) = box.problems()
                shown[text] = told(f"{problem.where}: {problem.text}", place)
        except InvalidConfig as exc:
            shown[text] = told("\n".join(exc.lines()), place)
    return shown


async def over_mcp(box: Toolbox) -> dict[str, str]:
    from mcp import Client

    server = ToolboxServer(box, allow=["*"])
    shown = {}
    async with Client(server.server, read_timeout_seconds=HANG_S) as client:
        for line in MCP:
            name, arguments = ast.literal_eval(line)
            result = await client.call_tool(name, arguments)
            assert result.is_error
            text = "".join(getattr(each, "text", "") for each in result.content)
            shown[line] = told(text, box.config.paths.project)
    server.close()
    return shown


def over_rest(server: Server) -> dict[str, str]:
    write_project(server.root / "work")
    shown = {}
    for line in REST:
        verb, path, body = [*line.split(" ", 2), ""][:3]
        address = f"onetool/{path}{'&' if '?' in path else '?'}project=work"
        reply = server.client.request(verb, address, content=body or None)
        assert reply.is_client_error, line
        shown[line] = told(reply.json()["error"]["message"], server.root / "work")
    return shown


def on_a_screen(box: Toolbox) -> dict[str, str]:
    replies: queue.SimpleQueue[Json] = queue.SimpleQueue()
    screen = ScreenRequests(box, send=replies.put, namespace=dict)
    shown = {}
    for line in WIDGETS:
        kind, payload = line.split(" ", 1)
        screen.receive({"id": line, "kind": kind, "payload": json.loads(payload)})
        while (reply := replies.get(timeout=HANG_S)).get("id") != line:
            pass  # an event
        shown[line] = told(reply["error"]["message"], box.config.paths.project)
    screen.close()
    return shown


@pytest.mark.slow
def test_a_wrong_cell_says_what_is_wrong(kernel: Kernel) -> None:
    assert in_notebook(kernel) == NOTEBOOK


def test_a_wrong_command_line_says_what_is_wrong(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert on_the_command_line(folder, capsys) == COMMAND_LINE


def test_a_wrong_configuration_says_what_is_wrong(folder: Path) -> None:
    assert in_a_config_file(folder) == CONFIG


async def test_a_wrong_call_over_mcp_says_what_is_wrong(folder: Path) -> None:
    with open_toolbox(folder) as box:
        assert await over_mcp(box) == MCP


@pytest.mark.slow
def test_a_wrong_request_says_what_is_wrong(tmp_path: Path) -> None:
    server = Server(tmp_path)
    try:
        assert over_rest(server) == REST
    finally:
        server.close()


def test_a_wrong_request_of_a_screen_says_what_is_wrong(folder: Path) -> None:
    with open_toolbox(folder) as box:
        assert on_a_screen(box) == WIDGETS


def test_the_messages_are_short_and_most_say_what_to_do() -> None:
    messages = {wrong: text for face in FACES for wrong, text in face.items()}

    assert len(messages) >= 175
    assert all(len(text.splitlines()) <= 3 for text in messages.values())
    assert all(len(text.splitlines()[0]) <= 220 for text in messages.values())
    assert {*ONLY_WHAT_IS_WRONG} <= messages.keys()
    assert len(ONLY_WHAT_IS_WRONG) <= 0.1 * len(messages)
