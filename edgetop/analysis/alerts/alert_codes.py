"""Names of alerts, as constants."""

RULE, INTERNAL_ERROR = "alert", "internal-error"
ENDED = "ended"
ANY = "any"
NEAR_TRIP = "near-trip"
