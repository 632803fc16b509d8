"""How often is a passage embedded, and how many vectors are kept that no passage uses? The same for both engines."""

__all__ = ["MOST_TRIES", "SPARE_SHARE", "SPARE_VECTORS"]

MOST_TRIES = 3  # a passage whose embedding failed so often has failed; `skm index` with `force` starts again
# Vectors beside those in use: so many, and this share of the passages. A text that comes back needs no model.
SPARE_VECTORS = 1_000
SPARE_SHARE = 0.5
