"""The `multilane` command: argument parsing only. Imports the code of a command when it runs."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from gateway.process.start_refused import StartRefused

if TYPE_CHECKING:
    from collections.abc import Callable

    from click.shell_completion import CompletionItem

    from gateway.config.settings import Settings

#: The environment variable with which a shell requests completions.
COMPLETE: Final = "_MULTILANE_COMPLETE"
#: Command -> (its location, its line in --help).
COMMANDS: Final = {
    "serve": ("gateway.cli:serve", "Run the gateway."),
    "demo": ("gateway.cli:demo", "Run the gateway on a real small language model."),
    "check": (
        "gateway.tools.check.command:check",
        "Try what a backend supports, before serving it.",
    ),
    "rehearse": ("gateway.cli:rehearse", "Run the rehearsal backend, for trying and testing."),
    "load": (
        "gateway.tools.load.command:load",
        "Measure a gateway under load, and check what it sends.",
    ),
    "key": ("gateway.tools.key:key", "Make, list and revoke the keys that clients show."),
    "completion": ("gateway.cli:completion", "Print a shell's completion script."),
}
#: The paragraph about settings in the --help of a command that takes them.
SOURCES: Final = """
An option is also a variable (--max-active: MULTILANE_MAX_ACTIVE) and a key in ./multilane.toml
(max_active). The option overrides the variable, and the variable the file. Keys are best kept
in MULTILANE_API_KEYS, MULTILANE_UPSTREAM_KEY and MULTILANE_COMPACTION_KEYS, or in the files that
these with _FILE appended name. Several backends are tables [[upstreams]] in that file.
"""
#: The --help of `multilane completion`; click keeps the lines after \\b as they are.
COMPLETION_HELP: Final = """\
Print SHELL's completion script, to be sourced or stored.

\b
bash  eval "$(multilane completion bash)"
zsh   eval "$(multilane completion zsh)"
fish  multilane completion fish | source
"""


class LazyGroup(click.Group):
    """A group of commands that imports only the command that runs."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        """Return the names of the commands in the order of --help."""
        return list(COMMANDS)

    def get_command(
        self,
        ctx: click.Context,  # noqa: ARG002
        cmd_name: str,
    ) -> click.Command | None:
        """Import and return one command, or None if there is none of that name."""
        if cmd_name not in COMMANDS:
            return None
        module, _, attribute = COMMANDS[cmd_name][0].partition(":")
        command = getattr(importlib.import_module(module), attribute)
        if isinstance(command, click.Command):
            return command
        built: click.Command = command()
        return built

    def format_commands(
        self,
        ctx: click.Context,  # noqa: ARG002
        formatter: click.HelpFormatter,
    ) -> None:
        """Write the list in --help without importing any command."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (_, text) in COMMANDS.items()])

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem[str]]:
        """Complete a command's name without importing any command."""
        from click.shell_completion import CompletionItem

        names = [CompletionItem(name, help=text) for name, (_, text) in COMMANDS.items()]
        matching = [name for name in names if name.value.startswith(incomplete)]
        return matching + click.Command.shell_complete(self, ctx, incomplete)


@click.command(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="multilane", message="multilane %(version)s")
def cli() -> None:
    """Lanes on one WebSocket, in front of any Responses-API backend."""


def main() -> None:
    """Run the command line."""
    cli(prog_name="multilane", complete_var=COMPLETE)


def serve() -> click.Command:
    """Return `multilane serve`, with an option for each setting."""

    def run(settings: Settings) -> None:
        from gateway.process.server import serve

        serve(settings)

    return _with_settings("serve", run, without=())


def demo() -> click.Command:
    """Return `multilane demo`: like `serve`, but with a backend of its own."""

    def run(settings: Settings) -> None:
        from gateway.process.demo import run

        run(settings)

    return _with_settings("demo", run, without=("upstream", "dialect", "model"))


def _start(run: Callable[[], None]) -> None:
    """Run a server, and report a failed start in one line."""
    from gateway.keys.keys_file import BadKeysFile
    from gateway.process.children import ChildFailed
    from gateway.process.embedded_valkey import EngineFailed
    from gateway.process.listening import BindFailed

    try:
        run()
    except BadKeysFile as failed:
        raise StartRefused(f"--keys-file: {failed}") from None
    except BindFailed as failed:
        raise StartRefused(str(failed)) from None
    except (ChildFailed, EngineFailed) as failed:
        raise click.ClickException(str(failed)) from None


def _check(settings: Settings) -> None:
    """Refuse files and packages that cannot be used before anything is started."""
    if settings.keys_file is not None:
        _check_keys(settings.keys_file)
    if settings.tls_cert is not None:
        _check_certificate(settings.tls_cert, settings.tls_key)
    if settings.tracing:
        _check_tracing()


def _check_keys(path: str) -> None:
    from gateway.keys import watch
    from gateway.keys.keys_file import BadKeysFile

    try:
        watch.read(path)
    except BadKeysFile as bad:
        raise StartRefused(f"--keys-file: {bad}") from None


def _check_certificate(cert: str, key: str | None) -> None:
    from gateway.client.certificate import BadCertificate, Certificate

    try:
        Certificate(cert, key)
    except BadCertificate as bad:
        raise StartRefused(str(bad)) from None


def _check_tracing() -> None:
    try:
        from gateway.telemetry.tracing import TracingRefused, exporters
    except ImportError:
        missing = "OpenTelemetry is not installed: pip install 'multilane[otel]'"
        raise StartRefused(f"--tracing: {missing}") from None
    try:
        exporters()
    except TracingRefused as refused:
        raise StartRefused(str(refused)) from None


def _warn_of_shown_keys(settings: Settings) -> None:
    import logging

    from gateway import logs
    from gateway.config.settings import variable

    logs.configure(settings.log_level, settings.log_format)
    logging.getLogger(logs.NAME).warning(
        "--api-key: every user of this machine can read a command line; better are --keys-file, "
        "%s and %s_FILE",
        *[variable("api_keys")] * 2,
    )


def _with_settings(
    name: str, run: Callable[[Settings], None], without: tuple[str, ...]
) -> click.Command:
    from gateway.config.settings import Settings, flag

    def start(config: Path | None, **flags: Any) -> None:
        from gateway.config.loading import BadStart, load

        # A flag that was not given is None, or empty if it is repeatable.
        given = {name: value for name, value in flags.items() if value not in (None, ())}
        try:
            settings = load(given, config)
        except BadStart as refused:
            raise StartRefused(str(refused)) from None
        _check(settings)
        if "api_keys" in given:
            _warn_of_shown_keys(settings)
        _start(lambda: run(settings))

    params: list[click.Parameter] = [
        click.Option(
            ["--config"],
            type=click.Path(path_type=Path),
            metavar="FILE",
            help="Read settings from this file instead of ./multilane.toml.",
        )
    ]
    for field in Settings.model_fields:
        option = flag(field)
        if option is not None and field not in without:
            params.append(_option(field, option))
    return click.Command(
        name, callback=start, params=params, help=f"{COMMANDS[name][1]}\n{SOURCES}"
    )


def _option(name: str, option: str) -> click.Option:
    from gateway.config.setting_words import choices, metavar, shown
    from gateway.config.settings import Settings

    field = Settings.model_fields[name]
    # Values stay text: `load` validates them all alike, whatever their source.
    text = f"{field.description} [{shown(name, field.default)}]"
    if isinstance(field.default, bool):
        pair = f"{option}/--no-{option[2:]}"
        return click.Option([name, pair], is_flag=True, default=None, help=text)
    return click.Option(
        [name, option],
        multiple=isinstance(field.default, tuple),
        metavar=metavar(name),
        help=text,
        shell_complete=lambda _ctx, _param, typed: [
            one for one in choices(name) if one.startswith(typed.lower())
        ],
    )


@click.command(help="Run the rehearsal backend: scripted answers, for trying and testing.")
@click.option(
    "--host", metavar="HOST", default="127.0.0.1", show_default=True, help="Address to listen on."
)
@click.option(
    "--port",
    metavar="N",
    default=8081,
    show_default=True,
    type=click.IntRange(0, 65535),
    help="Port to listen on; 0 takes a free one.",
)
@click.option(
    "--rate",
    metavar="N",
    default=30.0,
    show_default=True,
    type=click.FloatRange(min=0),
    help="Words per second; 0 is as fast as possible.",
)
def rehearse(host: str, port: int, rate: float) -> None:
    """Run the rehearsal backend.

    Args:
        host: Address to listen on.
        port: Port to listen on; 0 takes a free one.
        rate: Words per second; 0 is as fast as possible.
    """
    from gateway.tools.rehearse.server import serve

    _start(lambda: serve(host, port, rate))


@click.command(help=COMPLETION_HELP)
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(shell: str) -> None:
    """Print the completion script of a shell."""
    from click.shell_completion import get_completion_class

    completer = get_completion_class(shell)
    assert completer is not None, "click supports all three"
    click.echo(completer(cli, {}, "multilane", COMPLETE).source())
