
using namespace System.Management.Automation
using namespace System.Management.Automation.Language

Register-ArgumentCompleter -Native -CommandName 'shedlock' -ScriptBlock {
    param($wordToComplete, $commandAst, $cursorPosition)

    $commandElements = $commandAst.CommandElements
    $command = @(
        'shedlock'
        for ($i = 1; $i -lt $commandElements.Count; $i++) {
            $element = $commandElements[$i]
            if ($element -isnot [StringConstantExpressionAst] -or
                $element.StringConstantType -ne [StringConstantType]::BareWord -or
                $element.Value.StartsWith('-') -or
                $element.Value -eq $wordToComplete) {
                break
        }
        $element.Value
    }) -join ';'

    $completions = @(switch ($command) {
        'shedlock' {
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help')
            [CompletionResult]::new('-V', '-V ', [CompletionResultType]::ParameterName, 'Print version')
            [CompletionResult]::new('--version', '--version', [CompletionResultType]::ParameterName, 'Print version')
            [CompletionResult]::new('completions', 'completions', [CompletionResultType]::ParameterValue, 'Print the completions for a shell')
            [CompletionResult]::new('man', 'man', [CompletionResultType]::ParameterValue, 'Show a manual page on a terminal, or print it for man(1)')
            [CompletionResult]::new('run', 'run', [CompletionResultType]::ParameterValue, 'Run a command under a lock')
            [CompletionResult]::new('status', 'status', [CompletionResultType]::ParameterValue, 'Show who holds which lock, and how the last runs ended')
            [CompletionResult]::new('history', 'history', [CompletionResultType]::ParameterValue, 'Show past runs, as a table or a picture')
            [CompletionResult]::new('unlock', 'unlock', [CompletionResultType]::ParameterValue, 'Free a held lock')
            [CompletionResult]::new('pause', 'pause', [CompletionResultType]::ParameterValue, 'Keep every host from running a job until it is resumed')
            [CompletionResult]::new('resume', 'resume', [CompletionResultType]::ParameterValue, 'End a pause')
            [CompletionResult]::new('forget', 'forget', [CompletionResultType]::ParameterValue, 'Remove locks that are no longer used, with their history')
            [CompletionResult]::new('acquire', 'acquire', [CompletionResultType]::ParameterValue, 'Take a lock for a script, and print the handle to release it')
            [CompletionResult]::new('release', 'release', [CompletionResultType]::ParameterValue, 'Release a lock that `acquire` took')
            [CompletionResult]::new('extend', 'extend', [CompletionResultType]::ParameterValue, 'Give a lock and its job more time')
            [CompletionResult]::new('verify', 'verify', [CompletionResultType]::ParameterValue, 'Check before a dangerous step that the lock is still held')
            [CompletionResult]::new('check', 'check', [CompletionResultType]::ParameterValue, 'Test whether this host can lock, and show what is in the way')
            [CompletionResult]::new('prove', 'prove', [CompletionResultType]::ParameterValue, 'Try whether this backend keeps the rules of a lock')
            [CompletionResult]::new('init', 'init', [CompletionResultType]::ParameterValue, 'Create the tables or the file that the backend needs')
            [CompletionResult]::new('schema', 'schema', [CompletionResultType]::ParameterValue, 'Print the statements that create what a backend needs')
            [CompletionResult]::new('help', 'help', [CompletionResultType]::ParameterValue, 'Print this message or the help of the given subcommand(s)')
            break
        }
        'shedlock;completions' {
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help')
            break
        }
        'shedlock;man' {
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help')
            break
        }
        'shedlock;run' {
            [CompletionResult]::new('--name', '--name', [CompletionResultType]::ParameterName, 'Name of the lock (required)')
            [CompletionResult]::new('--backend', '--backend', [CompletionResultType]::ParameterName, 'Database or file with the locks')
            [CompletionResult]::new('--backend-file', '--backend-file', [CompletionResultType]::ParameterName, 'Read that URL from FILE')
            [CompletionResult]::new('-E', '-E ', [CompletionResultType]::ParameterName, 'Exit code if the lock is held')
            [CompletionResult]::new('--conflict-exit-code', '--conflict-exit-code', [CompletionResultType]::ParameterName, 'Exit code if the lock is held')
            [CompletionResult]::new('--history-keep', '--history-keep', [CompletionResultType]::ParameterName, 'Number of runs to keep [1000]')
            [CompletionResult]::new('--at-most', '--at-most', [CompletionResultType]::ParameterName, 'Time limit of lock and job (required)')
            [CompletionResult]::new('--every', '--every', [CompletionResultType]::ParameterName, 'Run at most once per DURATION')
            [CompletionResult]::new('--at-least', '--at-least', [CompletionResultType]::ParameterName, 'Keep the lock this long even after a short job')
            [CompletionResult]::new('--lease', '--lease', [CompletionResultType]::ParameterName, 'If the host dies, free the lock after DURATION')
            [CompletionResult]::new('-w', '-w', [CompletionResultType]::ParameterName, 'Wait up to DURATION for a held lock')
            [CompletionResult]::new('--wait', '--wait', [CompletionResultType]::ParameterName, 'Wait up to DURATION for a held lock')
            [CompletionResult]::new('--splay', '--splay', [CompletionResultType]::ParameterName, 'First sleep for a random time up to DURATION')
            [CompletionResult]::new('--on-expiry', '--on-expiry', [CompletionResultType]::ParameterName, 'When --at-most is used up')
            [CompletionResult]::new('--on-lost', '--on-lost', [CompletionResultType]::ParameterName, 'When the lock is lost')
            [CompletionResult]::new('--on-failure', '--on-failure', [CompletionResultType]::ParameterName, 'What happens to a failed job''s lock')
            [CompletionResult]::new('-s', '-s', [CompletionResultType]::ParameterName, 'First signal to stop the job [TERM]')
            [CompletionResult]::new('--signal', '--signal', [CompletionResultType]::ParameterName, 'First signal to stop the job [TERM]')
            [CompletionResult]::new('-k', '-k', [CompletionResultType]::ParameterName, 'Send SIGKILL this much later [10s]')
            [CompletionResult]::new('--kill-after', '--kill-after', [CompletionResultType]::ParameterName, 'Send SIGKILL this much later [10s]')
            [CompletionResult]::new('--stop-timeout', '--stop-timeout', [CompletionResultType]::ParameterName, 'Kill a job that does not stop')
            [CompletionResult]::new('--wait-for', '--wait-for', [CompletionResultType]::ParameterName, 'What has to end before the lock is released')
            [CompletionResult]::new('--success-codes', '--success-codes', [CompletionResultType]::ParameterName, 'Exit codes of a success')
            [CompletionResult]::new('--backend-timeout', '--backend-timeout', [CompletionResultType]::ParameterName, 'How long to try the backend [10s]')
            [CompletionResult]::new('--on-backend-error', '--on-backend-error', [CompletionResultType]::ParameterName, 'When the backend does not answer')
            [CompletionResult]::new('--log-format', '--log-format', [CompletionResultType]::ParameterName, 'Print each event as a line of text or JSON')
            [CompletionResult]::new('--notify', '--notify', [CompletionResultType]::ParameterName, 'Run COMMAND when a run has failed')
            [CompletionResult]::new('--notify-on', '--notify-on', [CompletionResultType]::ParameterName, 'Events that --notify reports [failure,expired,lost,error]')
            [CompletionResult]::new('--notify-timeout', '--notify-timeout', [CompletionResultType]::ParameterName, 'Kill that COMMAND after DURATION [10s]')
            [CompletionResult]::new('--metrics-dir', '--metrics-dir', [CompletionResultType]::ParameterName, 'Write metrics for Prometheus')
            [CompletionResult]::new('--config', '--config', [CompletionResultType]::ParameterName, 'Read only this configuration file')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print this overview; --help prints all options')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print this overview; --help prints all options')
            [CompletionResult]::new('--foreground', '--foreground', [CompletionResultType]::ParameterName, 'Run the job in shedlock''s process group')
            [CompletionResult]::new('--new-group', '--new-group', [CompletionResultType]::ParameterName, 'Run the job in its own process group')
            [CompletionResult]::new('--no-die-with-shedlock', '--no-die-with-shedlock', [CompletionResultType]::ParameterName, 'Let the command outlive shedlock')
            [CompletionResult]::new('-v', '-v', [CompletionResultType]::ParameterName, 'Say why a job did not start; -vv: everything')
            [CompletionResult]::new('--verbose', '--verbose', [CompletionResultType]::ParameterName, 'Say why a job did not start; -vv: everything')
            [CompletionResult]::new('-q', '-q', [CompletionResultType]::ParameterName, 'Print only errors')
            [CompletionResult]::new('--quiet', '--quiet', [CompletionResultType]::ParameterName, 'Print only errors')
            [CompletionResult]::new('--dry-run', '--dry-run', [CompletionResultType]::ParameterName, 'Show what would happen and when, and exit')
            break
        }
        'shedlock;status' {
            [CompletionResult]::new('--max-age', '--max-age', [CompletionResultType]::ParameterName, 'Exit with 1 if a success is too old')
            [CompletionResult]::new('--backend', '--backend', [CompletionResultType]::ParameterName, 'Database or file with the locks')
            [CompletionResult]::new('--backend-file', '--backend-file', [CompletionResultType]::ParameterName, 'Read that URL from FILE')
            [CompletionResult]::new('--backend-timeout', '--backend-timeout', [CompletionResultType]::ParameterName, 'How long to try the backend [10s]')
            [CompletionResult]::new('--config', '--config', [CompletionResultType]::ParameterName, 'Read only this configuration file')
            [CompletionResult]::new('--json', '--json', [CompletionResultType]::ParameterName, 'Print JSON instead of a table')
            [CompletionResult]::new('--local', '--local', [CompletionResultType]::ParameterName, 'Show times in local time instead of UTC')
            [CompletionResult]::new('--exit-code', '--exit-code', [CompletionResultType]::ParameterName, 'Exit with 1 unless all are free')
            [CompletionResult]::new('--prometheus', '--prometheus', [CompletionResultType]::ParameterName, 'Print metrics for Prometheus')
            [CompletionResult]::new('--watch', '--watch', [CompletionResultType]::ParameterName, 'Refresh every two seconds until interrupted')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            break
        }
        'shedlock;history' {
            [CompletionResult]::new('--limit', '--limit', [CompletionResultType]::ParameterName, 'Show the newest N runs')
            [CompletionResult]::new('--since', '--since', [CompletionResultType]::ParameterName, 'Show runs that ended later than TIME')
            [CompletionResult]::new('--svg', '--svg', [CompletionResultType]::ParameterName, 'Write that picture as SVG to FILE')
            [CompletionResult]::new('--html', '--html', [CompletionResultType]::ParameterName, 'Write an HTML page to FILE')
            [CompletionResult]::new('--by', '--by', [CompletionResultType]::ParameterName, 'Draw one line per job or host')
            [CompletionResult]::new('--backend', '--backend', [CompletionResultType]::ParameterName, 'Database or file with the locks')
            [CompletionResult]::new('--backend-file', '--backend-file', [CompletionResultType]::ParameterName, 'Read that URL from FILE')
            [CompletionResult]::new('--backend-timeout', '--backend-timeout', [CompletionResultType]::ParameterName, 'How long to try the backend [10s]')
            [CompletionResult]::new('--config', '--config', [CompletionResultType]::ParameterName, 'Read only this configuration file')
            [CompletionResult]::new('--json', '--json', [CompletionResultType]::ParameterName, 'Print JSON instead of a table')
            [CompletionResult]::new('--local', '--local', [CompletionResultType]::ParameterName, 'Show times in local time instead of UTC')
            [CompletionResult]::new('--timeline', '--timeline', [CompletionResultType]::ParameterName, 'Draw the runs as bars over time')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            break
        }
        'shedlock;unlock' {
            [CompletionResult]::new('--backend', '--backend', [CompletionResultType]::ParameterName, 'Database or file with the locks')
            [CompletionResult]::new('--backend-file', '--backend-file', [CompletionResultType]::ParameterName, 'Read that URL from FILE')
            [CompletionResult]::new('--backend-timeout', '--backend-timeout', [CompletionResultType]::ParameterName, 'How long to try the backend [10s]')
            [CompletionResult]::new('--config', '--config', [CompletionResultType]::ParameterName, 'Read only this configuration file')
            [CompletionResult]::new('--force', '--force', [CompletionResultType]::ParameterName, 'Do not ask')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            break
        }
        'shedlock;pause' {
            [CompletionResult]::new('--for', '--for', [CompletionResultType]::ParameterName, 'End the pause after DURATION')
            [CompletionResult]::new('--reason', '--reason', [CompletionResultType]::ParameterName, 'Say why')
            [CompletionResult]::new('--wait', '--wait', [CompletionResultType]::ParameterName, 'Wait this long for a running job')
            [CompletionResult]::new('--backend', '--backend', [CompletionResultType]::ParameterName, 'Database or file with the locks')
            [CompletionResult]::new('--backend-file', '--backend-file', [CompletionResultType]::ParameterName, 'Read that URL from FILE')
            [CompletionResult]::new('--backend-timeout', '--backend-timeout', [CompletionResultType]::ParameterName, 'How long to try the backend [10s]')
            [CompletionResult]::new('--config', '--config', [CompletionResultType]::ParameterName, 'Read only this configuration file')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            break
        }
        'shedlock;resume' {
            [CompletionResult]::new('--backend', '--backend', [CompletionResultType]::ParameterName, 'Database or file with the locks')
            [CompletionResult]::new('--backend-file', '--backend-file', [CompletionResultType]::ParameterName, 'Read that URL from FILE')
            [CompletionResult]::new('--backend-timeout', '--backend-timeout', [CompletionResultType]::ParameterName, 'How long to try the backend [10s]')
            [CompletionResult]::new('--config', '--config', [CompletionResultType]::ParameterName, 'Read only this configuration file')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            break
        }
        'shedlock;forget' {
            [CompletionResult]::new('--backend', '--backend', [CompletionResultType]::ParameterName, 'Database or file with the locks')
            [CompletionResult]::new('--backend-file', '--backend-file', [CompletionResultType]::ParameterName, 'Read that URL from FILE')
            [CompletionResult]::new('--backend-timeout', '--backend-timeout', [CompletionResultType]::ParameterName, 'How long to try the backend [10s]')
            [CompletionResult]::new('--config', '--config', [CompletionResultType]::ParameterName, 'Read only this configuration file')
            [CompletionResult]::new('--force', '--force', [CompletionResultType]::ParameterName, 'Remove locks of other programs too')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            break
        }
        'shedlock;acquire' {
            [CompletionResult]::new('--name', '--name', [CompletionResultType]::ParameterName, 'Name of the lock (required)')
            [CompletionResult]::new('--backend', '--backend', [CompletionResultType]::ParameterName, 'Database or file with the locks')
            [CompletionResult]::new('--backend-file', '--backend-file', [CompletionResultType]::ParameterName, 'Read that URL from FILE')
            [CompletionResult]::new('-E', '-E ', [CompletionResultType]::ParameterName, 'Exit code if the lock is held [1]')
            [CompletionResult]::new('--conflict-exit-code', '--conflict-exit-code', [CompletionResultType]::ParameterName, 'Exit code if the lock is held [1]')
            [CompletionResult]::new('--history-keep', '--history-keep', [CompletionResultType]::ParameterName, 'Number of runs to keep [1000]')
            [CompletionResult]::new('--at-most', '--at-most', [CompletionResultType]::ParameterName, 'Time limit of the lock (required)')
            [CompletionResult]::new('--at-least', '--at-least', [CompletionResultType]::ParameterName, 'Keep the lock this long even if released sooner')
            [CompletionResult]::new('-w', '-w', [CompletionResultType]::ParameterName, 'Wait up to DURATION for a held lock')
            [CompletionResult]::new('--wait', '--wait', [CompletionResultType]::ParameterName, 'Wait up to DURATION for a held lock')
            [CompletionResult]::new('--backend-timeout', '--backend-timeout', [CompletionResultType]::ParameterName, 'How long to try the backend [10s]')
            [CompletionResult]::new('--on-backend-error', '--on-backend-error', [CompletionResultType]::ParameterName, 'When the backend does not answer')
            [CompletionResult]::new('--log-format', '--log-format', [CompletionResultType]::ParameterName, 'Print each event as a line of text or JSON')
            [CompletionResult]::new('--config', '--config', [CompletionResultType]::ParameterName, 'Read only this configuration file')
            [CompletionResult]::new('--json', '--json', [CompletionResultType]::ParameterName, 'Print JSON: handle, token and times')
            [CompletionResult]::new('-v', '-v', [CompletionResultType]::ParameterName, 'Say why a job did not start; -vv: everything')
            [CompletionResult]::new('--verbose', '--verbose', [CompletionResultType]::ParameterName, 'Say why a job did not start; -vv: everything')
            [CompletionResult]::new('-q', '-q', [CompletionResultType]::ParameterName, 'Print only errors')
            [CompletionResult]::new('--quiet', '--quiet', [CompletionResultType]::ParameterName, 'Print only errors')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            break
        }
        'shedlock;release' {
            [CompletionResult]::new('--exit-code', '--exit-code', [CompletionResultType]::ParameterName, 'Exit code for the history')
            [CompletionResult]::new('--backend', '--backend', [CompletionResultType]::ParameterName, 'Database or file with the locks')
            [CompletionResult]::new('--backend-file', '--backend-file', [CompletionResultType]::ParameterName, 'Read that URL from FILE')
            [CompletionResult]::new('--history-keep', '--history-keep', [CompletionResultType]::ParameterName, 'Number of runs to keep [1000]')
            [CompletionResult]::new('--backend-timeout', '--backend-timeout', [CompletionResultType]::ParameterName, 'How long to try the backend [10s]')
            [CompletionResult]::new('--config', '--config', [CompletionResultType]::ParameterName, 'Read only this configuration file')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            break
        }
        'shedlock;extend' {
            [CompletionResult]::new('--backend', '--backend', [CompletionResultType]::ParameterName, 'Database or file with the locks')
            [CompletionResult]::new('--backend-file', '--backend-file', [CompletionResultType]::ParameterName, 'Read that URL from FILE')
            [CompletionResult]::new('--backend-timeout', '--backend-timeout', [CompletionResultType]::ParameterName, 'How long to try the backend [10s]')
            [CompletionResult]::new('--config', '--config', [CompletionResultType]::ParameterName, 'Read only this configuration file')
            [CompletionResult]::new('--force', '--force', [CompletionResultType]::ParameterName, 'Do not ask about a NAME')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            break
        }
        'shedlock;verify' {
            [CompletionResult]::new('--backend', '--backend', [CompletionResultType]::ParameterName, 'Database or file with the locks')
            [CompletionResult]::new('--backend-file', '--backend-file', [CompletionResultType]::ParameterName, 'Read that URL from FILE')
            [CompletionResult]::new('--backend-timeout', '--backend-timeout', [CompletionResultType]::ParameterName, 'How long to try the backend [10s]')
            [CompletionResult]::new('--config', '--config', [CompletionResultType]::ParameterName, 'Read only this configuration file')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            break
        }
        'shedlock;check' {
            [CompletionResult]::new('--backend', '--backend', [CompletionResultType]::ParameterName, 'Database or file with the locks')
            [CompletionResult]::new('--backend-file', '--backend-file', [CompletionResultType]::ParameterName, 'Read that URL from FILE')
            [CompletionResult]::new('--backend-timeout', '--backend-timeout', [CompletionResultType]::ParameterName, 'How long to try the backend [10s]')
            [CompletionResult]::new('--config', '--config', [CompletionResultType]::ParameterName, 'Read only this configuration file')
            [CompletionResult]::new('--json', '--json', [CompletionResultType]::ParameterName, 'Print JSON')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            break
        }
        'shedlock;prove' {
            [CompletionResult]::new('--for', '--for', [CompletionResultType]::ParameterName, 'Try for DURATION [10s]')
            [CompletionResult]::new('--clients', '--clients', [CompletionResultType]::ParameterName, 'Have N connections at most, from 2 to 64 [8]')
            [CompletionResult]::new('--seed', '--seed', [CompletionResultType]::ParameterName, 'Decide as the report with this seed did [random]')
            [CompletionResult]::new('--backend', '--backend', [CompletionResultType]::ParameterName, 'Database or file with the locks')
            [CompletionResult]::new('--backend-file', '--backend-file', [CompletionResultType]::ParameterName, 'Read that URL from FILE')
            [CompletionResult]::new('--backend-timeout', '--backend-timeout', [CompletionResultType]::ParameterName, 'How long to try the backend [10s]')
            [CompletionResult]::new('--config', '--config', [CompletionResultType]::ParameterName, 'Read only this configuration file')
            [CompletionResult]::new('--json', '--json', [CompletionResultType]::ParameterName, 'Print JSON')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            break
        }
        'shedlock;init' {
            [CompletionResult]::new('--backend', '--backend', [CompletionResultType]::ParameterName, 'Database or file with the locks')
            [CompletionResult]::new('--backend-file', '--backend-file', [CompletionResultType]::ParameterName, 'Read that URL from FILE')
            [CompletionResult]::new('--backend-timeout', '--backend-timeout', [CompletionResultType]::ParameterName, 'How long to try the backend [10s]')
            [CompletionResult]::new('--config', '--config', [CompletionResultType]::ParameterName, 'Read only this configuration file')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            break
        }
        'shedlock;schema' {
            [CompletionResult]::new('--backend', '--backend', [CompletionResultType]::ParameterName, 'Database or file with the locks')
            [CompletionResult]::new('--backend-file', '--backend-file', [CompletionResultType]::ParameterName, 'Read that URL from FILE')
            [CompletionResult]::new('--backend-timeout', '--backend-timeout', [CompletionResultType]::ParameterName, 'How long to try the backend [10s]')
            [CompletionResult]::new('--config', '--config', [CompletionResultType]::ParameterName, 'Read only this configuration file')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            break
        }
        'shedlock;help' {
            [CompletionResult]::new('completions', 'completions', [CompletionResultType]::ParameterValue, 'Print the completions for a shell')
            [CompletionResult]::new('man', 'man', [CompletionResultType]::ParameterValue, 'Show a manual page on a terminal, or print it for man(1)')
            [CompletionResult]::new('run', 'run', [CompletionResultType]::ParameterValue, 'Run a command under a lock')
            [CompletionResult]::new('status', 'status', [CompletionResultType]::ParameterValue, 'Show who holds which lock, and how the last runs ended')
            [CompletionResult]::new('history', 'history', [CompletionResultType]::ParameterValue, 'Show past runs, as a table or a picture')
            [CompletionResult]::new('unlock', 'unlock', [CompletionResultType]::ParameterValue, 'Free a held lock')
            [CompletionResult]::new('pause', 'pause', [CompletionResultType]::ParameterValue, 'Keep every host from running a job until it is resumed')
            [CompletionResult]::new('resume', 'resume', [CompletionResultType]::ParameterValue, 'End a pause')
            [CompletionResult]::new('forget', 'forget', [CompletionResultType]::ParameterValue, 'Remove locks that are no longer used, with their history')
            [CompletionResult]::new('acquire', 'acquire', [CompletionResultType]::ParameterValue, 'Take a lock for a script, and print the handle to release it')
            [CompletionResult]::new('release', 'release', [CompletionResultType]::ParameterValue, 'Release a lock that `acquire` took')
            [CompletionResult]::new('extend', 'extend', [CompletionResultType]::ParameterValue, 'Give a lock and its job more time')
            [CompletionResult]::new('verify', 'verify', [CompletionResultType]::ParameterValue, 'Check before a dangerous step that the lock is still held')
            [CompletionResult]::new('check', 'check', [CompletionResultType]::ParameterValue, 'Test whether this host can lock, and show what is in the way')
            [CompletionResult]::new('prove', 'prove', [CompletionResultType]::ParameterValue, 'Try whether this backend keeps the rules of a lock')
            [CompletionResult]::new('init', 'init', [CompletionResultType]::ParameterValue, 'Create the tables or the file that the backend needs')
            [CompletionResult]::new('schema', 'schema', [CompletionResultType]::ParameterValue, 'Print the statements that create what a backend needs')
            [CompletionResult]::new('help', 'help', [CompletionResultType]::ParameterValue, 'Print this message or the help of the given subcommand(s)')
            break
        }
        'shedlock;help;completions' {
            break
        }
        'shedlock;help;man' {
            break
        }
        'shedlock;help;run' {
            break
        }
        'shedlock;help;status' {
            break
        }
        'shedlock;help;history' {
            break
        }
        'shedlock;help;unlock' {
            break
        }
        'shedlock;help;pause' {
            break
        }
        'shedlock;help;resume' {
            break
        }
        'shedlock;help;forget' {
            break
        }
        'shedlock;help;acquire' {
            break
        }
        'shedlock;help;release' {
            break
        }
        'shedlock;help;extend' {
            break
        }
        'shedlock;help;verify' {
            break
        }
        'shedlock;help;check' {
            break
        }
        'shedlock;help;prove' {
            break
        }
        'shedlock;help;init' {
            break
        }
        'shedlock;help;schema' {
            break
        }
        'shedlock;help;help' {
            break
        }
    })

    $completions.Where{ $_.CompletionText -like "$wordToComplete*" } |
        Sort-Object -Property ListItemText
}
