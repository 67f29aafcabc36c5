"""`python -m earmark` is the `earmark` command."""

from earmark.cli import main

if __name__ == "__main__":
    main()
