"""Make numpy load under Wine 8, whose ucrtbase.dll has the C99 complex functions only as stubs.

Usage: crtmath.py C_SOURCE WINE_UCRTBASE PYTHON_FOLDER SITE_FOLDER

It builds PYTHON_FOLDER/otcrt-math.dll: the complex functions of the C source, and a forward to ucrtbase for every other
name. Then each binary in SITE_FOLDER that takes a complex function from the CRT's math set imports that DLL instead.
"""

import pathlib
import subprocess
import sys

import pefile

IMPORTS, EXPORTS = (
    [pefile.DIRECTORY_ENTRY[f"IMAGE_DIRECTORY_ENTRY_{name}"]] for name in ("IMPORT", "EXPORT")
)
SET = b"api-ms-win-crt-math-l1-1-0.dll"
OURS = b"otcrt-math.dll"
KINDS = "cacos cacosh casin casinh catan catanh ccos ccosh cexp clog conj cproj csin csinh csqrt ctan ctanh cpow cabs carg cimag creal"
COMPLEX = {name + end for name in KINDS.split() for end in ("", "f", "l")}


def main() -> None:
    source, ucrt, python, site = map(pathlib.Path, sys.argv[1:])
    # To parse all of it takes gigabytes and minutes for the larger ones.
    pe = pefile.PE(str(ucrt), fast_load=True)
    pe.parse_data_directories(EXPORTS)
    names = {symbol.name.decode() for symbol in pe.DIRECTORY_ENTRY_EXPORT.symbols if symbol.name}
    # A C++ name holds '@' or '?', which a .def reads otherwise; the math set has none.
    plain = sorted(name for name in names - COMPLEX if "@" not in name and "?" not in name)
    lines = ["LIBRARY otcrt-math.dll", "EXPORTS"]
    lines += [f"  {name} = my_{name}" for name in sorted(COMPLEX)]
    lines += [f"  {name} = ucrtbase.{name}" for name in plain]
    definition = python / "otcrt-math.def"
    definition.write_text("\n".join(lines) + "\n")
    subprocess.run(
        [
            "x86_64-w64-mingw32-gcc",
            "-O2",
            "-fno-builtin",
            "-shared",
            "-o",
            str(python / OURS.decode()),
            str(source),
            str(definition),
            "-static-libgcc",
        ],
        check=True,
    )
    for path in sorted(site.rglob("*")):
        if path.suffix.lower() in (".pyd", ".dll") and SET in (data := path.read_bytes()):
            if not any(b"\0%b\0" % name.encode() in data for name in COMPLEX):
                continue
            pe = pefile.PE(data=data, fast_load=True)
            pe.parse_data_directories(IMPORTS)
            for entry in pe.DIRECTORY_ENTRY_IMPORT:
                used = {symbol.name.decode() for symbol in entry.imports if symbol.name}
                if entry.dll.lower() == SET and used & COMPLEX:
                    pe.set_bytes_at_rva(entry.struct.Name, OURS.ljust(len(SET), b"\0"))
                    pe.write(str(path))


main()
