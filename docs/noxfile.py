"""Judge my_kernel.py: `nox -s mxspec`. Arguments after -- go to `mxspec check`."""

import os

import nox


@nox.session
def mxspec(session: nox.Session) -> None:
    """The package is not on PyPI: MXSPEC_PACKAGE is its repository, a wheel or a checkout."""
    package = os.environ.get("MXSPEC_PACKAGE")
    if not package:
        session.error("set MXSPEC_PACKAGE to the repository of mxspec, a wheel or a checkout")
    session.install(package, *os.environ.get("MXSPEC_NEEDS", "").split())  # what my_kernel.py imports, say "-e ."
    session.run("mxspec", "check", "--ci", *(session.posargs or ["my_kernel.py"]))
