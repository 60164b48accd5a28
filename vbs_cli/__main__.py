"""python -m vbs_cli"""

from vbs_cli.cli import main

if __name__ == "__main__":
    main()
