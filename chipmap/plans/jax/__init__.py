"""Format ``jax``: a layer's mapping as a program of ``shard_map`` with its collectives written out, and layouts of
parameters as ``PartitionSpec``.

| module | what |
|---|---|
| ``layouts`` | how a tensor lies on chips, what a change of layout is, bytes over a chip's link |
| ``steps`` | what each kernel of a generated layer computes, with which operands |
| ``meaning`` | whether sizes and reads of kernels are those of what they compute |
| ``planning`` | a mapping as a list of runs and exchanges on a chip's own parts of tensors |
| ``operators`` | a kernel as a call of a function of ``script.arithmetic`` |
| ``source`` | the program's text |
| ``text`` | its names and lines, and the functions that it takes over |
| ``cutting`` | sizes at which a program is quickly run |
| ``metadata`` | the mapping inside the text, out and in |
| ``specs`` | layouts of parameters as a partial plan |
| ``format`` | what `emit` and `adopt` call |

Writing needs no JAX. The judge of exchanges (``benchmarks/exchanges``) compiles what is written here.
"""
