"""A click command with many options. Its help begins with examples and shows the options in groups."""

from collections.abc import Iterable, Mapping, Sequence

import click

from edgetop.cli.companions import Value

RARE = "Rarely used"


class GroupedCommand(click.Command):
    """A click command whose help shows the options in groups.

    Options without a group come last, under "Rarely used".
    """

    def __init__(self, *arguments: Value, groups: Mapping[str, Sequence[str]], **attributes: Value) -> None:
        """Create the command.

        `groups` is a dict from the title of a group to the names of its options, such as `max_size`. The command's
        epilog holds its examples.
        """
        super().__init__(*arguments, **attributes)
        self.groups = groups

    def format_help(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        self.format_usage(ctx, formatter)
        self.format_epilog(ctx, formatter)
        self.format_help_text(ctx, formatter)
        self.format_options(ctx, formatter)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        params = {param.name or "": param for param in self.get_params(ctx)}
        for title, names in self.groups.items():
            self._format_group(ctx, formatter, title, [params.pop(name) for name in names if name in params])
        self._format_group(ctx, formatter, RARE, params.values())

    @staticmethod
    def _format_group(
        ctx: click.Context, formatter: click.HelpFormatter, title: str, params: Iterable[click.Parameter]
    ) -> None:
        records = [record for param in params if (record := param.get_help_record(ctx))]
        if records:
            with formatter.section(title):
                formatter.write_dl(records)
