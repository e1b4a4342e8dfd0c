"""Why the text of a gate or of an alert rule was refused."""

from collections.abc import Collection
from enum import Enum


class Flaw(Enum):
    NO_RULE = "no-rule"  # It has not the form NAME>LIMIT.
    UNKNOWN_NAME = "unknown-name"
    EMPTY_STREAM = "empty-stream"
    NOT_PER_STREAM = "not-per-stream"  # It names a stream for a value of the whole board.
    NO_LIMIT = "no-limit"
    NEEDS_NO_LIMIT = "needs-no-limit"  # It gives a limit for a name that is a condition by itself.
    WRONG_UNIT = "wrong-unit"
    NO_UNIT = "no-unit"
    # The rest are flaws of alert rules only.
    BUILT_IN = "built-in"  # edgetop reports it without a rule.
    OF_WHOLE_SESSION = "of-whole-session"  # The value is known only at the end of a session.
    ONCE_AND_REPEAT = "once-and-repeat"
    UNKNOWN_WORD = "unknown-word"
    GIVEN_TWICE = "given-twice"
    NO_TIME = "no-time"
    UNTIL_WITHOUT_LIMIT = "until-without-limit"
    UNTIL_UNIT = "until-unit"  # `until=` has another unit than the limit.
    UNTIL_SIDE = "until-side"  # `until=` is on the side of the limit on which the rule holds.


class RefusedRuleError(ValueError):
    """Raised for a gate or an alert rule that cannot be used. `edgetop.wording.rule_words` says what to write."""

    def __init__(self, text: str, flaw: Flaw, name: str = "", value: str = "", offered: Collection[str] = ()) -> None:
        """Store the flaw.

        `text`: the gate or the rule. `name`: the name of the value, or the word with the flaw. `value`: the limit,
        option or unit that the user wrote for it. `offered`: the names that the user may have meant.
        """
        super().__init__(text, flaw.value, name, value)
        self.text, self.flaw, self.name, self.value, self.offered = text, flaw, name, value, tuple(offered)
