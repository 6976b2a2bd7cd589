"""Put on a child's path by those who ask for it: its solvers lie as the environment's ``CHIPMAP_LIE`` says."""

import os

if os.environ.get("CHIPMAP_LIE"):
    from tests.lying import lies, lying

    #: Kept, as a context that nobody holds is left at once.
    LYING = lying(next(lie for lie in lies() if lie.name == os.environ["CHIPMAP_LIE"]))
    LYING.__enter__()
