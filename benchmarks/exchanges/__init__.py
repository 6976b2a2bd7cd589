"""The judge of family ``dataflow``'s exchanges: a mapping as a JAX program, and the bytes that a compiler moves for it.

| module | what | needs JAX |
|---|---|---|
| ``written`` | the program of ``chipmap.plans.jax``, or one of arrays whose layouts the compiler is told | yes |
| ``hlo`` | collectives of a compiled program, counted from its shapes | no |
| ``charged`` | what the page of the family charges, by kernel | no |
| ``cases`` | the layers and schemes that are judged | no |
| ``numbers`` | outputs and gradients against one device | yes |
"""
