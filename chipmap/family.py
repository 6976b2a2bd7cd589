"""What ties a problem's parts together: Family, Formulation, Model; and the list of the families.

Heavy parts are named by ``"module:function"`` strings and resolved when they are first used, so that
``chipmap --help`` and ``chipmap info`` import no solver.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from enum import Enum
from importlib import import_module
from pathlib import Path
from typing import Any, Literal, Protocol

from chipmap.records import InputError, Record, Unit, Units, choices
from chipmap.records.formats import FileFormat as FileFormat
from chipmap.records.formats import PlanFormat as PlanFormat

#: The families. A new one is one more name here and one module ``chipmap/families/<name>.py`` with a ``FAMILY``.
FAMILY_NAMES = ("ring", "dataflow", "wafer", "multimodel", "placement")


class Standing(Enum):
    """What a model's solutions, bounds and infeasibility are worth for the instance it was built from.

    =============  ==================================  ==========================
    standing       solutions                           bound and infeasibility
    =============  ==================================  ==========================
    exact          count                               hold
    relaxation     must pass the checker               hold
    restriction    count                               do not hold
    auxiliary      count (at the checker's objective)  do not hold
    =============  ==================================  ==========================

    It is computed (:func:`standing`), never written into a model.
    """

    EXACT = "exact"
    RELAXATION = "relaxation"
    RESTRICTION = "restriction"
    AUXILIARY = "auxiliary"

    @property
    def exact(self) -> bool:
        """Whether the model holds all solutions of the instance and no others, at its objective."""
        return self is Standing.EXACT

    @property
    def bounds(self) -> bool:
        """Whether a bound or a proof of infeasibility of the model holds for the instance."""
        return self in (Standing.EXACT, Standing.RELAXATION)

    @property
    def valid(self) -> bool:
        """Whether the model's solutions are solutions of the instance."""
        return self is not Standing.RELAXATION

    @property
    def priced(self) -> bool:
        """Whether the model's objective is that of the instance."""
        return self is not Standing.AUXILIARY


class Scope(Enum):
    """What a model is of, which its builder declares."""

    #: All solutions of the instance (those up to a cutoff), at its objective.
    WHOLE = "whole"
    #: Some of its solutions, at its objective.
    SUBSET = "subset"
    #: A part of a known solution is free: the objective is of that part, or the rest is simplified.
    WINDOW = "window"
    #: Another objective, or a changed instance.
    QUESTION = "question"


def standing(scope: Scope, lacking: Collection[str]) -> Standing:
    """The standing of a model of that scope that doesn't state the labels ``lacking``, which are in force."""
    if scope is Scope.WHOLE:
        return Standing.RELAXATION if lacking else Standing.EXACT
    return Standing.RESTRICTION if scope is Scope.SUBSET and not lacking else Standing.AUXILIARY


class Model(Protocol):
    """A built model: the native object and the way between its values and solutions.

    ``native`` is a Pyomo model or a ``CpModel``. ``encode`` gives values of the decision variables for a solution
    (keys as the solver layer wants them: Pyomo variable data, or CP-SAT variables; None when the model can't hold it);
    ``decode`` reads a solution from a function that returns a variable's value.
    """

    kind: Literal["mip", "cpsat"]
    native: Any

    @property
    def standing(self) -> Standing:
        """What the model is worth for its instance."""
        ...

    def encode(self, solution: Any) -> list[tuple[Any, float]] | None:
        """(variable, value) for every decision variable, or None."""
        ...

    def decode(self, value: Callable[[Any], float]) -> Any:
        """The solution record that the variables' values stand for."""
        ...


@dataclass(frozen=True)
class Formulation:
    """A way to state a family's problem as a model; ``build`` is ``"module:function"`` (instance, choices) -> Model."""

    name: str
    kind: Literal["mip", "cpsat"]
    build: str
    citation: str
    choices: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class AuxiliaryModel:
    """A model that a method builds for a purpose of its own; ``build`` is ``"module:function"`` (...) -> Model.

    ``scope`` is what its builder declares. ``lacks``: the labels that it leaves out on purpose.
    """

    name: str
    kind: Literal["mip", "cpsat"]
    build: str
    scope: Scope
    purpose: str
    lacks: tuple[str, ...] = ()


@dataclass(frozen=True)
class Method:
    """A named way to solve: ``function`` is ``"module:function"`` (instance, run) -> Termination.

    ``measured``: with an evaluator it looks for the mapping of least measured cost (:mod:`chipmap.evaluator`).
    ``alone``: a baseline, whose figures are to be its own: no mapping is made before it (:attr:`Family.first`).
    """

    name: str
    function: str
    summary: str
    measured: bool = False
    alone: bool = False


@dataclass(frozen=True)
class Generator:
    """A named generator of instances: ``function`` is ``"module:function"`` (**parameters) -> instance."""

    name: str
    function: str
    summary: str


def methods(
    family: str, *table: tuple[str, str, str], measured: tuple[str, ...] = (), alone: tuple[str, ...] = ()
) -> tuple[Method, ...]:
    """Methods from (name, ``module:function`` within ``chipmap.methods.<family>``, summary); the names of those that
    take an evaluator, the best first, and of baselines that start alone."""
    where = f"chipmap.methods.{family}"
    return tuple(
        Method(f"{family}/{name}", f"{where}.{spec}", text, name in measured, name in alone)
        for name, spec, text in table
    )


def generators(family: str, *table: tuple[str, str, str]) -> tuple[Generator, ...]:
    """Generators from (name, ``module:function`` within ``chipmap.instances.<family>``, summary)."""
    return tuple(Generator(name, f"chipmap.instances.{family}.{spec}", text) for name, spec, text in table)


@dataclass(frozen=True)
class Family:
    """One problem: its records, checker, models, methods, formats and the words for its page.

    Objectives are integers in ticks. ``unit`` is the natural unit shown to users, of which one tick is
    ``unit_per_tick``. ``constraints`` and ``terms``: label -> its word, and in brackets what else is worth saying:
    ``"triangle (of chips)"``. Page, checker and models use this word.

    ``formulations`` are the models that methods solve as they are, ``auxiliary_models`` those that methods build for
    purposes of their own. Between them they name every function that makes a model.

    The other strings are ``"module:name"``. Every family has these:

    ================  =================================================================================================
    ``instance``      its record of an instance; ``solution`` that of a solution
    ``check``         (instance, solution) -> Certificate; with an oracle also (instance, solution, oracle)
    ``candidates``    (instance) -> iterator over solutions, among them an optimal one if there is any; its module has
                      ``count``: (instance) -> how many there are
    ================  =================================================================================================

    The rest is optional; the empty default says that the family has none:

    ================  =================================================================================================
    ``shipped``       mapping of instance names to (generator, parameters)
    ``from_graph``    (ImportedGraph, name) -> instance
    ``from_graphs``   (list of (ImportedGraph, name)) -> instance, where one instance holds several graphs
    ``equip``         (instance, ``system``, ``costs``) -> instance: on another system, with costs of layers from files;
                      ``from_graphs`` takes these two as well (what `convert --system` and `--costs` say, as strings)
    ``equip_graph``   (instance, ImportedGraph, ``system``, ``costs``) -> instance: as ``equip``, of an instance just
                      made of that graph, where the instance doesn't keep its operations
    ``at_once``       (instance, run) -> None: bounds and proofs of infeasibility that cost next to nothing, told before
                      any method or start
    ``first``         (instance, run) -> anything: valid mappings within a fraction of a second and without compiled
                      code, told in the process that keeps the time, before any method
    ``prepare``       each (instance) -> anything: a child makes it while its parent makes the first mapping; methods
                      and the checker find it kept with the instance
    ``advice``        (instance, run) -> None: what would help, as notes at the end of a run
    ``small``         (instance) -> bool: whether compiling kernels takes longer than solving it without: they run as
                      plain Python then (:func:`chipmap.kernels.plainly`)
    ``warm``          (shipped instance, method or function) whose solves compile the functions of the family's
                      methods: done once, before the first run with a time limit (:mod:`chipmap.process.warming`)
    ``plot``          (instance, solution, path, bound=None): a bound in ticks is told with the gap; ``plot_both``
                      (instance, solution, other solution, path)
    ``describe``      (instance) -> dict of figures for ``chipmap info``
    ``read_split``    (bytes, where, instance or None) -> solution: a JSON object without ``schema``, in others' formats
    ``mapping``       (instance, solution) -> dict: where everything runs, by the names of the instance
    ``named``         (instance, dict of name -> place) -> solution, the way back, for families whose solutions are that
    ``files``         (instance, solution) -> dict of file name -> bytes, written beside ``solution.json``
    ``formats``       the files that it reads and writes beside JSON
    ``plan_formats``  the plans that `chipmap emit` writes and `chipmap adopt` reads
    ``explain``       (instance, solution or None, options, solution to compare with or None, progress) -> Explanation
    ``front``         (instance, options, number of solves, progress) -> Front: solutions that none matches in all terms
    ``transforms``    changes of an instance's graph by name: (instance, names of operations) -> record with
                      ``instance`` and ``report``
    ``merge_pins``    (instance, :class:`chipmap.instances.pinning.PinFields`) -> instance with these pins as well
    ``sweeps``        mapping of names to fields of a :class:`chipmap.bench.sweep.Sweep`
    ``measures``      (instance, solution or None) -> dict of figures for the rows of sweeps
    ``oracle``        the label of the constraint that a function of the user's own states (:mod:`chipmap.oracle`);
                      ``scopes`` says what its rejections may mean beyond ``mapping``
    ``in_force``      (instance) -> frozenset of the labels that matter to this instance, where that depends on it, as
                      on its objective; a model may leave out the others and be exact (default: all matter, always)
    ``older``         versions of the schema that instances may have as well: the record reads them as what they meant
    ``attempts``      methods that find a solution quickly where one is easy to find: they are asked, for a moment,
                      before a method's proof of infeasibility, or an optimum after a solver was asked, is said
                      (:mod:`chipmap.process.doubt`)
    ``units``         (instance) -> :class:`~chipmap.records.Units`, where the objective's unit depends on the instance,
                      or terms have units of their own (default: ``unit`` for all)
    ``called``        what people call the objective, and what operations are placed on, where it has a name of its own
    ``rounding``      (instance, objective, terms) -> ticks of the objective that are due to rounding up at most; 0
                      where these are less than a thousandth of 10⁴ or more
    ``predict``       (instance) -> what :func:`chipmap.certificate.with_prediction` takes: it by a measured profile
    ================  =================================================================================================
    """

    name: str
    title: str
    schema: str
    instance: str
    solution: str
    check: str
    candidates: str
    tick: str
    unit: str
    unit_per_tick: float
    constraints: Mapping[str, str]
    terms: Mapping[str, str]
    methods: tuple[Method, ...]
    default_method: str
    formulations: tuple[Formulation, ...]
    auxiliary_models: tuple[AuxiliaryModel, ...] = ()
    warm_starts: Mapping[str, str] = field(default_factory=dict)
    attempts: tuple[str, ...] = ()
    generators: tuple[Generator, ...] = ()
    shipped: str = ""
    from_graph: str = ""
    from_graphs: str = ""
    equip: str = ""
    equip_graph: str = ""
    at_once: str = ""
    first: str = ""
    prepare: tuple[str, ...] = ()
    advice: str = ""
    small: str = ""
    warm: tuple[tuple[str, str], ...] = ()
    plot: str = ""
    plot_both: str = ""
    describe: str = ""
    mapping: str = ""
    named: str = ""
    files: str = ""
    formats: tuple[FileFormat, ...] = ()
    plan_formats: tuple[PlanFormat, ...] = ()
    read_split: str = ""
    explain: str = ""
    front: str = ""
    transforms: Mapping[str, str] = field(default_factory=dict)
    merge_pins: str = ""
    sweeps: str = ""
    measures: str = ""
    oracle: str = ""
    scopes: Mapping[str, str] = field(default_factory=dict)
    in_force: str = ""
    units: str = ""
    rounding: str = ""
    predict: str = ""
    called: Mapping[Literal["objective", "place"], str] = field(default_factory=dict)
    older: tuple[str, ...] = ()

    @property
    def schemas(self) -> tuple[str, ...]:
        """The schemas of instances that it reads, the one that it writes first."""
        return self.schema, *self.older

    @property
    def words(self) -> dict[str, str]:
        """The word of each label: ``triangle`` for C3."""
        return {label: text.partition(" (")[0] for label, text in {**self.constraints, **self.terms}.items()}

    def label_name(self, label: str) -> str:
        """What functions of checker and models that state ``label`` are called: ``c3_triangle``."""
        return f"{label}_{self.words[label]}".lower().replace(" ", "_")

    def labels_in_force(self, instance: Any) -> frozenset[str]:
        """The labels that matter to ``instance``."""
        return frozenset(resolve(self.in_force)(instance)) if self.in_force else frozenset(self.words)

    def units_of(self, instance: Record | None) -> Units:
        """The units of objective and terms of ``instance`` (None: those that the family has by default)."""
        if self.units and instance is not None:
            found: Units = resolve(self.units)(instance)
            return found
        return Units(objective=Unit(name=self.unit, per_tick=self.unit_per_tick))

    def is_small(self, instance: Record) -> bool:
        """Whether the kernels run as plain Python for ``instance``."""
        return bool(self.small) and bool(resolve(self.small)(instance))

    def figures(self, instance: Record) -> dict[str, Any]:
        """What ``chipmap info`` says of ``instance``."""
        return dict(resolve(self.describe)(instance)) if self.describe else {}

    def draw(self, path: str | Path, instance: Record, *solutions: Record, bound: int | None = None) -> None:
        """Draw one solution, with what is known of its bound in ticks, or two side by side; :class:`InputError` where
        the family doesn't."""
        spec = self.plot if len(solutions) == 1 else self.plot_both
        if not spec and not self.plot:
            raise InputError(f"family {self.name!r} draws no pictures", str(path), "`chipmap check` prints figures.")
        if not spec:
            raise InputError(f"family {self.name!r} draws one solution at a time", "--against", "Leave it out.")
        told = {"bound": bound} if len(solutions) == 1 else {}
        resolve(spec)(instance, *solutions, path, **told)

    def method(self, name: str | None, measured: bool = False) -> Method:
        """The method of that name (``ring/auto`` or ``auto``); the family's best chain for None.

        ``measured``: one that takes an evaluator, the first of them for None. Raises :class:`InputError`.
        """
        taking = [method.name for method in self.methods if method.measured] if measured else []
        if measured and not taking:
            what = f"no method of family {self.name!r} takes an evaluator"
            raise InputError(what, "--evaluator", "Leave the evaluator out.")
        wanted = name or (taking[0] if measured else self.default_method)
        wanted = wanted if "/" in wanted else f"{self.name}/{wanted}"
        found: Method = _pick(self.methods, wanted, "--method", f"method of family {self.name!r}")
        if measured and not found.measured:
            what = f"method {wanted!r} takes no evaluator"
            raise InputError(what, "--evaluator", f"Methods that do: {', '.join(taking)}.")
        return found

    def formulation(self, name: str) -> Formulation:
        """The formulation of that name."""
        wanted = name if "/" in name else f"{self.name}/{name}"
        return _pick(self.formulations, wanted, "--formulation", f"formulation of family {self.name!r}")

    def plan_format(self, name: str) -> PlanFormat:
        """The format of plans of that name."""
        found: PlanFormat = _pick(self.plan_formats, name, "--as", f"format of plans of family {self.name!r}")
        return found


def _pick(things: tuple[Any, ...], name: str, option: str, what: str) -> Any:
    for thing in things:
        if thing.name == name:
            return thing
    raise InputError(f"no {what} is called {name!r}", option, choices(name, [thing.name for thing in things]))


def resolve(spec: str) -> Any:
    """The object that a ``"module:name"`` string names."""
    module, _, name = spec.partition(":")
    return getattr(import_module(module), name)


def get_family(name: str) -> Family:
    """The family of that name; :class:`InputError` with the list of families otherwise."""
    if name not in FAMILY_NAMES:
        raise InputError(f"no family is called {name!r}", "--family", choices(name, FAMILY_NAMES, "Families"))
    family: Family = import_module(f"chipmap.families.{name}").FAMILY
    return family


def family_of(instance: Record) -> Family:
    """The family that an instance record belongs to, by its ``schema``."""
    return get_family(str(getattr(instance, "schema", "")).partition("/")[0])
