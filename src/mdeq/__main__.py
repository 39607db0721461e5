"""`python -m mdeq` is the `mdeq` command: for torchrun, which starts modules."""

from mdeq_command import main

if __name__ == "__main__":
    main()
