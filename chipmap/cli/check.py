"""``chipmap check``: the independent checker's certificate of anybody's solution."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from chipmap.certificate import Certificate
from chipmap.cli.common import add_format, add_instance, add_oracle, columns, put, read_instance, titled
from chipmap.records import Record, counted
from chipmap.result import Result

#: Violations printed in a table; JSON holds all.
SHOWN = 20


EXAMPLES = (
    "chipmap check ring/bert-large-36 runs/bert",
    "chipmap check wafer/ispd2020-Q layout.paint --format json",
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Check SOLUTION of INSTANCE by the family's independent checker. Exits with 4 if it is refused, or if a result or
    an archive says something else of it."""
    add_instance(parser)
    parser.add_argument("solution", metavar="SOLUTION", help="a solution or result file, an archive, or -")
    add_oracle(parser)
    add_format(parser)


def run(args: argparse.Namespace) -> int:
    """Print the certificate; 0 if the solution is valid, 4 if not."""
    from chipmap.family import family_of
    from chipmap.inputs.solutions import read_solution
    from chipmap.solve import check, disagreements

    instance = read_instance(args.instance, args.set, args.family)
    family = family_of(instance)
    told = _result(args.solution)
    solution = read_solution(args.solution, family, instance, of_this=told is None and not args.set)
    certificate = check(instance, solution, args.oracle)
    claimed = None if told is None else Result.read(told)
    wrong = disagreements(claimed, instance, certificate) if claimed is not None and not args.set else []
    shown = natural_certificate(certificate, instance) | ({"claims": wrong} if wrong else {})
    put(args.format, shown, lambda _: certificate_text(shown, titled(shown["instance"], args.set)))
    return 0 if certificate.feasible and not wrong else 4


def _result(source: str) -> Path | None:
    """The file of the result in an archive, or of a result, whose claims are compared; None for any other source."""
    path = Path(source) / "result.json" if Path(source).is_dir() else Path(source)
    return path if path.is_file() and b'"result/' in path.read_bytes()[:100] else None


def natural_certificate(certificate: Certificate, instance: Record) -> dict[str, Any]:
    """The certificate with objective and terms in the instance's units."""
    import msgspec

    from chipmap.family import family_of
    from chipmap.report.rows import in_units, predicted_row, term_units

    family = family_of(instance)
    units = family.units_of(instance)
    shown = {
        "instance": str(getattr(instance, "name", "")),
        "family": family.name,
        "feasible": certificate.feasible,
        "objective": certificate.objective,
        "unit": units.objective.name,
        "terms": certificate.terms,
        "term_units": term_units(certificate.terms, units),
        "grade": certificate.grade,
        "figures": certificate.figures,
        "headline": certificate.headline,
        "oracle": certificate.oracle,
        "prediction": predicted_row(certificate, units),
        "violations": msgspec.to_builtins(certificate.violations),
        "instance_hash": certificate.instance_hash,
        "solution_hash": certificate.solution_hash,
    }
    return in_units(shown, units)


def certificate_text(shown: dict[str, Any], title: str) -> str:
    """A certificate for people: verdict, objective and terms, violations."""
    from chipmap.records.quantities import number, told

    violations = shown["violations"]
    verdict = "valid" if shown["feasible"] else f"refused: {counted(len(violations), 'violation')}"
    if claims := shown.get("claims"):
        own = "the mapping alone is valid here" if shown["feasible"] else verdict.removeprefix("refused: ")
        verdict = (
            f"refused: {counted(len(claims), 'claim')} of the result {'is' if len(claims) == 1 else 'are'} wrong; {own}"
        )
    text = f"{title}: {verdict}{'; ' if shown['headline'] else ''}{shown['headline']}\n"
    text += "".join(f"  but {claim}\n" for claim in shown.get("claims", ()))
    if shown["objective"] is not None:
        facts = [("objective", told(shown["objective"], shown["unit"]))]
        facts += [(name, told(value, shown["term_units"][name])) for name, value in shown["terms"].items()]
        facts += [(name, number(value)) for name, value in shown["figures"].items()]
        facts += [(name, shown[key]) for name, key in (("memory grade", "grade"), ("oracle", "oracle")) if shown[key]]
        text += columns(facts)
    text += f"  {shown['prediction']['text']}\n" if shown["prediction"] else ""
    text += columns((item["label"], item["where"], item["message"]) for item in violations[:SHOWN])
    if len(violations) > SHOWN:
        text += f"  and {len(violations) - SHOWN} more (--format json prints all)\n"
    return text
