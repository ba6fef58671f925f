"""`python -m mxspec_conformance`: the command `mxspec`."""

from mxspec_conformance.cli.main import main

if __name__ == "__main__":
    main()
