"""Put on a child's path by the tests: the ring family gets the misbehaving methods of ``misbehaving``."""

import misbehaving

misbehaving.install()
