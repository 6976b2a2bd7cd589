"""``chipmap completion``: a shell script that completes commands, options, their choices and names."""

from __future__ import annotations

import argparse
import shlex
import sys

from chipmap.cli.parsing import Parser

EXAMPLES = (
    "chipmap completion bash > ~/.local/share/bash-completion/completions/chipmap",
    "chipmap completion zsh > ~/.chipmap.zsh",
)
#: Options and arguments, by their metavar -> the kind of names that complete them (beside files).
_NAMES = {"INSTANCE": "instances", "FAMILY|INSTANCE": "things", "SOURCE": "instances", "SWEEP": "sweeps"}
_OPTIONS = {
    "--family": "families",
    "--method": "methods",
    "--solver": "solvers",
    "--formulation": "formulations",
    "--warm-start": "starts",
    "--schema": "families",
    "--as": "plans",
}
_SCRIPT = """\
# Completion of chipmap for {shell}, written by `chipmap completion {shell}`.
{head}_chipmap() {{
    local current="${{COMP_WORDS[COMP_CWORD]}}" previous="${{COMP_WORDS[COMP_CWORD-1]}}" words="" files=1
    local command="${{COMP_WORDS[1]}}"
    if [ "$COMP_CWORD" -eq 1 ]; then
        words={commands}
        files=0
    else
        case "$command $previous" in
{values}
        *)
            case "$command" in
{arguments}
            esac ;;
        esac
    fi
    COMPREPLY=( $(compgen -W "$words" -- "$current") )
    if [ "$files" -eq 1 ]; then
        COMPREPLY+=( $(compgen -f -- "$current") )
    fi
}}
complete -o filenames -F _chipmap chipmap
"""
_ZSH = "autoload -U +X compinit && compinit\nautoload -U +X bashcompinit && bashcompinit\n"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Print a script that completes commands, options, their choices, and the names of instances, methods and sweeps.
    bash reads it from the folder in the first example; for zsh, add `source ~/.chipmap.zsh` to ~/.zshrc."""
    parser.add_argument("shell", metavar="SHELL", choices=("bash", "zsh"), help="bash or zsh")


def run(args: argparse.Namespace) -> int:
    """Print the script."""
    from chipmap.cli import parser

    sys.stdout.write(script(parser(), args.shell))
    return 0


def script(top: Parser, shell: str) -> str:
    """The script for ``shell``, from the parser of all commands."""
    known = names()
    values, arguments = [], []
    for name, command in top.commands().items():
        taken: dict[str, list[str]] = {}
        for option, action in command.options().items():
            given = [str(one) for one in (action.choices or ()) or known.get(_OPTIONS.get(option, ""), [])]
            if given and action.nargs != 0:
                taken[option] = given
        for option, given in taken.items():
            also = int(option == "--warm-start")
            values.append(f'        "{name} {option}") words={_quoted(given)}; files={also} ;;')
        first = command.positionals()
        own = [one for action in first for one in known.get(_NAMES.get(str(action.metavar), ""), ())]
        own += [str(choice) for action in first for choice in action.choices or ()]
        if name == "generate":
            own += [*known["generators"], *known["instances"]]
        arguments.append(f"            {name}) words={_quoted([*command.options(), *own])} ;;")
    head = _ZSH if shell == "zsh" else ""
    return _SCRIPT.format(
        shell=shell,
        head=head,
        commands=_quoted([*top.commands(), *top.options()]),
        values="\n".join(values),
        arguments="\n".join(arguments),
    )


def names() -> dict[str, list[str]]:
    """The names that there are, by kind."""
    from chipmap.bench.sweep import shipped_sweeps
    from chipmap.family import FAMILY_NAMES, get_family
    from chipmap.inputs.reading import generators, shipped_names
    from chipmap.solvers.availability import PACKAGES

    families = [get_family(name) for name in FAMILY_NAMES]
    instances = shipped_names()
    return {
        "families": list(FAMILY_NAMES),
        "instances": instances,
        "things": [*FAMILY_NAMES, *instances],
        "generators": list(generators()),
        "sweeps": list(shipped_sweeps()),
        "methods": [method.name for family in families for method in family.methods],
        "formulations": [one.name for family in families for one in family.formulations],
        "starts": ["none", *dict.fromkeys(start for family in families for start in family.warm_starts)],
        "solvers": list(PACKAGES),
        "plans": list(dict.fromkeys(form.name for family in families for form in family.plan_formats)),
    }


def _quoted(words: list[str]) -> str:
    return shlex.quote(" ".join(dict.fromkeys(words)))
