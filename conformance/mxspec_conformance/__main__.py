"""`python -m mxspec_conformance`: the command `mxspec`."""

from mxspec_conformance.entry import main

if __name__ == "__main__":
    main()
