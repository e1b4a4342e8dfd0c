"""`python -m edgetop`."""

from edgetop.cli.main import main

main()
