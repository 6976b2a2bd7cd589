"""Family ``dataflow`` once more, written from its pages alone: what a mapping breaks and costs, and all mappings.

Nothing here imports the checker, a cost function, a model or a method, only the records of instances and solutions
(``tests/dataflow/test_page.py`` reads every import). So an error that the checker shares with the program that it
judges shows as a difference. It is slow and plain: exact fractions, loops, no shortcut that a page doesn't state.
"""
