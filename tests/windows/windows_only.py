"""Print the requirements of what is installed in a folder that hold on Windows only and are not there.

Usage: windows_only.py SITE_FOLDER
"""

import sys
from importlib import metadata

from packaging.markers import default_environment
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

WINDOWS = {
    **default_environment(),
    "sys_platform": "win32",
    "platform_system": "Windows",
    "os_name": "nt",
    "platform_machine": "AMD64",
    "python_version": "3.13",
    "python_full_version": "3.13.2",
    "extra": "",
}


def main() -> None:
    found = list(metadata.distributions(path=[sys.argv[1]]))
    names = {canonicalize_name(one.metadata["Name"]) for one in found}
    wanted = set()
    for one in found:
        for text in one.requires or ():
            need = Requirement(text)
            holds = need.marker is not None and need.marker.evaluate(WINDOWS)
            if holds and canonicalize_name(need.name) not in names:
                wanted.add(f"{need.name}{need.specifier}")
    sys.stdout.writelines(f"{need}\n" for need in sorted(wanted))


main()
