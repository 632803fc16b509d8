"""How often is embedding a passage tried, and how many unused vectors are kept? The same for both engines."""

MOST_TRIES = 3  # after this many failures a passage counts as failed; `skm index` with `force` starts again
# Unused vectors to keep: this number plus this share of the passages. A text that comes back is not embedded again.
SPARE_VECTORS = 1_000
SPARE_SHARE = 0.5
