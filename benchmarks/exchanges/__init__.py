"""The judge of family ``dataflow``'s exchanges: a mapping as a JAX program, and the bytes that a compiler moves for it.

| module | what | needs JAX |
|---|---|---|
| ``layouts`` | how a tensor lies on chips, what a change of layout is, bytes over a chip's link | no |
| ``steps`` | what each kernel of a generated layer computes, with which operands | no |
| ``plan`` | a mapping as a list of runs and exchanges on a chip's own parts of tensors | no |
| ``written`` | that list as a function of ``shard_map``, or of arrays whose layouts the compiler is told | yes |
| ``operators`` | the arithmetic of each kernel on a chip's parts | yes |
| ``hlo`` | collectives of a compiled program, counted from its shapes | no |
| ``charged`` | what the page of the family charges, by kernel | no |
| ``cases`` | the layers and schemes that are judged | no |
| ``numbers`` | outputs and gradients against one device | yes |
"""
