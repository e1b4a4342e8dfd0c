"""The names of alerts that the program looks for."""

RULE, INTERNAL_ERROR = "alert", "internal-error"
ENDED = "ended"
ANY = "any"
NEAR_TRIP = "near-trip"
