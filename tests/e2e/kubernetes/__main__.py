"""`make e2e-kubernetes`: the chart and the image on the cluster that kubectl reaches.

    python -m tests.e2e.kubernetes --image oncelog:0.1.0 [--etcd-image NAME:TAG] [--values FILE] [--keep]

The images must be where the cluster finds them: pushed to a registry, or loaded (`kind load docker-image`).
Exit code 0: all is as promised; 1: not; 2: something that is needed is not there, and the message names it.
"""

from __future__ import annotations

import argparse
import sys
import tomllib
from pathlib import Path

from tests.e2e.kubernetes.cluster import CHART, ROOT, CommandFailed, Missing
from tests.e2e.kubernetes.report import Wrong
from tests.e2e.kubernetes.suite import Settings, Suite


def main() -> int:
    """See the module."""
    settings, out = _parse()
    suite = Suite(settings)
    try:
        suite.run()
    except Missing as error:
        print(f"make e2e-kubernetes needs, and does not find: {error}", file=sys.stderr)
        return 2
    except (Wrong, CommandFailed) as error:
        print(f"failed: {error}\nlogs of all pods are in {settings.logs}", file=sys.stderr)
    print(suite.report.table())
    suite.report.write(out, image=settings.image)
    print(f"written to {out}")
    return 1 if suite.report.failed else 0


def _parse() -> tuple[Settings, Path]:
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    parser = argparse.ArgumentParser(prog="make e2e-kubernetes")
    parser.add_argument("--image", default=f"oncelog:{version}", help="the image under test (default %(default)s)")
    parser.add_argument("--chart", type=Path, default=CHART, help="a folder or a package (default helm/oncelog)")
    parser.add_argument("--etcd-image", default="", help="where the chart's own cannot be pulled")
    parser.add_argument("--pull-policy", default="IfNotPresent", choices=("IfNotPresent", "Never", "Always"))
    parser.add_argument("--values", action="append", default=[], metavar="FILE", help="more values for the chart")
    parser.add_argument("--namespace", default="oncelog-e2e", help="is deleted first (default %(default)s)")
    parser.add_argument("--producers", type=int, default=8, help="transactional producers (default %(default)s)")
    parser.add_argument(
        "--secure",
        action="store_true",
        help="TLS, access rules, service accounts as clients; without Spark from outside",
    )
    parser.add_argument("--no-spark", action="store_true", help="leave out the Spark job from outside")
    parser.add_argument(
        "--node-address", default="", help="host at which node ports answer (default: the first node's)"
    )
    parser.add_argument("--keep", action="store_true", help="leave the namespace as it is at the end")
    parser.add_argument("--out", type=Path, default=Path("tests/out/e2e-kubernetes.json"), help="the result as JSON")
    args = parser.parse_args()
    settings = Settings(
        image=args.image,
        chart=args.chart,
        pull_policy=args.pull_policy,
        etcd_image=args.etcd_image,
        values=tuple(args.values),
        namespace=args.namespace,
        producers=args.producers,
        keep=args.keep,
        spark=not args.no_spark,
        secure=args.secure,
        node_address=args.node_address,
        logs=args.out.with_suffix(""),
    )
    return settings, args.out


if __name__ == "__main__":
    sys.exit(main())
