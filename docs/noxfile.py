"""Judge my_kernel.py: `nox -s mxspec`. Arguments after -- go to `mxspec check`."""

import os

import nox


@nox.session
def mxspec(session: nox.Session) -> None:
    """The package is not on PyPI: MXSPEC_PACKAGE is its repository, a wheel or a checkout."""
    session.install(os.environ["MXSPEC_PACKAGE"])  # and what my_kernel.py needs
    session.run("mxspec", "check", "--ci", *(session.posargs or ["my_kernel.py"]))
