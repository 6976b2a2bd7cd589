"""Why a mapping's time is what it is, and what each resource would gain: ``explain`` for family ``dataflow``."""
