"""The ring policy: what it proposes, how it learns, is kept and is judged."""
