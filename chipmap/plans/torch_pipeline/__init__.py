"""Format ``torch-pipeline``: an exported program as stages of torch.distributed.pipelining."""
