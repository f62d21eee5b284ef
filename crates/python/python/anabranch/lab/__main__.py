"""`python -m anabranch.lab run`: the part of `anabranch lab run --dask ADDRESS` that talks to the cluster."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from anabranch._errors import Error
from anabranch.lab import Results, run


def _pair(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals:
        raise argparse.ArgumentTypeError(f"{text!r} is not NAME=VALUE")
    return name, value


def _arguments() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m anabranch.lab", description="Runs experiments on a Dask cluster.")
    commands = parser.add_subparsers(required=True)
    runs = commands.add_parser("run", help="run experiments and print their numbers")
    runs.add_argument("names", nargs="+", metavar="NAME", help="experiments, or TOML files with new experiments")
    runs.add_argument("--dask", metavar="ADDRESS", help="the address of the scheduler; default: this machine's processors")
    runs.add_argument("--timeout", type=float, default=10, metavar="SECONDS", help="how long the scheduler may take to answer")
    runs.add_argument("--quick", action="store_true", help="run fewer cells, with shorter runs and fewer seeds")
    runs.add_argument("--short", action="store_true", help="run all cells, with shorter runs and fewer seeds")
    runs.add_argument("--seeds", type=int, metavar="NUMBER", help="number of seeds for each cell")
    runs.add_argument("--jobs", type=int, metavar="NUMBER", help="number of concurrent runs without --dask")
    runs.add_argument("--results", metavar="DIRECTORY", help="keep the numbers of every run in this directory")
    runs.add_argument("--csv", metavar="FILE", help="write a CSV file with one row per run")
    runs.add_argument("--only", type=_pair, action="append", default=[], metavar="AXIS=VALUE", help="only these cells")
    runs.add_argument("--set", type=_pair, action="append", default=[], metavar="NAME=VALUE", help="change a setting")
    return parser


def _show(results: Results) -> None:
    print(f"{results.experiment}: {len(results)} runs")
    for line in results.summary():
        print(f"  {line}")


def main() -> int:
    """Runs the command."""
    arguments = _arguments().parse_args()
    only: dict[str, list[float | str]] = {}
    for axis, place in arguments.only:
        only.setdefault(axis, []).append(place)
    client = None
    if arguments.dask is not None:
        try:
            from distributed import Client
        except ImportError:
            print("anabranch.lab: --dask needs Dask: pip install 'anabranch[dask]'", file=sys.stderr)
            return 1
        try:
            client = Client(arguments.dask, timeout=f"{arguments.timeout}s")
        except (OSError, ValueError) as error:
            print(f"anabranch.lab: --dask {arguments.dask}: no scheduler answers: {error}", file=sys.stderr)
            return 1
    if arguments.csv is not None and len(arguments.names) > 1:
        print("anabranch.lab: --csv takes one experiment: experiments differ in their columns", file=sys.stderr)
        return 1
    try:
        for name in arguments.names:
            results = run(
                name,
                quick=arguments.quick,
                short=arguments.short,
                seeds=arguments.seeds,
                settings=dict(arguments.set),
                only=only,
                client=client,
                jobs=arguments.jobs,
                results=arguments.results,
            )
            _show(results)
            if arguments.csv is not None:
                Path(arguments.csv).write_text(results.to_csv(), encoding="utf-8")
    except Error as error:
        print(f"anabranch.lab: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("anabranch.lab: interrupted", file=sys.stderr)
        return 130
    finally:
        if client is not None:
            client.close()
    return 0


sys.exit(main())
