"""Reasons why the text of a gate (`--fail-if`) or of an alert rule (`--alert`) is refused."""

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
    """Raised if a gate (`--fail-if`) or an alert rule (`--alert`) cannot be used.

    `edgetop.wording.rule_words` makes the message for the user.
    """

    def __init__(self, text: str, flaw: Flaw, name: str = "", value: str = "", offered: Collection[str] = ()) -> None:
        """Store what is wrong with the text.

        `text`: the whole gate or rule, such as "p99>5". `flaw`: the kind of mistake. `name`: the name or the word that
        is wrong. `value`: the limit, option or unit that the user wrote for this name. `offered`: names that the user
        may have meant.
        """
        super().__init__(text, flaw.value, name, value)
        self.text, self.flaw, self.name, self.value, self.offered = text, flaw, name, value, tuple(offered)
