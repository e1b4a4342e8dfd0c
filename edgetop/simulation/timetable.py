"""When a scenario's trouble is on: calm, trouble, rest, trouble, rest and so on."""

from dataclasses import dataclass

from edgetop.simulation.scenarios import Scenario


@dataclass(frozen=True, slots=True)
class Timetable:
    scenario: Scenario
    is_troubled: bool = False
    felt_s: float = 0.0  # how long what holds now has lasted; of trouble, since it was first felt
    has_been: bool = False  # there was trouble before
    was_felt: bool = False

    def after(self, seconds: float, *, is_felt: bool) -> "Timetable":
        """`is_felt`: the trouble, where it is on, has begun to slow the board."""
        scenario = self.scenario
        if scenario.trouble_s == 0:
            return self
        was_felt = self.was_felt or is_felt
        felt_s = self.felt_s + (seconds if was_felt or not self.is_troubled else 0.0)
        quiet_s = scenario.rest_s if self.has_been else scenario.calm_s
        if felt_s >= (scenario.trouble_s if self.is_troubled else quiet_s):
            return Timetable(scenario, not self.is_troubled, has_been=self.has_been or self.is_troubled)
        return Timetable(scenario, self.is_troubled, felt_s, self.has_been, was_felt and self.is_troubled)
