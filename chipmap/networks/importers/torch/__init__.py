"""Reading ``torch.export`` programs: what stands behind :mod:`chipmap.networks.importers.torch_program`."""
