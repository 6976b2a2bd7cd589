"""Reading ``torch.export`` programs: what stands behind :mod:`chipmap.instances.importers.torch_program`."""
