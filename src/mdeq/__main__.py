"""`python -m mdeq` is the `mdeq` command: for torchrun, which starts modules."""

from mdeq_command import main

main()
