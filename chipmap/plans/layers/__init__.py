"""Plans of layers as runtimes take them: strings of Megatron-LM and vLLM, lists of module names as torchtitan's."""
